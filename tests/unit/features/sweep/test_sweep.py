"""What a sweep's cells answer together, which there are, and that nothing is measured twice."""

from __future__ import annotations

import asyncio
import io
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from math import exp, log
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from rich.console import Console

from stresstest.campaign.execution.events import GenerationEvent, GenerationFinished
from stresstest.campaign.progress import Progress
from stresstest.diagnosis.answers import differing_loads, still_fails, sweep_answers, working_cells
from stresstest.diagnosis.cells import needs_no_cap, onset_interval, threshold_ratios
from stresstest.errors import ExitCode, UsageError
from stresstest.features.sweep.console import farthest_cell, print_sweep, ratio_words, stored_words
from stresstest.features.sweep.document import stored_document
from stresstest.features.sweep.workflow import apply_values, parameter_combinations, run_sweep
from stresstest.model import (
    RIGORS,
    Decoding,
    DocumentKind,
    EndpointProfile,
    Observation,
    PlaneVerdict,
    RunResult,
    RunSettings,
    RunStatus,
    Subject,
    Threshold,
)
from stresstest.model.sweep import CellLimit, Sweep, SweepCell, SweepControl
from stresstest.simulation.engine.scenario.file import load_scenario
from stresstest.store import open_store
from stresstest.store.repository import Store
from tests.support.commands import command
from tests.support.generations import make, make_job
from tests.support.other_clients import other_clients
from tests.support.simulated_servers import served
from tests.support.stored_data import make_run

LOOPS = """
name = "loops"
[[hazard]]
symptom = "loop"
plane = "decoding"
onset = { distribution = "lognormal", median = 60, sigma = 0.1 }
requires = { repetition_penalty = "<1.1" }
"""


CROWDED = """
name = "crowded-by-others"
[[hazard]]
symptom = "loop"
plane = "system"
onset = { distribution = "lognormal", median = 60, sigma = 0.1 }
requires = { concurrency = ">8" }
"""


def cell(
    value: str, failed: int, kind: str, *, model: str = "m", onset: int = 900, length: int = 2_000
) -> SweepCell:
    """38 answers. length: tokens of the healthy ones."""
    onsets = tuple(onset + i for i in range(failed))
    return SweepCell(
        {"repetition_penalty": value},
        "r",
        Subject(model, "narrative", "it"),
        Decoding(),
        Threshold(0.1, 0.9),
        None,
        38,
        failed,
        {kind: failed} if failed else {},
        float(onset) if failed else None,
        onsets=onsets,
        reached=tuple(sorted([*(each - 1 for each in onsets), *[length] * (38 - failed)])),
    )


def test_what_one_prompt_shows_holds_for_that_one() -> None:
    """38 answers to one prompt: "the smallest repetition_penalty that keeps repetition away lies between 1
    and 1.1", while 30 % of other prompts looped at 1.1."""
    cells = [replace(cell("1.0", 38, "loop"), prompts=1), replace(cell("1.1", 0, "loop"), prompts=1)]
    *_, last = sweep_answers(cells, ["repetition_penalty"])
    told = "the 38 answers of a cell are to only 1 prompt: all this holds for that one"
    assert last == f"{told}, and with others more may fail"
    six = [replace(each, prompts=6) for each in cells]
    assert "only 6 prompts: all this holds for these" in sweep_answers(six, ["repetition_penalty"])[-1]
    many = [replace(each, prompts=38) for each in cells]
    assert not any("all this holds" in answer for answer in sweep_answers(many, ["repetition_penalty"]))


def test_the_next_command_names_the_cell_that_reaches_farthest() -> None:
    """None of a sweep that is not done, or whose control speaks against it."""
    limits = (("a", None), ("b", 900), ("c", 700))
    cells = tuple(replace(cell("1.0", 0, "loop"), run_id=run, safe_max_tokens=safe) for run, safe in limits)
    best = farthest_cell(Sweep(cells))
    assert best is not None
    assert best.run_id == "b"
    assert farthest_cell(Sweep(cells, complete=False)) is None
    assert farthest_cell(Sweep(cells[:1])) is None


