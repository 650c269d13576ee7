"""The gate's wrong passes: another server's run, a fresh baseline that is broken, a baseline that is missing,
a margin or horizon that is not the one asked for."""

from __future__ import annotations

import asyncio
import io
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from stresstest import clock
from stresstest.campaign.conclusion.conclude import conclude
from stresstest.campaign.progress import Progress
from stresstest.campaign.prompt_source import load_prompt_source
from stresstest.campaign.refusals import rejected_run_ids
from stresstest.errors import ExitCode, UsageError
from stresstest.features.check.output.test_cases import gate_suites
from stresstest.features.check.project.baseline import find_cell_baseline
from stresstest.features.check.project.cells import cell_key
from stresstest.features.check.project.console import print_gate
from stresstest.features.check.project.document import gate_document
from stresstest.features.check.project.markdown import gate_markdown
from stresstest.features.check.project.wording import budget_reasons, comparison_remarks
from stresstest.features.check.project.workflow import check_project
from stresstest.features.check.sides.campaign_match import find_matching_run, is_same_horizon, is_same_server
from stresstest.features.check.sides.footing import merge_looks
from stresstest.features.check.sides.sample import sample_of_run
from stresstest.model import (
    CheckVerdict,
    Comparison,
    ComparisonSide,
    Decoding,
    DocumentKind,
    PlaneVerdict,
    RunSettings,
    RunStatus,
    Threshold,
)
from stresstest.model.comparison import (
    Budget,
    BudgetName,
    CellPlan,
    GateOutcome,
    Project,
    ProjectGate,
    Severity,
)
from stresstest.render.text import certified_sentence
from stresstest.statistics.budgets import CellMeasurement, judge_budget
from stresstest.store import open_store
from stresstest.store.repository import Store
from tests.support.checked_runs import N, T, check, sample, stored
from tests.support.fake_campaign import Behaviour, campaign_server
from tests.support.fake_vllm import page
from tests.support.stored_data import SUBJECT, make_generation, make_run

HERE = "http://localhost:8000/v1"
ELSEWHERE = "http://127.0.0.1:9/v1"
"""Nothing answers there: that it was asked is seen by the trouble."""
WANTED = RunSettings(SUBJECT, HERE, "narrative", rigor="quick", decoding=Decoding(temperature=0.7, top_k=20))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written once; every test gets a copy."""
    path = tmp_path_factory.mktemp("measured") / "s.sqlite3"
    stored(str(path), "base", sample(0))
    stored(str(path), "good", sample(0), created=clock.now())
    stored(str(path), "bad", sample(12), created=900.0)
    return path


@pytest.fixture
def path(measured: Path, tmp_path: Path) -> str:
    """A store with an old baseline and a later good run, certified to 800, and one that half loops."""
    return str(shutil.copy(measured, tmp_path / "s.sqlite3"))


def compared_at(alpha: float) -> Comparison:
    """A comparison whose baseline was certified for this risk."""
    side = ComparisonSide("run base", SUBJECT)
    return Comparison(side, side, 2000, alpha, alpha, CheckVerdict.PASS)


def gate(path: str, *budgets: Budget, settings: RunSettings = WANTED, **project: Any) -> ProjectGate:
    """What a project of one cell comes to; stored runs count for an hour, and no server is there."""
    project.setdefault("reuse", 3600.0)
    plan = CellPlan("lab", "narrative", "it", "default", settings.decoding, budgets)
    cells = project.pop("cells", (plan,))
    with open_store(path) as opened:
        asked = Project(cells, **project)
        return asyncio.run(check_project(asked, settings, opened, Progress())).gate


def test_a_cell_without_budgets_does_not_pass_uncompared(tmp_path: Path) -> None:
    """A named baseline that certified nothing: it passed with "baseline: none" and no other word."""
    store = str(tmp_path / "s.sqlite3")
    stored(store, "base", sample(0, 12), created=clock.now() - 4000)
    stored(store, "cand", sample(12), created=clock.now())
    [cell] = gate(store, baseline="base").cells
    why = "the baseline base has no certified threshold with room for an answer"
    assert (cell.outcome, budget_reasons(cell)) == (
        GateOutcome.INCONCLUSIVE,
        [(GateOutcome.INCONCLUSIVE, why)],
    )
    [cell] = gate(store, Budget(BudgetName.MIN_SAFE_TOKENS, 200), baseline="base").cells
    assert cell.outcome is GateOutcome.PASS
    assert (GateOutcome.WARNING, f"not compared with the baseline: {why}") in budget_reasons(cell)


@pytest.mark.slow
def test_what_no_budget_tells_of_the_baseline_is_a_warning(tmp_path: Path) -> None:
    """A fall of the limit and a risk that is undecided were told by nobody where no budget asks for them."""
    store = str(tmp_path / "s.sqlite3")
    stored(store, "base", sample(0), created=clock.now() - 4000)
    stored(store, "cand", sample(4, onset=500), created=clock.now())
    [cell] = gate(store).cells
    told = [sentence for outcome, sentence in budget_reasons(cell) if outcome is GateOutcome.WARNING]
    assert cell.outcome is GateOutcome.PASS
    assert any(each.startswith("against the baseline, 4 of 24") for each in told)
    assert any(each.startswith("the safe max_tokens fell from 720 to") for each in told)
    [cell] = gate(store, Budget(BudgetName.MAX_DROP, 0.1, Severity.WARN)).cells
    assert sum("fell" in sentence for _, sentence in budget_reasons(cell)) == 1


@pytest.mark.slow
def test_a_run_of_another_server_never_answers_for_the_one_asked(path: str) -> None:
    """A model's name may be served anywhere: with --base-url only a run from there will do."""
    words = ("--baseline", "base", "--candidate", "lab", "--base-url")
    code, document, _ = check(path, *words, ELSEWHERE)
    assert code == ExitCode.ENDPOINT, "it was asked, and not answered from the store"
    assert document.get("verdict") != "pass"
    code, document, _ = check(path, *words, "http://user:secret@localhost:8000/v1/")
    assert (code, document["candidate"]["run_ids"]) == (ExitCode.DONE, ["good"])
    code, document, _ = check(path, "--baseline", "base", "--candidate", "good", "--base-url", ELSEWHERE)
    assert code == ExitCode.DONE
    assert any("the address given now was not used" in note for note in document["notes"])


