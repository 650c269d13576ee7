"""Reports as a single HTML file that needs no network and cannot execute model output."""

from stresstest.render.html.compared import compared_html
from stresstest.render.html.index import index_html
from stresstest.render.html.run import run_html

__all__ = ["compared_html", "index_html", "run_html"]
