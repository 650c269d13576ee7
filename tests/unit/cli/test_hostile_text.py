"""Text from servers, logs, files and options: every command and format, one hostile set for every field."""

from __future__ import annotations

import io
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch
from xml.etree import ElementTree as ET

import pytest

from stresstest.cli.app import main
from stresstest.model import DocumentKind, RunStatus
from stresstest.options.streams import ENCODING_ERRORS, LogStream
from stresstest.store import open_store
from tests.support.commands import clean_environment
from tests.support.fake_campaign import Behaviour, campaign_server
from tests.support.fake_vllm import Answer, Asked, FakeVllm, Page, page
from tests.support.reported_runs import diagnosis, documents, gpu_samples, healthy, looping, lost, result

pytestmark = pytest.mark.simulated

ATTACKS = {
    "command": "\n::error::owned\r::error::owned\u2028::error::owned",
    "marked": "##[error]owned\n  ::add-mask::x",
    "terminal": "\x1b[2J\x1b]0;owned\x07\x9b31m\x1bP1$r\x1b\\\x08\x7f\x85",
    "invisible": "\u202eowned\u2066\u200b\ufeff\u2029\U000e0041",
    "markup": "|`]]><b>&amp;*_[red]{0}%s\t\x0b\x0c",
}
OWN_COMMAND = re.compile(r"::(error|warning|notice) title=stresstest%3A [^:]*::[^\r\n]*")


class Room:
    """A folder in which commands run in this process, their output read as a CI server reads it."""

    def __init__(self, folder: Path, attack: str) -> None:
        self.folder, self.attack = folder, attack

    def call(self, *words: str) -> int:
        """The exit code. Whatever the command printed is harmless."""
        out, err = (LogStream(io.BytesIO(), encoding="utf-8", errors=ENCODING_ERRORS) for _ in range(2))
        arguments = ["stresstest", "--store", "s.sqlite3", *words]
        with (
            patch.dict("os.environ", clean_environment(self.folder), clear=True),
            patch.object(sys, "argv", arguments),
            patch.object(sys, "stdout", out),
            patch.object(sys, "stderr", err),
            patch("stresstest.cli.app.exit_process", sys.exit),
            pytest.raises(SystemExit) as ended,
        ):
            main()
        for stream in (out, err):
            stream.flush()
            check_harmless(stream.buffer.getvalue().decode(), f"output of {words}", log=True)  # type: ignore[attr-defined]
        return int(ended.value.code or 0)

    def check_files(self, *names: str) -> None:
        for name in names:
            path = self.folder / name
            check_harmless(path.read_text("utf-8"), name, log=path.suffix not in {".html", ".json"})
            if path.suffix == ".xml":
                ET.parse(path)
            if path.suffix == ".json":
                json.loads(path.read_text("utf-8"))