def test_the_best_of_many_is_chosen_and_told_by_what_holds_for_all() -> None:
    """Of 24 settings that change nothing the farthest was certified to nearly twice the truth: the largest T
    of many is large by chance."""
    alone = Threshold(0.1, 0.9, 423, 38, 1, 0.099, certified=True)
    lacking = replace(alone, tokens=None, certified=False, lacking="53 answers at risk are needed")
    jointly = replace(alone, tokens=350, onsets=0)
    cells = tuple(
        replace(cell(value, 5, "loop"), run_id=value, safe_max_tokens=380, threshold=alone) for value in "abc"
    )
    unproven = Sweep(tuple(replace(each, joint=CellLimit(lacking, None)) for each in cells))
    out = io.StringIO()
    print_sweep(Console(file=out, width=400), unproven)
    assert farthest_cell(unproven) is None
    assert (
        "the best of 3 is the best by chance, too: 38 answers a cell certify nothing of it" in out.getvalue()
    )
    joint = [CellLimit(lacking, None), CellLimit(jointly, 315), CellLimit(lacking, None)]
    found = Sweep(tuple(replace(each, joint=one) for each, one in zip(cells, joint, strict=True)))
    best, out = farthest_cell(found), io.StringIO()
    print_sweep(Console(file=out, width=400), found)
    assert best is not None
    assert best.run_id == "b"
    assert "the largest safe max_tokens, 315; certified up to T = 350 tokens" in out.getvalue()
    assert "and although it is the best of 3 cells" in out.getvalue()


def test_a_setting_that_needs_no_cap_is_the_best_where_it_reaches_farther() -> None:
    """The next command named the cell whose answers loop, since the one that helped has no limit to print."""
    looping = replace(
        cell("1.0", 32, "loop"),
        run_id="loops",
        safe_max_tokens=533,
        threshold=Threshold(0.1, 0.9, 593, 38, 1, 0.1, certified=True),
    )
    healthy = replace(
        cell("1.2", 0, ""),
        run_id="heals",
        decoding=Decoding(temperature=0.7, repetition_penalty=1.2),
        needs_no_cap=True,
        threshold=Threshold(
            0.1, 0.9, 1955, 24, 0, 0.09, certified=True, censored_at=1955, withheld="a cap would cut most"
        ),
    )
    found = Sweep((looping, healthy))
    best = farthest_cell(found)
    assert best is not None
    assert best.run_id == "heals"
    out = io.StringIO()
    print_sweep(Console(file=out, width=400), found)
    assert (
        "→ with repetition_penalty 1.2: answers up to T need no max_tokens, longer ones were not measured; "
        "certified up to T ≥ 1,955 tokens: with 90 % "
        "confidence, at most 10 % of answers degenerate by then (none of 24 in the sample, not counting "
        "healthy answers that ended or were cut sooner), and although it is the best of 2 cells. "
        "To send it, add to the body of each request: "
        '"repetition_penalty": 1.2'
    ) in out.getvalue()
    assert "T: with 90 % confidence, at most 10 % of answers degenerate by T." in out.getvalue()
    short = replace(healthy, threshold=replace(healthy.threshold, tokens=120, censored_at=120))
    best = farthest_cell(Sweep((looping, short)))
    assert best is not None
    assert best.run_id == "loops", "answers that end early are no reason to give up long ones"


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        pytest.param({}, True, id="the answers end by themselves"),
        pytest.param({"overruled_by": "r2"}, False, id="another run speaks against it"),
        pytest.param({"distinct_prompts": 1}, False, id="one prompt"),
        pytest.param({"threshold": Threshold(0.1, 0.9, 400, 38, certified=True)}, False, id="a limit"),
    ],
)
def test_no_cap_is_needed_only_where_answers_end_in_health(changes: dict[str, Any], needs: bool) -> None:
    """A cap may be withheld because nothing is known, too: then no setting is said to do without one."""
    withheld = Threshold(
        0.1, 0.9, 400, 38, 0, 0.06, certified=True, censored_at=400, withheld="a cap would cut most"
    )
    answers = tuple(make(make_job(index=i), 450, finish="stop") for i in range(38))
    run = make_run("r1")
    found = RunResult(run, withheld, None, PlaneVerdict(None, None, "x"), answers, distinct_prompts=38)
    assert needs_no_cap(replace(found, **changes)) is needs
    failing = tuple(make(make_job(index=i), 450, 300 if i < 6 else None) for i in range(38))
    assert not needs_no_cap(replace(found, generations=failing))


