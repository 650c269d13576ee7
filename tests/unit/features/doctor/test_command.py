"""`stresstest doctor` as a user meets it: the simulator, a plain server, an old vLLM, a dead one, a log."""

from __future__ import annotations

import io
import json
import os
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from stresstest.errors import ExitCode
from stresstest.model import Plane, PlaneVerdict, Subject, Threshold
from stresstest.simulation.engine.scenario.spec import Scenario
from stresstest.store import open_store
from stresstest.store.tables import SCHEMA_REVISION
from tests.faults.catalogue import stripped
from tests.support.commands import command
from tests.support.fake_campaign import Behaviour, campaign_server
from tests.support.fake_vllm import Asked, Events, FakeVllm, Page, page
from tests.support.paths import DATA
from tests.support.simulated_servers import served
from tests.support.snapshots import Snapshot, flat
from tests.support.stored_data import make_run


class Said:
    """What a call left: exit code, stdout, stderr."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def checks(self) -> dict[str, dict[str, Any]]:
        return {check["name"]: check for check in json.loads(self.out)["checks"]}

    @property
    def flat(self) -> str:
        """Without the line breaks and spaces of the terminal."""
        return " ".join(self.out.split())


def doctor(tmp_path: Path, *words: str, stdin: str | None = None) -> Said:
    """`stresstest doctor` in this process, at 80 columns, on a store of its own."""
    typed = io.TextIOWrapper(io.BytesIO((stdin or "").encode()))
    with patch.object(sys, "stdin", typed), patch.dict(os.environ, {"COLUMNS": "80"}):
        return Said(*command("--store", str(tmp_path / "s.sqlite3"), "doctor", *words))


@contextmanager
def bare_server() -> Iterator[FakeVllm]:
    """OpenAI's API and nothing else: no version, metrics, tokenizer, ids, logprobs or counts."""
    with campaign_server(Behaviour()) as (fake, script):
        for path in ("/version", "/tokenize", "/metrics"):
            del fake.pages[path]
        fake.pages["/v1/models"] = page({"data": [{"id": "gpt-x"}]})

        def answer(asked: Asked) -> Events:
            reply = script(asked)
            assert isinstance(reply, Events)
            return Events(stripped(reply.parts, frozenset({"token_ids", "logprobs", "usage"})))

        fake.script = answer
        yield fake


def test_the_simulator_is_whole_and_named_as_such(tmp_path: Path) -> None:
    """Everything that vLLM has is there, and nobody can take it for a model."""
    with served(Scenario(name="quiet", summary="nothing happens")) as running:
        said = doctor(tmp_path, "--base-url", running.base_url, "--json")
    assert said.code == ExitCode.DONE
    checks = said.checks
    assert "SIMULATED" in checks["endpoint"]["found"]
    whole = (
        "vLLM version",
        "model",
        "chat",
        "/tokenize",
        "logprobs",
        "token ids",
        "token counts",
        "/metrics",
    )
    assert {checks[name]["state"] for name in (*whole, "clock", "store")} == {"ok"}
    assert "32,768" in checks["model"]["found"]
    assert checks["logprobs"]["found"] == "top 20, raw_logprobs"
    assert SCHEMA_REVISION in checks["store"]["found"]


def test_a_name_that_the_server_does_not_list_is_no_model_of_it(tmp_path: Path) -> None:
    """A server that answers to any name is measured under the wrong one unless somebody says so."""
    with served(Scenario(name="quiet", summary="nothing happens")) as running:
        said = doctor(tmp_path, "--base-url", running.base_url, "--model", "mistral-7b", "--json")
    model = said.checks["model"]
    assert model["state"] == "degraded"
    assert model["found"] == "the server has no model named 'mistral-7b'"
    assert "the answers are probably of that one" in model["cost"]


def test_a_bare_server_is_told_gap_by_gap(tmp_path: Path, snapshot: Snapshot) -> None:
    """Each thing that is not there says what that costs and, where there is one, the line that mends it;
    a measurement is possible all the same."""
    with bare_server() as fake:
        said = doctor(tmp_path, "--base-url", fake.url, "--json")
        shown = doctor(tmp_path, "--base-url", fake.url)
    assert (said.code, shown.code) == (ExitCode.DONE, ExitCode.DONE)
    checks = said.checks
    for name in ("/tokenize", "logprobs", "token ids", "token counts", "/metrics"):
        assert checks[name]["state"] == "missing", name
        assert checks[name]["cost"], name
        assert checks[name]["remedy"], name
    assert "--horizon" in checks["model"]["remedy"]
    assert json.loads(said.out)["usable"] is True
    gaps = ("model", "chat", "/tokenize", "logprobs", "token ids", "token counts", "/metrics")
    snapshot("\n".join(f"{name}: {checks[name]['found']} {checks[name]['cost']}" for name in gaps))
    for check in checks.values():
        assert flat(check["cost"] or "") in shown.flat
    assert max(map(len, shown.out.splitlines())) <= 80


