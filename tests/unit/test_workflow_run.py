"""Whole campaigns against a scripted server: certified, resumed, interrupted, faulted, kept secret."""

from __future__ import annotations

import functools
import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stresstest.errors import ExitCode
from stresstest.execution.driver import RetryPolicy, drive
from stresstest.model import Phase, Plane
from stresstest.store import open_store
from tests import commands
from tests.fake_campaign import Behaviour, campaign_server, cut_after
from tests.fake_vllm import Answer, Page, page


def command(store: Path, *args: str) -> list[str]:
    return [sys.executable, "-m", "stresstest", "--store", str(store), "--display", "plain", *args]


@dataclass(frozen=True)
class Finished:
    returncode: int
    stdout: str
    stderr: str


def run(store: Path, url: str | None, *args: str) -> Finished:
    """`stresstest run` in this process: imports are paid once.

    url: None for a resume, which takes everything from the store.
    """
    options = ["run", "--json"]
    if url is not None:
        options += ["--lang", "it", "--rigor", "quick", "--base-url", url, "--horizon", "1500"]
    return here(store, *options, *args)


def here(store: Path, *args: str) -> Finished:
    """Any command on the store, in this process."""
    return Finished(*commands.command(*command(store, *args)[3:]))


def document(done: Finished, code: int = 0) -> dict[str, Any]:
    assert done.returncode == code, done.stderr
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def contents(store: Path, run_id: str) -> dict[str, tuple[str, int | None, str | None]]:
    with open_store(str(store)) as opened:
        return {g.key: (g.text, g.verdict.onset, g.finish_reason) for g in opened.generations(run_id)}


def stopped_in_the_middle(store: Path, url: str, *args: str, finished: int = 6) -> str:
    """A real run, killed after some generations have finished; its id."""
    options = ("run", "--lang", "it", "--rigor", "quick", "--base-url", url)
    process = subprocess.Popen(
        command(store, *options, *args), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    seen = 0
    for line in process.stderr:
        seen += " tokens, " in line
        if seen >= finished:
            break
    process.kill()
    process.communicate()
    with open_store(str(store)) as opened:
        return opened.runs()[0].id


def test_a_loop_is_found_certified_and_recommended(tmp_path: Path) -> None:
    """The main job on a known truth: loops begin at 200 ± 10 % tokens, so T lies near 180."""
    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=200)) as (fake, _):
        result = document(run(store, fake.url, "--horizon", "800"))
    threshold = result["threshold"]
    assert threshold["certified"] is True
    assert 160 <= threshold["tokens"] <= 208
    assert threshold["onsets"] <= 1
    assert threshold["censored_at"] is None
    assert result["symptoms"]["loop"] >= 38
    assert result["verdict"]["basis"] == "observed"
    assert result["safe_max_tokens"] == threshold["tokens"] * 9 // 10
    assert result["distinct_prompts"] >= 38
    with open_store(str(store)) as opened:
        [row] = opened.thresholds()
    assert row.safe_max_tokens == result["safe_max_tokens"]


