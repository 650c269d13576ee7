"""`diagnose` end to end on the simulator: the plane, what is stored, and that a resume repeats nothing."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stresstest import __version__
from stresstest.campaign.campaign_setup import prepare_campaign
from stresstest.campaign.conclusion.conclude import conclude, find_run
from stresstest.campaign.execution.driver import drive
from stresstest.campaign.execution.events import GenerationEvent, GenerationFinished
from stresstest.campaign.progress import Progress
from stresstest.errors import UsageError
from stresstest.features.diagnose.workflow import (
    DiagnoseOptions,
    DiagnosisResult,
    _DiagnosisSession,
    diagnose,
)
from stresstest.model import (
    Basis,
    Decoding,
    Diagnosis,
    Generation,
    Job,
    Phase,
    Plane,
    Run,
    RunSettings,
    RunStatus,
    Subject,
    SymptomKind,
)
from stresstest.simulation.engine.scenario.file import load_scenario
from stresstest.simulation.server.start import RunningServer
from stresstest.store import open_store
from stresstest.store.repository import Store
from tests.support.other_clients import other_clients
from tests.support.reported_runs import campaign, result
from tests.support.simulated_servers import LOOPS_BELOW_1_1, served
from tests.support.stored_data import make_run

CONTEXT = """
name = "drifts"
[[hazard]]
symptom = "language_drift"
plane = "context"
onset = { distribution = "lognormal", median = 450, sigma = 0.05 }
"""
SYSTEM = """
name = "crowded"
[[hazard]]
symptom = "flooding"
plane = "system"
onset = { distribution = "lognormal", median = 200, sigma = 0.1 }
requires = { concurrency = ">2" }
"""
CROWDED = """
name = "crowded-by-others"
[[hazard]]
symptom = "loop"
plane = "system"
onset = { distribution = "lognormal", median = 150, sigma = 0.1 }
requires = { concurrency = ">8" }
"""
PROMPTS = 15

PLAIN = DiagnoseOptions(unmask=False, why=False, more_answers=0)


@contextmanager
def simulated(folder: Path, toml: str, *, speed: float = 0) -> Iterator[RunningServer]:
    """speed 0: as fast as possible, so that how many requests are really at once is a matter of chance."""
    file = folder / f"{tomllib.loads(toml)['name']}.toml"
    file.write_text(toml, encoding="utf-8")
    with served(load_scenario(str(file)), speed=speed) as running:
        yield running


def measured(
    store: Store,
    base_url: str,
    cap: int,
    *,
    prompts: int = PROMPTS,
    units: int = 20,
    ids: bool = True,
    concurrency: int = 8,
) -> str:
    """A finished run of a few certifying answers, without a whole campaign."""

    async def make() -> None:
        settings = RunSettings(
            Subject("sim", "narrative", "it"),
            base_url,
            "narrative",
            "quick",
            concurrency=concurrency,
            horizon=cap,
            gpus="none",
        )
        async with prepare_campaign(settings) as prepared:
            store.create_run(
                Run(
                    "r1",
                    settings,
                    prepared.profile,
                    RunStatus.DONE,
                    1000.0,
                    1001.0,
                    tool_version=__version__,
                    prompts_digest=prepared.prompts.digest(),
                )
            )
            jobs = [Job(Phase.CERTIFY, 1, i, units, i, i, cap) for i in range(prompts)]
            tasks = await prepared.task_factory().create_tasks(jobs)
            async for generation in drive(prepared.endpoint, tasks, concurrency=concurrency, abort=True):
                tokens = generation.tokens if ids else tuple(replace(t, id=None) for t in generation.tokens)
                store.add_generation("r1", replace(generation, tokens=tokens))

    asyncio.run(make())
    return "r1"


def found(store: Store, run_id: str, options: DiagnoseOptions = PLAIN, **more: Any) -> DiagnosisResult:
    progress = more.pop("progress", Progress())
    return asyncio.run(diagnose(run_id, store, progress, options=options, **more))


class Stopper(Progress):
    """Asks for a stop after so many finished generations."""

    def __init__(self, stop: Callable[[], None], after: int) -> None:
        self.stop = stop
        self.left = after
        self.keys: list[str] = []

    def event(self, event: GenerationEvent) -> None:
        if isinstance(event, GenerationFinished):
            self.keys.append(event.generation.key)
            self.left -= 1
            if self.left == 0:
                self.stop()


@pytest.fixture(scope="module")
def loops(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Store, str, DiagnosisResult, list[Generation]]]:
    """A decoding loop, diagnosed in two sessions: the first is stopped in the middle."""
    folder = tmp_path_factory.mktemp("loops")
    with simulated(folder, LOOPS_BELOW_1_1) as server, open_store(str(folder / "s.sqlite3")) as store:
        run_id = measured(store, server.base_url, 200)
        before = list(store.generations(run_id))

        async def stopped() -> DiagnosisResult:
            stop = asyncio.Event()
            progress = Stopper(stop.set, 20)
            return await diagnose(run_id, store, progress, options=PLAIN, stop=stop)

        first = asyncio.run(stopped())
        assert first.interrupted
        assert not first.diagnosis.complete
        kept = {g.key for g in store.arm_records(run_id)}
        assert len(kept) >= 20
        again = Stopper(lambda: None, 0)
        done = found(store, run_id, progress=again)
        assert not kept & set(again.keys)
        yield store, run_id, done, before


@pytest.mark.slow
def test_a_loop_that_a_penalty_clears_is_decoding(
    loops: tuple[Store, str, DiagnosisResult, list[Generation]],
) -> None:
    """The hidden truth: penalty 1.1 clears, 1.05 does not; the smallest that does is named."""
    _, run_id, done, _ = loops
    [link] = done.diagnosis.chain
    assert (link.plane, link.basis, link.symptom) == (Plane.DECODING, Basis.CONFIRMED, SymptomKind.LOOP)
    assert link.cleared_by == "repetition_penalty 1.1"
    assert link.cleared_decoding == Decoding(repetition_penalty=1.1)
    assert link.run_id == run_id
    rows = {arm.name: arm for arm in link.arms}
    assert list(rows) == ["unchanged", "alone", "penalty-1.05", "penalty-1.1"]
    assert rows["unchanged"].failed >= 13
    assert rows["penalty-1.05"].decided_early
    assert 1 <= rows["penalty-1.05"].failed <= rows["penalty-1.05"].n < PROMPTS
    assert rows["penalty-1.1"].failed == 0
    assert done.diagnosis.complete


@pytest.mark.slow
def test_a_diagnosis_is_no_part_of_what_the_run_measured(
    loops: tuple[Store, str, DiagnosisResult, list[Generation]],
) -> None:
    """Counts, threshold, tokens and the list of runs stay as they were; arms have a call of their own."""
    store, run_id, done, before = loops
    assert list(store.generations(run_id)) == before
    [row] = store.runs()
    assert row.generations == PROMPTS
    result = conclude(store, run_id)
    assert result.tokens_spent == sum(g.output_tokens for g in before)
    arms = store.arm_records(run_id)
    assert {g.job.phase for g in arms} == {Phase.DIAGNOSE}
    assert done.diagnosis.arm_tokens >= sum(g.output_tokens for g in arms)
    assert len({g.key for g in arms}) == len(arms)


@pytest.mark.slow
def test_a_finished_diagnosis_sends_nothing(
    loops: tuple[Store, str, DiagnosisResult, list[Generation]],
) -> None:
    """It comes back from the store as it was, without a server."""
    store, run_id, done, _ = loops
    assert found(store, run_id, base_url="http://127.0.0.1:9/v1").diagnosis == done.diagnosis
    assert store.diagnosis(run_id) == done.diagnosis
    assert store.diagnosis("nope") is None


def test_what_was_confirmed_is_the_verdict_everywhere(
    loops: tuple[Store, str, DiagnosisResult, list[Generation]],
) -> None:
    """Judged again, and in what `recommend` reads, the run says what its diagnosis has shown; the diagnosis,
    made again from there, says the same."""
    store, run_id, done, _ = loops
    verdict = conclude(store, run_id).verdict
    assert (verdict.plane, verdict.basis) == (Plane.DECODING, Basis.CONFIRMED)
    assert "fail again; with repetition_penalty 1.1, none do " in verdict.sentence
    assert not any("To test" in line for line in verdict.advice)
    assert done.result.verdict == verdict
    [saved] = store.thresholds()
    assert saved.verdict == verdict
    store.save_diagnosis(replace(done.diagnosis, complete=False))
    again = found(store, run_id)
    [link], [before] = again.diagnosis.chain, done.diagnosis.chain
    assert (link.plane, link.basis, link.sentence) == (before.plane, before.basis, before.sentence)
    assert (link.kinds, link.cleared_decoding) == (before.kinds, before.cleared_decoding)
    assert again.result.verdict.sentence == verdict.sentence
    store.save_diagnosis(done.diagnosis)


@pytest.mark.simulated
def test_a_diagnosis_that_cannot_go_on_keeps_what_is_stored(tmp_path: Path) -> None:
    """Steps that were left out are asked for when the server is gone: a confirmed cause was no longer tested.
    The same for one that was interrupted behind its first link."""
    further = replace(PLAIN, unmask=True)
    with open_store(str(tmp_path / "s.sqlite3")) as store:
        with simulated(tmp_path, LOOPS_BELOW_1_1) as server:
            run_id = measured(store, server.base_url, 200)
            known = found(store, run_id).diagnosis
            assert known.complete
        for stored in (known, replace(known, complete=False)):
            store.save_diagnosis(stored)
            done = found(store, run_id, further)
            assert done.error is not None
            assert done.diagnosis == stored == store.diagnosis(run_id)
            assert conclude(store, run_id).verdict.basis is Basis.CONFIRMED


@pytest.mark.simulated
def test_a_finished_diagnosis_goes_on_with_what_it_left_out(tmp_path: Path) -> None:
    """`--arms system`, then others: it was already diagnosed, and nothing was sent; the same after --no-why.
    What was answered is not requested again, and what was asked for before stays."""
    system = replace(PLAIN, planes=(Plane.SYSTEM,))
    with simulated(tmp_path, LOOPS_BELOW_1_1) as server, open_store(str(tmp_path / "s.sqlite3")) as store:
        run_id = measured(store, server.base_url, 200)
        first = found(store, run_id, system).diagnosis
        assert first.lacking
        assert first.planes == (Plane.SYSTEM,)
        kept = {g.key for g in store.arm_records(run_id)}
        again = Stopper(lambda: None, 0)
        second = found(store, run_id, replace(PLAIN, planes=(Plane.DECODING,)), progress=again).diagnosis
        assert not kept & set(again.keys)
        assert second.planes == (Plane.SYSTEM, Plane.DECODING)
        [link] = second.chain
        assert link.plane is Plane.DECODING
        assert [arm.name for arm in link.arms][:2] == ["unchanged", "alone"]
        assert not link.ablations
        explained = found(store, run_id, replace(PLAIN, why=True)).diagnosis
        assert explained.chain[0].ablations
        quiet = Stopper(lambda: None, 0)
        for options in (PLAIN, system, replace(PLAIN, why=True)):
            assert found(store, run_id, options, progress=quiet).diagnosis == explained
        assert quiet.keys == []


@pytest.mark.simulated
@pytest.mark.parametrize("symptom", ["language_drift", "structure_break"])
def test_a_limit_in_the_context_is_context_and_its_split_is_tried(tmp_path: Path, symptom: str) -> None:
    """No decoding clears, a short context does; why and remedy are measured, not asserted. Whether structure
    matters is not, where the structure is what breaks: in open text that could not be seen."""
    toml = CONTEXT.replace("language_drift", symptom)
    with simulated(tmp_path, toml) as server, open_store(str(tmp_path / "s.sqlite3")) as store:
        run_id = measured(store, server.base_url, 640, prompts=11, units=12)
        options = DiagnoseOptions(planes=(Plane.CONTEXT,))
        done = found(store, run_id, options)
        [link] = done.diagnosis.chain
        assert (link.plane, link.basis) == (Plane.CONTEXT, Basis.CONFIRMED)
        assert link.arms[-1].name == "last-units"
        assert link.arms[-1].failed == 0
        assert link.why is not None
        blind = symptom == "structure_break"
        assert [a.name for a in link.ablations] == ["open structure", "twice the length"][blind:]
        assert any("was not measured" in note for note in link.notes) is blind
        assert link.remedy is not None
        assert link.remedy.failed == 0
        assert link.remedy.units == 12
        assert "is tested" not in link.remedy.sentence
        assert "only tried: none of 4" in link.remedy.sentence
        assert store.diagnosis(run_id) == done.diagnosis


@pytest.mark.simulated
def test_a_failure_of_crowds_alone_is_system(tmp_path: Path) -> None:
    """Alone the same answers stay healthy, at the run's load they fail again."""
    with simulated(tmp_path, SYSTEM, speed=15) as server, open_store(str(tmp_path / "s.sqlite3")) as store:
        # More prompts than the test needs: the last of a sample run in a thinner crowd. At twice the speed it
        # is thin all along: answers end before the client has sent the next.
        run_id = measured(store, server.base_url, 400, prompts=30)
        [link] = found(store, run_id).diagnosis.chain
        assert (link.plane, link.basis) == (Plane.SYSTEM, Basis.CONFIRMED)
        assert [arm.name for arm in link.arms] == ["unchanged", "alone"]