def test_old_metric_names_are_known_and_what_is_missing_is_named(tmp_path: Path) -> None:
    """A vLLM from before 0.15: its names are read, and said to be old; nothing is taken for zero."""
    with campaign_server(Behaviour()) as (fake, _):
        text = (DATA / "metrics_vllm_old_names.txt").read_bytes()
        fake.pages["/metrics"] = Page(text, content_type="text/plain")
        fake.pages["/version"] = page({"version": "0.8.5"})
        said = doctor(tmp_path, "--base-url", fake.url, "--json")
    checks = said.checks
    assert "gpu_cache_usage_perc" in checks["/metrics"]["found"]
    assert checks["vLLM version"]["state"] == "degraded"
    assert "0.8.5" in checks["vLLM version"]["found"]


def test_a_page_that_no_measurement_reads_is_not_read_here(tmp_path: Path) -> None:
    """24 MB of names took 700 MB."""
    with campaign_server(Behaviour()) as (fake, _):
        fake.pages["/metrics"] = Page(b"vllm:a 1\n" * 600_000, content_type="text/plain")
        check = doctor(tmp_path, "--base-url", fake.url, "--json").checks["/metrics"]
    assert (check["state"], check["found"]) == ("degraded", "the page has 5 MiB; a measurement reads 4")


def test_a_server_that_seeds_may_kill_is_told_beforehand(tmp_path: Path) -> None:
    """vLLM on the CPU dies when a request with a seed is read in parts: doctor says so, and what mends it."""
    with campaign_server(Behaviour()) as (fake, _):
        recorded = (DATA / "metrics_vllm_0_32_recorded.txt").read_bytes()
        fake.pages["/metrics"] = Page(recorded, content_type="text/plain")
        found = doctor(tmp_path, "--base-url", fake.url, "--json")
    assert found.code == ExitCode.DONE
    assert found.checks["seeds"]["state"] == "degraded"
    assert "CPU Generator does not use offset" in found.checks["seeds"]["cost"]
    assert "--no-seed" in found.checks["seeds"]["remedy"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (page({"error": {"message": "bad key sk-quoted-secret"}}, 401), "401"),
        (page({"error": {"message": "starting"}}, 503), "(503): starting"),
        (Page(b"<html>login</html>", content_type="text/html"), ""),
    ],
    ids=["401", "503", "a web page"],
)
def test_a_server_that_is_no_use(tmp_path: Path, snapshot: Snapshot, answer: Page, said: str) -> None:
    """Exit 3, one sentence, the rest of the machine is looked at all the same; no key is shown."""
    with campaign_server(Behaviour()) as (fake, _):
        fake.everything = answer
        found = doctor(tmp_path, "--base-url", fake.url, "--api-key", "sk-quoted-secret", "--json")
        shown = doctor(tmp_path, "--base-url", fake.url, "--api-key", "sk-quoted-secret")
    assert found.code == shown.code == ExitCode.ENDPOINT
    assert found.checks["endpoint"]["state"] == "failed"
    assert said in found.checks["endpoint"]["found"]
    assert found.checks["store"]["state"] == found.checks["clock"]["state"] == "ok"
    assert json.loads(found.out)["usable"] is False
    snapshot(found.checks["endpoint"]["found"])
    assert "quoted-secret" not in found.out + found.err + shown.out + shown.err


def test_nobody_is_there(tmp_path: Path, snapshot: Snapshot) -> None:
    """A refused connection: exit 3, where it was tried, and what to do."""
    found = doctor(tmp_path, "--base-url", "http://127.0.0.1:9/v1", "--json")
    assert found.code == ExitCode.ENDPOINT
    check = found.checks["endpoint"]
    assert "http://127.0.0.1:9/v1" in check["found"]
    assert "--base-url" in check["remedy"]
    snapshot(f"{check['found']}\n{check['remedy']}")
    shown = " ".join(doctor(tmp_path, "--base-url", "http://127.0.0.1:9/v1").out.split())
    assert "Failed: endpoint. No measurement is possible until that is fixed." in shown
    assert "metrics and defaults were not checked; GPU readings (NVML), clock and store were." in shown