def test_a_sweep_answers_with_the_smallest_value_and_what_more_breaks() -> None:
    """The source's words: it works between 1.1 and 1.15, and 1.2 drifts."""
    cells = [
        cell("1.0", 38, "loop"),
        cell("1.1", 30, "loop"),
        cell("1.15", 1, "loop"),
        cell("1.2", 20, "language_drift"),
    ]
    [answer] = sweep_answers(cells, ["repetition_penalty"])
    assert "between 1.1 and 1.15" in answer
    assert "at 1.2, 20 of 38 fail in another way (language drift" in answer
    [nothing] = sweep_answers([cell("1.0", 38, "loop"), cell("1.2", 38, "near_loop")], ["repetition_penalty"])
    assert nothing == "no repetition_penalty up to 1.2 keeps repetition away."
    assert sweep_answers(cells[:1], ["repetition_penalty"]) == ()


def test_answers_that_end_before_the_others_fail_tell_nothing() -> None:
    """Empty answers do not loop, and a penalty that empties them keeps nothing away."""
    loops, empty, healthy = cell("1.0", 38, "loop"), cell("1.1", 0, "", length=0), cell("1.2", 0, "")
    early = replace(empty, terms=0.0)
    [answer] = sweep_answers([replace(loops, terms=20.0), early], ["repetition_penalty"])
    assert answer == (
        "no repetition_penalty up to 1.1 is known to keep repetition away: at 1, 38 of 38 fail; at 1.1 too "
        "few answers go on long enough to tell: 0 of 38 reach token 900, the median onset at 1, and 22 are "
        "needed."
    )
    [answer] = sweep_answers([loops, empty, healthy], ["repetition_penalty"])
    assert "lies between 1 and 1.2: at 1, 38 of 38 fail; at 1.1 too few answers" in answer
    drift = cell("1.1", 38, "language_drift", onset=300)
    [answer] = sweep_answers([loops, drift], ["repetition_penalty"])
    assert "is known to keep repetition away: at 1, 38 of 38 fail; at 1.1, 38 of 38 fail in another" in answer


def test_as_many_answers_must_go_on_as_the_exact_bound_needs() -> None:
    """21 healthy answers do not show that at most a tenth fails, 22 do."""
    loops, healthy = cell("1.0", 38, "loop"), cell("1.1", 0, "")
    for reaching, told in ((21, "is known to"), (22, "lies between 1 and 1.1")):
        some = replace(healthy, reached=(*[500] * (38 - reaching), *[900] * reaching))
        [answer] = sweep_answers([loops, some], ["repetition_penalty"])
        assert told in answer


def test_settings_that_differ_by_chance_change_nothing() -> None:
    """Three in ten loop or break their numbering whatever the setting: which of the two is commoner turns."""
    rng = random.Random(7)
    claims = 0
    for _ in range(200):
        cells = []
        for value in ("0", "0.2", "0.4", "0.6", "0.8", "1.0"):
            loops, breaks = (sum(rng.random() < 0.15 for _ in range(38)) for _ in range(2))
            kinds = {"loop": loops, "structure_break": breaks}
            cells.append(replace(cell(value, loops + breaks, "loop"), kinds=kinds))
        [answer] = sweep_answers(cells, ["repetition_penalty"])
        claims += "that keeps" in answer
    assert claims <= 10