@pytest.mark.simulated
def test_what_other_clients_cause_is_not_taken_for_decoding(tmp_path: Path) -> None:
    """Others' load causes a loop and ends at the first penalty: under it all forks stay healthy, and so do
    those that are continued unchanged beside them. Once a penalty was confirmed that changes nothing."""

    class Leaving(Progress):
        leave: Callable[[], None]
        stages: list[str]

        def measuring(self, what: str, total: int, cuts: Mapping[str, int] | None = None) -> None:
            self.stages.append(what)
            if what.startswith("penalty"):
                self.leave()

    with (
        simulated(tmp_path, CROWDED, speed=15) as server,
        open_store(str(tmp_path / "s.sqlite3")) as store,
        other_clients(server.base_url, 8) as leave,
    ):
        run_id = measured(store, server.base_url, 300, prompts=20, concurrency=4)
        progress = Leaving()
        progress.leave, progress.stages = leave, []
        [link] = found(store, run_id, progress=progress).diagnosis.chain
    assert link.plane is None
    assert "none of 8 failed again" in (link.lacking or "")
    [unchanged, alone, penalty] = link.arms
    assert (penalty.n, penalty.failed, penalty.clears) == (16, 0, False)
    assert (penalty.control_n, penalty.control_failed) == (16, 0)
    assert penalty.p < 1e-4
    assert unchanged.failed == 16
    assert alone.failed == alone.n
    assert (
        "16 controls in between: unchanged or with repetition_penalty 1 (the usual default)"
        in progress.stages[-1]
    )


