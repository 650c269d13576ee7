"""Whole campaigns against a scripted server: certified, resumed, interrupted, faulted, kept secret."""

from __future__ import annotations

import functools
import json
import random
import resource
import signal
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stresstest.campaign.execution.driver import RetryPolicy, drive
from stresstest.errors import ExitCode
from stresstest.model import Generation, Phase, Plane, RunStatus
from stresstest.store import open_store
from stresstest.store.repository import Store
from tests.support.campaign_commands import Finished, contents, document, here, run, words
from tests.support.fake_campaign import Behaviour, Script, campaign_server, cut_after
from tests.support.fake_vllm import Answer, FakeVllm, Hang, Page, page
from tests.support.forking import ForkedProcess, start

KEY = "sk-very-secret-7"


@dataclass(frozen=True)
class Complete:
    """A run that is over, and the server it measured, which still answers."""

    store: Path
    done: Finished
    server: FakeVllm
    script: Script

    @property
    def result(self) -> dict[str, Any]:
        return document(self.done)


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Complete]:
    """One campaign for the tests that only read what it left behind."""
    store = tmp_path_factory.mktemp("complete") / "s.sqlite3"
    with campaign_server(Behaviour(onset=60)) as (fake, script):
        echoed = f'vllm:request_success_total{{finished_reason="{KEY}"}} 1.0\n'
        fake.pages["/metrics"] = Page(echoed.encode(), content_type="text/plain")
        done = run(store, fake.url, "--horizon", "120", "--api-key", KEY)
        yield Complete(store, done, fake, script)


@pytest.mark.slow
def test_a_loop_is_found_certified_and_recommended(tmp_path: Path) -> None:
    """The main job on a known truth: loops begin at 100 ± 10 % tokens, so T lies near 90."""
    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=100)) as (fake, _):
        result = document(run(store, fake.url, "--horizon", "320"))
    threshold = result["threshold"]
    assert threshold["certified"] is True
    assert 80 <= threshold["tokens"] <= 104
    assert threshold["onsets"] <= 1
    assert threshold["censored_at"] is None
    assert result["symptoms"]["loop"] >= 38
    assert result["verdict"]["basis"] == "observed"
    assert result["safe_max_tokens"] == threshold["tokens"] * 9 // 10
    assert result["distinct_prompts"] >= 38
    with open_store(str(store)) as opened:
        [row] = opened.thresholds()
    assert row.safe_max_tokens == result["safe_max_tokens"]


@pytest.mark.slow
def test_a_campaign_without_seeds_says_so(tmp_path: Path) -> None:
    """No request brings a seed; what is stored, reported and repeated knows it."""
    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=100)) as (fake, script):
        result = document(run(store, fake.url, "--horizon", "320", "--no-seed"))
    assert {seed for _, seed in script.served} == {0}, "the script's own where none is sent"
    report = here(store, "report", result["run_id"], "-o", str(tmp_path / "r.json"))
    assert report.returncode == 0, report.stderr
    full = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert full["settings"]["send_seed"] is False
    assert {g["seed"] for g in full["generation_list"]} == {None}
    assert any("--no-seed" in note for note in full["notes"])
    shown = here(store, "report", result["run_id"], "-o", str(tmp_path / "r.md"))
    assert shown.returncode == 0
    assert " --no-seed" in (tmp_path / "r.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_campaign_without_logprobs_says_so(tmp_path: Path) -> None:
    """No entropy is measured, a note gives the reason, and the repeated command has the option."""
    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=100)) as (fake, _):
        result = document(run(store, fake.url, "--horizon", "320", "--no-logprobs"))
        asked = [g.body for g in fake.generations]
    assert asked
    assert not any("logprobs" in body for body in asked)
    assert any("no logprobs were requested" in note for note in result["notes"])
    shown = here(store, "report", result["run_id"], "-o", str(tmp_path / "r.md"))
    assert shown.returncode == 0
    assert " --no-logprobs" in (tmp_path / "r.md").read_text(encoding="utf-8")