def test_values_below_the_first_one_are_answered_downwards() -> None:
    """Lower temperatures than the one that fails: "nothing has to be changed" was the answer."""
    values = {"1.0": 34, "0.7": 30, "0.3": 0}
    cells = [
        replace(
            cell(value, failed, "gibberish" if failed else ""), values={"temperature": value}, run_id=value
        )
        for value, failed in values.items()
    ]
    [answer] = sweep_answers(cells, ["temperature"])
    assert answer == (
        "the largest temperature that keeps incoherence away lies between 0.3 and 0.7: at 0.7, 30 of 38 fail."
    )
    assert working_cells(cells, ["temperature"]) == [cells[2]]
    [none] = sweep_answers(cells[:2], ["temperature"])
    assert none == "no temperature down to 0.7 keeps incoherence away."
    higher = replace(cell("1.2", 38, "gibberish"), values={"temperature": "1.2"})
    up, down = sweep_answers([*cells, higher], ["temperature"])
    assert up == "no temperature up to 1.2 keeps incoherence away."
    assert down == answer


def test_a_failure_that_went_away_by_itself_makes_no_value_work() -> None:
    """Asked again after the last cell, the first one no longer fails: no value is recommended."""
    cells, names = [cell("1.0", 33, "loop"), cell("1.05", 0, "")], ["repetition_penalty"]
    working = working_cells(cells, names)
    assert working == cells[1:]
    assert working_cells(cells[::-1], names) == [], "the first value given is where one starts from"
    for kinds, confirms in (({"loop": 2}, True), ({"loop": 1}, False), ({"language_drift": 8}, False)):
        assert still_fails(kinds, 8, cells[0], working) is confirms
        [answer] = sweep_answers(cells, names, SweepControl(8, kinds, 100, confirms))
        assert ("lies between 1 and 1.05" in answer) is confirms
        assert ("is not known: at 1, 33 of 38 fail with it, but" in answer) is not confirms
    assert working_cells([cell("1.0", 38, "loop"), cell("1.05", 38, "loop")], names) == []
    [answer] = sweep_answers(cells, names, SweepControl(0, {}, 0, confirms=False))
    assert "no answer came back" in answer


@pytest.mark.slow
@pytest.mark.parametrize("left", [0.0, 0.05, 0.1])
def test_simulated_error_where_the_failure_goes_away_by_itself(left: float) -> None:
    """After the first cell failures are as rare as `left`, whatever the value: both looks at the control let
    at most a tenth of the sweeps name a value that changes nothing."""
    rng = random.Random(11)

    def failing(n: int) -> int:
        return sum(rng.random() < left for _ in range(n))

    named = 0
    for _ in range(400):
        cells = [cell("1.0", 33, "loop"), cell("1.05", failing(38), "loop")]
        if working := working_cells(cells, ["repetition_penalty"]):
            eight = failing(8)
            looks = ((eight, 8), (eight + failing(30), 38))
            named += any(still_fails({"loop": failed}, n, cells[0], working) for failed, n in looks)
    assert named <= 40


def certified(name: str, onsets: range, quantile: tuple[int | None, int | None]) -> SweepCell:
    """All of these onsets; T just below the first of them, "≥ T" without any."""
    tokens = onsets.start - 1
    threshold = Threshold(0.1, 0.9, tokens, certified=True, censored_at=None if onsets else tokens)
    return replace(
        cell("1.2", len(onsets), "loop", model=name),
        threshold=threshold,
        onsets=tuple(onsets),
        quantile=quantile,
    )


