"""Credentials in many shapes: none is in a store, a log, a report, a crash file or anything else written."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import signal
import sqlite3
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from stresstest.cli.crash import report_crash
from stresstest.errors import ExitCode
from stresstest.options.common import GlobalOptions
from stresstest.store import open_store
from tests.support.commands import called
from tests.support.fake_campaign import Behaviour, Script, campaign_server
from tests.support.fake_vllm import Answer, Asked, FakeVllm, page
from tests.support.guard_process import guard

pytestmark = pytest.mark.simulated

SECRET = "Zq7vX2wK9p"
"""Part of every credential here; no text that this program or the server writes has it otherwise."""
OPTION, ENVIRONMENT, OURS, FILE = "--api-key", "OPENAI_API_KEY", "STRESSTEST_API_KEY", "stresstest.toml"
KEYS = {
    "plain": f"sk-{SECRET}",
    "quotes": f"sk-'{SECRET}\"\\n'",
    "percent": f"sk%2F{SECRET}%3D%25",
    "base64": f"c2st{SECRET}+/aGVsbG8==",
    "expression": f"sk-(.*)[{SECRET}]+$^\\d",
    "markup": f"sk-<b>&amp;{SECRET}</b>|`*_",
    "blanks": f"sk {SECRET} of  mine",
    "template": f"{{{{ {SECRET} }}}} %s {{0}} ${{x}}",
    "token": f"eyJhbGciOiJIUzI1NiJ9.{SECRET}.c2ln-_",
    "long": f"sk-{SECRET * 300}",
    "lines": f"sk-first\n{SECRET}\nthird",
    "newline": f"sk-{SECRET}\n",
    "letters": f"sk-ключ-{SECRET}",
    "escape": f"sk-\x1b[2J{SECRET}",
}
URLS = {
    "password": "http://user:{secret}@{host}/v1",
    "user": "http://{secret}@{host}/v1",
    "quoted password": "http://user:p%40%2F%3A{secret}%25@{host}/v1",
    "password with at": "http://user:p@{secret}@{host}/v1",
    "query": "http://{host}/v1?api_key={secret}&x=1",
    "fragment": "http://{host}/v1#{secret}",
}


@dataclass(frozen=True)
class Shape:
    """A credential. how: option, variable or file that holds it."""

    how: str
    key: str | None = None
    url: str | None = None
    words: tuple[str, ...] = ()


SHAPES = {
    **{f"option {name}": Shape(OPTION, key) for name, key in KEYS.items()},
    "variable": Shape(ENVIRONMENT, KEYS["quotes"]),
    "our variable": Shape(OURS, KEYS["percent"]),
    "file": Shape(FILE, KEYS["markup"]),
    **{f"address with {name}": Shape(OPTION, url=url) for name, url in URLS.items()},
    "address in a variable": Shape(OURS, url=URLS["password"]),
    "address in a file": Shape(FILE, url=URLS["quoted password"]),
    "exporter": Shape(OPTION, words=("--gpu-exporter", f"http://u:{SECRET}@127.0.0.1:9/m?token={SECRET}")),
}


class Echo:
    """A server that quotes what it was sent in errors, in every spelling; answers every other request."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._asked = 0

    def __call__(self, asked: Asked) -> Answer:
        self._asked += 1
        if asked.body["max_tokens"] < 16 or self._asked % 2:
            return self._script(asked)
        sent = asked.headers.get("authorization", "").removeprefix("Bearer ")
        parts = [sent, repr(sent), json.dumps(sent), quote(sent), quote(sent, safe=""), html.escape(sent)]
        if sent.startswith("Basic "):
            decoded = base64.b64decode(sent.removeprefix("Basic ")).decode()
            parts += [decoded, quote(decoded), *decoded.split(":", 1)]
        return page({"error": {"message": f"refused {' '.join(parts)} at {asked.path}"}}, 400)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeVllm]:
    with campaign_server(Behaviour(onset=30)) as (fake, script):
        fake.script = Echo(script)
        yield fake


@dataclass
class Given:
    """The shape as words and variables of a command line; `said` collects what is printed."""

    folder: Path
    words: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def call(self, *words: str, options: bool = True) -> int:
        more = self.words if options else []
        done = called("--store", "s.sqlite3", *words, *more, tmp_path=self.folder, **self.variables)
        self.said += [done.stdout, done.stderr]
        return done.returncode