@pytest.mark.simulated
def test_without_token_ids_the_prompts_are_asked_anew_and_that_is_said(tmp_path: Path) -> None:
    """Fewer measurements on a plain server, never a silent guess: no context arm, and a note."""
    late = LOOPS_BELOW_1_1.replace("median = 80", "median = 140")
    with simulated(tmp_path, late) as server, open_store(str(tmp_path / "s.sqlite3")) as store:
        run_id = measured(store, server.base_url, 310, ids=False)
        [link] = found(store, run_id, replace(PLAIN, planes=(Plane.DECODING, Plane.CONTEXT))).diagnosis.chain
        assert link.from_scratch
        assert link.plane is Plane.DECODING
        assert link.cleared_by == "repetition_penalty 1.1"
        assert any("sent again instead" in note for note in link.notes)
        assert {arm.plane for arm in link.arms} == {None, Plane.DECODING}


def test_a_part_of_a_diagnosis_is_its_run(tmp_path: Path) -> None:
    """`latest` after a diagnosis is the run that a person began, not the campaign that unmasked."""
    with open_store(str(tmp_path / "s.sqlite3")) as store:
        store.create_run(make_run("r1", created=1.0))
        child = make_run("r2", created=2.0)
        store.create_run(replace(child, settings=replace(child.settings, parent="r1")))
        assert find_run(store, "latest").id == "r1"
        with pytest.raises(UsageError, match="nope"):
            store.save_diagnosis(Diagnosis("nope", ()))


