"""One generation in depth: bins, repetition, language, and the server on the same axis."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.diagnosis.depth import depth_series, repetition_share
from stresstest.diagnosis.evidence.gpu_series import GpuSeries
from stresstest.diagnosis.measured import measure_planes
from stresstest.model import GpuSample, ServerSample, Token
from tests.support.generations import whole
from tests.support.reported_runs import START, campaign, gpu_samples, healthy, looping, lost, result

NO_GPU = GpuSeries.of(())


@given(st.text("ab", max_size=200))
def test_repetition_counts_what_was_seen_before(text: str) -> None:
    """Against the plain definition: of the last 64 tokens, how many close four tokens that stood before."""
    found = repetition_share([Token(c) for c in text])
    again = [
        i >= 3 and text[i - 3 : i + 1] in (text[j - 3 : j + 1] for j in range(3, i)) for i in range(len(text))
    ]
    expected = [sum(again[max(0, i - 63) : i + 1]) / min(i + 1, 64) for i in range(len(text))]
    assert found == pytest.approx(expected)


@given(st.integers(0, 700), st.integers(1, 90))
def test_bins_cover_every_token_once(n: int, bins: int) -> None:
    """However long the answer is, the picture holds no more bins than asked, up to the last token."""
    found = depth_series(healthy(0, n) if n else replace(healthy(0, 1), tokens=()), (), NO_GPU, "it", bins)
    assert len(found.ends) <= bins
    assert list(found.ends) == sorted(set(found.ends))
    assert (found.ends[-1] if n else 0) == n
    assert len(found.repetition) in (0, len(found.ends))


def test_a_loop_shows_as_repetition_and_falling_entropy() -> None:
    """What the reader is to see: text that repeats from the onset on, on a server that is not busy."""
    samples = [ServerSample(START + i, kv_usage=0.2) for i in range(30)]
    found = depth_series(looping(0, 400, 800), samples, GpuSeries.of(gpu_samples()), "it")
    at = {end: i for i, end in enumerate(found.ends)}
    early, late = at[300], at[780]
    assert (found.repetition[early] or 0) < 0.1 < 0.9 < (found.repetition[late] or 0)
    assert (found.entropy[late] or 1) < 0.1 < (found.entropy[early] or 0)
    assert set(found.kv) == {0.2}
    assert found.gpu[late] == pytest.approx(0.9)
    assert found.latency[late] == pytest.approx(20.0)


def test_a_reading_that_is_too_old_says_nothing() -> None:
    """A sampler that stopped must not draw a straight line to the end."""
    generation = looping(0, 400, 800)
    samples = [ServerSample(START, kv_usage=0.5)]
    gpus = GpuSeries.of([GpuSample(START, "0", "NVML", utilisation=0.7)])
    found = depth_series(generation, samples, gpus, "it")
    assert found.kv[0] == 0.5
    assert found.kv[-1] is None
    assert found.gpu[-1] is None


def test_language_is_the_share_of_telling_words() -> None:
    """Italian, then English: the curve falls from one to nothing; languages without a list have none."""
    italian = "il guardiano della torre aveva ancora una lettera che non era sua ma degli altri "
    english = "the keeper of the tower had that letter which was not his and they would read it "
    words = (italian * 20 + english * 20).split()
    made = replace(healthy(0, 1), tokens=tuple(Token(f" {w}", i) for i, w in enumerate(words)))
    found = depth_series(made, (), NO_GPU, "it-IT")
    assert (found.language[20] or 0) > 0.9
    assert (found.language[-1] or 0) < 0.1
    assert depth_series(made, (), NO_GPU, "xx").language == ()


def test_nothing_measured_is_an_empty_series() -> None:
    """No logprobs, no arrival times, no /metrics, no GPU: empty, never a line at zero."""
    made = replace(healthy(0, 50), tokens=tuple(Token(f" w{i}") for i in range(50)))
    found = depth_series(made, (), NO_GPU, "it")
    assert found.entropy == found.latency == found.kv == found.gpu == ()
    assert found.repetition


def test_measures_of_a_run_compare_before_and_after_the_onset() -> None:
    """The table of the planes: medians on both sides, over the failing generations alone."""
    found = measure_planes(result((*campaign(), lost(40, 10))), whole)
    assert found.repetition.before is not None
    assert found.repetition.after is not None
    assert found.repetition.before < 0.1 < 0.6 < found.repetition.after
    assert found.failing == found.repetition.n == 25
    assert found.lost == 1
    assert found.token_time == pytest.approx(0.02, rel=0.01)
    assert found.first_token == pytest.approx(0.1, rel=0.01)
    assert found.position == pytest.approx(40 + 388, abs=10)


def test_measures_of_a_healthy_run_have_no_after() -> None:
    """Without an onset there is nothing after it."""
    found = measure_planes(result(tuple(healthy(i, 300) for i in range(25))), whole)
    assert found.repetition.after is None
    assert found.longest == 300
    assert found.position is None
    assert found.lengths is None
