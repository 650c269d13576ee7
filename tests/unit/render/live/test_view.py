"""The live view: what its counters say, that it fits every terminal, and that tokens do not wait for it."""

from __future__ import annotations

import functools
import io
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from stresstest.campaign.execution.events import (
    AttemptRetried,
    GenerationAdvanced,
    GenerationFinished,
    GenerationStarted,
)
from stresstest.campaign.ladder import CertifyStep, ClimbStep, LadderSetup, Rung, ladder_job
from stresstest.model import (
    RIGORS,
    FailureKind,
    Generation,
    GpuSample,
    Phase,
    ServerSample,
    ServiceFailure,
    Threshold,
)
from stresstest.render.glyphs import ASCII_GLYPHS, BLOCK_GLYPHS, Glyphs, allocate_cells, sparkline
from stresstest.render.live.draw import live_view_lines, tail_cells
from stresstest.render.live.live_state import RATE_WINDOW_S, LiveState
from stresstest.render.live.snapshot import LiveSnapshot
from stresstest.render.live.view import LiveProgress, ProvisionalThreshold
from stresstest.render.text import sanitize
from tests.support.generations import whole
from tests.support.terminal_scenes import (
    PROFILE,
    SETTINGS,
    Clock,
    certifying_answers,
    climbing,
    generation,
    live,
)

SETUP = LadderSetup(RIGORS["quick"], 8192, 56.0, distinct_prompts=40)
RUNG = Rung(1, 5, 256, 640)
QUICK = RIGORS["quick"]


def shown(
    board: LiveState, sample: ProvisionalThreshold | None = None, width: int = 80, height: int = 40
) -> list[str]:
    picture = board.snapshot()
    judged = None
    if sample is not None:
        sample.update(picture.certifying)
        judged = (sample.rigor, sample.threshold())
    return [line.plain for line in live_view_lines(picture, judged, width, height, BLOCK_GLYPHS)]


def begun(rung: Rung = RUNG, total: int = 2) -> tuple[LiveState, Clock, list[Generation]]:
    """A board in the first rung of a climb, and the answers that it waits for."""
    clock = Clock()
    board = LiveState(clock)
    board.started(SETTINGS)
    jobs = tuple(ladder_job(SETUP, Phase.CLIMB, rung, n) for n in range(total))
    board.stage(ClimbStep(rung, jobs, "first rung", total))
    return board, clock, [generation(each, 200) for each in jobs]


def test_before_anything_is_measured_nothing_is_claimed() -> None:
    """Absent is never 0: no rate, no KV cache, no GPU, no end, and no ladder yet."""
    board = LiveState(Clock())
    lines = shown(board)
    assert "querying the server" in lines[1]
    assert "– tokens/s · KV – · GPU –" in lines[2]
    assert lines[-1].endswith("0 tokens")


def test_the_rate_counts_only_the_time_in_which_tokens_came() -> None:
    """Two seconds after the start the rate is over two seconds, not over the whole window."""
    board, clock, made = begun()
    board.event(GenerationStarted(made[0].key, clock.now))
    for second in range(1, 41):
        clock.now += 1.0
        board.event(GenerationAdvanced(made[0].key, 50 * second))
        if second == 3:
            assert board.snapshot().speed.now == pytest.approx(75.0)
    assert board.snapshot().speed.now == pytest.approx(55.0)
    clock.now += RATE_WINDOW_S + 1.0
    assert board.snapshot().speed.now == 0.0


def test_the_end_is_guessed_from_tokens_and_what_is_in_flight_counts() -> None:
    """Without a finished answer the length asked for stands in; with one, its length."""
    board, clock, made = begun()
    for each in made:
        board.event(GenerationStarted(each.key, clock.now))
        board.event(GenerationAdvanced(each.key, 64))
    clock.now += 1.0
    picture = board.snapshot()
    assert picture.speed.now == pytest.approx(128.0)
    assert picture.eta == pytest.approx((2 * 256 - 128) / 128.0)
    board.event(GenerationFinished(made[0]))
    after = board.snapshot()
    assert after.speed.now is not None
    assert after.eta == pytest.approx((200 - 64) / after.speed.now)


