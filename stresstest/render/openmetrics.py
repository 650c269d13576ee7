"""Results as OpenMetrics text for Prometheus' textfile collector, a Pushgateway or a scrape.

All metrics are gauges, so that parsers of the older text format can read them. prometheus_client escapes
the labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stresstest.errors import UsageError
from stresstest.model.cost import Cost, CostRatio
from stresstest.output_file import refuse_overwriting, write_over
from stresstest.render.limits import decoding_words
from stresstest.render.text import sanitize, single_line

if TYPE_CHECKING:
    from stresstest.render.text import sanitize
from stresstest.store import StoredThreshold

METRICS: Mapping[str, str] = {
    "stresstest_safe_max_tokens": "Safe max_tokens: the certified T less the margin.",
    "stresstest_most_requests_in_flight": "Load up to which the limit holds, where a larger one fails.",
    "stresstest_threshold_tokens": "Certified threshold in output tokens, before the margin.",
    "stresstest_certified": "1 when the newest measurement certified a limit, 0 when it did not.",
    "stresstest_risk_ratio": "Largest degeneration risk that the limit allows.",
    "stresstest_confidence_ratio": "Confidence of the limit.",
    "stresstest_at_risk_requests": "Requests at risk that the limit is based on.",
    "stresstest_measured_timestamp_seconds": "When it was measured, seconds since the epoch.",
    "stresstest_requests": "Requests judged.",
    "stresstest_degenerate_requests": "Requests that degenerated.",
    "stresstest_degeneration_ratio": "Share of judged requests that degenerated.",
    "stresstest_degeneration_ratio_lower": "Lower end of its exact 95 % interval.",
    "stresstest_degeneration_ratio_upper": "Upper end of its exact 95 % interval.",
    "stresstest_length_and_repetition_ratio": "Share ended by the cap, repeating at the tail (DharmaOCR).",
    "stresstest_healthy_slowdown_ratio": "Factor by which loops slow down healthy requests.",
    "stresstest_time_lost_ratio": "Share of observed time that loops cost.",
    "stresstest_inflation_ratio": "Wall clock over the one without loops, minus 1.",
    "stresstest_wasted_tokens": "Output tokens from the onset on.",
    "stresstest_output_tokens": "Output tokens in all.",
    "stresstest_loop_gpu_seconds": "GPU time that loops cost, seconds.",
    "stresstest_loop_money": "What that GPU time costs at the price given.",
    "stresstest_kv_held_ratio": "Share of resident KV that loops held after their onset, over time.",
}
"""Every exported metric, with its help text."""

Sample = tuple[str, Mapping[str, str], float]
SUBJECT = ("model", "task", "language", "simulated")


def threshold_samples(rows: Sequence[StoredThreshold]) -> list[Sample]:
    """The limit of every subject and decoding; of several (rigors, prompt files) the smallest.

    Labels do not contain the system prompt, so decodings that differ only in it also share one limit.
    """
    chosen: dict[tuple[str, ...], StoredThreshold] = {}
    for row in rows:
        key = tuple(_subject(row).values())
        known = chosen.get(key)
        if known is None or _rank(row) < _rank(known):
            chosen[key] = row
    found: list[Sample] = []
    for row in chosen.values():
        threshold = row.threshold
        values = {
            "stresstest_safe_max_tokens": row.limit,
            "stresstest_most_requests_in_flight": None if row.limit is None else row.holds_up_to,
            "stresstest_threshold_tokens": threshold.tokens if threshold.certified else None,
            "stresstest_certified": int(
                threshold.certified and not threshold.unfit and row.overruled_by is None
            ),
            "stresstest_risk_ratio": threshold.alpha,
            "stresstest_confidence_ratio": threshold.confidence,
            "stresstest_at_risk_requests": threshold.n,
            "stresstest_measured_timestamp_seconds": row.created,
        }
        found += _known(values, _subject(row))
    return found


def cost_samples(cost: Cost) -> list[Sample]:
    """The measured values of a cost analysis. The label `known` distinguishes measured from modelled ones."""
    labels = _labels(cost)
    rate = cost.rate
    plain = {
        "stresstest_requests": cost.requests,
        "stresstest_degenerate_requests": cost.degenerate,
        "stresstest_degeneration_ratio": _value(rate),
        "stresstest_degeneration_ratio_lower": rate.lo if rate is not None else None,
        "stresstest_degeneration_ratio_upper": rate.hi if rate is not None else None,
        "stresstest_length_and_repetition_ratio": _value(cost.dharma_rate),
        "stresstest_wasted_tokens": cost.wasted_tokens,
        "stresstest_output_tokens": cost.output_tokens,
        "stresstest_kv_held_ratio": cost.kv_share,
    }
    told = {
        "stresstest_healthy_slowdown_ratio": ("healthy_slowdown", _value(cost.healthy_slowdown)),
        "stresstest_time_lost_ratio": ("share_of_time", cost.share_of_time),
        "stresstest_inflation_ratio": ("inflation", cost.inflation),
        "stresstest_loop_gpu_seconds": ("gpu_seconds", cost.gpu_seconds),
        "stresstest_loop_money": ("money", cost.money),
    }
    found = _known(plain, labels)
    for name, (key, value) in told.items():
        found += _known({name: value}, {**labels, "known": str(cost.labels.get(key, ""))})
    return found


def metrics_text(samples: Sequence[Sample]) -> str:
    """The samples as OpenMetrics text."""
    from prometheus_client import CollectorRegistry, Gauge
    from prometheus_client.openmetrics.exposition import generate_latest

    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}
    for name, labels, value in samples:
        if name not in gauges:
            gauges[name] = Gauge(name, METRICS[name], tuple(labels), registry=registry)
        gauges[name].labels(**{key: sanitize(text) for key, text in labels.items()}).set(value)
    return bytes(generate_latest(registry)).decode("utf-8")


def require_metrics_file(path: str) -> Path:
    """The path for the metrics. Raises UsageError if it is a folder, or its folder does not exist."""
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise UsageError(f"--openmetrics {path}: the folder does not exist.")
    refuse_overwriting(target)
    return target


def write_metrics(samples: Sequence[Sample], path: Path) -> None:
    """Write the file atomically, as a collector may read it at any time. Raises UsageError."""
    try:
        write_over(path, [metrics_text(samples)])
    except OSError as error:
        raise UsageError(f"--openmetrics {path} cannot be written: {error.strerror or error}.") from None


def _rank(row: StoredThreshold) -> tuple[int, int]:
    """Sort key: certified limits first, in ascending order; last what another run speaks against."""
    if row.limit is not None:
        return 0, row.limit
    return (1 if row.overruled_by is None else 2), 0


def _subject(row: StoredThreshold) -> dict[str, str]:
    subject = row.subject
    named = _named(subject.model, subject.task, subject.language, simulated=row.simulated)
    return named | {"decoding": single_line(decoding_words(row.decoding))}


def _labels(cost: Cost) -> dict[str, str]:
    subject = cost.subject
    if subject is None:
        return _named("", "", "", simulated=cost.simulated)
    return _named(subject.model, subject.task, subject.language, simulated=cost.simulated)


def _named(model: str, task: str, language: str, *, simulated: bool) -> dict[str, str]:
    values = (model, task, language, str(simulated).lower())
    return dict(zip(SUBJECT, (sanitize(value) for value in values), strict=True))


def _value(ratio: CostRatio | None) -> float | None:
    return None if ratio is None else ratio.value


def _known(values: Mapping[str, float | None], labels: Mapping[str, str]) -> list[Sample]:
    return [(name, labels, float(value)) for name, value in values.items() if value is not None]
