"""What the detectors hardly see: one list, in docs/method.md, of which every report names the items."""

from __future__ import annotations

from stresstest.render.sentences import BLIND_SPOTS
from tests.support.paths import ROOT

METHOD = ROOT / "docs" / "method.md"


def test_a_report_names_what_the_method_lists() -> None:
    """Two lists that differ leave a reader with neither: each item of a report heads one of the method's."""
    listed = METHOD.read_text(encoding="utf-8").partition("## Known blind spots")[2].partition("\n## ")[0]
    items = " ".join(listed.split()).split(" - ")[1:]
    named = BLIND_SPOTS.partition(": ")[2].rstrip(".").split(", ")
    assert [item for item, name in zip(items, named, strict=False) if not item.startswith(name)] == []
    assert len(named) == 6
