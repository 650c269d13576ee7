"""`stresstest check` against the simulator: the candidate is measured when no run of it is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stresstest.campaign.provenance import age
from stresstest.campaign.refusals import rejected_run_ids
from stresstest.campaign.session import CampaignSession
from stresstest.errors import ExitCode
from stresstest.features.check import workflow
from stresstest.features.check.sides import candidate_campaign, sample
from stresstest.features.check.sides.references import find_baseline
from stresstest.features.check.sides.sample import CheckSample
from stresstest.model import DocumentKind, FailureKind, Run, RunSettings, RunStatus, ServiceFailure, Token
from stresstest.simulation.engine.scenario.file import load_scenario
from stresstest.store import open_store
from tests.support.commands import command
from tests.support.generations import make, make_job
from tests.support.simulated_servers import served

HEALTHY = 'name = "healthy"\nsummary = "Nothing fails"\n[model]\nmax_model_len = 1024\n'
LOOPS = """
[[hazard]]
symptom = "loop"
plane = "decoding"
onset = {{ distribution = "uniform", low = {low}, high = {high} }}
probability = {share}
"""
WORLDS = {
    "good": HEALTHY,
    "bad": HEALTHY + LOOPS.format(share=1.0, low=30, high=70),
    "late": HEALTHY + LOOPS.format(share=1.0, low=110, high=150),
    "so-so": HEALTHY + LOOPS.format(share=0.14, low=30, high=70),
}


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Four simulated models, each behind its own address, all serving the name "lab"."""
    folder = tmp_path_factory.mktemp("worlds")
    with ExitStack() as stack:
        found = {}
        for name, text in WORLDS.items():
            file = folder / f"{name}.toml"
            file.write_text(text, encoding="utf-8")
            found[name] = stack.enter_context(served(load_scenario(str(file)), name="lab")).base_url
        yield found


