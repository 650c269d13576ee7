"""The guard's dashboard and alert rules, checked as text: every series and label exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from stresstest.features.guard.metrics import GuardMetrics
from tests.support.paths import ROOT

FOLDER = ROOT / "deploy" / "grafana"
_SERIES = re.compile(r"(stresstest_guard_[a-z_]+)(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"by \(([^)]*)\)")
_LABEL = re.compile(r"([a-z_]+)\s*=~?")


def expressions() -> Iterator[str]:
    dashboard = json.loads((FOLDER / "guard.json").read_text("utf-8"))
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]
    for group in yaml.safe_load((FOLDER / "guard-alerts.yaml").read_text("utf-8"))["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


@pytest.fixture(scope="module")
def series() -> dict[str, set[str]]:
    """Name of every series → its labels."""
    found: dict[str, set[str]] = {}
    for each in vars(GuardMetrics()).values():
        if not hasattr(each, "_labelnames"):
            continue
        labels = set(each._labelnames)
        endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(each._type, [""])
        for ending in endings:
            found[each._name + ending] = labels | ({"le"} if ending == "_bucket" else set())
    return found


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_series_and_labels_exist(expression: str, series: dict[str, set[str]]) -> None:
    """A panel or an alert on a series that nobody exports says nothing, for ever."""
    named = _SERIES.findall(expression)
    assert named
    known = {"instance"}
    for name, inside in named:
        assert set(_LABEL.findall(inside)) <= series[name]
        known |= series[name]
    for grouped in _GROUPED.findall(expression):
        assert {label.strip() for label in grouped.split(",")} <= known
    assert expression.count("(") == expression.count(")")
