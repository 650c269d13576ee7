"""What the live view costs: its CPU seconds in a second of measuring, on this machine.

``python -m benchmarks.live_cost [--tokens-per-second 2000] [--answers 300]``

Events come as the driver sends them, one every 16 tokens of a generation, and the view is drawn four times
a second, wide, with a certifying sample of `answers`. Only CPU time is counted, so that other work on the
machine does not.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable
from functools import partial

from rich.console import Console, Group

from stresstest.campaign.execution.events import GenerationAdvanced, GenerationStarted
from stresstest.render.glyphs import BLOCK_GLYPHS
from stresstest.render.live.draw import live_view_lines
from stresstest.render.live.live_state import LiveState
from stresstest.render.live.view import REFRESH_HZ, ProvisionalThreshold
from tests.support.terminal_scenes import SETTINGS, live

EVENT_TOKENS = 16
_DRAWS, _EVENTS, _REPEATS = 100, 50_000, 3


def cpu_seconds(work: Callable[[], None], times: int) -> float:
    """CPU seconds of one call: the least of three rounds of `times`."""
    rounds = []
    for _ in range(_REPEATS):
        began = time.process_time()
        for _ in range(times):
            work()
        rounds.append((time.process_time() - began) / times)
    return min(rounds)


def drawer(board: LiveState, sample: ProvisionalThreshold) -> Callable[[], None]:
    """Draws the view once, as Rich's thread does, onto a terminal that goes nowhere."""
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=40)

    def draw() -> None:
        picture = board.snapshot()
        sample.update(picture.certifying)
        lines = live_view_lines(picture, (sample.rigor, sample.threshold()), 120, 40, BLOCK_GLYPHS)
        console.print(Group(*lines))

    return draw


def advancer(board: LiveState) -> Callable[[], None]:
    """Sends one event of 16 more tokens."""
    board.event(GenerationStarted("certify/4/299", 0.0))
    tokens = 0

    def advance() -> None:
        nonlocal tokens
        tokens += EVENT_TOKENS
        board.event(GenerationAdvanced("certify/4/299", tokens))

    return advance


def judge(board: LiveState) -> None:
    """The provisional limit over the whole sample, as after one more answer."""
    sample = ProvisionalThreshold(SETTINGS)
    sample.update(board.snapshot().certifying)
    sample.threshold()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens-per-second", type=float, default=2000.0)
    parser.add_argument("--answers", type=int, default=300)
    given = parser.parse_args()
    board, sample = live(given.answers)
    draw = drawer(board, sample)
    draw()
    each_draw, each_event = cpu_seconds(draw, _DRAWS), cpu_seconds(advancer(board), _EVENTS)
    each_answer = cpu_seconds(partial(judge, board), 3)
    events = given.tokens_per_second / EVENT_TOKENS
    share = REFRESH_HZ * each_draw + events * each_event
    print(f"one drawing: {1e3 * each_draw:.2f} ms CPU, {REFRESH_HZ} a second")
    print(f"one event of {EVENT_TOKENS} tokens: {1e6 * each_event:.1f} µs CPU, {events:.0f} a second")
    print(f"judging {given.answers} answers from their texts on: {1e3 * each_answer:.0f} ms CPU, once")
    print(f"share of one core at {given.tokens_per_second:.0f} tokens/s: {100 * share:.2f} %")


if __name__ == "__main__":
    main()
