"""Metrics for Prometheus: both text formats read them back, labels survive, absent is absent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as classic

from stresstest.economics.logged import logged_cost
from stresstest.errors import UsageError
from stresstest.model import Subject
from stresstest.model.cost import Cost, RequestSpan
from stresstest.render.openmetrics import (
    METRICS,
    cost_samples,
    metrics_text,
    require_metrics_file,
    write_metrics,
)

NASTY = 'a"b\\c\nd{e="f"} 模型'


def account() -> Cost:
    spans = [
        RequestSpan(
            str(n),
            0.5 * n,
            0.5 * n + (8.0 if n % 10 == 0 else 1.0),
            800 if n % 10 == 0 else 90,
            prompt_tokens=9,
            degenerate=n % 10 == 0,
            loops=n % 10 == 0,
            capped=n % 10 == 0,
            dharma=n % 10 == 0,
            onset=40 if n % 10 == 0 else None,
            onset_at=0.5 * n + 0.4 if n % 10 == 0 else None,
        )
        for n in range(40)
    ]
    cost = logged_cost(spans, None)
    return replace(cost, subject=Subject(NASTY, "narrative", "it"))


def values(text: str) -> dict[str, float]:
    return {s.name: s.value for family in openmetrics(text) for s in family.samples}


def test_both_text_formats_read_the_same_numbers() -> None:
    """OpenMetrics for a scrape, the older format for the textfile collector and the Pushgateway: one file."""
    text = metrics_text(cost_samples(account()))
    new = {(s.name, *sorted(s.labels.items())): s.value for f in openmetrics(text) for s in f.samples}
    old = {(s.name, *sorted(s.labels.items())): s.value for f in classic(text) for s in f.samples}
    assert new == old
    assert len(new) >= 12
    assert text.endswith("# EOF\n")


def test_the_numbers_are_the_accounts() -> None:
    """Rate, interval, waste and times are those of the account, in the units that the names say."""
    cost = account()
    found = values(metrics_text(cost_samples(cost)))
    assert cost.rate is not None
    assert found["stresstest_degeneration_ratio"] == cost.rate.value == 0.1
    assert found["stresstest_degeneration_ratio_upper"] == cost.rate.hi
    assert found["stresstest_wasted_tokens"] == cost.wasted_tokens
    assert found["stresstest_time_lost_ratio"] == cost.share_of_time


def test_what_was_not_measured_has_no_sample() -> None:
    """No price and no engine: no money and no slowdown, rather than zeros that would be averaged."""
    found = values(metrics_text(cost_samples(account())))
    assert "stresstest_loop_money" not in found
    assert "stresstest_healthy_slowdown_ratio" not in found
    nothing = values(metrics_text(cost_samples(Cost(requests=3))))
    assert "stresstest_degenerate_requests" not in nothing


def test_any_name_of_a_model_survives_as_a_label() -> None:
    """Quotes, backslashes, line breaks and other scripts: escaped, read back as they are."""
    for parse in (openmetrics, classic):
        labels = [s.labels for f in parse(metrics_text(cost_samples(account()))) for s in f.samples]
        assert {label["model"] for label in labels} == {NASTY}
        assert {label.get("known", "modelled") for label in labels} == {"modelled"}


def test_every_metric_that_is_written_is_listed() -> None:
    """The dashboard's test relies on this list."""
    assert set(values(metrics_text(cost_samples(account())))) <= set(METRICS)


def test_the_file_is_replaced_whole(tmp_path: Path) -> None:
    """A collector may read at any moment: no half file, nothing left over, errors as sentences."""
    path = require_metrics_file(str(tmp_path / "cost.prom"))
    for _ in range(2):
        write_metrics(cost_samples(account()), path)
    assert [each.name for each in tmp_path.iterdir()] == ["cost.prom"]
    with pytest.raises(UsageError, match="the folder does not exist"):
        require_metrics_file(str(tmp_path / "no" / "cost.prom"))
    with pytest.raises(UsageError, match="the folder does not exist"):
        require_metrics_file(str(tmp_path))


def test_what_is_no_plain_file_stays_what_it_is(tmp_path: Path) -> None:
    """`--openmetrics /dev/stdout`, as root, put a file in the place of the device."""
    kept, link = tmp_path / "kept.prom", tmp_path / "link.prom"
    kept.write_text("old", encoding="utf-8")
    link.symlink_to(kept)
    write_metrics([], link)
    assert link.is_symlink()
    assert kept.read_text(encoding="utf-8") == metrics_text([])
