"""A /metrics page becomes one reading: right numbers, right model, old names, and no crash."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from stresstest.model import ServerSample
from stresstest.telemetry.prometheus import HISTOGRAMS, parse_metrics
from tests.support.paths import DATA

PAGE = (DATA / "metrics_vllm_0_32.txt").read_text(encoding="utf-8")
OLD_PAGE = (DATA / "metrics_vllm_old_names.txt").read_text(encoding="utf-8")


def _parsed() -> ServerSample:
    sample = parse_metrics(PAGE, at=12.5)
    assert sample is not None
    return sample


def test_a_whole_page_agrees_with_the_official_parser() -> None:
    """Picking lines before parsing changes no number: the whole page, parsed whole, says the same."""
    totals: dict[str, float] = defaultdict(float)
    finished: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(PAGE):
        for sample in family.samples:
            totals[sample.name.removeprefix("vllm:")] += sample.value
            if sample.name == "vllm:request_success_total":
                finished[sample.labels["finished_reason"]] += sample.value
    assert _parsed() == ServerSample(
        at=12.5,
        running=totals["num_requests_running"],
        waiting=totals["num_requests_waiting"],
        kv_usage=totals["kv_cache_usage_perc"],
        preemptions=totals["num_preemptions_total"],
        prompt_tokens=totals["prompt_tokens_total"],
        generation_tokens=totals["generation_tokens_total"],
        finished=finished,
        histograms={name: (totals[f"{name}_sum"], totals[f"{name}_count"]) for name in HISTOGRAMS},
        began=totals["generation_tokens_created"],
    )


def test_a_page_of_a_real_version_measures_everything() -> None:
    """vLLM 0.32 exposes every quantity we sample, and the reason `repetition` from the start."""
    sample = _parsed()
    measured = (sample.running, sample.waiting, sample.kv_usage, sample.preemptions)
    assert None not in measured
    assert None not in (sample.prompt_tokens, sample.generation_tokens)
    assert set(sample.histograms) == set(HISTOGRAMS)
    assert "repetition" in sample.finished


def test_old_names_are_understood() -> None:
    """gpu_cache_usage_perc and time_per_output_token_seconds are today's metrics under other names;
    what the old page lacks is not measured, and `_created` is nobody's count."""
    assert parse_metrics(OLD_PAGE) == ServerSample(
        at=0.0,
        running=4.0,
        waiting=1.0,
        kv_usage=0.4125,
        preemptions=7.0,
        prompt_tokens=5120.0,
        generation_tokens=90210.0,
        finished={"stop": 38.0, "length": 2.0},
        histograms={"inter_token_latency_seconds": (1803.4, 90170.0)},
    )


def test_new_names_win_over_old_ones() -> None:
    """Versions that expose both names of one quantity do not get it counted twice."""
    page = "vllm:gpu_cache_usage_perc 0.9\nvllm:kv_cache_usage_perc 0.5\n"
    for name, value in (("time_per_output_token", 1), ("inter_token_latency", 2)):
        page += f"vllm:{name}_seconds_sum {value}\nvllm:{name}_seconds_count {value}\n"
    sample = parse_metrics(page)
    assert sample is not None
    assert sample.kv_usage == 0.5
    assert sample.histograms == {"inter_token_latency_seconds": (2.0, 2.0)}


def _engine(engine: int, model: str, running: int, usage: float, stopped: int) -> str:
    labels = f'engine="{engine}",model_name="{model}"'
    return (
        f"vllm:num_requests_running{{{labels}}} {running}\n"
        f"vllm:kv_cache_usage_perc{{{labels}}} {usage}\n"
        f'vllm:request_success_total{{{labels},finished_reason="stop"}} {stopped}\n'
    )


def test_engines_are_added_up_and_the_fullest_cache_counts() -> None:
    """Data parallel: requests and counters are sums; one full engine preempts, whatever the mean says."""
    sample = parse_metrics(_engine(0, "lab", 3, 0.2, 5) + _engine(1, "lab", 4, 0.97, 6), "lab")
    assert sample is not None
    assert (sample.running, sample.kv_usage, sample.finished) == (7.0, 0.97, {"stop": 11.0})


def test_series_of_other_models_do_not_count() -> None:
    """Behind one address with two models only ours is read; an unknown one is not measured at all."""
    page = _engine(0, "lab", 3, 0.2, 5) + _engine(0, "other", 40, 0.99, 60)
    sample = parse_metrics(page, "lab")
    assert sample is not None
    assert (sample.running, sample.kv_usage, sample.finished) == (3.0, 0.2, {"stop": 5.0})
    unknown = parse_metrics(page, "third", at=1.0)
    assert unknown == ServerSample(at=1.0)


def test_an_alias_is_still_our_server() -> None:
    """vLLM labels series with the first served name only; asked by an alias, it is the same engine."""
    sample = parse_metrics(_engine(0, "lab", 3, 0.2, 5), "lab-alias")
    assert sample is not None
    assert sample.running == 3.0


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<html><body>404 Not Found</body></html>",
        '{"detail": "Not Found"}',
        '# TYPE go_goroutines gauge\ngo_goroutines 8\nhttp_requests_total{code="200"} 5\n',
        "vllm:unknown_metric 5\n",
        "vllm:num_requests_running\n",
        "vllm:num_requests_running{model_name= 5\n",
        "vllm:num_requests_running 1\nvllm:num_requests_waiting many\n",
        "vllm:num_requests_running NaN\n",
    ],
)
def test_pages_that_say_nothing(page: str) -> None:
    """Error pages, other programs' metrics and malformed lines are None: half a page is none."""
    assert parse_metrics(page) is None


def test_what_is_not_finite_is_not_measured() -> None:
    """NaN and infinities would poison every mean and peak after them."""
    sample = parse_metrics("vllm:num_requests_running 2\r\nvllm:kv_cache_usage_perc NaN\r\n")
    assert sample == ServerSample(at=0.0, running=2.0)


def test_a_number_of_hundreds_of_digits_ends_nothing() -> None:
    """Without a point it is an integer of Python's, of any length: a run ended with an internal error."""
    assert parse_metrics(f"vllm:num_requests_running {'9' * 400}\n") is None


@given(st.data())
def test_a_damaged_page_never_crashes(data: st.DataObject) -> None:
    """Whatever is cut out of or put into a page, the result is a reading of finite numbers or None."""
    lines = [line for line in OLD_PAGE.split("\n") if line.startswith("vllm:")]
    page = "\n".join(lines)
    start = data.draw(st.integers(0, len(page)))
    length = data.draw(st.integers(0, 30))
    junk = data.draw(st.text(st.sampled_from('{}",=\\ \n#0e+-NaN_vllm:é'), max_size=12))
    sample = parse_metrics(page[:start] + junk + page[start + length :])
    if sample is not None:
        values = (sample.running, sample.waiting, sample.kv_usage, sample.preemptions)
        assert all(math.isfinite(v) for v in values if v is not None)


def test_a_page_of_megabytes_does_not_hold_the_measurement_up() -> None:
    """It is parsed in the event loop: 23 MB of series took 15 s, and each reading kept every reason."""
    line = 'vllm:request_success_total{{finished_reason="{}"}} 1.0'
    assert parse_metrics("\n".join(line.format("stop") for _ in range(8000))) is not None
    assert parse_metrics("\n".join(line.format("stop") for _ in range(12_000))) is None
    assert parse_metrics("\n".join(line.format(n) for n in range(17))) is None
    assert parse_metrics(line.format("x" * 65)) is None