@pytest.mark.simulated
def test_a_budget_ends_a_diagnosis_in_good_order_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    """Nothing more is begun once it is spent, what was answered is kept and not asked again."""
    with simulated(tmp_path, LOOPS_BELOW_1_1) as server, open_store(str(tmp_path / "s.sqlite3")) as store:
        run_id = measured(store, server.base_url, 200)
        only = replace(PLAIN, planes=(Plane.DECODING,))
        cut = found(store, run_id, replace(only, budget_tokens=1_500))
        assert cut.over_budget
        assert not cut.diagnosis.complete
        kept = store.arm_records(run_id)
        longest = max(g.output_tokens for g in kept)
        assert 1_500 <= cut.diagnosis.arm_tokens <= 1_500 + 8 * longest
        again = Stopper(lambda: None, 0)
        done = found(store, run_id, replace(only, budget_tokens=100_000), progress=again)
        assert not done.over_budget
        assert done.diagnosis.chain[0].cleared_by == "repetition_penalty 1.1"
        assert not {g.key for g in kept} & set(again.keys)


@pytest.mark.slow
def test_without_a_budget_too_few_failing_prompts_are_an_answer(tmp_path: Path) -> None:
    """Nine prompts decide nothing. How many are there, how many it takes and the option that adds them are
    said, and nothing is sent."""
    with simulated(tmp_path, LOOPS_BELOW_1_1) as server, open_store(str(tmp_path / "s.sqlite3")) as store:
        run_id = measured(store, server.base_url, 200, prompts=9)
        few = found(store, run_id, replace(PLAIN, planes=(Plane.DECODING,))).diagnosis
        assert few.complete
        [link] = few.chain
        assert link.lacking == (
            "14 failing prompts are needed, 9 are there; no answers were added; --more-answers 1 would "
            "allow it"
        )
        assert link.arms == ()
        assert store.arm_records(run_id) == []
        assert few.added_budget == 0