@pytest.mark.simulated
def test_a_model_that_writes_less_when_asked_for_more_is_certified_where_it_fails(tmp_path: Path) -> None:
    """Loops at 450 ± 10 % tokens in short requests, healthy ends at half of that in long ones: T is that of
    the short ones, and the note says which answers do not count."""
    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=450, shy=(13, 4))) as (fake, _):
        done = run(store, fake.url, "--horizon", "1024")
    result = document(done)
    assert 380 <= result["threshold"]["tokens"] <= 460
    assert result["safe_max_tokens"] == result["threshold"]["tokens"] * 9 // 10
    assert "ended on their own before the" in done.stderr
    page = tmp_path / "r.json"
    assert here(store, "report", result["run_id"], "-o", str(page)).returncode == 0
    notes = json.loads(page.read_text())["notes"]
    assert any("do not count: most ended before the climb's onsets" in note for note in notes)


@pytest.mark.slow
def test_the_servers_sampling_defaults_are_kept_where_the_models_folder_is_at_hand(tmp_path: Path) -> None:
    """What is not sent is the server's choice: with the limit stands what the model's own file says of it."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "generation_config.json").write_text('{"temperature": 0.6, "top_p": 0.95, "_from": "x"}')
    with campaign_server(Behaviour()) as (fake, _):
        served = {"data": [{"id": "lab", "max_model_len": 4096, "root": str(model)}]}
        fake.pages["/v1/models"] = page(served)
        result = document(run(tmp_path / "s.sqlite3", fake.url, "--horizon", "64"))
    assert result["decoding"]["server_defaults"] == {"temperature": 0.6, "top_p": 0.95}


def test_a_horizon_beyond_the_context_is_lowered_aloud(tmp_path: Path) -> None:
    """It used to be cut in silence."""
    with campaign_server(Behaviour()) as (fake, _):
        fake.pages["/v1/models"] = page({"data": [{"id": "lab", "max_model_len": 400}]})
        done = run(tmp_path / "s.sqlite3", fake.url, "--horizon", "99999", "--budget-tokens", "100")
    assert "--horizon 99,999 is lowered to 3" in done.stderr


@pytest.mark.slow
def test_a_healthy_model_is_at_least_c_and_never_extrapolated(tmp_path: Path) -> None:
    """No onset: T = C, the largest length with enough requests at risk, not beyond what was seen."""
    with campaign_server(Behaviour()) as (fake, _):
        result = document(run(tmp_path / "s.sqlite3", fake.url, "--horizon", "160"))
    threshold = result["threshold"]
    assert result["onsets"] == 0
    assert threshold["tokens"] == threshold["censored_at"]
    assert 80 <= threshold["tokens"] <= 160
    assert result["verdict"]["plane"] is None


@pytest.mark.slow
def test_a_model_that_ends_early_is_short_not_degenerate(tmp_path: Path) -> None:
    """Natural ends censor; they are counted as `short`, and T stays within what was observed."""
    with campaign_server(Behaviour(ends=2)) as (fake, _):
        result = document(run(tmp_path / "s.sqlite3", fake.url, "--horizon", "400"))
    assert result["onsets"] == 0
    assert result["short"] > 38
    assert 40 <= result["threshold"]["tokens"] <= 150


@pytest.mark.simulated
def test_a_model_that_ignores_the_numbering_is_told_what_to_ask_instead(
    tmp_path: Path,
) -> None:
    """0 of n units is more than short: the structure was not judged, and the task's open form, which the
    advice names, is a run like any other."""
    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(numbered=False)) as (fake, _):
        result = document(run(store, fake.url, "--horizon", "160"))
        again = document(run(store, fake.url, "--horizon", "160", "--task", "narrative:open"))
    asked = result["generations"]
    assert result["without_units"] == asked
    assert (
        f"{asked} of {asked} answers contain none of the requested numbered units"
        in result["verdict"]["sentence"]
    )
    assert any("--task narrative:open" in line for line in result["verdict"]["advice"])
    assert (again["without_units"], again["subject"]["task"]) == (None, "narrative:open")
    assert again["threshold"]["certified"]
    assert again["verdict"]["advice"] == []


@pytest.mark.simulated
def test_killed_at_random_moments_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    """kill -9 at any moment: nothing finished is repeated, nothing lost, and the verdict is the same."""
    whole, broken = tmp_path / "whole.sqlite3", tmp_path / "broken.sqlite3"
    options = ("run", "--lang", "it", "--rigor", "quick", "--horizon", "120", "--json")
    quick, slow = Behaviour(onset=60), Behaviour(onset=60, pause=0.05)
    with campaign_server(quick) as (fake, script):
        expected = document(run(whole, fake.url, "--horizon", "120"))
        script.behaviour = slow
        asked_whole = len(script.served)
        script.served.clear()
        rng = random.Random(5)
        killed, run_id = 0, ""
        for _ in range(3):
            which = ("run", "--resume", run_id) if run_id else (*options, "--base-url", fake.url)
            process = start(*words(broken, *which))
            _wait_for_a_run(broken, process)
            time.sleep(rng.uniform(0.1, 0.9))
            killed += process.poll() is None
            process.kill()
            process.communicate()
            with open_store(str(broken)) as opened:
                run_id = opened.runs()[0].id
            kept = contents(broken, run_id)
        script.behaviour = quick
        resumed = document(run(broken, None, "--resume", run_id))
        assert killed >= 1
        after = contents(broken, run_id)
    assert {k: after[k] for k in kept} == kept
    assert after == contents(whole, expected["run_id"])
    # Only what was in flight at a kill is asked twice: at most the concurrency each time.
    assert len(script.served) <= asked_whole + 8 * killed
    # The advice names its own run.
    resumed, expected = (
        json.loads(json.dumps(result).replace(result["run_id"], "RUN")) for result in (resumed, expected)
    )
    for key in ("threshold", "safe_max_tokens", "symptoms", "generations", "onsets", "verdict"):
        assert resumed[key] == expected[key]


def _wait_for_a_run(store: Path, process: ForkedProcess) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if store.exists():
            try:
                with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
                    if connection.execute("select count(*) from generation").fetchone()[0]:
                        return
            except sqlite3.OperationalError:
                pass
        time.sleep(0.05)


@pytest.mark.slow
def test_a_finished_run_resumed_sends_nothing(complete: Complete) -> None:
    """Resuming what is complete only shows the verdict again."""
    asked = len(complete.script.served)
    again = document(run(complete.store, None, "--resume", complete.result["run_id"]))
    assert len(complete.script.served) == asked
    assert again["threshold"] == complete.result["threshold"]


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGHUP])
def test_an_interruption_keeps_what_was_measured_and_certifies_nothing(
    tmp_path: Path, sign: signal.Signals
) -> None:
    """An interrupted sample is not a random one: exit 130, one JSON document, the resume command. So it is
    where a connection to the machine breaks, which left the run as one that is still at work."""
    store = tmp_path / "s.sqlite3"
    options = ("run", "--lang", "it", "--rigor", "quick", "--horizon", "900", "--json")
    never_done = Behaviour(onset=300, fault=lambda n: Hang() if n >= 20 else None)
    with campaign_server(never_done) as (fake, _):
        process = start(*words(store, *options, "--base-url", fake.url))
        _wait_for_a_run(store, process)
        process.send_signal(sign)
        out, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED
    result = json.loads(out)
    assert result["generations"] >= 1
    assert result["threshold"]["certified"] is False
    assert "not complete" in result["threshold"]["lacking"]
    assert f"run --resume {result['run_id']}" in err
    with open_store(str(store)) as opened:
        assert opened.thresholds() == []


@pytest.mark.slow
def test_500_in_mid_run_is_retried_visibly_and_a_cut_stream_is_kept_as_system(tmp_path: Path) -> None:
    """Transient faults do not end a campaign; a cut stream censors, counts as system, not as degeneration."""

    def fault(number: int) -> Answer | None:
        if number in {3, 9}:
            return page({"error": {"message": "CUDA error: device-side assert"}}, 500)
        return cut_after(40) if number in {12, 20} else None

    store = tmp_path / "s.sqlite3"
    # In a stream's own pace: on a busy machine the first token of a quick one comes late in its time, as
    # from a service that holds answers back.
    with campaign_server(Behaviour(onset=60, fault=fault, pause=0.01)) as (fake, _):
        done = run(store, fake.url, "--horizon", "120")
    result = document(done)
    assert done.stderr.count("failed (") == 2
    assert "500" in done.stderr
    assert result["planes"]["system"] == 2
    assert result["threshold"]["certified"] is True
    with open_store(str(store)) as opened:
        lost = [g for g in opened.generations(result["run_id"]) if g.failure is not None]
    assert len(lost) == 2
    for generation in lost:
        assert generation.failure is not None
        assert generation.failure.at_token == len(generation.tokens) == 40
        assert generation.verdict.onset is None


@pytest.mark.slow
def test_a_server_that_dies_keeps_everything_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From request 15 on nothing answers: exit 3, one sentence, the resume command; then it goes on."""
    impatient = functools.partial(drive, retry=RetryPolicy(base=0.01))
    monkeypatch.setattr("stresstest.campaign.session.drive", impatient)
    dead = {"yes": True}

    def fault(number: int) -> Answer | None:
        return Page(b"gone", 503, "text/plain") if dead["yes"] and number >= 15 else None

    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=60, fault=fault)) as (fake, _):
        done = run(store, fake.url, "--horizon", "120", "--concurrency", "4")
        failed = document(done, ExitCode.ENDPOINT)
        assert "Traceback" not in done.stderr
        assert f"--resume {failed['run_id']}" in done.stderr
        kept = contents(store, failed["run_id"])
        assert sum(1 for text, _, _ in kept.values() if text) == 15
        dead["yes"] = False
        resumed = document(run(store, None, "--resume", failed["run_id"]))
    assert resumed["threshold"]["certified"] is True
    after = contents(store, failed["run_id"])
    assert all(after[k] == kept[k] for k in kept if kept[k][0])
    assert all(text for text, _, _ in after.values())