def test_subjects_side_by_side_get_the_ratio_of_their_thresholds_with_its_interval() -> None:
    """The farther over the nearer one, whichever came first; what never failed reaches "at least" so far."""
    late = certified("a", range(5000, 5020), (4999, 5010))
    early = certified("b", range(200, 220), (199, 205))
    [ratio] = threshold_ratios([early, late])
    assert (ratio.of, ratio.over) == ("a · narrative · it", "b · narrative · it")
    assert ratio.ratio == 4999 / 199
    assert (ratio.lo, ratio.hi) == (4999 / 205, 5010 / 199)
    assert ratio.onsets_lo is not None
    assert ratio.onsets_hi is not None
    assert ratio.onsets_lo <= (ratio.onsets or 0) <= ratio.onsets_hi
    assert (
        "a · narrative · it reaches 25.1 times as far as b · narrative · it (90 % interval 24.4 to 25.2)"
        in (ratio_words(ratio))
    )
    healthy = certified("c", range(401, 401), (400, None))
    [least] = threshold_ratios([early, healthy])
    assert (least.at_least, least.hi, least.onsets) == (True, None, None)
    assert "at least 2.0 times as far" in ratio_words(least)
    assert threshold_ratios([healthy, certified("d", range(301, 301), (300, None))]) == ()
    assert threshold_ratios([early, replace(late, decoding=Decoding(temperature=1.0))]) == ()


def test_the_interval_of_the_length_holds_the_truth() -> None:
    """Simulated with a known 10 % quantile: of 300 samples of 38, at most 5 % miss it, as promised."""
    rng = random.Random(4)
    true = 1000.0 * exp(0.3 * NormalDist().inv_cdf(0.1))
    missed = 0
    for _ in range(300):
        onsets = [max(1, round(rng.lognormvariate(log(1000.0), 0.3))) for _ in range(38)]
        lo, hi = onset_interval([Observation(o, o - 1) for o in onsets], 0.1)
        assert lo is not None
        assert hi is not None
        missed += not lo <= true <= hi
    assert missed <= 15
    assert onset_interval([Observation(None, 500)] * 38, 0.1) == (500, None)


def test_no_number_is_cut_on_a_narrow_terminal() -> None:
    """80 columns, an address and a parameter: every number stands whole, and simulated ones are named so.
    The legend accounts for those that are neither whole nor failed."""
    values = {"base_url": "http://127.0.0.1:8000/v1", "repetition_penalty": "1.15"}
    far = replace(certified("a", range(5000, 5038), (4999, 5010)), values=values, first_foreign=4_900)
    out = io.StringIO()
    print_sweep(Console(file=out, width=80), Sweep((far,), simulated=True))
    shown = out.getvalue()
    assert "SIMULATED" in shown
    assert "meet their cap" in shown
    assert "…" not in shown
    for number in ("4,999", "38/38", "4,900", "127.0.0.1:8000, 1.15"):
        assert number in shown


def test_a_servers_cap_stands_beside_the_answer() -> None:
    """Behind a gateway that cuts at 200 tokens nothing fails, and "nothing has to be changed"."""
    cells = tuple(replace(cell(value, 0, ""), server_cap=200) for value in ("1.0", "1.1"))
    out = io.StringIO()
    print_sweep(Console(file=out, width=300), Sweep(cells, sweep_answers(cells, ["repetition_penalty"]), ()))
    assert "note: the server cuts answers at 200 tokens although more were asked" in out.getvalue()


def test_few_failures_without_a_limit_are_no_all_clear() -> None:
    """Where the server hides half of the answers, those that are seen fail rarely."""
    [answer] = sweep_answers([cell("1.0", 3, "loop"), cell("1.1", 0, "")], ["repetition_penalty"])
    assert answer.startswith(
        "at 1, 3 of 38 fail, but no T is certified: whether repetition_penalty has to be"
    )


def test_terms_that_are_pushed_out_are_told_with_the_value_from_which_on() -> None:
    """Nothing fails, and yet a penalty breaks something: words that must be repeated are no longer there."""
    limit = Threshold(0.1, 0.9, 1_900, certified=True)
    rows = [
        replace(cell(v, 0, ""), terms=t, threshold=limit)
        for v, t in (("1.0", 8.0), ("1.15", 7.6), ("1.2", 3.1))
    ]
    [answer] = sweep_answers(rows, ["repetition_penalty"])
    assert "nothing has to be changed" in answer
    assert "above 1.15 fewer terms recur: 8.0 per 100 words at 1, 3.1 at 1.2" in answer


