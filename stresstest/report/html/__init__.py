"""Reports as one HTML file: no network, no outside file, nothing that a model wrote can act."""

from stresstest.report.html.compared import compared_html
from stresstest.report.html.index import index_html
from stresstest.report.html.run import run_html

__all__ = ["compared_html", "index_html", "run_html"]