def test_401_is_one_sentence_and_nothing_is_stored(tmp_path: Path) -> None:
    """A rejected key ends at once, says what to set, and shows the key nowhere."""
    store = tmp_path / "s.sqlite3"
    denied = page({"error": {"message": "bad key sk-very-secret-9"}}, 401)
    with campaign_server(Behaviour(fault=lambda _: denied)) as (fake, _):
        fake.pages["/v1/models"] = denied
        done = run(store, fake.url, "--api-key", "sk-very-secret-9")
    assert done.returncode == ExitCode.ENDPOINT
    assert "401" in done.stderr
    assert "--api-key" in done.stderr
    assert "very-secret" not in done.stderr + done.stdout


def test_the_api_key_is_in_no_store_report_or_log(complete: Complete) -> None:
    """The key goes to the server in its header, and nowhere else, even where the server's metrics echo it."""
    assert any(KEY in a.headers.get("authorization", "") for a in complete.server.generations)
    report = here(complete.store, "report", "latest")
    assert report.returncode == 0, report.stderr
    assert KEY not in complete.done.stdout + complete.done.stderr + report.stdout
    assert all(KEY.encode() not in f.read_bytes() for f in complete.store.parent.iterdir())
    with open_store(str(complete.store)) as opened:
        assert "***" in opened.samples(complete.result["run_id"])[-1].finished


