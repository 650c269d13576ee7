"""What a judged answer leaves behind: nothing that waits for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from stresstest import StreamDetector, detect
from tests.support.stories import LOOP, story

TEXTS = {
    "healthy": story(12),
    "loop": story(4) + LOOP * 40,
    "near-loop": "".join(
        f"Chapter {n}: the road went on as before, and day {n} was like it. " for n in range(90)
    ),
    "drift": story(4)
    + "Il mare era calmo e la barca tornava piano verso il porto, mentre cadeva la sera. " * 3,
    "letters": story(2) + "zxq vbnm krt plx " * 40,
}


@pytest.fixture(autouse=True)
def _only_by_hand() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("kind", TEXTS)
def test_a_judged_answer_is_freed_at_once(kind: str) -> None:
    """Detectors that knew themselves through a method were cycles: the collector, which counts containers and
    not bytes, left 5 MB of each long answer, and a scan of 46 MB took a gigabyte."""
    for _ in range(2):  # what is loaded once is no garbage
        detect(TEXTS[kind], language="en", prompt="Tell a story.")
        gc.collect()
    detect(TEXTS[kind], language="en", prompt="Tell a story.")
    assert gc.collect() == 0


@pytest.mark.parametrize("kind", TEXTS)
def test_a_judged_stream_is_freed_at_once(kind: str) -> None:
    """As `run` and `guard` read answers, for days."""
    left = []
    for _ in range(3):
        stream = StreamDetector(language="en", prompt="Tell a story.")
        for start in range(0, len(TEXTS[kind]), 7):
            stream.feed(TEXTS[kind][start : start + 7])
        stream.finish("stop")
        del stream
        left.append(gc.collect())
    assert left[-1] == 0