def test_a_store_that_cannot_be_used_stands_in_the_way(tmp_path: Path) -> None:
    """A file that is no database is found before a campaign writes to it, and is left as it is."""
    (tmp_path / "s.sqlite3").write_bytes(b"my notes\n" * 500)
    with campaign_server(Behaviour()) as (fake, _):
        found = doctor(tmp_path, "--base-url", fake.url, "--json")
    assert found.checks["store"]["state"] == "failed"
    assert "SQLite" in found.checks["store"]["found"]
    assert json.loads(found.out)["usable"] is False
    assert (tmp_path / "s.sqlite3").read_bytes() == b"my notes\n" * 500


def test_a_log_is_explained_and_joined_with_what_is_stored(tmp_path: Path, snapshot: Snapshot) -> None:
    """The startup table with a few words on what matters, and what the KV cache holds at the safe limit."""
    subject = Subject("Qwen/Qwen2.5-7B-Instruct-AWQ", "narrative", "it")
    with open_store(str(tmp_path / "s.sqlite3")) as store:
        store.create_run(make_run(subject=subject))
        verdict = PlaneVerdict(Plane.DECODING, None, "loops")
        store.save_threshold("r1", Threshold(0.1, 0.9, 620, n=40, certified=True), 558, verdict)
    log = DATA / "startup" / "gpu_awq.log"
    found = doctor(tmp_path, "--log", str(log))
    assert found.code == ExitCode.DONE
    assert "repetition_penalty 1.05, temperature 0.7, top_k 20, top_p 0.8" in found.flat
    for number in ("2.36", "32,768", "5.2 GiB", "3.41 s", "558", "42.4 %"):
        assert number in found.flat
    snapshot(found.out)
    assert max(map(len, found.out.splitlines())) <= 80
    piped = doctor(tmp_path, "--log", "-", "--json", stdin=log.read_text(encoding="utf-8"))
    assert json.loads(piped.out)["startup"]["kv_cache_tokens"] == 77_328


def test_a_failed_start_says_why_and_what_would_help(tmp_path: Path, snapshot: Snapshot) -> None:
    """Exit 3, the causal chain, and options with their arithmetic, wrapped under their own indent."""
    found = doctor(tmp_path, "--log", str(DATA / "startup" / "gpu_too_long.log"))
    assert found.code == ExitCode.ENDPOINT
    assert "--max-model-len 18688" in found.flat
    snapshot(found.out)


@pytest.mark.parametrize("words", [("absent.log",), ("-",), ("-", "--json")], ids=" ".join)
@pytest.mark.parametrize("typed", ["hello\nworld\n", ""], ids=["other text", "nothing"])
def test_what_is_no_startup_log(
    tmp_path: Path, snapshot: Snapshot, words: tuple[str, ...], typed: str
) -> None:
    """A file that is not there, an empty one, and text that is something else are usage errors with a hint,
    as JSON too: an empty document would look like a start without facts."""
    found = doctor(tmp_path, "--log", *words, stdin=typed)
    assert found.code == ExitCode.USAGE
    assert words[0] == "-" or "absent.log" in found.err
    snapshot(found.err)
    assert found.out == ""


def test_a_device_is_no_log() -> None:
    """/dev/full has no end, and was read for ever."""
    done = command("doctor", "--log", "/dev/full")
    assert (done[0], "/dev/full is a device, not a log." in done[2]) == (2, True)


def test_a_log_that_does_not_show_a_start_is_undecided(tmp_path: Path) -> None:
    """It ended with exit 0, so that `doctor --log - && deploy` went on with a server that had died."""
    lines = (DATA / "startup" / "gpu_awq.log").read_text(encoding="utf-8").splitlines()
    said = doctor(tmp_path, "--log", "-", stdin="\n".join(lines[:-4]))
    assert said.code == ExitCode.INCONCLUSIVE
    assert "does not show that the server started" in said.err
    assert doctor(tmp_path, "--log", "-", stdin="\n".join(lines)).code == 0


def test_a_pipe_is_no_log(tmp_path: Path) -> None:
    """Without a writer it was waited for, in silence and for ever."""
    os.mkfifo(tmp_path / "pipe")
    said = doctor(tmp_path, "--log", str(tmp_path / "pipe"))
    assert said.code == ExitCode.USAGE
    assert "is a named pipe" in said.err


def test_a_line_without_end_takes_no_memory(tmp_path: Path) -> None:
    """The whole line was read, twice as large as it is, to look at its first 16 KB."""
    log = tmp_path / "vllm.log"
    log.write_text("vLLM API server version 0.32.0\n" + "a" * 20_000_000 + "\nKilled\n", encoding="utf-8")
    tracemalloc.start()
    try:
        said = doctor(tmp_path, "--log", str(log))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert said.code == ExitCode.ENDPOINT
    assert "It ended with: Killed" in said.out