def test_budget_starts_nothing_more_and_says_so(tmp_path: Path) -> None:
    """A spent budget ends in good order: what is in flight finishes, nothing is certified from a part."""
    with campaign_server(Behaviour(onset=100)) as (fake, _):
        done = run(tmp_path / "s.sqlite3", fake.url, "--horizon", "500", "--budget-tokens", "6k")
    result = document(done, ExitCode.INCONCLUSIVE)
    assert result["tokens_spent"] < 6000
    assert result["threshold"]["certified"] is False
    assert "budget" in done.stderr


@pytest.mark.slow
def test_own_prompts_run_as_one_rung(tmp_path: Path) -> None:
    """`--prompts`: production prompts, no ladder of lengths, cap = horizon."""
    prompts = tmp_path / "prompts.jsonl"
    asked = [[{"role": "user", "content": f"Scrivi 40 paragrafi. Tema: {i}"}] for i in range(50)]
    lines = [json.dumps({"id": f"p{i}", "messages": messages}) for i, messages in enumerate(asked)]
    prompts.write_text("\n".join(lines) + "\n")
    with campaign_server(Behaviour(onset=80)) as (fake, _):
        done = run(tmp_path / "s.sqlite3", fake.url, "--prompts", str(prompts), "--horizon", "260")
    result = document(done)
    assert result["subject"]["task"] == "prompts:prompts"
    assert result["threshold"]["certified"] is True
    assert 60 <= result["threshold"]["tokens"] <= 86
    assert any("structure (numbering, lengths of units) was not checked" in note for note in result["notes"])