def test_cells_move_one_parameter_at_a_time_unless_a_grid_is_asked_for() -> None:
    """The first values are the base; unknown names and values are refused before anything is sent."""
    params = {"repetition_penalty": ["1.0", "1.1"], "temperature": ["0.7", "1.0", "1.3"]}
    assert len(parameter_combinations(params, grid=True)) == 6
    moved = parameter_combinations(params, grid=False)
    assert len(moved) == 4
    assert moved[0] == {"repetition_penalty": "1.0", "temperature": "0.7"}
    refused: list[dict[str, list[str]]] = [{"weather": ["1"]}, {"temperature": ["warm"]}, {"top_p": []}]
    refused += [{"top_p": ["nan"]}, {"temperature": ["0.7", "inf"]}]
    for bad in refused:
        with pytest.raises(UsageError):
            parameter_combinations(bad, grid=False)
    settings = RunSettings(Subject("m", "narrative", "it"), "http://a/v1", "narrative")
    values = {"top_k": "40", "model": "other", "base_url": "http://b/v1"}
    changed = apply_values(settings, values)
    assert changed.decoding.top_k == 40
    assert (changed.subject.model, changed.base_url) == ("other", "http://b/v1")
    assert asdict(changed.decoding)["temperature"] is None
    assert RIGORS[changed.rigor].name == settings.rigor


@pytest.mark.simulated
def test_what_other_clients_cause_makes_no_value_work(tmp_path: Path) -> None:
    """Others' load causes the loops of the first cell and ends with it: no value is recommended."""

    class Leaving(Progress):
        campaigns = 0
        stages: list[str]
        leave: Callable[[], None]

        def started(self, run_id: str, settings: RunSettings, profile: EndpointProfile) -> None:
            self.campaigns += 1
            if self.campaigns == 2:
                self.leave()

        def measuring(self, what: str, total: int, cuts: Mapping[str, int] | None = None) -> None:
            self.stages.append(what)

    file = tmp_path / "crowded.toml"
    file.write_text(CROWDED, encoding="utf-8")
    with (
        served(load_scenario(str(file)), speed=15) as running,
        open_store(str(tmp_path / "s.sqlite3")) as store,
        other_clients(running.base_url, 8) as leave,
    ):
        settings = RunSettings(
            Subject("", "narrative", "it"), running.base_url, "narrative", "quick", horizon=130, gpus="none",
            concurrency=4,
        )  # fmt: skip
        params = {"repetition_penalty": ["1.0", "1.1"]}
        progress = Leaving()
        progress.leave, progress.stages = leave, []
        found = asyncio.run(run_sweep(settings, params, store, progress)).sweep
        control = found.control
        assert control is not None
        assert not control.confirms
        assert found.cells[0].failed > 10 * sum(control.kinds.values())
        assert control.n == found.cells[0].generations
        loads = differing_loads(found.cells)
        assert loads == (found.cells[1], found.cells[0])
        out = io.StringIO()
        print_sweep(Console(file=out, width=300), found)
        assert re.search(
            r"about \d+ with repetition_penalty 1\.0 and 0 with repetition_penalty 1\.1", out.getvalue()
        )
        assert "is not known" in found.answers[0]
        assert progress.stages[0] == "control: 8 prompts of the first cell again"
        progress.stages.clear()
        assert asyncio.run(run_sweep(settings, params, store, progress)).sweep == found
        assert progress.stages == []


def test_a_sweep_without_parameters_is_refused() -> None:
    """Nothing to sweep is no sweep."""
    assert command("sweep", "--lang", "it")[0] == ExitCode.USAGE
    assert command("sweep", "--lang", "it", "--param", "temperature")[0] == ExitCode.USAGE