def test_the_servers_sampling_defaults_are_kept_where_the_models_folder_is_at_hand(tmp_path: Path) -> None:
    """What is not sent is the server's choice: with the limit stands what the model's own file says of it."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "generation_config.json").write_text('{"temperature": 0.6, "top_p": 0.95, "_from": "x"}')
    with campaign_server(Behaviour()) as (fake, _):
        served = {"data": [{"id": "lab", "max_model_len": 4096, "root": str(model)}]}
        fake.pages["/v1/models"] = page(served)
        result = document(run(tmp_path / "s.sqlite3", fake.url, "--horizon", "200"))
    assert result["decoding"]["server_defaults"] == {"temperature": 0.6, "top_p": 0.95}


def test_a_healthy_model_is_at_least_c_and_never_extrapolated(tmp_path: Path) -> None:
    """No onset: T = C, the largest length with enough requests at risk, not beyond what was seen."""
    with campaign_server(Behaviour()) as (fake, _):
        result = document(run(tmp_path / "s.sqlite3", fake.url, "--horizon", "400"))
    threshold = result["threshold"]
    assert result["onsets"] == 0
    assert threshold["tokens"] == threshold["censored_at"]
    assert 200 <= threshold["tokens"] <= 400
    assert result["verdict"]["plane"] is None


def test_a_model_that_ends_early_is_short_not_degenerate(tmp_path: Path) -> None:
    """Natural ends censor; they are counted as `short`, and T stays within what was observed."""
    with campaign_server(Behaviour(ends=4)) as (fake, _):
        result = document(run(tmp_path / "s.sqlite3", fake.url))
    assert result["onsets"] == 0
    assert result["short"] > 38
    assert 80 <= result["threshold"]["tokens"] <= 300


def test_killed_at_random_moments_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    """kill -9 at any moment: nothing finished is repeated, nothing lost, and the verdict is the same."""
    whole, broken = tmp_path / "whole.sqlite3", tmp_path / "broken.sqlite3"
    options = ("run", "--lang", "it", "--rigor", "quick", "--horizon", "500", "--json")
    quick, slow = Behaviour(onset=80), Behaviour(onset=80, pause=0.02)
    with campaign_server(quick) as (fake, script):
        expected = document(run(whole, fake.url, "--horizon", "500"))
        script.behaviour = slow
        asked_whole = len(script.served)
        script.served.clear()
        rng = random.Random(5)
        killed, run_id = 0, ""
        for _ in range(4):
            words = ("run", "--resume", run_id) if run_id else (*options, "--base-url", fake.url)
            process = subprocess.Popen(
                command(broken, *words),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            _wait_for_a_run(broken, process)
            time.sleep(rng.uniform(0.1, 0.9))
            killed += process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
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
    for key in ("threshold", "safe_max_tokens", "symptoms", "generations", "onsets", "verdict"):
        assert resumed[key] == expected[key]


def _wait_for_a_run(store: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        if store.exists():
            try:
                with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
                    if connection.execute("select count(*) from generation").fetchone()[0]:
                        return
            except sqlite3.OperationalError:
                pass
        time.sleep(0.05)


def test_a_finished_run_resumed_sends_nothing(tmp_path: Path) -> None:
    """Resuming what is complete only shows the verdict again."""
    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=120)) as (fake, script):
        first = document(run(store, fake.url, "--horizon", "500"))
        asked = len(script.served)
        again = document(run(store, None, "--resume", first["run_id"]))
        assert len(script.served) == asked
    assert again["threshold"] == first["threshold"]


def test_ctrl_c_keeps_what_was_measured_and_certifies_nothing(tmp_path: Path) -> None:
    """An interrupted sample is not a random one: exit 130, one JSON document, the resume command."""
    store = tmp_path / "s.sqlite3"
    options = ("run", "--lang", "it", "--rigor", "quick", "--horizon", "900", "--json")
    with campaign_server(Behaviour(onset=300, pause=0.01)) as (fake, _):
        process = subprocess.Popen(
            command(store, *options, "--base-url", fake.url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        _wait_for_a_run(store, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED
    result = json.loads(out)
    assert result["generations"] >= 1
    assert result["threshold"]["certified"] is False
    assert "not complete" in result["threshold"]["lacking"]
    assert f"run --resume {result['run_id']}" in err.decode()
    with open_store(str(store)) as opened:
        assert opened.thresholds() == []


def test_500_in_mid_run_is_retried_visibly_and_a_cut_stream_is_kept_as_system(tmp_path: Path) -> None:
    """Transient faults do not end a campaign; a cut stream censors, counts as system, not as degeneration."""

    def fault(number: int) -> Answer | None:
        if number in {3, 9}:
            return page({"error": {"message": "CUDA error: device-side assert"}}, 500)
        return cut_after(40) if number in {12, 20} else None

    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=100, fault=fault)) as (fake, _):
        done = run(store, fake.url, "--horizon", "500")
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


def test_a_server_that_dies_keeps_everything_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From request 15 on nothing answers: exit 3, one sentence, the resume command; then it goes on."""
    impatient = functools.partial(drive, retry=RetryPolicy(base=0.01))
    monkeypatch.setattr("stresstest.workflows.run.drive", impatient)
    dead = {"yes": True}

    def fault(number: int) -> Answer | None:
        return Page(b"gone", 503, "text/plain") if dead["yes"] and number >= 15 else None

    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=150, fault=fault)) as (fake, _):
        done = run(store, fake.url, "--horizon", "600", "--concurrency", "4")
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