@pytest.mark.slow
def test_the_plane_of_a_lost_generation_is_system_by_fact(tmp_path: Path) -> None:
    """A service failure is never counted as degeneration of the model."""
    often = Behaviour(onset=60, fault=lambda n: cut_after(30) if n % 5 == 0 else None)
    with campaign_server(often) as (fake, _):
        done = run(tmp_path / "s.sqlite3", fake.url, "--horizon", "120")
    result = document(done)
    with open_store(str(tmp_path / "s.sqlite3")) as opened:
        generations = opened.records(result["run_id"])
    lost = [g for g in generations if g.failure is not None]
    assert len(lost) >= 8
    assert all(g.verdict.onset is None for g in lost)
    assert result["planes"][str(Plane.SYSTEM)] == len(lost)
    assert result["threshold"]["tokens"] <= 66
    assert sum(1 for g in generations if g.job.phase is Phase.CERTIFY) >= 38


def test_a_model_that_fails_within_the_first_unit_is_unfit_everywhere(
    complete: Complete, tmp_path: Path
) -> None:
    """T is certified at some fifty tokens, and a paragraph takes seventy: no command names a cap."""
    result = complete.result
    assert result["threshold"]["certified"]
    assert (result["unfit"], result["unit_tokens"], result["safe_max_tokens"]) == (True, 70, None)
    assert "Unfit for this task and language" in here(complete.store, "runs", "show", "latest").stdout
    assert "unfit" in here(complete.store, "runs", "list").stdout
    flags = here(complete.store, "recommend", "--format", "vllm")
    assert (flags.returncode, flags.stdout) == (4, "")
    assert "unfit for this task and language" in flags.stderr
    page_ = tmp_path / "r.html"
    assert here(complete.store, "report", "latest", "-o", str(page_)).returncode == 0
    assert "no max_tokens is recommended" in page_.read_text(encoding="utf-8")


def test_reports_of_a_stored_run(complete: Complete, tmp_path: Path) -> None:
    """Both formats are written from the store and hold the verdict; the Markdown escapes the text."""
    result = complete.result
    targets = [tmp_path / f"report{suffix}" for suffix in (".json", ".md")]
    for target in targets:
        assert here(complete.store, "report", result["run_id"][:15], "-o", str(target)).returncode == 0
    data, page_ = (target.read_text(encoding="utf-8") for target in targets)
    full = json.loads(data)
    assert full["safe_max_tokens"] == result["safe_max_tokens"]
    assert len(full["generation_list"]) == result["generations"]
    assert any(g["excerpt"] for g in full["generation_list"])
    assert "Unfit for this task and language" in page_
    assert "stresstest run" in page_
    assert "▶" in page_


@pytest.mark.parametrize("pages", [3, 0], ids=["room for a status", "no room at all"])
@pytest.mark.simulated
def test_a_store_that_cannot_grow_ends_the_run_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    """A full disk left the run `running` and told nobody how to go on. What is stored is resumed."""
    store = tmp_path / "s.sqlite3"
    stored = Store.add_generation

    def add(self: Store, run_id: str, generation: Generation) -> bool:
        added = stored(self, run_id, generation)
        _limit_files(store.with_name(f"{store.name}-wal").stat().st_size + pages * 4120)
        return added

    monkeypatch.setattr(Store, "add_generation", add)
    with campaign_server(Behaviour(onset=100)) as (fake, _):
        try:
            done = run(store, fake.url, "--horizon", "400", "--concurrency", "2")
        finally:
            _limit_files(resource.RLIM_INFINITY)
            monkeypatch.undo()
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert "cannot be read or written" in done.stderr or "disk is full" in done.stderr
        assert "--resume continues it" in done.stderr
        with open_store(str(store)) as opened:
            [row] = opened.runs()
        assert row.status is (RunStatus.FAILED if pages else RunStatus.RUNNING)
        assert ("is marked as failed" if pages else "still has the status running") in done.stderr
        resumed = document(run(store, None, "--resume", row.id))
    assert resumed["threshold"]["certified"]


def _limit_files(most: int) -> None:
    """No file of this process may grow beyond `most` bytes: what a full disk looks like from inside."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
