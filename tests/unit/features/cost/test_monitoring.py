"""What the server's own counter says of each arm of a cost."""

from __future__ import annotations

from stresstest.campaign.progress import Progress
from stresstest.features.cost.monitoring import CostMonitor
from stresstest.model import EndpointProfile, RunSettings, ServerSample, Subject
from stresstest.model.cost import CostArm

WINDOWS = {
    "0/loops": (0.0, 10.0),
    "0/capped": (10.5, 20.0),
    "1/capped": (20.5, 30.0),
    "1/loops": (30.5, 40.0),
}


class Shown(Progress):
    def __init__(self) -> None:
        self.seen: list[ServerSample] = []

    def sample(self, sample: ServerSample) -> None:
        self.seen.append(sample)


def watching(counts: dict[float, float | None]) -> tuple[CostMonitor, Shown]:
    """A watch that has read the preemption counter at these times."""
    shown = Shown()
    settings = RunSettings(Subject("m", "t", "it"), "http://127.0.0.1:9/v1", "t", gpus="none")
    watch = CostMonitor(settings, EndpointProfile("http://127.0.0.1:9/v1", "m"), shown, None)
    for at, count in counts.items():
        watch._on_sample(ServerSample(at=at, preemptions=count))
    return watch, shown


def test_preemptions_are_differences_of_the_counter_within_each_arms_batches() -> None:
    """A counter that stood at 7 before, and what happens between batches, belong to no arm."""
    watch, shown = watching({1: 7, 9: 12, 11: 15, 19: 16, 21: 16, 29: 16, 31: 16, 39: 20})
    assert watch.count_preemptions(CostArm.LOOPS, WINDOWS) == 5 + 4
    assert watch.count_preemptions(CostArm.CAPPED, WINDOWS) == 1
    assert len(shown.seen) == 8


def test_a_server_without_the_counter_preempted_nobody_knows_how_many() -> None:
    """Not measured is None, not zero; no power reading is no energy."""
    watch, _ = watching({1: None, 9: None})
    assert watch.count_preemptions(CostArm.LOOPS, WINDOWS) is None
    assert watch.batch_energy(WINDOWS) == {}