async def stopped_in_the_control(
    settings: RunSettings, params: Mapping[str, Sequence[str]], store: Store
) -> None:
    """Stops at the first answer of the control."""
    stop = asyncio.Event()

    class InTheControl(Progress):
        control = False

        def measuring(self, what: str, total: int, cuts: Mapping[str, int] | None = None) -> None:
            self.control = True

        def event(self, event: GenerationEvent) -> None:
            if self.control and isinstance(event, GenerationFinished):
                stop.set()

    found = await run_sweep(settings, params, store, InTheControl(), stop=stop)
    assert found.interrupted
    assert len(found.sweep.cells) == 2
    assert not found.sweep.complete
    assert found.sweep.control is None


@pytest.mark.simulated
def test_a_sweep_goes_on_where_it_was_stopped_and_is_kept_as_a_document(tmp_path: Path) -> None:
    """Stopped in its second cell: the first is taken as it is, the second goes on, one document holds both;
    the same sweep again sends nothing, another decoding is measured."""
    file = tmp_path / "loops.toml"
    file.write_text(LOOPS, encoding="utf-8")
    params = {"repetition_penalty": ["1.0", "1.1"]}
    with served(load_scenario(str(file))) as running, open_store(str(tmp_path / "s.sqlite3")) as store:
        settings = RunSettings(
            Subject("", "narrative", "it"), running.base_url, "narrative", "quick", horizon=130, gpus="none",
            concurrency=4,
        )  # fmt: skip

        async def stopped() -> None:
            stop = asyncio.Event()

            class InTheSecond(Progress):
                """Stops at the first answer of the second campaign."""

                campaigns = 0

                def started(self, run_id: str, settings: RunSettings, profile: EndpointProfile) -> None:
                    self.campaigns += 1

                def event(self, event: GenerationEvent) -> None:
                    if self.campaigns == 2 and isinstance(event, GenerationFinished):
                        stop.set()

            found = await run_sweep(settings, params, store, InTheSecond(), stop=stop)
            assert found.interrupted
            assert [c.values for c in found.sweep.cells] == [{"repetition_penalty": "1.0"}]

        asyncio.run(stopped())
        [kept] = store.documents(DocumentKind.SWEEP)
        assert not kept.complete
        first = kept.runs
        asyncio.run(stopped_in_the_control(settings, params, store))
        second = store.documents(DocumentKind.SWEEP)[0]
        assert not second.complete
        assert [each.body["began"] for each in (kept, second)] == [
            list(first[:1]),
            [second.body["cells"][1]["run_id"]],
        ]
        asked = {g.key for g in store.arm_records(first[0])}
        assert 1 <= len(asked) < 8
        done = asyncio.run(run_sweep(settings, params, store, Progress())).sweep
        assert done.complete
        assert done.cells[0].run_id == first[0]
        assert done.cells[0].failed >= 30
        assert done.cells[1].failed == 0
        assert done.control is not None
        assert (done.control.n, done.control.confirms) == (8, True)
        assert "lies between 1 and 1.1" in done.answers[0]
        runs = store.runs()
        assert {r.id for r in runs} == {c.run_id for c in done.cells}
        assert all(r.status is RunStatus.DONE for r in runs)
        newest = store.documents(DocumentKind.SWEEP)[0]
        assert newest.complete
        assert newest.simulated
        assert newest.body == stored_document(done)
        assert list(newest.runs) == [c.run_id for c in done.cells]
        last = asyncio.run(run_sweep(settings, params, store, Progress()))
        again = last.sweep
        assert again.cells == done.cells
        assert [run.id for run in last.stored] == [cell.run_id for cell in done.cells]
        assert stored_words(last.stored, 2).startswith("2 of 2 cells are stored runs of 20")
        hot = replace(settings, decoding=Decoding(temperature=0.9))
        asyncio.run(run_sweep(hot, {"repetition_penalty": ["1.1"]}, store, Progress()))
        assert len(store.runs()) == 3