def test_what_is_asked_of_the_candidate_is_asked_of_a_stored_run_too(path: str) -> None:
    """--temperature or --horizon with a model's name: a stored run without them is not what was asked for."""
    words = ("--baseline", "base", "--candidate", "lab")
    for option in (("--concurrency", "2"), ("--horizon", "300"), ("--rigor", "standard")):
        code, _, err = check(path, *words, *option)
        assert code == ExitCode.ENDPOINT, err
    code, _, err = check(path, *words, "--temperature", "0.1")
    assert code == ExitCode.USAGE
    assert "decoding was temperature 0.7, is temperature 0.1" in err


def test_a_second_look_is_at_the_same_server(path: str) -> None:
    """--extend at another address, or after what answers has changed, would mix two models in one sample."""
    stored(path, "newer", sample(0), created=3000.0, version="0.33.0")
    words = ("--baseline", "base", "--candidate", "good", "--extend", "--base-url", ELSEWHERE)
    code, _, err = check(path, *words)
    assert code == ExitCode.USAGE
    assert "would mix two servers" in err
    with open_store(path) as store:
        first, same, other = (sample_of_run(store, name) for name in ("good", "base", "newer"))
    assert merge_looks(first, same).lacking is None
    assert "vLLM version was 0.32.0, is 0.33.0" in str(merge_looks(first, other).lacking)


@pytest.mark.parametrize("status", [RunStatus.DONE, RunStatus.INTERRUPTED])
@pytest.mark.parametrize(
    "another",
    [{"base_url": ELSEWHERE}, {"horizon": 8000}, {"concurrency": 1}, {"rigor": "strict"}, {"seed": 7}],
)
def test_a_run_is_gone_on_with_only_as_the_same_measurement(
    store: Store, status: RunStatus, another: dict[str, Any]
) -> None:
    """Reused or resumed under another address, horizon or concurrency it would be two things in one."""
    run = make_run()
    asked = replace(run.settings, horizon=1500)
    store.create_run(replace(run, status=status, settings=asked))
    done = status is RunStatus.DONE
    assert find_matching_run(store, asked, done=done) is not None
    assert find_matching_run(store, asked, done=not done) is None
    assert find_matching_run(store, replace(asked, **another), done=done) is None