def test_a_resumed_run_shows_what_was_measured_before() -> None:
    """The ladder is not empty, and the certifying sample is judged with what an earlier session saw."""
    board, _ = live(5)
    before = board.snapshot()
    again = LiveState(Clock())
    again.started(SETTINGS)
    finished = [generation(ladder_job(SETUP, Phase.CLIMB, RUNG, n), 250) for n in range(2)]
    again.resumed([*certifying_answers(5), *finished], whole)
    picture = again.snapshot()
    assert [(row.name, row.done) for row in picture.rows] == [("rung 1", 2), ("certify", 5)]
    assert picture.certifying == before.certifying
    jobs = tuple(ladder_job(SETUP, Phase.CERTIFY, Rung(4, 25, 1371, 1800), n) for n in range(5, 38))
    again.stage(CertifyStep(Rung(4, 25, 1371, 1800), jobs, 38, "as before", 38))
    assert [(row.name, row.done, row.total) for row in again.snapshot().rows][1] == ("certify", 5, 38)


def test_a_new_campaign_wipes_the_board() -> None:
    """`sweep` and `diagnose` measure several runs with one view; their onsets must not be added up."""
    board, _ = live(26)
    board.started(SETTINGS)
    picture = board.snapshot()
    assert (picture.rows, picture.onsets, picture.certifying, picture.tokens) == ((), (), (), 0)


def test_an_arm_of_a_diagnosis_is_a_row_without_a_length() -> None:
    """`diagnose` uses the same view; an arm is no rung and certifies nothing."""
    board, _ = live(26)
    job = ladder_job(SETUP, Phase.DIAGNOSE, RUNG, 0)
    board.measuring("D1: 16 forks, with repetition_penalty 1.15", 16, {job.key: 600})
    board.event(GenerationFinished(generation(job, 300, 120)))
    lines = shown(board)
    row = next(line for line in lines if line.startswith("D1"))
    assert "tok" not in row
    assert "1/16  1 degenerate from 720" in row, "an onset counts from the answer's start, as on a rung"
    assert not any("count for T" in line for line in lines)


def test_gpus_are_averaged_and_their_absence_is_a_dash() -> None:
    """The last reading of each GPU counts, once."""
    board, clock, _ = begun()
    readings = [GpuSample(clock.now, "0", "NVML", utilisation=0.1)]
    board.gpus(readings)
    readings += [GpuSample(clock.now, gpu, "NVML", utilisation=u) for gpu, u in (("0", 0.8), ("1", 0.6))]
    assert board.snapshot().gpu.now == pytest.approx(0.7)
    assert board.snapshot().gpu_memory is None
    board.gpus([GpuSample(clock.now, "0", "NVML")])
    assert board.snapshot().gpu.now is None


def test_what_a_part_of_the_sample_says_is_called_provisional() -> None:
    """A number that invites to stop early must say that it is no result, and when the result comes."""
    board, sample = live(26)
    said = " ".join(shown(board, sample))
    assert "26 of 38 planned answers count for T" in said
    assert "so far, provisional · may go up or down" in said
    assert "the final T is computed when all 38 answers are in" in said
    early, few = live(8)
    said = " ".join(shown(early, few))
    assert "none so far (needs at least 22 answers)" in said
    assert "T " not in said.partition("bound")[2].partition("the final T")[0]


def test_the_provisional_limit_is_the_one_of_the_sample_so_far() -> None:
    """The view judges with the code that certifies, over exactly what has come in, each answer once."""
    from stresstest.statistics import certified_threshold

    board, sample = live(30)
    made = board.snapshot().certifying
    for until in (10, 10, 30):
        sample.update(made[:until])
    every = certifying_answers(30)
    assert sample.threshold() == certified_threshold(every, QUICK, temperature=SETTINGS.decoding.temperature)


@functools.cache
def drawn(answers: int | None) -> LiveSnapshot:
    """A board after so many certifying answers; None: during the climb."""
    return (climbing() if answers is None else live(answers))[0].snapshot()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(20, 200),
    st.integers(4, 60),
    st.sampled_from([None, 0, 1, 26]),
    st.text(max_size=40),
    st.sampled_from([BLOCK_GLYPHS, ASCII_GLYPHS]),
)
def test_every_view_fits_its_terminal(
    width: int, height: int, answers: int | None, text: str, glyphs: Glyphs
) -> None:
    """No line wraps and none scrolls: a view that does not fit leaves its remains behind on every refresh."""
    picture = drawn(answers)
    rows = tuple(replace(row, name=text or row.name, total=10**9, earliest=10**8) for row in picture.rows)
    onsets = tuple(replace(onset, before=text * 9, after=text * 9, name=text) for onset in picture.onsets)
    server = ServerSample(0.0, running=1e6, waiting=1e6)
    picture = replace(picture, rows=rows, onsets=onsets, server=server, eta=1e6, budget_seconds=1e7)
    threshold = Threshold(0.1, 0.9, 123_456, 10**6, 10**6, 0.1, certified=True)
    lines = live_view_lines(picture, (QUICK, threshold), width, height, glyphs)
    assert len(lines) < height
    assert all(line.cell_len < width for line in lines)
    assert all(sanitize(line.plain) == line.plain and "\n" not in line.plain for line in lines)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=4), st.integers(0, 500), st.integers(0, 80))
