"""Recorded answers of a real model as traffic through the guard: what `abort` ends, and what that saves.

``python -m benchmarks.guard_replay [--write]``

A server streams each recorded answer (SmolLM2-135M-Instruct, `tests/real/recorded`) token by token, with
token ids; the guard stands between it and a client. Two readers, and a third who settles, labelled the
answers without seeing a verdict. Beside it, vLLM's `repetition_detection` on the same token ids. `--write`
puts the table into docs/results/guard.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from benchmarks.pages import table, write_section
from stresstest.campaign.execution.eventloop import run
from stresstest.config.guard import guard_config
from stresstest.economics.mitigation import COMMON_SETTINGS, StopPositions, TokenStream, choose_setting
from stresstest.features.guard.journal import Journal
from stresstest.features.guard.server import serve_guard
from stresstest.features.guard.settings import GuardSettings
from tests.real.labels import Settled, read_labels, settle
from tests.real.recordings import Recording, read

PAGE = "results/guard.md"
REPETITION = ("loop", "near_loop", "flooding")


@dataclass(frozen=True)
class Replayed:
    """One labelled answer. ended: tokens that had been generated when it was ended, None if it was not."""

    recording: Recording
    settled: Settled
    ended: int | None

    @property
    def length(self) -> int:
        return len(self.recording.tokens)

    @property
    def onset(self) -> int | None:
        """The readers' onset, as a token."""
        word = self.settled.label.onset
        return None if word is None else self.recording.token_of(word)


async def _replay(recordings: Sequence[Recording], policy: str) -> dict[str, int]:
    """Key → tokens sent when the answer was ended."""
    by_key = {each.key: each for each in recordings}
    sent: dict[str, int] = {}

    async def answer(request: web.Request) -> web.StreamResponse:
        recording = by_key[(await request.json())["user"]]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError):
            await stream(recording, response)
        return response

    async def stream(recording: Recording, response: web.StreamResponse) -> None:
        for number, token in enumerate(recording.tokens, 1):
            last = number == len(recording.tokens)
            delta = {"index": 0, "delta": {"content": token.text}, "token_ids": [token.id]}
            choice = {**delta, "finish_reason": (recording.finish_reason or "length") if last else None}
            await response.write(b"data: " + json.dumps({"id": "r", "choices": [choice]}).encode() + b"\n\n")
            sent[recording.key] = number
            await asyncio.sleep(0)
        await response.write_eof(b"data: [DONE]\n\n")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    ended: dict[str, int] = {}
    settings = GuardSettings(
        f"http://127.0.0.1:{runner.addresses[0][1]}", guard_config({"policy": policy}, "")
    )
    async with serve_guard(settings, Journal(io.BytesIO())) as guard, aiohttp.ClientSession() as session:
        for recording in recordings:
            body = {
                "model": "lab",
                "user": recording.key,
                "stream": True,
                "max_tokens": recording.max_tokens,
                "messages": [{"role": "user", "content": recording.prompt}],
            }
            async with session.post(f"{guard.url}/v1/chat/completions", json=body) as response:
                if b'"stresstest_guard"' in await response.read():
                    ended[recording.key] = sent[recording.key]
    await runner.cleanup()
    return ended


def row(name: str, replayed: Sequence[Replayed], ended: Sequence[int | None]) -> list[str]:
    """What ending these answers there does: healthy ones ended, failing ones ended, tokens saved."""
    pairs = list(zip(replayed, ended, strict=True))
    healthy = [at for each, at in pairs if not each.settled.label.degenerate and each.settled.unanimous]
    failing = [(each, at) for each, at in pairs if each.settled.label.degenerate]
    repeating = [(each, at) for each, at in failing if each.settled.label.symptom in REPETITION]
    early = sum(at < (each.onset or 1) for each, at in failing if at is not None)
    return [
        name,
        f"{sum(at is not None for at in healthy)} of {len(healthy)}",
        str(early),
        *(
            cell
            for of in (repeating, failing)
            for cell in (f"{sum(at is not None for _, at in of)} of {len(of)}", f"{saved(of):.0%}")
        ),
    ]


def saved(failing: Sequence[tuple[Replayed, int | None]]) -> float:
    """The share of the tokens after the readers' onsets that were not generated."""
    after = sum(each.length - (each.onset or 1) + 1 for each, _ in failing)
    kept = sum(each.length - max(at, each.onset or 1) for each, at in failing if at is not None)
    return kept / after


def results() -> str:
    """The table as Markdown."""
    labels = settle(*(read_labels(reader) for reader in "abc"))
    recordings = [each for each in read() if each.key in labels]
    ended = run(_replay(recordings, "abort"))
    replayed = [Replayed(each, labels[each.key], ended.get(each.key)) for each in recordings]
    streams = []
    for each in replayed:
        ids = tuple(token.id or 0 for token in each.recording.tokens)
        endless = each.recording.finish_reason != "stop"
        label = each.settled.label
        loops = label.symptom in REPETITION
        streams.append(TokenStream(each.recording.key, ids, each.onset, each.onset, loops, endless))
    best = choose_setting(streams).setting
    settings = dict.fromkeys([*COMMON_SETTINGS, *([best] if best else [])])
    rows = [row("`stresstest guard`, `abort`", replayed, [each.ended for each in replayed])]
    for setting in settings:
        name = f"vLLM, {setting.min_pattern_size} to {setting.max_pattern_size} × {setting.min_count}"
        name += " (`recommend`'s choice on these answers)" if setting == best else ""
        rows.append(row(name, replayed, [StopPositions(stream.ids).stop_at(setting) for stream in streams]))
    head = ["ended by", "healthy ended", "before the onset"]
    head += ["repeating ended", "tokens after it saved", "all failing ended", "tokens after it saved"]
    return f"{len(replayed)} labelled answers.\n\n" + table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write docs/results/guard.md")
    given = parser.parse_args()
    text = results()
    sys.stdout.write(text + "\n")
    if given.write:
        write_section(PAGE, "replay", text)


if __name__ == "__main__":
    main()