@pytest.mark.parametrize("status", [RunStatus.DONE, RunStatus.INTERRUPTED])
def test_a_run_of_other_prompts_is_another_measurement(
    store: Store, status: RunStatus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompts file that was edited keeps its name: its text decides what is reused or gone on with."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt": "Write a story."}\n{"prompt": "Write a poem."}\n', encoding="utf-8")
    asked = replace(WANTED, prompts_file="p.jsonl")
    digest, key = load_prompt_source(asked).digest(), cell_key(asked)
    store.create_run(replace(make_run(), status=status, settings=asked, prompts_digest=digest))
    done = status is RunStatus.DONE
    assert find_matching_run(store, asked, done=done) is not None
    assert cell_key(asked) == key
    file.write_text('{"prompt": "Write a story."}\n{"prompt": "Write a song."}\n', encoding="utf-8")
    assert find_matching_run(store, asked, done=done) is None
    assert cell_key(asked) != key


def test_a_horizon_that_the_context_cut_is_the_one_asked_for(store: Store) -> None:
    """Asked for 8,000 where 1,024 fit, a run keeps what fitted: asked so again, it is the same."""
    prompt = make_generation().prompt_tokens or 0
    run = make_run()
    profile = replace(run.profile, max_model_len=1024, tokenize=True)
    for name, horizon in (("cut", 1024 - prompt - 16 - 3), ("asked", 500), ("empty", 980)):
        settings = replace(run.settings, horizon=horizon)
        store.create_run(replace(run, id=name, settings=settings, profile=profile))
        if name != "empty":
            store.add_generation(name, make_generation())
    for name, wanted, same in (
        ("cut", 8000, True),
        ("cut", None, True),
        ("cut", 900, False),
        ("asked", 500, True),
        ("asked", 8000, False),
        ("empty", 8000, False),
    ):
        assert is_same_horizon(store, store.run(name), wanted) is same, (name, wanted)


def test_an_address_is_compared_as_it_is_sent_to() -> None:
    """No slash, credentials or query make another server; a port does, and so does a run begun elsewhere."""
    run = make_run()
    for url in (HERE, HERE + "/", "http://u:p@localhost:8000/v1?x=1", "http://localhost:8000"):
        assert is_same_server(run, url)
    for url in (ELSEWHERE, "http://localhost:8001/v1", "https://localhost:8000/v1", "nothing"):
        assert not is_same_server(run, url)
    moved = replace(run, settings=replace(run.settings, base_url=ELSEWHERE))
    assert not is_same_server(moved, ELSEWHERE)


def test_the_candidate_is_no_fresh_baseline(path: str) -> None:
    """Against itself a broken model differs by nothing: +0.0 % would pass."""
    code, document, err = check(path, "--baseline", "base", "--fresh-baseline", "bad", "--candidate", "bad")
    assert (code, document) == (ExitCode.USAGE, {})
    assert "compared with itself, it shows no difference" in err


def test_a_fresh_baseline_that_breaks_its_own_threshold_lets_nothing_pass(path: str) -> None:
    """Both half broken: no difference, and no pass. Neither run is a baseline of a later check."""
    stored(path, "next", sample(12), created=2000.0)
    words = ("--baseline", "base", "--fresh-baseline", "bad", "--candidate")
    code, document, _ = check(path, *words, "next", "--max-increase", "30%")
    assert (code, document["verdict"], document["method"]) == (ExitCode.INCONCLUSIVE, "inconclusive", "tango")
    assert document["difference"] == 0.0
    assert "no longer meets its own T = 800 tokens" in document["lacking"]
    assert f"12 of {N} at risk" in document["lacking"]
    with open_store(path) as store:
        assert rejected_run_ids(store) == rejected_run_ids(store, inconclusive=False) == {"next", "bad"}
    stored(path, "all", sample(24), created=2500.0)
    code, document, _ = check(path, *words, "all")
    assert code == ExitCode.REGRESSION, "worse than a broken one is worse"


def test_the_newest_judgement_of_a_run_decides(path: str) -> None:
    """A project let a run pass by its budgets, and a later check of two refused it: it was a baseline by any
    name, and the next bad candidate passed. A project that accepts it after that decides again."""

    def accept() -> None:
        body = {"cells": [{"run_id": "bad", "outcome": "pass"}]}
        with open_store(path) as opened:
            opened.save_document(DocumentKind.CHECK, body, runs=["bad"])

    accept()
    code, _, _ = check(path, "--baseline", "base", "--candidate", "bad")
    assert code == ExitCode.REGRESSION
    with open_store(path) as opened:
        assert rejected_run_ids(opened) == {"bad"}
    code, _, err = check(path, "--baseline", "bad", "--candidate", "good")
    assert (code, "a check found that it regressed" in err) == (ExitCode.USAGE, True)
    accept()
    with open_store(path) as opened:
        assert rejected_run_ids(opened) == set()


