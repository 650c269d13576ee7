"""What GPUs say for and against the system plane: durations, errors, idle ones, and what is invalidated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.diagnosis import annotate_planes
from stresstest.diagnosis.evidence import metrics_series
from stresstest.diagnosis.evidence.gpu import first_invalid_moment, gpu_evidence
from stresstest.diagnosis.evidence.gpu_series import (
    GpuSeries,
    summarise_gpus,
    throttled_seconds,
)
from stresstest.model import (
    EndpointProfile,
    Evidence,
    Generation,
    GenerationRecord,
    GpuDevice,
    GpuSample,
    Plane,
)
from tests.support.generations import make, make_job

CALM = GpuSample(
    at=0.0,
    gpu="0",
    source="NVML",
    utilisation=0.97,
    memory_used=90,
    memory_total=100,
    power=430.0,
    power_limit=700.0,
    temperature=65.0,
    throttle=(),
    ecc_uncorrected=0,
    pcie_replays=4,
    xids=(),
)
START, END = 100.0, 112.0


def readings(gpu: str = "0", first: float = 98.0, last: float = 120.0) -> list[GpuSample]:
    """One calm reading every 250 ms, from two seconds before the window to eight after it."""
    steps = int((last - first) / 0.25) + 1
    return [replace(CALM, at=first + 0.25 * i, gpu=gpu) for i in range(steps)]


def changed(samples: list[GpuSample], since: float, until: float = 1e9, **values: Any) -> list[GpuSample]:
    """The readings of since..until with other values."""
    return [replace(s, **values) if since <= s.at < until else s for s in samples]


def facts(samples: list[GpuSample], when: str = "before the onset") -> list[Evidence]:
    found = gpu_evidence(GpuSeries.of(samples), START, END, when)
    assert all(e.plane is Plane.SYSTEM for e in found)
    return found


def spoilt(samples: list[GpuSample]) -> float | None:
    return first_invalid_moment(GpuSeries.of(samples), START, END)


def test_calm_gpus_are_listed_against_the_system() -> None:
    """One sentence for all of them, with its numbers, and a value: the state was measured."""
    warm = changed(readings("1"), 105.0, 106.0, temperature=71.0, utilisation=0.90)
    (fact,) = facts([*readings(), *warm])
    assert (fact.supports, fact.source, fact.value) == (False, "NVML", 71.0)
    assert fact.fact == (
        "GPUs 0, 1: no throttling, no XID, 65–71 °C, utilisation 97 %, memory ≤ 90 % "
        "in the 12.0 s before the onset"
    )
    assert spoilt([*readings(), *warm]) is None


def test_thermal_slowdown_has_its_seconds_and_spoils_what_follows() -> None:
    """3.5 s of the 12 s before the onset; it can have begun after the last reading without it."""
    hot = changed(
        readings(), 106.0, 109.5, throttle=("sw_power_cap", "sw_thermal_slowdown"), temperature=91.0
    )
    (fact,) = facts(hot)
    assert (fact.supports, fact.value, fact.at) == (True, 3.5, 6.0)
    assert fact.fact == (
        "GPU 0: thermal slowdown (sw_thermal_slowdown) for 3.5 s in the 12.0 s before the onset, up to 91 °C"
    )
    assert spoilt(hot) == 105.75


def test_slowdown_after_the_onset_is_none_of_its_cause() -> None:
    """A GPU heats up while a loop runs to the cap."""
    hot = changed(readings(), END + 0.25, throttle=("hw_thermal_slowdown",))
    (fact,) = facts(hot)
    assert not fact.supports
    assert spoilt(hot) is None


def test_a_slowdown_that_stood_at_the_start_spoils_everything() -> None:
    """It began before the generation: nothing of it was written at full speed."""
    hot = changed(readings(), 99.0, 101.0, throttle=("hw_slowdown",))
    (fact,) = facts(hot)
    assert (fact.value, fact.at) == (1.0, 0.0)
    assert spoilt(hot) == START


def test_the_power_cap_is_no_suspicion() -> None:
    """A GPU in full use runs at its cap: told with its seconds, held against nobody."""
    capped = changed(readings(), 102.0, 110.0, throttle=("sw_power_cap",))
    (fact,) = facts(capped)
    assert not fact.supports
    assert "no slowdown but the power cap of full use (up to 8.0 s)" in fact.fact
    assert "no throttling" not in fact.fact
    assert spoilt(capped) is None


def test_xids_and_memory_errors_are_named() -> None:
    """Each XID with its number and meaning; the counter as a difference, not as a total."""
    bad = changed(readings(), 104.0, 104.25, xids=(31, 999))
    bad = changed(bad, 107.0, ecc_uncorrected=3)
    bad = changed(bad, 0.0, 107.0, ecc_uncorrected=1)
    found = [(e.fact.partition(" in the")[0], e.supports, e.value, e.at) for e in facts(bad)]
    assert found == [
        ("GPU 0: XID 31 (a kernel's page fault)", True, 31.0, 4.0),
        ("GPU 0: XID 999", True, 999.0, 4.0),
        ("GPU 0: 2 uncorrected memory errors", True, 2.0, 7.0),
    ]
    assert spoilt(bad) == 103.75


def test_an_xid_before_the_start_is_not_this_generations() -> None:
    """The reading before the window is only the base of the differences."""
    assert [e.supports for e in facts(changed(readings(), 99.75, 100.0, xids=(79,)))] == [False]


def test_a_lost_gpu_beside_a_calm_one() -> None:
    """The loss is a fact with its reason; the other GPU is still listed."""
    dying = [s for s in readings() if s.at < 105.0]
    dying.append(GpuSample(105.0, "0", "NVML", lost="the GPU has fallen off the bus or is inaccessible"))
    first, second = facts([*dying, *readings("1")], "before the loss")
    assert (first.supports, first.at) == (True, 5.0)
    assert first.fact.startswith("GPU 0 was lost in the 12.0 s before the loss: the GPU has fallen")
    assert second.fact.startswith("GPU 1: no throttling")
    assert spoilt([*dying, *readings("1")]) == 104.75


def test_only_memory_that_fills_up_is_suspected() -> None:
    """vLLM takes nearly all of it at its start; growth to the brim is somebody else's doing."""
    (full,) = facts(changed(readings(), 0.0, memory_used=99))
    assert not full.supports
    (grew,) = facts(changed(readings(), 108.0, memory_used=99))
    assert (grew.supports, grew.at) == (True, 8.0)
    assert "memory filled from 90 % to 99 %" in grew.fact


