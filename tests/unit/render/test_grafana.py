"""The Grafana dashboard, checked as text: every metric exists, nothing overlaps, sources are variables."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stresstest.render.openmetrics import METRICS, SUBJECT
from tests.support.paths import ROOT

DASHBOARD = ROOT / "deploy" / "grafana" / "stresstest.json"
_METRIC = re.compile(r"\b(?:vllm:|stresstest_)[a-z0-9_]+")
_SELECTOR = re.compile(r"((?:vllm:|stresstest_)[a-z0-9_]+)\{([^}]*)\}")
_LABEL = re.compile(r"([a-z_]+)\s*=~?")


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
    return loaded


@pytest.fixture(scope="module")
def vllm() -> dict[str, set[str]]:
    """Series of vLLM 0.32 → their labels, as one server answered on /metrics."""
    text = (ROOT / "tests" / "data" / "metrics_vllm_0_32_recorded.txt").read_text("utf-8")
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", []))
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def test_every_metric_is_ours_or_vllms(dashboard: dict[str, Any], vllm: dict[str, set[str]]) -> None:
    """A panel that asks for a series that nobody exports stays empty without a word."""
    asked = {name for each in expressions(dashboard) for name in _METRIC.findall(each)}
    assert {name for name in asked if name.startswith("stresstest_")} <= set(METRICS)
    assert {name for name in asked if name.startswith("vllm:")} <= set(vllm)
    assert {
        "stresstest_degeneration_ratio",
        "stresstest_safe_max_tokens",
        "vllm:kv_cache_usage_perc",
    } <= asked


def test_every_label_that_is_filtered_by_exists(dashboard: dict[str, Any], vllm: dict[str, set[str]]) -> None:
    """A filter on a label that a series does not have matches nothing."""
    for each in expressions(dashboard):
        for name, inside in _SELECTOR.findall(each):
            known = set(SUBJECT) | {"known"} if name in METRICS else vllm[name]
            assert set(_LABEL.findall(inside)) <= known, each


def test_ids_and_places_are_ones_own(dashboard: dict[str, Any]) -> None:
    """Panels with one id overwrite each other; panels on one place hide each other."""
    ids = Counter(panel["id"] for panel in dashboard["panels"])
    assert max(ids.values()) == 1
    taken: Counter[tuple[int, int]] = Counter()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        taken.update(
            (x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
        )
        refs = [target["refId"] for target in panel.get("targets", [])]
        assert len(refs) == len(set(refs))
    assert max(taken.values()) == 1


def test_the_source_is_a_variable_everywhere(dashboard: dict[str, Any]) -> None:
    """Imported anywhere, it asks that place for its Prometheus: no uid of its own, no unknown variable."""
    defined = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert {"datasource", "model", "task", "language"} <= defined
    sources = [p["datasource"] for p in dashboard["panels"] if p["type"] != "row"]
    sources += [t["datasource"] for p in dashboard["panels"] for t in p.get("targets", [])]
    assert {source["uid"] for source in sources} == {"${datasource}"}
    used = {name for each in expressions(dashboard) for name in re.findall(r"\$\{?([a-z]+)", each)}
    assert used <= defined
    assert "id" not in dashboard


def test_brackets_close(dashboard: dict[str, Any]) -> None:
    """A static stand-in for a parser of PromQL: brackets and quotes are balanced in every expression."""
    for each in expressions(dashboard):
        assert each.count('"') % 2 == 0, each
        bare = re.sub(r'"[^"]*"', '""', each)
        for opening, closing in ("()", "{}", "[]"):
            assert bare.count(opening) == bare.count(closing), each