def test_each_refusal_stands_until_who_refused_passes_the_run(path: str) -> None:
    """A project refused a run against a good baseline. A check against an older, worse one passed it, and it
    was the next project's baseline: the regression passed as an improvement. A project that has nothing to
    compare with lifts nothing."""
    stored(path, "old", sample(12), created=500.0)

    def judge(**more: object) -> set[str]:
        with open_store(path) as opened:
            opened.save_document(DocumentKind.CHECK, more, runs=["bad"])
            return rejected_run_ids(opened)

    def compared(baseline: str, verdict: str) -> set[str]:
        return judge(baseline={"run_ids": [baseline]}, candidate={"run_ids": ["bad"]}, verdict=verdict)

    def gated(outcome: str) -> set[str]:
        return judge(cells=[{"run_id": "bad", "outcome": outcome}])

    assert compared("base", "regression") == gated("breach") == {"bad"}
    assert compared("old", "pass") == compared("base", "pass") == gated("untested") == {"bad"}
    assert gated("warning") == set()
    assert compared("base", "regression") == compared("old", "regression") == {"bad"}
    assert compared("old", "pass") == {"bad"}, "the other's stands"
    assert compared("base", "pass") == set()


def test_a_fresh_baseline_is_of_the_same_model_files(path: str) -> None:
    """Another folder of weights is not a second run of the baseline; another server's version is told."""
    stored(path, "quantized", sample(0), created=1600.0, root="/models/lab-AWQ")
    stored(path, "upgraded", sample(0), created=1700.0, version="0.33.0")
    words = ("--baseline", "base", "--candidate", "good", "--max-increase", "15%", "--fresh-baseline")
    code, _, err = check(path, *words, "quantized")
    assert code == ExitCode.USAGE
    assert "not a second run of the baseline: quantization" in err
    code, document, _ = check(path, *words, "upgraded")
    assert code == ExitCode.DONE
    told = {"name": "fresh baseline, vLLM version", "before": "0.32.0", "after": "0.33.0", "allowed": False}
    assert told in document["changed"]


def test_a_project_measures_a_cell_at_its_own_address(path: str) -> None:
    """`reuse` lets a run of the cell count, not one of the same name elsewhere: two addresses, two cells."""
    plans = tuple(
        CellPlan("lab", "narrative", "it", "d", WANTED.decoding, base_url=url) for url in (None, ELSEWHERE)
    )
    found = gate(path, cells=plans)
    assert [cell.outcome for cell in found.cells] == [GateOutcome.PASS, GateOutcome.TROUBLE]
    assert [cell.run_id for cell in found.cells] == ["good", None]
    assert ELSEWHERE in gate_markdown(found).replace("\\", "")
    found = gate(path, settings=replace(WANTED, horizon=8000))
    assert found.outcome is GateOutcome.TROUBLE, "another horizon is another measurement"


def test_a_model_that_is_not_named_is_measured_anew(path: str) -> None:
    """The server may serve another one since: a gate passed for a model that nobody had asked."""
    plan = CellPlan("", "narrative", "it", "d", WANTED.decoding)
    [cell] = gate(path, cells=(plan,)).cells
    assert (cell.outcome, cell.run_id) == (GateOutcome.TROUBLE, None)


@pytest.mark.slow
def test_a_cell_whose_server_was_replaced_is_measured_anew(tmp_path: Path) -> None:
    """A check ends with another server down, new weights are deployed, the job is started again: it passed
    with the run of the old weights."""
    path = str(tmp_path / "s.sqlite3")
    with campaign_server(Behaviour(fault=lambda _: page({}, 500))) as (fake, _):
        here = replace(WANTED, base_url=fake.url)
        run = make_run("good", created=clock.now())
        settings = replace(here, subject=run.settings.subject)
        profile = replace(run.profile, base_url=fake.url, root="models/old", version=None)
        run = replace(run, settings=settings, profile=profile, status=RunStatus.DONE)
        with open_store(path) as opened:
            opened.create_run(run)
            for generation in sample(0):
                opened.add_generation("good", generation)
            result = conclude(opened, "good")
            opened.save_threshold("good", result.threshold, result.safe_max_tokens, result.verdict)
        found = {}
        for root in ("models/old", "models/new"):
            fake.pages["/v1/models"] = page({"data": [{"id": "lab", "root": root}]})
            [found[root]] = gate(path, settings=here).cells
    assert (found["models/old"].run_id, found["models/old"].reused) == ("good", True)
    assert "may serve other weights now" in found["models/old"].notes[-1]
    assert (found["models/new"].outcome, found["models/new"].reused) == (GateOutcome.TROUBLE, False)


