"""Plays a fault through the whole of `stresstest run`, in this process, and reads what came out."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from stresstest.campaign import campaign_setup, session
from stresstest.campaign.execution.driver import RetryPolicy, drive
from stresstest.endpoint import counting
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.outcome import Timeouts
from stresstest.model import Generation
from stresstest.store import open_store
from tests.faults.catalogue import Fault, Shape, stripped
from tests.support.commands import command
from tests.support.fake_campaign import Behaviour, Script, campaign_server
from tests.support.fake_vllm import Answer, Asked, Events, FakeVllm, Reset

HORIZON = 64
LATER = 11
"""Generations that are answered before a fault that stays."""
LONG, SHORT = 20.0, 2.0
"""Seconds until something hangs: long where nothing does, so that a busy machine changes nothing."""
_STREAMING = 0.3
"""Seconds between two writes of a server that can be seen to stream, however busy the machine."""
_ADDRESS = re.compile(r"(https?)://127\.0\.0\.1:\d+")
_PAUSE = re.compile(r"before was \d+\.\d s")
_IN_A_ROW = re.compile(r"\d+ requests in a row")
_RETRY = re.compile(r"attempt \d+ failed \((.*)\); retry in")


@dataclass(frozen=True)
class Played:
    """What a campaign made of it. kept: generations that are stored; lost: those of them without an end.

    retries: sentences of the visible retries. losses: of what was lost. error: stderr's last sentence.
    """

    code: int
    stdout: str
    stderr: str
    generations: tuple[Generation, ...]
    retries: tuple[str, ...]

    @property
    def lost(self) -> list[Generation]:
        return [g for g in self.generations if g.failure is not None]

    @property
    def losses(self) -> list[str]:
        return [_neutral(g.failure.message) for g in self.lost if g.failure is not None]

    @property
    def error(self) -> str:
        """The sentence that ends a command, "" when none does."""
        found = re.findall(r"^stresstest: (.*)$", self.stderr, re.MULTILINE)
        return _neutral(found[-1]) if found else ""

    @property
    def missing(self) -> list[str]:
        return re.findall(r"not available: (.*)$", self.stderr, re.MULTILINE)

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.stdout)
        return found


def _neutral(sentence: str) -> str:
    """Without what differs from one play to the next."""
    sentence = _PAUSE.sub("before was short", sentence)
    return _ADDRESS.sub(r"\1://gpu-7:8000", _IN_A_ROW.sub("some requests in a row", sentence))


def prompts_file(folder: Path) -> Path:
    """Forty-four production prompts: one rung, so that a whole campaign is forty short generations."""
    path = folder / "prompts.jsonl"
    asked = [{"id": f"p{i}", "prompt": None, "messages": [_message(i)]} for i in range(44)]
    lines = (json.dumps({k: v for k, v in one.items() if v is not None}) for one in asked)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _message(number: int) -> dict[str, str]:
    return {"role": "user", "content": f"Scrivi 9 paragrafi numerati. Tema: {number}"}


@contextmanager
def _in_a_hurry(limit: float) -> Iterator[None]:
    """The product's own waits, shorter."""
    quick = Timeouts(connect=limit, first=limit, stall=limit, probe=limit)
    retry = RetryPolicy(base=0.01, cap=0.02)
    with ExitStack() as stack:
        stack.enter_context(
            patch.object(campaign_setup, "Endpoint", functools.partial(Endpoint, timeouts=quick))
        )
        stack.enter_context(patch.object(session, "drive", functools.partial(drive, retry=retry)))
        # tiktoken would fetch its tables from the network, which a test must not.
        stack.enter_context(patch.object(counting, "_tiktoken", _offline))
        yield


def _offline(text: str) -> int:
    raise OSError("offline")


def run(folder: Path, *options: str, limit: float = LONG, fresh: bool = True) -> Played:
    """`stresstest run` with these options, on the folder's store. limit: seconds, of every wait.

    fresh: with the options of a new run.
    """
    store = folder / "s.sqlite3"
    given = ["--store", str(store), "--display", "plain", "run", "--json"]
    given += [*(("--rigor", "quick", "--gpus", "none") if fresh else ()), *options]
    with _in_a_hurry(limit):
        code, out, err = command(*given)
    with open_store(str(store)) as opened:
        stored = [g for run in opened.runs() for g in opened.generations(run.id)]
    retries = tuple(_neutral(found) for found in _RETRY.findall(err))
    return Played(code, out, err, tuple(stored), retries)


def campaign(folder: Path, url: str, *more: str, concurrency: int = 8, hangs: bool = False) -> Played:
    """The small campaign: forty short answers in Italian. hangs: a time limit will be waited for."""
    words = ("--lang", "it", "--prompts", str(prompts_file(folder)), "--horizon", str(HORIZON))
    options = (*words, "--concurrency", str(concurrency), "--base-url", url, *more)
    return run(folder, *options, limit=SHORT if hangs else LONG)


def from_the_start(fault: Fault, folder: Path) -> Played:
    """The server does it from the first question on."""
    with campaign_server(Behaviour()) as (fake, _):
        if fault.everywhere:
            fake.everything = fault.answer
        else:
            fake.script = fault.answer
        return campaign(folder, fake.url, hangs=fault.hangs)


def at_first(fault: Fault, folder: Path) -> tuple[Played, Played]:
    """The first two generations meet it, which is the whole climb; then the run is resumed."""
    behaviour = Behaviour(fault=lambda number: fault.answer if number < 2 else None)
    with campaign_server(behaviour) as (fake, _):
        broken = campaign(folder, fake.url)
        return broken, run(folder, "--resume", broken.document["run_id"], fresh=False)


def midway(faults: Sequence[Fault], folder: Path) -> Played:
    """One campaign meets each of these once, in its second, fourth, sixth … generation."""
    met = {1 + 2 * i: fault.answer for i, fault in enumerate(faults)}
    with campaign_server(Behaviour(fault=met.get, one_each=True, pause=_STREAMING)) as (fake, _):
        return campaign(folder, fake.url, hangs=any(fault.hangs for fault in faults))


def staying(fault: Fault, folder: Path) -> Played:
    """From the twelfth generation on the server does nothing else."""
    behaviour = Behaviour(fault=lambda number: fault.answer if number >= LATER else None)
    # What ends a campaign at once would take a random number of the others with it.
    alone = fault.midway is None and not isinstance(fault.answer, Reset)
    with campaign_server(behaviour) as (fake, _):
        return campaign(folder, fake.url, concurrency=1 if alone else 8, hangs=fault.hangs)


def shaped(shape: Shape, folder: Path) -> Played:
    """Every stream has this shape."""
    with campaign_server(Behaviour()) as (fake, script):
        _reshape(fake, script, shape)
        return campaign(folder, fake.url, *shape.options, hangs=shape.hangs)


def _reshape(fake: FakeVllm, script: Script, shape: Shape) -> None:
    for path in shape.without:
        del fake.pages[path]
    fake.pages.update(shape.pages)

    def answer(asked: Asked) -> Answer:
        reply = script(asked)
        assert isinstance(reply, Events)
        parts = stripped(reply.parts, shape.strip) if shape.strip else reply.parts
        return Events(shape.change(parts), content_type=shape.content_type)

    fake.script = answer