def test_a_bar_never_overflows_and_is_full_when_all_is_done(parts: list[int], left: int, width: int) -> None:
    """One answer in 500 still shows as a cell, unless there are fewer cells than kinds of answers."""
    total = sum(parts) + left
    cells = allocate_cells(parts, total, width)
    assert sum(cells) <= width
    assert all(n >= 0 for n in cells)
    if width >= len(parts) and total:
        assert all((n > 0) == (part > 0) for n, part in zip(cells, parts, strict=True))
    if total and not left:
        assert sum(cells) == width


def test_a_strip_tells_nothing_from_not_measured() -> None:
    """A gap is a blank; 0 is the lowest bar; the scale's top is the tallest."""
    assert sparkline([None, 0.0, 0.5, 1.0], BLOCK_GLYPHS, top=1.0) == " ▁▄█"
    assert sparkline([0.0, 0.0], BLOCK_GLYPHS) == "▁▁"
    assert sparkline([], ASCII_GLYPHS) == ""
    assert sparkline([5.0, 10.0], ASCII_GLYPHS).isascii()


@given(st.text(), st.integers(-5, 30))
def test_the_end_of_a_text_fits_its_room(text: str, room: int) -> None:
    """Wide characters count for two columns."""
    from rich.cells import cell_len

    end = tail_cells(text, room)
    assert cell_len(end) <= max(room, 0)
    assert text.endswith(end)


class Counting(io.StringIO):
    """A terminal that counts writes."""

    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        return super().write(text)

    def isatty(self) -> bool:
        return True


def test_tokens_do_not_draw_and_the_end_leaves_a_clean_screen() -> None:
    """Ten thousand token events write nothing themselves; close erases the view and shows the cursor."""
    out = Counting()
    console = Console(file=out, force_terminal=True, width=80, height=30)
    progress = LiveProgress(console)
    progress.started("r1", SETTINGS, PROFILE)
    jobs = tuple(ladder_job(SETUP, Phase.CLIMB, RUNG, n) for n in range(2))
    progress.stage(ClimbStep(RUNG, jobs, "first rung"))
    key = generation(jobs[0], 8).key
    # The thread that draws may refresh meanwhile, four times a second at most; stopping it makes this exact.
    progress._closed.set()
    progress._refresher.join()
    before = out.writes
    progress.event(GenerationStarted(key, 0.0))
    for tokens in range(10_000):
        progress.event(GenerationAdvanced(key, tokens))
    assert out.writes == before
    progress.close()
    text = out.getvalue()
    assert text.endswith("\x1b[2K")
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1


def test_trouble_and_decisions_scroll_above_the_view() -> None:
    """A retry and why the sample is as it is stay readable after the view is gone; NO_COLOR holds."""
    out = io.StringIO()
    colourless = {"NO_COLOR": "1", "TERM": "xterm-256color"}
    console = Console(file=out, force_terminal=True, width=200, height=30, _environ=colourless)
    progress = LiveProgress(console)
    progress.started("r1", SETTINGS, PROFILE)
    failure = ServiceFailure(FailureKind.HTTP_ERROR, "HTTP 503: overloaded", 503)
    progress.event(AttemptRetried(ladder_job(SETUP, Phase.CLIMB, RUNG, 0), 1, failure, 0.5))
    rung = Rung(4, 25, 1371, 1800)
    jobs = tuple(ladder_job(SETUP, Phase.CERTIFY, rung, n) for n in range(38))
    progress.stage(CertifyStep(rung, jobs, 38, "the climb's answers degenerated at about 954 tokens", 38))
    progress.close()
    text = out.getvalue()
    assert f"rung {RUNG.number}, answer 1: attempt 1 failed (HTTP 503: overloaded); retry in 0.5 s" in text
    assert "38 answers — the climb's answers degenerated at about 954 tokens" in text
    assert "\x1b[3" not in text