@pytest.mark.simulated
def test_a_diagnosis_measures_on_until_the_test_has_its_failing_prompts(tmp_path: Path) -> None:
    """By default, and within the stated budget. One that is too small is not spent; a larger one opens the
    diagnosis again. The run's sample stays as it was, and no arm begins before all forks are there."""
    with simulated(tmp_path, LOOPS_BELOW_1_1) as server, open_store(str(tmp_path / "s.sqlite3")) as store:
        run_id = measured(store, server.base_url, 200, prompts=9)
        before = list(store.generations(run_id))
        run_tokens = sum(g.output_tokens for g in before)
        only = DiagnoseOptions(planes=(Plane.DECODING,), unmask=False, why=False)
        dear = found(store, run_id, replace(only, more_answers=0.1)).diagnosis
        assert dear.added_answers == 0
        assert "more than the budget" in str(dear.chain[0].lacking)

        watched = Stopper(lambda: None, 0)
        done = found(store, run_id, only, progress=watched).diagnosis
        [link] = done.chain
        assert (link.plane, link.cleared_by, link.n) == (Plane.DECODING, "repetition_penalty 1.1", 24)
        assert list(store.generations(run_id)) == before
        extra = [g for g in store.arm_records(run_id) if g.job.arm == "more-failing"]
        assert len(extra) == done.added_answers >= 15
        assert not {g.prompt_id for g in extra} & {g.prompt_id for g in before}
        assert sum(g.output_tokens for g in extra) <= done.added_tokens <= done.added_budget == 3 * run_tokens
        assert set(watched.keys[: len(extra)]) == {g.key for g in extra}