@pytest.fixture(scope="module")
def store(urls: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with the good model's run."""
    return with_good_run(str(tmp_path_factory.mktemp("store") / "s.sqlite3"), urls)


def with_good_run(path: str, urls: dict[str, str]) -> str:
    words = ("run", "--base-url", urls["good"], "--lang", "it", "--rigor", "quick", "--horizon", "150")
    code, _, err = command("--store", path, "--display", "none", *words)
    assert code == ExitCode.DONE, err
    return path


def check(store: str, *words: str) -> tuple[int, dict[str, Any], str]:
    code, out, err = command("--store", store, "--display", "plain", "check", "--json", *words)
    return code, json.loads(out) if out.strip() else {}, err


@pytest.mark.slow
def test_the_candidate_is_measured_and_kept(
    store: str, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weekly use: a stored baseline, the model as it is served where the environment says. Worse: 99."""
    with open_store(store) as opened:
        baseline = opened.runs()[-1].id
    monkeypatch.setenv("STRESSTEST_BASE_URL", urls["bad"])
    code, document, err = check(store, "--baseline", baseline)
    monkeypatch.delenv("STRESSTEST_BASE_URL")
    assert (code, document["verdict"]) == (ExitCode.REGRESSION, "regression"), err
    assert document["simulated"] is True
    assert document["candidate"]["measured_now"] is True
    assert document["tokens_spent"] > 0
    assert document["p_candidate"] == 1.0
    code, again, err = check(store, "--baseline", baseline, "--candidate", "lab")
    assert (code, again["tokens_spent"]) == (ExitCode.REGRESSION, 0)
    assert again["candidate"]["run_ids"] == document["candidate"]["run_ids"]
    with open_store(store) as opened:
        assert {d.simulated for d in opened.documents(DocumentKind.CHECK)} == {True}


@pytest.mark.simulated
def test_a_candidate_is_asked_for_answers_of_the_baselines_length(
    urls: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A healthy one would climb to the end of its context, though nothing past T decides; --horizon asks for
    it."""
    path = str(tmp_path_factory.mktemp("length") / "s.sqlite3")
    run = ("run", "--base-url", urls["late"], "--lang", "it", "--rigor", "quick")
    code, _, err = command("--store", path, "--display", "none", *run)
    assert code == ExitCode.DONE, err
    with open_store(path) as opened:
        [baseline] = opened.runs()
    words = ("--baseline", baseline.id, "--base-url", urls["good"], "--measure")
    code, document, err = check(path, *words)
    assert (code, document["verdict"]) == (ExitCode.DONE, "pass"), err
    assert "with up to 3" in err
    code, document, err = check(path, *words, "--horizon", "600", "--seed", "9")
    assert (code, document["verdict"]) == (ExitCode.DONE, "pass"), err
    with open_store(path) as opened:
        horizons = sorted(opened.run(row.id).settings.horizon or 0 for row in opened.runs())
    assert 256 <= horizons[0] <= 400
    assert horizons[1] == 600


@pytest.mark.simulated
def test_a_second_look_is_measured_only_when_the_first_does_not_decide(
    store: str, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """--extend: on the border there is more data, both looks at 97.5 %; given again, nothing is sent. Both
    are of one time: the second look of three weeks before made a new candidate pass."""
    with open_store(store) as opened:
        baseline = opened.runs()[-1].id
    words = ("--baseline", baseline, "--base-url", urls["so-so"], "--measure", "--seed", "5")
    code, document, err = check(store, *words)
    assert (code, document["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive"), err
    (run_id,), first = document["candidate"]["run_ids"], document["candidate"]["generations"]
    words = ("--baseline", baseline, "--candidate", run_id, "--base-url", urls["so-so"], "--extend")
    _, document, _ = check(store, *words)
    assert (document["looks"], document["look"], document["confidence"]) == (2, 2, 0.975)
    assert document["candidate"]["generations"] > first
    assert document["tokens_spent"] > 0
    _, again, _ = check(store, *words)
    assert again["tokens_spent"] == 0
    assert again["interval"] == document["interval"]
    for module in (age, candidate_campaign):
        monkeypatch.setattr(module, "RESUME_WINDOW_S", -1.0)
    code, old, _ = check(store, *words)
    assert (code, old["look"], old["tokens_spent"]) == (ExitCode.INCONCLUSIVE, 1, 0)
    assert "no second look was measured. To measure the candidate anew: --measure" in old["notes"][-1]


@pytest.mark.slow
def test_empty_answers_of_a_measured_candidate_count_against_a_pass(
    store: str, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that ends before its first text cannot degenerate, and passed where few others were good."""
    made = make(make_job(), 1, observed=1)
    assert sample.is_empty(replace(made, tokens=(Token("", id=2),)))
    assert sample.is_empty(make(make_job(), 0))
    assert not sample.is_empty(replace(made, tokens=(Token("No", id=3),)))
    with open_store(store) as opened:
        baseline = opened.runs()[-1].id
    words = ("--baseline", baseline, "--base-url", urls["good"], "--measure", "--seed", "31")
    code, document, err = check(store, *words)
    assert (code, document["verdict"]) == (ExitCode.DONE, "pass"), err
    sides = ("--baseline", baseline, "--candidate", document["candidate"]["run_ids"][0])
    monkeypatch.setattr(sample, "is_empty", lambda generation: generation.job.prompt_index % 2)
    code, document, _ = check(store, *sides)
    assert (code, document["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive")
    assert any("answers are empty" in note for note in document["notes"])
    monkeypatch.undo()
    # As where its context is too short for part of the prompts: "Pass: 0 of 23", with 14 of 38 refused.
    refused = ServiceFailure(FailureKind.BAD_REQUEST, "the prompt is too long")
    assert sample.is_refused(replace(make(make_job(), 0), failure=refused))
    assert not sample.is_refused(make(make_job(), 0))
    run_id = document["candidate"]["run_ids"][0]
    monkeypatch.setattr(sample, "is_refused", lambda generation: generation.job.prompt_index % 2)
    code, document, _ = check(store, *sides)
    assert (code, document["verdict"]) == (ExitCode.DONE, "pass"), "the baseline refuses the same prompts"
    stored = sample.sample_of_run

    def taken(store: Any, run: str, **more: Any) -> CheckSample:
        found = stored(store, run, **more)
        return found if run == run_id else replace(found, refused=())

    monkeypatch.setattr(workflow, "sample_of_run", taken)
    code, document, _ = check(store, *sides)
    assert (code, document["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive")


@pytest.mark.simulated
def test_a_candidate_is_no_baseline_until_its_check_has_a_verdict(
    tmp_path: Path, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 while the second look was measured, or the first, whose run was then resumed: the candidate
    became the next baseline."""

    class KilledError(BaseException):
        """As if by kill -9: nothing handles it."""

    measured = candidate_campaign.CandidateCampaign._measure
    calls: list[RunSettings] = []

    async def killed(self: Any, wanted: RunSettings) -> CheckSample:
        calls.append(wanted)
        if len(calls) > 1:
            raise KilledError
        return await measured(self, wanted)

    store = with_good_run(str(tmp_path / "s.sqlite3"), urls)
    with open_store(store) as opened:
        [good] = opened.runs()
    monkeypatch.setattr(candidate_campaign.CandidateCampaign, "_measure", killed)
    words = ("--baseline", good.id, "--base-url", urls["so-so"], "--measure", "--seed", "5", "--extend")
    with pytest.raises(KilledError):
        check(store, *words)
    with open_store(store) as opened:
        [candidate] = [row for row in opened.runs() if row.id != good.id]
        assert candidate.status is RunStatus.DONE
        assert candidate.id in rejected_run_ids(opened)
        found = find_baseline(opened, ["latest"])
        assert isinstance(found, Run)
        assert found.id == good.id
    monkeypatch.undo()

    async def killed_at_once(*_: Any) -> Any:
        raise KilledError

    monkeypatch.setattr(CampaignSession, "run_to_end", killed_at_once)
    with pytest.raises(KilledError):
        check(store, *words[:-1], "--seed", "6")
    monkeypatch.undo()
    with open_store(store) as opened:
        begun = opened.runs()[0].id
        assert begun in rejected_run_ids(opened)
    code, _, err = command("--store", store, "--display", "none", "run", "--resume", begun)
    assert code == ExitCode.DONE, err
    with open_store(store) as opened:
        found = find_baseline(opened, ["latest"])
        assert isinstance(found, Run)
        assert found.id == good.id


@pytest.mark.slow
def test_the_second_look_of_an_interrupted_check_is_no_baseline(
    urls: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the second look kept the first one's run from being a baseline only: the second, finished by
    `run --resume`, passed what the good run refuses."""
    measured = candidate_campaign.CandidateCampaign._measure
    calls: list[RunSettings] = []

    async def interrupted(self: Any, wanted: RunSettings) -> CheckSample:
        calls.append(wanted)
        if len(calls) > 1:
            begun = self.created
            self.created = lambda run: (begun(run), self.stop.set())
        return await measured(self, wanted)

    store = with_good_run(str(tmp_path / "s.sqlite3"), urls)
    with open_store(store) as opened:
        [good] = opened.runs()
    monkeypatch.setattr(candidate_campaign.CandidateCampaign, "_measure", interrupted)
    code, *_ = check(
        store, "--baseline", good.id, "--base-url", urls["so-so"], "--measure", "--seed", "5", "--extend"
    )
    monkeypatch.undo()
    assert code == ExitCode.INTERRUPTED
    with open_store(store) as opened:
        candidates = {row.id for row in opened.runs()} - {good.id}
        assert len(candidates) == 2
        assert candidates <= rejected_run_ids(opened)


@pytest.mark.simulated
def test_an_interrupted_check_goes_on(store: str, urls: dict[str, str]) -> None:
    """What a cut-short measurement left is taken up by the same check: the run is resumed, not repeated."""
    with open_store(store) as opened:
        baseline = opened.runs()[-1].id
    words = ("--baseline", baseline, "--base-url", urls["good"], "--measure", "--seed", "9")
    code, document, _ = check(store, *words, "--budget-time", "0.2s")
    assert code == ExitCode.INCONCLUSIVE
    assert "not complete" in document["lacking"]
    (run_id,) = document["candidate"]["run_ids"]
    code, document, err = check(store, *words)
    assert (code, document["candidate"]["run_ids"]) == (ExitCode.DONE, [run_id]), err
    with open_store(store) as opened:
        assert opened.run(run_id).status is RunStatus.DONE


@pytest.mark.simulated
def test_an_old_interrupted_check_starts_again(
    store: str, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is served under the name may be another model by now: the rest of a sample, three weeks later,
    made a regression pass on the answers of the model before."""
    with open_store(store) as opened:
        baseline = opened.runs()[-1].id
    words = ("--baseline", baseline, "--base-url", urls["good"], "--measure", "--seed", "33")
    _, document, _ = check(store, *words, "--budget-time", "0.2s")
    (before,) = document["candidate"]["run_ids"]
    monkeypatch.setattr(age, "RESUME_WINDOW_S", 0.0)
    code, document, err = check(store, *words)
    assert code == ExitCode.DONE, err
    assert before not in document["candidate"]["run_ids"]
    assert f"run {before} was begun over twelve hours ago and left unfinished; a new one" in err


@pytest.mark.simulated
def test_a_check_does_not_go_on_at_a_server_that_was_restarted(store: str, urls: dict[str, str]) -> None:
    """Killed after 35 of 38 answers, it continued with three of a worse model under the same name: "Pass"."""
    with open_store(store) as opened:
        baseline = opened.runs()[-1].id
    words = ("--baseline", baseline, "--base-url", urls["good"], "--measure", "--seed", "35")
    _, document, _ = check(store, *words, "--budget-time", "0.2s")
    (before,) = document["candidate"]["run_ids"]
    with open_store(store) as opened:
        last = opened.samples(before)[-1]
        opened.add_samples(before, [replace(last, at=last.at + 0.01, generation_tokens=1e12)])
    code, document, err = check(store, *words)
    assert code == ExitCode.DONE, err
    assert before not in document["candidate"]["run_ids"]
    assert "a new one is started, because the server was restarted since" in err


@pytest.mark.simulated
def test_a_check_notes_a_restart_within_its_sample(store: str, urls: dict[str, str]) -> None:
    """`runs show` of the run told of it, and the check's verdict on the same answers did not."""
    with open_store(store) as opened:
        baseline = opened.runs()[-1].id
    words = ("--baseline", baseline, "--base-url", urls["good"], "--measure", "--seed", "37")
    _, document, _ = check(store, *words)
    (run_id,) = document["candidate"]["run_ids"]
    with open_store(store) as opened:
        last = opened.samples(run_id)[-1]
        opened.add_samples(run_id, [replace(last, at=last.at + 1, generation_tokens=0.0)])
    _, document, _ = check(store, "--baseline", baseline, "--candidate", run_id)
    assert f"run {run_id}: The server's counters began again 1 time: it was restarted" in str(
        document["notes"]
    )


@pytest.mark.slow
def test_a_check_changes_nothing_in_a_run_that_another_process_measures(
    store: str, urls: dict[str, str]
) -> None:
    """A second check would take the first one's run over with its own budget: it claims before it writes."""
    with open_store(store) as opened:
        baseline = opened.runs()[-1].id
    words = ("--baseline", baseline, "--base-url", urls["good"], "--measure", "--seed", "21")
    code, document, _ = check(store, *words, "--budget-time", "0.2s")
    assert code == ExitCode.INCONCLUSIVE
    (run_id,) = document["candidate"]["run_ids"]
    with open_store(store) as opened:
        before = opened.run(run_id)
        with opened.claim(run_id):
            code, _, err = check(store, *words, "--budget-time", "30m")
        assert "is being measured by another process" in err
        assert code == ExitCode.USAGE
        assert opened.run(run_id) == before


def test_a_server_that_is_not_there_is_the_endpoints_trouble(store: str) -> None:
    """Nothing to measure at: exit 3 with a sentence, as for `run`."""
    code, _, err = check(store, "--baseline", "lab", "--measure", "--base-url", "http://127.0.0.1:9/v1")
    assert code == ExitCode.ENDPOINT
    assert "Traceback" not in err


def write_prompts(words: str) -> None:
    lines = (json.dumps({"prompt": f"{words} {n}"}) for n in range(60))
    Path("p.jsonl").write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.simulated
def test_other_prompts_than_the_baselines_cannot_be_compared(
    urls: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not sent: a store that comes with somebody else's folder must not have any file of the user's
    sent to the address that its runs name. Where they change only then, the run that the check has measured,
    which no check has passed, does not become the baseline of the next, by name or as the latest."""
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "s.sqlite3")
    write_prompts("Scrivi in italiano una storia numero")
    words = ("--base-url", urls["good"], "--lang", "it", "--rigor", "quick", "--horizon", "150")
    code, _, err = command("--store", path, "--display", "none", "run", "--prompts", "p.jsonl", *words)
    assert code == ExitCode.DONE, err
    with open_store(path) as store:
        before = store.runs()
    write_prompts("Racconta in italiano una favola numero")
    for name in ("lab", "latest"):
        code, _, err = check(path, "--baseline", name)
        assert code == ExitCode.USAGE, err
        assert "answers to others could not be compared" in err
    with open_store(path) as store:
        assert store.runs() == before

    monkeypatch.setattr(candidate_campaign, "refuse_other_prompts", lambda run: None)
    for name in ("lab", "lab", "latest"):
        code, _, err = check(path, "--baseline", name, "--base-url", urls["good"])
        assert code == ExitCode.USAGE, err
        assert "cannot be compared" in err
    with open_store(path) as store:
        assert len(store.runs()) > 1
        assert len(rejected_run_ids(store)) == len(store.runs()) - 1