def check_harmless(text: str, where: str, *, log: bool) -> None:
    """Nothing steers a terminal; in a log, no line is a workflow command that is not our own."""
    bad = {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - {"\n", "\t"}
    assert not bad, f"{where}: {bad}"
    if not log:
        return
    assert "##[" not in text, where
    commands = [line for line in text.split("\n") if line.strip().startswith("::")]
    assert [line for line in commands if not OWN_COMMAND.fullmatch(line)] == [], where


@pytest.fixture(params=ATTACKS.values(), ids=list(ATTACKS))
def room(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.chdir(tmp_path)
    return Room(tmp_path, request.param)


def test_stored_runs(room: Room) -> None:
    """Names, prompts, answers, errors, versions, notes and documents that were stored long ago."""
    _store(room.folder / "s.sqlite3", room.attack)
    for words in (("list",), ("list", "--json"), ("show", "a"), ("show", "a", "--json"), ("delete", "a" * 9)):
        room.call("runs", *words)
    names = [f"{which}.{ending}" for which in ("one", "two") for ending in ("html", "md", "json", "xml")]
    for name in names:
        runs = ("a",) if name.startswith("one") else ("a", "b")
        assert room.call("report", *runs, "-o", name) == 0
    assert room.call("report", "-o", "index.html") == 0
    room.call("report", "a")
    room.check_files(*names, "index.html")
    for form in ("table", "json", "vllm", "openai", "litellm", "env"):
        room.call("recommend", "--format", form, "--allow-one-prompt")
    room.call("recommend", "--repetition-detection", "a")
    outputs = ("--junit", "c.xml", "--markdown", "c.md", "--github")
    for more in ((), ("--json",)):
        room.call("check", "--baseline", "a", "--candidate", "b", *outputs, *more)
    room.call("diagnose", "a", "--base-url", "http://127.0.0.1:9/v1")
    room.call("run", "--resume", "b", "--base-url", "http://127.0.0.1:9/v1")


def test_logs(room: Room) -> None:
    """Every key of a record, lines that are none, and the files' own names."""
    bad = room.attack
    name = f"log{bad.replace('/', '')}.jsonl"
    rows = [
        {"id": f"{bad}{n}", "model": bad, "task": bad, "response": f"{bad} {'e poi ancora ' * 40}",
         "language": bad, "finish_reason": bad, "start": n, "end": n + 1, "completion_tokens": 90, bad: bad}
        for n in range(4)
    ]  # fmt: skip
    lines = [json.dumps(row) for row in rows] + [f"{bad} no record", json.dumps({bad: bad})]
    (room.folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    plain = ("--display", "plain")
    for more in ((), ("--json",), ("--group-by", f"model,task,{bad}"), ("--show", "2", "--out", "out.jsonl")):
        room.call(*plain, "scan", name, *more)
    room.call(*plain, "scan", name, "--field", f"response={bad}", "--group-by", bad)
    room.call(*plain, "cost", name, "-o", "cost.md")
    room.call(*plain, "cost", name, "--json", "-o", "cost.json")
    outputs = ("--junit", "c.xml", "--markdown", "c.md", "--github")
    room.call(*plain, "check", "--baseline", name, "--candidate", name, *outputs)
    room.call(*plain, "recommend", "--repetition-detection", name)
    (room.folder / name).write_text(
        f"INFO vLLM API server version {bad}\nINFO args: model={bad}\nValueError: {bad}\n", encoding="utf-8"
    )
    room.call("doctor", "--log", name)
    room.call("doctor", "--log", name, "--json")
    check_harmless((room.folder / "out.jsonl").read_text("utf-8"), "out.jsonl", log=False)
    written = [path.name for path in room.folder.iterdir() if path.suffix in {".md", ".json", ".xml"}]
    room.check_files(*written)


OPTIONS = (
    ("run", "--lang", "BAD"),
    ("run", "--lang", "it", "--task", "BAD"),
    ("run", "--lang", "it", "--rigor", "BAD"),
    ("run", "--lang", "it", "--gpus", "BAD"),
    ("run", "--lang", "it", "--prompts", "BAD"),
    ("run", "--lang", "it", "--base-url", "http://127.0.0.1:9/BAD"),
    ("run", "--lang", "it", "--margin", "BAD"),
    ("run", "--resume", "BAD"),
    ("run", "--config", "BAD", "--lang", "it"),
    ("plan", "--lang", "it", "--model", "BAD"),
    ("plan", "--lang", "it", "--model", "BAD", "--json"),
    ("sweep", "--lang", "it", "--param", "BAD=BAD"),
    ("sweep", "--lang", "it", "--param", "temperature=BAD,BAD"),
    ("diagnose", "BAD"),
    ("diagnose", "--lang", "it", "--arms", "BAD"),
    ("check", "--baseline", "BAD", "--candidate", "BAD"),
    ("check", "--baseline", "x", "--allow-different", "BAD"),
    ("recommend", "--format", "BAD"),
    ("recommend", "--model", "BAD"),
    ("report", "BAD", "-o", "BAD.md"),
    ("runs", "show", "BAD"),
    ("scan", "BAD"),
    ("scan", "x.jsonl", "--field", "BAD"),
    ("cost", "BAD", "--lang", "it"),
    ("doctor", "--log", "BAD"),
    ("sim", "--scenario", "BAD"),
    ("sim", "--scenario", "healthy", "--speed", "BAD"),
    ("demo", "-o", "BAD"),
    ("BAD",),
    ("run", "--BAD"),
    ("run", "--concurrency", "BAD"),
)


def test_options(room: Room) -> None:
    """What a pipeline passes on, such as the name of a branch, in the errors about it."""
    for words in OPTIONS:
        assert room.call(*(word.replace("BAD", room.attack) for word in words)) != 1


@pytest.fixture(scope="module")
def server() -> Iterator[FakeVllm]:
    with campaign_server(Behaviour(onset=30)) as (fake, _):
        yield fake


def test_servers(room: Room, server: FakeVllm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models, versions, metrics, answers and errors of a server."""
    bad, script, asked = room.attack, server.script, [0]
    assert callable(script)

    def answer(request: Asked) -> Answer:
        asked[0] += 1
        refusing = request.body["max_tokens"] >= 16 and asked[0] % 2
        return page({"error": {"message": bad}}, 400) if refusing else script(request)

    monkeypatch.setattr(server, "script", answer)
    pages = server.pages | {
        "/v1/models": page({"data": [{"id": f"m{bad}", "max_model_len": 4096, "root": bad}]}),
        "/version": page({"version": f"0.32{bad}"}),
    }
    monkeypatch.setattr(server, "pages", pages)
    (room.folder / "task.toml").write_text(_task(bad))
    limits = ("--lang", "it", "--rigor", "quick", "--horizon", "100", "--base-url", server.url)
    asking = [{"role": "user", "content": bad}]
    prompts = [json.dumps({"id": f"{bad}{n}", "messages": asking}) for n in range(3)]
    (room.folder / "p.jsonl").write_text("\n".join(prompts), encoding="utf-8")
    for more in (("run", "--task", "./task.toml"), ("run", "--json"), ("run", "--prompts", "p.jsonl")):
        room.call("--display", "plain", *more, *limits, "--budget-tokens", "60", "--system-prompt", bad)
    room.call("doctor", "--base-url", server.url)
    room.call("doctor", "--base-url", server.url, "--json")
    room.call("doctor", "--base-url", server.url, "--model", "other")
    monkeypatch.setattr(server, "everything", Page(bad.encode(), 500, "text/plain"))
    room.call("doctor", "--base-url", server.url)
    for command in (("run",), ("cost",), ("sweep", "--param", "top_k=1")):
        room.call(*command, *limits)


def _task(attack: str) -> str:
    """A task file with the attack in every text."""
    bad = "".join(f"\\U{ord(c):08x}" for c in attack if c not in "{}")
    return f"""
name = "t{bad}"
summary = "{bad}"
units = "{bad}"
[languages.it]
instruction = "Scrivi {{units}} paragrafi numerati. {bad} Tema: {{topic}}"
open_instruction = "Scrivi. {bad} {{topic}}"
language_constraint = "Solo italiano. {bad}"
unit_pattern = '^(?:Paragrafo|Capitolo) ([0-9]{{1,6}})'
tokens_per_unit = 60
topics = ["{bad} {{n}}"]
[languages.it.slots]
n = ["uno {bad}", "due", "tre"]
"""


def _store(path: Path, attack: str) -> None:
    made = (
        healthy(0, 60, text=attack),
        lost(2, 30, attack),
        *(looping(i, 40, 80, text=attack, period=6) for i in range(3, 30)),
    )
    with open_store(str(path)) as store:
        for name in ("a", "b"):
            found = result(made, text=attack, model=attack, run_id=name)
            store.create_run(replace(found.run, status=RunStatus.DONE))
            for generation in made:
                store.add_generation(name, generation)
            store.add_samples(name, found.samples)
            store.add_gpu_samples(name, gpu_samples())
            store.save_threshold(name, found.threshold, found.safe_max_tokens, found.verdict)
            store.save_diagnosis(replace(diagnosis(attack), run_id=name))
        for document in (each for each in documents(attack) if each.kind is not DocumentKind.CHECK):
            store.save_document(document.kind, document.body, runs=["a"], complete=True, simulated=False)