def test_the_api_key_is_in_no_store_report_or_log(tmp_path: Path) -> None:
    """The key goes to the server in its header, and nowhere else."""
    store = tmp_path / "s.sqlite3"
    key = "sk-very-secret-7"
    with campaign_server(Behaviour(onset=60)) as (fake, _):
        done = run(store, fake.url, "--horizon", "300", "--api-key", key)
        assert any(key in a.headers.get("authorization", "") for a in fake.generations)
    document(done)
    report = here(store, "report", "latest")
    assert report.returncode == 0, report.stderr
    assert key not in done.stdout + done.stderr + report.stdout
    assert all(key.encode() not in f.read_bytes() for f in tmp_path.iterdir())


def test_budget_starts_nothing_more_and_says_so(tmp_path: Path) -> None:
    """A spent budget ends in good order: what is in flight finishes, nothing is certified from a part."""
    with campaign_server(Behaviour(onset=100)) as (fake, _):
        done = run(tmp_path / "s.sqlite3", fake.url, "--horizon", "500", "--budget-tokens", "6k")
    result = document(done, ExitCode.INCONCLUSIVE)
    assert result["tokens_spent"] < 6000
    assert result["threshold"]["certified"] is False
    assert "budget" in done.stderr


def test_own_prompts_run_as_one_rung(tmp_path: Path) -> None:
    """`--prompts`: production prompts, no ladder of lengths, cap = horizon."""
    prompts = tmp_path / "prompts.jsonl"
    asked = [[{"role": "user", "content": f"Scrivi 40 paragrafi. Tema: {i}"}] for i in range(50)]
    lines = [json.dumps({"id": f"p{i}", "messages": messages}) for i, messages in enumerate(asked)]
    prompts.write_text("\n".join(lines) + "\n")
    with campaign_server(Behaviour(onset=150)) as (fake, _):
        done = run(tmp_path / "s.sqlite3", fake.url, "--prompts", str(prompts), "--horizon", "500")
    result = document(done)
    assert result["subject"]["task"] == "prompts:prompts"
    assert result["threshold"]["certified"] is True
    assert 110 <= result["threshold"]["tokens"] <= 160


def test_the_plane_of_a_lost_generation_is_system_by_fact(tmp_path: Path) -> None:
    """A service failure is never counted as degeneration of the model."""
    often = Behaviour(onset=100, fault=lambda n: cut_after(30) if n % 5 == 0 else None)
    with campaign_server(often) as (fake, _):
        done = run(tmp_path / "s.sqlite3", fake.url, "--horizon", "500")
    result = document(done)
    with open_store(str(tmp_path / "s.sqlite3")) as opened:
        generations = opened.generations(result["run_id"])
    lost = [g for g in generations if g.failure is not None]
    assert len(lost) >= 8
    assert all(g.verdict.onset is None for g in lost)
    assert result["planes"][str(Plane.SYSTEM)] == len(lost)
    assert result["threshold"]["tokens"] <= 110
    assert sum(1 for g in generations if g.job.phase is Phase.CERTIFY) >= 38


@pytest.mark.parametrize("suffix", [".md", ".json"])
def test_reports_of_a_stored_run(tmp_path: Path, suffix: str) -> None:
    """Both formats are written from the store, hold the number, and the Markdown escapes the text."""
    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=100)) as (fake, _):
        result = document(run(store, fake.url, "--horizon", "400"))
    target = tmp_path / f"report{suffix}"
    assert here(store, "report", result["run_id"][:15], "-o", str(target)).returncode == 0
    text = target.read_text(encoding="utf-8")
    if suffix == ".json":
        full = json.loads(text)
        assert full["safe_max_tokens"] == result["safe_max_tokens"]
        assert len(full["generation_list"]) == result["generations"]
        assert any(g["excerpt"] for g in full["generation_list"])
    else:
        assert f"{result['safe_max_tokens']:,}" in text
        assert "stresstest run" in text
        assert "▶" in text