def test_cells_that_differ_by_address_alone_have_their_own_previous(store: Store) -> None:
    """Else the first cell's run, of another server, would be the second's baseline in the same check."""
    saved = Threshold(0.05, 0.95, 2000, 124, 0, 0.02, certified=True)
    for name, created, url in (("here", 100.0, HERE), ("there", 200.0, ELSEWHERE)):
        run = make_run(name, created=created)
        settings, profile = replace(run.settings, base_url=url), replace(run.profile, base_url=url)
        store.create_run(replace(run, settings=settings, profile=profile, status=RunStatus.DONE))
        store.save_threshold(name, saved, 1800, PlaneVerdict(None, None, "Nothing fails."))
    candidate = make_run("new", created=300.0)
    assert [
        run and run.id
        for run, _ in (
            find_cell_baseline(store, candidate, "previous"),
            find_cell_baseline(store, candidate, "previous", same_address=True),
        )
    ] == ["there", "here"]


def test_the_margin_in_force_decides_and_not_the_stored_runs(path: str) -> None:
    """Runs made with 10 %: under a margin of one half both limits are 400, and 500 are not safe."""
    least = Budget(BudgetName.MIN_SAFE_TOKENS, 500)
    drop = Budget(BudgetName.MAX_DROP, 0.05)
    assert gate(path, least).outcome is GateOutcome.PASS
    (cell,) = gate(path, least, drop, settings=replace(WANTED, margin=0.5)).cells
    assert (cell.safe_max_tokens, cell.baseline_safe) == (T // 2, T // 2)
    assert [each.outcome for each in cell.budgets] == [GateOutcome.INCONCLUSIVE, GateOutcome.PASS]
    stored(path, "short", sample(0, reach=T - 100), created=clock.now() - 60)
    with open_store(path) as store:
        run = store.run("base")
        store.update_run("base", settings=replace(run.settings, margin=0.5))
    _, document, _ = check(path, "--baseline", "base", "--candidate", "short")
    assert document["baseline"]["safe_max_tokens"] == 400
    assert document["candidate"]["safe_max_tokens"] == 350, "less the same margin, or a fall is hidden"


@pytest.mark.slow
def test_without_budgets_a_regression_is_a_breach(path: str) -> None:
    """Something is certified for a model that half loops, too: the swap is found, and is no next baseline."""
    assert gate(path).outcome is GateOutcome.PASS
    stored(path, "worse", sample(12), created=clock.now() + 1)
    found = gate(path)
    (cell,) = found.cells
    assert (cell.run_id, cell.baseline, found.outcome) == ("worse", "good", GateOutcome.BREACH)
    [(outcome, reason), *_] = budget_reasons(cell)
    assert outcome is GateOutcome.BREACH
    assert reason.startswith("Regression: ")
    stored(path, "worst", sample(12), created=clock.now() + 2)
    assert gate(path).cells[0].baseline == "good"


def test_a_baseline_that_was_warned_about_is_noted(path: str) -> None:
    """A breach that only warns lets the run become the next baseline, which hid a certain regression."""
    warning = Budget(BudgetName.MAX_INCREASE, 0.02, Severity.WARN)
    stored(path, "worse", sample(12), created=clock.now() + 1)
    found = gate(path, warning)
    (cell,) = found.cells
    assert (cell.run_id, cell.baseline, found.outcome) == ("worse", "good", GateOutcome.WARNING)
    stored(path, "next", sample(12), created=clock.now() + 2)
    (cell,) = gate(path, replace(warning, level=Severity.ERROR)).cells
    assert (cell.baseline, cell.comparison is not None) == ("worse", True)
    noted = "the baseline was worse than its own, and that check only warned"
    assert any(noted in words for words in comparison_remarks(cell))
    assert noted in str(gate_document(ProjectGate((cell,))))


def test_a_named_baseline_that_is_not_there_is_an_error(path: str) -> None:
    """A typo would leave every comparison untested for ever, and the gate green: nothing is sent."""
    budgets = Budget(BudgetName.MAX_INCREASE, 0.02), Budget(BudgetName.MAX_DROP, 0.10)
    for typo in ("lab-typo", "20261101-000000-dead"):
        with pytest.raises(UsageError, match="neither a finished run nor a model") as caught:
            gate(path, *budgets, baseline=typo)
        assert "previous" in str(caught.value.hint)


@pytest.mark.slow
def test_a_named_baseline_without_a_threshold_lets_nothing_pass(path: str) -> None:
    """It is there and cannot be compared with: undecided. Only "previous" may find nothing yet."""
    budgets = Budget(BudgetName.MAX_INCREASE, 0.02), Budget(BudgetName.MAX_DROP, 0.10)
    stored(path, "thin", sample(0, n=15), created=1100.0)
    stored(path, "other", sample(0, n=15), created=1200.0, model="other")
    stored(path, "qa", sample(0), created=1300.0, task="qa")
    for named in ("thin", "other", "qa"):
        (cell,) = gate(path, *budgets, baseline=named).cells
        assert [each.outcome for each in cell.budgets] == [GateOutcome.INCONCLUSIVE] * 2, named
        assert cell.outcome is GateOutcome.INCONCLUSIVE
    (cell,) = gate(path, *budgets, baseline="base").cells
    assert cell.baseline == "base"
    assert cell.budgets[1].outcome is GateOutcome.PASS
    with open_store(path) as store:
        store.delete_run("base")
        store.delete_run("bad")
    (cell,) = gate(path, *budgets).cells
    assert {each.outcome for each in cell.budgets} == {GateOutcome.UNTESTED}


def test_a_fall_is_not_hidden_by_a_looser_rigor() -> None:
    """T at a risk of 10 % against T at 5 %: that it is no smaller shows nothing."""
    quick = Threshold(0.10, 0.90, 2000, 38, 0, 0.06, certified=True)
    comparison = compared_at(0.05)
    found = CellMeasurement(quick, 1800, [], baseline_safe=1800, comparison=comparison)
    budget = Budget(BudgetName.MAX_DROP, 0.10)
    assert judge_budget(budget, found).outcome is GateOutcome.INCONCLUSIVE
    same = replace(found, comparison=compared_at(0.10))
    assert judge_budget(budget, same).outcome is GateOutcome.PASS
    assert judge_budget(budget, replace(same, safe_max_tokens=900)).outcome is GateOutcome.BREACH


def test_every_budget_and_both_runs_are_named(path: str) -> None:
    """What is kept is listed too, with the run, its decoding and the baseline that it was compared with."""
    budgets = Budget(BudgetName.MIN_SAFE_TOKENS, 500), Budget(BudgetName.MAX_INCREASE, 0.10)
    found = gate(path, *budgets)
    assert found.outcome is GateOutcome.PASS
    out = io.StringIO()
    print_gate(Console(file=out, width=400), found)
    for text in (out.getvalue(), gate_markdown(found).replace("\\", "").replace("`", "")):
        assert "kept: " in text
        assert "min_safe_tokens: safe max_tokens 720, required at least 500" in text
        assert "allowed 20.0 %: 10.0 % that it was certified for, and an increase of 10.0 %" in text
        assert "run good, measured before; decoding: temperature 0.7" in text
        assert "baseline: run base (" in text
        assert "with 90 % confidence, at most 10 % of answers degenerate by then (" in text
    [outcome] = found.cells
    threshold = outcome.threshold
    assert threshold is not None
    said = certified_sentence(threshold)
    assert said in gate_markdown(found)
    assert f"{threshold.onsets or 'none'} of {threshold.n} in the sample" in said
    assert f"| {outcome.degenerate} of {outcome.generations} |" in gate_markdown(found)
    [suite] = gate_suites(found)
    limit, increase = suite.cases
    assert said in limit.message
    assert said not in increase.message  # its own sentence has the risk, for the baseline's T
    (cell,) = gate_document(found)["cells"]
    assert (cell["run_id"], cell["baseline"]) == ("good", "base")
    assert [each["outcome"] for each in cell["budgets"]] == ["pass", "pass"]
