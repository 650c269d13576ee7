"""Recorded generations of the lab model: what real vLLM streamed, kept as data.

One JSON object a line, gzipped: what was asked, the token pieces, their ids and entropies, the
ending. Detectors are replayed over them, and judged by the grammar's own parser.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import detect_tokens
from stresstest.model import Generation, GenerationVerdict, Token
from stresstest.tasks import load_task
from tests.lab.parser import Report, parse, token_index_of_char

RECORDED = Path(__file__).parent / "recorded"


@cache
def _unit_pattern(task: str, language: str) -> str | None:
    return load_task(task).language(language).unit_pattern


@dataclass(frozen=True)
class Record:
    """One recorded generation."""

    key: str
    model: str
    task: str
    language: str
    decoding: dict[str, float]
    units: int
    prompt_id: str
    prompt_tokens: int | None
    finish_reason: str | None
    tokens: tuple[Token, ...]

    @property
    def text(self) -> str:
        return "".join(t.text for t in self.tokens)

    def without_entropy(self) -> Record:
        """The same output from a server that sends no logprobs."""
        return replace(self, tokens=tuple(replace(token, entropy=None) for token in self.tokens))

    def verdict(self) -> GenerationVerdict:
        """The panel's verdict over the stored tokens."""
        spec = DetectorSpec(self.language, _unit_pattern(self.task, self.language), self.units)
        return detect_tokens(self.tokens, spec, self.finish_reason)

    def oracle(self) -> Report:
        """The grammar's own verdict, independent of the panel."""
        return parse(self.text, self.language, self.task, ended=self.finish_reason == "stop")

    def token_of(self, char: int) -> int:
        """1-based token that holds a character."""
        return token_index_of_char([t.text for t in self.tokens], char)


def from_generation(
    generation: Generation, model: str, task: str, language: str, decoding: dict[str, float]
) -> Record:
    return Record(
        key=generation.key,
        model=model,
        task=task,
        language=language,
        decoding=decoding,
        units=generation.job.units or 0,
        prompt_id=generation.prompt_id,
        prompt_tokens=generation.prompt_tokens,
        finish_reason=generation.finish_reason,
        tokens=tuple(generation.tokens),
    )


def write(path: Path, records: Iterable[Record]) -> int:
    """Write records; returns how many. The bytes depend on the records alone, not on the time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(_document(r), ensure_ascii=False, separators=(",", ":")) for r in records]
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data, compresslevel=9, mtime=0))
    return len(lines)


def _document(record: Record) -> dict[str, Any]:
    entropies = [None if t.entropy is None else round(t.entropy, 2) for t in record.tokens]
    return {
        "key": record.key,
        "model": record.model,
        "task": record.task,
        "language": record.language,
        "decoding": record.decoding,
        "units": record.units,
        "prompt_id": record.prompt_id,
        "prompt_tokens": record.prompt_tokens,
        "finish_reason": record.finish_reason,
        "texts": [t.text for t in record.tokens],
        "ids": [t.id for t in record.tokens],
        "entropies": entropies,
    }


def read(*paths: Path) -> Iterator[Record]:
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                data = json.loads(line)
                columns = zip(data.pop("texts"), data.pop("ids"), data.pop("entropies"), strict=True)
                tokens = tuple(Token(text=t, id=i, entropy=e) for t, i, e in columns)
                yield Record(tokens=tokens, **data)