def given(shape: Shape, folder: Path, host: str) -> Given:
    made = Given(folder, list(shape.words))
    address = (shape.url or "http://{host}/v1").format(secret=SECRET, host=host)
    settings = {}
    if shape.url is None or shape.how == OPTION:
        made.words += ["--base-url", address]
    elif shape.how == FILE:
        settings["base_url"] = address
    else:
        made.variables["STRESSTEST_BASE_URL"] = address
    if shape.key is not None:
        if shape.how == OPTION:
            made.words += ["--api-key", shape.key]
        elif shape.how == FILE:
            settings["api_key"] = shape.key
        else:
            made.variables[shape.how] = shape.key
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
    (folder / "config.toml").write_text("".join(lines))
    made.words += ["--config", "config.toml"]
    return made


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_a_key_is_in_nothing_that_is_written(shape: Shape, tmp_path: Path, server: FakeVllm) -> None:
    """A measurement against a server that quotes the key in every error, and its reports."""
    known = given(shape, tmp_path, urlsplit(server.url).netloc)
    known.call("doctor")
    code = known.call(
        "run",
        "--lang",
        "it",
        "--rigor",
        "quick",
        "--horizon",
        "100",
        "--budget-tokens",
        "60",
        "--display",
        "plain",
    )
    key = (shape.key or "").strip()
    refused = not (key.isascii() and key.isprintable())
    assert code == (2 if refused else 4), known.said
    if not refused:
        for name in ("r.html", "r.md", "r.json", "r.xml"):
            assert known.call("report", "latest", "-o", name, options=False) == 0
        known.call("runs", "show", "latest", "--json", options=False)
        written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        del written[tmp_path / "config.toml"]
        assert [path.name for path, content in written.items() if SECRET.encode() in content] == []
        assert SECRET not in _stored(tmp_path / "s.sqlite3")
    assert not [text for text in known.said if SECRET in text]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_a_key_is_in_no_crash_file(
    shape: Shape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unforeseen error quotes every option; neither its sentence nor its file holds a credential."""

    def broken(options: dict[str, Any]) -> None:
        raise RuntimeError(f"{options} {options['api_key']} {quote(str(options['api_key']))}")

    monkeypatch.setattr("stresstest.features.plan.command.run_settings", broken)
    monkeypatch.setattr("stresstest.config.secrets._used", set())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(RuntimeError) as crashed:
        given(shape, tmp_path, "h.example").call("plan", "--lang", "it")
    report_crash(crashed.type, crashed.value, crashed.tb)
    [written] = tmp_path.glob("stresstest-crash-*.txt")
    text = written.read_text("utf-8")
    assert "RuntimeError" in text
    assert SECRET not in text + capsys.readouterr().err


FIELDS = {
    "a field of the body": {"api_key": SECRET},
    "a field within": {"metadata": {"routes": [{"X-Api-Key": SECRET}]}},
    "a header": {"extra_headers": {"Authorization": f"Basic {SECRET}"}},
    "a value": {"metadata": {"note": f"Bearer {SECRET}"}},
    "a key's shape": {"metadata": {"note": f"sk-{SECRET * 2}"}},
}


@pytest.mark.parametrize("how", ["--extra-body", "file", "--prompts"])
@pytest.mark.parametrize("fields", FIELDS.values(), ids=list(FIELDS))
def test_a_key_in_a_body_is_refused_unread(fields: dict[str, Any], how: str, tmp_path: Path) -> None:
    """What is sent with each request is stored and shown: a body with a key, or with headers of its own, is
    refused before anything is sent, and the refusal does not quote it."""
    known = Given(tmp_path)
    words = ["run", "--lang", "it", "--base-url", "http://127.0.0.1:9/v1"]
    if how == "--extra-body":
        words += [how, json.dumps(fields)]
    elif how == "file":
        (tmp_path / "stresstest.toml").write_text(f"extra_body = {json.dumps(json.dumps(fields))}\n")
    else:
        body = {"messages": [{"role": "user", "content": "Ciao."}], **fields}
        (tmp_path / "prompts.jsonl").write_text(json.dumps(body))
        words += [how, "prompts.jsonl"]
    assert known.call(*words) == ExitCode.USAGE, known.said
    assert "looks like a credential" in known.said[1] or (
        how == "--prompts" and "unknown key" in known.said[1]
    )
    assert not [text for text in known.said if SECRET in text]
    assert not (tmp_path / "s.sqlite3").exists() or SECRET not in _stored(tmp_path / "s.sqlite3")


def test_a_key_that_passes_the_guard_stays_with_its_upstream(tmp_path: Path) -> None:
    """Clients send the upstream's key through the guard. Neither its log, its metrics nor its messages have
    it, also where the upstream refuses it and quotes it; nor does a refused address."""
    sent = {"Authorization": f"Bearer sk-{SECRET}", "X-Api-Key": SECRET, "Content-Type": "application/json"}
    asked = json.dumps({"model": "lab", "messages": [{"role": "user", "content": "Tema: uno 40"}]}).encode()
    log = tmp_path / "guard.jsonl"
    heard = []

    def answer(request: Asked) -> Answer:
        heard.append(request.headers["authorization"])
        if len(heard) > 1:
            return page({"error": {"message": f"refused {heard[-1]}"}}, 401)
        message = {"role": "assistant", "content": "parola " * 400}
        return page({"model": "lab", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    with campaign_server(Behaviour()) as (fake, _):
        fake.script = answer
        options = ("--log", str(log), "--log-text", "--log-all")
        with guard(fake.url, *options, folder=tmp_path) as (url, process):
            for _ in range(2):
                request = urllib.request.Request(f"{url}/chat/completions", asked, sent)
                with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request) as reply:
                    reply.read()
            metrics = urllib.request.urlopen(url.removesuffix("/v1") + "/guard/metrics").read().decode()
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            assert process.stderr is not None
            said = process.stderr.read()
    assert heard == [sent["Authorization"]] * 2
    assert '"symptom"' in log.read_text("utf-8")
    assert SECRET not in log.read_text("utf-8") + metrics + said
    known = Given(tmp_path)
    assert known.call("guard", "--upstream", f"http://u:{SECRET}@127.0.0.1:9") == ExitCode.USAGE
    assert not [text for text in known.said if SECRET in text]


@pytest.mark.parametrize("store", ["postgresql://u:pw@h/d", "postgresql://h/d?password=pw"])
def test_a_database_password_is_in_no_command_to_copy(store: str) -> None:
    """`Go on with: stresstest --store …` repeats the store only where it holds no password."""
    assert GlobalOptions(store=store).resolve({})["program"] == "stresstest --store …"


def _stored(path: Path) -> str:
    """Everything in the store as text, unpacked."""
    with closing(sqlite3.connect(path)) as plain, open_store(str(path)) as store:
        unpacked = [(store.run(row.id), list(store.generations(row.id))) for row in store.runs()]
        return "\n".join([*plain.iterdump(), repr(unpacked)])


@pytest.mark.parametrize("name", ["password", "query"])
def test_a_credential_in_the_address_is_in_nothing_that_a_command_writes(name: str, tmp_path: Path) -> None:
    """`check` told a CI log the address and its password, and `sweep` kept one in its table and the store."""
    how = ("--task", "narrative:open", "--lang", "it", "--rigor", "quick", "--horizon", "100")
    known = Given(tmp_path)
    with (
        campaign_server(Behaviour(onset=30)) as (first, _),
        campaign_server(Behaviour(onset=30)) as (other, _),
    ):
        address = URLS[name].format(secret=SECRET, host=urlsplit(other.url).netloc)
        assert known.call("run", "--base-url", first.url, *how, "--display", "plain") == 0, known.said
        for words in (
            ("check", "--baseline", "latest", "--base-url", address, "--display", "plain"),
            ("sweep", "--param", f"base_url={address},{first.url}", *how, "--display", "plain"),
            ("sweep", "--param", f"base_url={address},{first.url}", *how, "--json"),
            ("cost", "--base-url", address, "--lang", "it", "--horizon", "100", "--requests", "4"),
            ("recommend", "--base-url", address),
            ("diagnose", "latest", "--base-url", address, "--budget-tokens", "2k"),
            ("doctor", "--base-url", address),
            ("init", "--base-url", address, "--lang", "it"),
            ("plan", "--base-url", address, "--lang", "it"),
        ):
            known.call(*words)
            assert not [text for text in known.said if SECRET in text], words
    assert any("measuring" in text for text in known.said)
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert [path.name for path, content in written.items() if SECRET.encode() in content] == []
    assert SECRET not in _stored(tmp_path / "s.sqlite3")