def test_what_is_not_told_is_listed_with_its_reason() -> None:
    """Gaps are named once for the GPUs that share them; absence is never a clean fact."""
    reason = "not supported by this GPU"
    device = GpuDevice("0", missing={"throttle": reason, "xids": reason, "power": reason})
    blind = changed(readings(), 0.0, throttle=None, xids=None)
    blind[0] = replace(blind[0], device=device)
    clean, gap = facts(blind)
    assert "no throttling" not in clean.fact
    assert "no XID" not in clean.fact
    assert (gap.supports, gap.value) == (False, None)
    assert gap.fact == (
        "not measured before the onset: throttling, XIDs (not supported by this GPU) of GPU 0"
    )


def test_no_readings_exclude_nothing() -> None:
    """None at all, none in time, or only of GPUs that stayed idle: not measured, each with its reason."""
    for samples, why in (
        ([], "not measured before the onset: the GPU's state; the system plane"),
        (readings(last=94.0, first=80.0), "(no reading within 5 s)"),
        (changed(readings(), 0.0, utilisation=0.0), "(GPU 0 stayed idle while answers were written"),
    ):
        (fact,) = facts(samples)
        assert (fact.supports, fact.value) == (False, None)
        assert why in fact.fact
        assert spoilt(samples) is None


def test_idle_neighbours_throw_no_suspicion() -> None:
    """Another GPU of the machine that never worked in this run does not speak for this server's."""
    neighbour = changed(readings("1"), 0.0, utilisation=0.0, throttle=("hw_slowdown",))
    (fact,) = facts([*readings(), *neighbour])
    assert fact.fact.startswith("GPU 0: no throttling")


def test_a_neighbours_calm_is_not_ones_own() -> None:
    """GPU 1 does not tell its throttling: "no throttling" is said of GPU 0 only."""
    blind = changed(readings("1"), 0.0, throttle=None)
    first, second = facts([*readings(), *blind])
    assert first.fact.startswith("GPU 0: no throttling, no XID")
    assert second.fact.startswith("GPU 1: no XID")


def test_a_gpu_that_never_was_there_is_no_evidence() -> None:
    """One that could not be opened speaks neither for nor against, beside one that works."""
    closed = GpuSample(100.0, "1", "NVML", device=GpuDevice("1", missing={"everything": "not permitted"}))
    (fact,) = facts([*readings(), closed])
    assert (fact.supports, fact.fact[:6]) == (False, "GPU 0:")
    assert spoilt([*readings(), closed]) is None