@pytest.mark.simulated
def test_measuring_on_is_interrupted_and_goes_on(tmp_path: Path) -> None:
    """Ctrl-C keeps what was added; the same command asks for the rest only."""
    rare = LOOPS_BELOW_1_1.replace("[[hazard]]", "[[hazard]]\nprobability = 0.5")
    with simulated(tmp_path, rare) as server, open_store(str(tmp_path / "s.sqlite3")) as store:
        run_id = measured(store, server.base_url, 200, prompts=16)
        only = DiagnoseOptions(planes=(Plane.DECODING,), unmask=False, why=False)

        async def stopped() -> DiagnosisResult:
            stop = asyncio.Event()
            return await diagnose(run_id, store, Stopper(stop.set, 3), options=only, stop=stop)

        first = asyncio.run(stopped())
        assert first.interrupted
        kept = {g.key for g in store.arm_records(run_id)}
        assert len(kept) >= 3
        again = Stopper(lambda: None, 0)
        done = found(store, run_id, only, progress=again).diagnosis
        assert not kept & set(again.keys)
        assert done.chain[0].n == 24
        assert done.added_answers >= 24 - 16


@pytest.mark.simulated
def test_no_stage_of_a_diagnosis_ends_more_answers_than_it_announced(tmp_path: Path) -> None:
    """Replays that only keep up the load count too: a run with more requests in flight than forks once showed
    "21/16"."""

    class Counter(Progress):
        left = 0

        def measuring(self, what: str, total: int, cuts: Mapping[str, int] | None = None) -> None:
            self.left = total

        def event(self, event: GenerationEvent) -> None:
            if isinstance(event, GenerationFinished):
                self.left -= 1
                assert self.left >= 0

    with simulated(tmp_path, SYSTEM, speed=15) as server, open_store(str(tmp_path / "s.sqlite3")) as store:
        run_id = measured(store, server.base_url, 400, prompts=30, concurrency=24)
        assert found(store, run_id, progress=Counter()).diagnosis.chain


@pytest.mark.parametrize(
    ("own", "held", "concurrency", "expected"), [(8, None, 1, 1), (8, None, 8, None), (1, 1, 1, 1)]
)
def test_what_is_measured_with_a_smaller_load_holds_for_it(
    own: int, held: int | None, concurrency: int, expected: int | None, tmp_path: Path
) -> None:
    """Of the diagnosis of a run that a diagnosis had begun with one request at a time, too: its own child had
    forgotten it, and 2,188 was a limit for any load."""
    made = make_run("r1")
    made = replace(made, settings=replace(made.settings, concurrency=own, holds_up_to=held))
    with open_store(str(tmp_path / "s.sqlite3")) as store:
        session = _DiagnosisSession(
            replace(result(campaign(22)), run=made),
            store,
            Progress(),
            DiagnoseOptions(),
            None,
            None,
            asyncio.Event(),
        )
        child = session._child_settings(made.settings, made.settings.decoding, concurrency)
    assert (child.concurrency, child.holds_up_to, child.parent) == (concurrency, expected, "r1")
