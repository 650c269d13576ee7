"""Peak memory of the commands that read logs, on files of 45 MB, the worst shapes known, and of a run with
long answers in flight.

``python -m benchmarks.log_memory [--megabytes 45] [--write]``

Each command runs as a user runs it; all of its processes count, pages that they share once. `--write` puts
the table into docs/memory.md. Linux only.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.pages import table, write_section
from benchmarks.scan_speed import watched
from stresstest.simulation.engine.scenario.file import load_scenario
from tests.support.simulated_servers import served

_TEXT = (
    "the harbour keeper climbed stairs lamp boat oranges crates fog pier wrote letter school nobody noticed",
    "late a of and with for them she he was to in on counted twice loaded came figure book herring",
)
_WORDS = " ".join(_TEXT).split()
_COMMAND = [sys.executable, "-m", "stresstest"]


def prose(rng: random.Random, words: int) -> str:
    sentences = (" ".join(rng.choices(_WORDS, k=9)).capitalize() + "." for _ in range(max(1, words // 9)))
    return " ".join(sentences)


def one_answer(rng: random.Random, size: int) -> Iterator[str]:
    yield json.dumps({"prompt": "Tell a story.", "response": prose(rng, size // 6)})


def long_answers(rng: random.Random, size: int) -> Iterator[str]:
    for n in range(10):
        yield json.dumps({"prompt": f"Tell story {n}.", "response": prose(rng, size // 60)})


def timed(rng: random.Random, size: int, words: int) -> Iterator[str]:
    written, at = 0, 1.7e9
    while written < size:
        at += rng.expovariate(20.0)
        tokens = words or rng.randint(20, 600)
        row: dict[str, Any] = {
            "id": f"r{at:.3f}",
            "start": round(at, 3),
            "first_token": round(at + 0.2, 3),
            "end": round(at + 0.2 + tokens / 40, 3),
            "completion_tokens": tokens,
            "finish_reason": "stop",
        }
        if words:
            row |= {"prompt": f"Question {at:.3f}", "response": prose(rng, words)}
        line = json.dumps(row)
        written += len(line) + 1
        yield line


def short_answers(rng: random.Random, size: int) -> Iterator[str]:
    for n in range(size // 170):
        yield json.dumps({"prompt": f"Question {n}", "response": prose(rng, 18)})


def prompts(rng: random.Random, size: int) -> Iterator[str]:
    for n in range(size // 33):
        yield json.dumps({"prompt": f"{' '.join(rng.choices(_WORDS, k=2))[:12]} {n:06x}"})


def pictures(rng: random.Random, size: int) -> Iterator[str]:
    """Prompts with a photo of 4 MB each."""
    for n in range(size // 5_500_000):
        photo = f"data:image/png;base64,{rng.randbytes(2_750_000).hex()}"
        parts = [{"type": "text", "text": prose(rng, 9)}, {"type": "image_url", "image_url": {"url": photo}}]
        yield json.dumps({"id": f"{n}", "messages": [{"role": "user", "content": parts}]})


def spans(rng: random.Random, size: int) -> Iterator[str]:
    """An export of OpenTelemetry spans, all in one line."""
    found = []
    for n in range(size // 850):
        said = [{"role": "assistant", "parts": [{"type": "text", "content": prose(rng, 9)}]}]
        values = {"http.method": "POST", "http.status_code": "200", "net.peer": "10.0.0.1", "k8s.pod": "p-1"}
        values |= {"thread.id": "3", "gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
        values |= {"gen_ai.usage.output_tokens": "20", "gen_ai.output.messages": json.dumps(said)}
        named = [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]
        times = {"startTimeUnixNano": f"{n}000000000", "endTimeUnixNano": f"{n + 1}000000000"}
        found.append(
            {"traceId": f"{n:032x}", "spanId": f"{n:016x}", "name": "chat", **times, "attributes": named}
        )
    yield json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": found}]}]})


_CASES: tuple[tuple[str, str, Callable[[random.Random, int], Iterator[str]]], ...] = (
    ("scan", "one answer", one_answer),
    ("scan", "ten answers", long_answers),
    ("scan", "spans in one line", spans),
    ("cost", "requests without text", lambda rng, size: timed(rng, size, 0)),
    ("cost", "requests with text", lambda rng, size: timed(rng, size, 18)),
    ("export kto", "short answers", short_answers),
    ("plan --prompts", "prompts", prompts),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=45.0)
    parser.add_argument("--write", action="store_true", help="write docs/memory.md")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        store = ["--store", f"{folder}/s.sqlite3", "--display", "none"]
        for name, what, lines in _CASES:
            path = Path(folder) / "log.jsonl"
            with path.open("w", encoding="utf-8") as file:
                number = 0
                for line in lines(random.Random(1), int(options.megabytes * 1e6)):
                    file.write(line + "\n")
                    number += 1
            more = ["-o", f"{folder}/out.jsonl"] if name.startswith("export") else []
            more += ["--model", "m", "--horizon", "500"] if name.startswith("plan") else []
            size = path.stat().st_size / 1e6
            found = run([*_COMMAND, *store, *name.split(), str(path), "--lang", "en", *more])
            rows.append([f"`{name}`", f"{what}: {size:.0f} MB, {number:,} lines", *found])
        with served(load_scenario("healthy")) as server:
            words = ["--base-url", server.base_url, "--lang", "en", "--rigor", "quick", "--horizon", "30000"]
            for flight in ("8", "64"):
                found = run([*_COMMAND, *store, "run", *words, "--concurrency", flight])
                rows.append(["`run`", f"answers of up to 30,000 tokens, {flight} in flight", *found])
            photos = Path(folder) / "photos.jsonl"
            photos.write_text("\n".join(pictures(random.Random(1), int(options.megabytes * 1e6))))
            words = ["--base-url", server.base_url, "--lang", "en", "--rigor", "quick", "--horizon", "200"]
            found = run([*_COMMAND, *store, "run", *words, "--concurrency", "32", "--prompts", str(photos)])
            size = photos.stat().st_size / 1e6
            rows.append(["`run --prompts`", f"pictures: {size:.0f} MB, 32 in flight", *found])
    text = table(["command", "what", "peak memory", "seconds"], rows)
    print(text)
    if options.write:
        write_section("memory.md", "logs", text)
    return 0


def run(command: list[str]) -> list[str]:
    """Its peak and its seconds. Exit codes that are verdicts (nothing to train on) end no measurement."""
    found = watched(["sh", "-c", '"$@" 2>/dev/null; code=$?; test $code -eq 4 || exit $code', "sh", *command])
    return [f"{found.pss:.0f} MB", f"{found.wall:.0f}"]


if __name__ == "__main__":
    sys.exit(main())