@pytest.mark.parametrize(
    ("totals", "increase"), [([5], None), ([], None), ([5, None, 7], 2), ([5, 7, 1, 2], 4), ([3, 3], 0)]
)
def test_counters_are_differences(totals: list[int | None], increase: int | None) -> None:
    """A counter that falls was reset with the driver and counted from zero; one reading tells nothing."""
    assert metrics_series.increase(totals) == increase


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.floats(0, 5), st.floats(5, 20))
def test_held_seconds_never_exceed_the_window(states: list[bool], start: float, end: float) -> None:
    """Whatever the pattern: between 0 and the window's length, and 0 only where nothing was seen in it."""
    samples = [
        replace(CALM, at=0.25 * i, throttle=("hw_slowdown",) if on else ()) for i, on in enumerate(states)
    ]
    seconds, reasons = throttled_seconds(samples, ("hw_slowdown",), start, end)
    assert 0.0 <= seconds <= end - start + 1e-9
    assert bool(reasons) == any(states)


@given(st.integers(0, 47), st.sampled_from(["throttle", "xids", "ecc", "lost"]))
def test_invalid_from_is_the_last_reading_without_trouble(step: int, kind: str) -> None:
    """Never later than the first sign of trouble, and at most one reading before it."""
    at = START + 0.25 * step
    kinds: dict[str, dict[str, Any]] = {
        "throttle": {"throttle": ("hw_slowdown",)},
        "xids": {"xids": (79,)},
        "ecc": {"ecc_uncorrected": 1},
        "lost": {"lost": "gone"},
    }
    found = spoilt(changed(readings(), at, **kinds[kind]))
    assert found == max(START, at - 0.25)


def test_summary_of_a_run() -> None:
    """Means, extremes, differences and seconds by reason; a pause between two sessions counts for nothing."""
    samples = changed(readings(first=0.0, last=9.75), 4.0, 6.0, throttle=("sw_power_cap", "hw_slowdown"))
    samples = changed(samples, 5.0, pcie_replays=6, xids=())
    samples[0] = replace(samples[0], device=GpuDevice("0", name="H100", missing={"x": "y"}))
    later = [replace(s, at=s.at + 1000.0, pcie_replays=100) for s in readings(first=0.0, last=2.25)]
    (summary,) = summarise_gpus([*later, *samples])
    assert (summary.gpu, summary.name, summary.samples) == ("0", "H100", 50)
    assert summary.seconds == 12.0
    assert summary.throttled == {"hw_slowdown": 2.0, "sw_power_cap": 2.0}
    assert (summary.pcie_replays, summary.ecc_uncorrected, summary.xids) == (2, 0, ())
    assert (summary.temperature_min, summary.temperature_max, summary.memory_peak) == (65.0, 65.0, 0.9)
    assert summary.missing == {"x": "y"}


def test_summary_keeps_what_is_not_measured_apart() -> None:
    """A GPU that tells nothing has a summary of None, not of zeros."""
    (summary,) = summarise_gpus([GpuSample(1.0, "0", "NVML"), GpuSample(2.0, "0", "NVML", lost="gone")])
    assert (summary.throttled, summary.xids, summary.utilisation, summary.power) == (None,) * 4
    assert (summary.ecc_uncorrected, summary.memory_peak, summary.lost) == (None, None, "gone")
    assert summarise_gpus([]) == ()


def _annotated(generation: Generation, samples: list[GpuSample] | None) -> GenerationRecord:
    (found,) = annotate_planes([generation], [], EndpointProfile("http://localhost/v1", "lab"), gpus=samples)
    return found


def test_a_slowed_gpu_censors_failing_and_healthy_ones_alike() -> None:
    """Seen at second 2, it can have begun since second 1.75: token 176 is the first in doubt."""
    hot = changed(readings(first=-2.0, last=20.0), 2.0, throttle=("hw_thermal_slowdown",))
    failing = _annotated(make(make_job(), 900, 400, timed=True), hot)
    healthy = _annotated(make(make_job(), 900, timed=True), hot)
    assert (failing.invalid_from, failing.plane) == (176, Plane.SYSTEM)
    assert (healthy.invalid_from, healthy.plane) == (176, None)
    assert [e.supports for e in healthy.evidence] == [True]


def test_a_gpu_slowed_after_the_onset_excuses_nothing() -> None:
    """The onset arrived at second 4, the slowdown at second 5: the loop is the model's."""
    hot = changed(readings(first=-2.0, last=20.0), 5.0, throttle=("hw_thermal_slowdown",))
    found = _annotated(make(make_job(), 900, 400, timed=True), hot)
    assert (found.invalid_from, found.plane) == (None, None)


def test_gpus_that_nobody_asked_about_are_not_mentioned() -> None:
    """None leaves them out of the question; an empty series is a gap in the evidence."""
    failing = make(make_job(), 900, 400, timed=True)
    assert not any("GPU" in e.fact for e in _annotated(failing, None).evidence)
    found = [e.fact for e in _annotated(failing, []).evidence]
    assert any("not measured before the onset: the GPU's state" in fact for fact in found)
