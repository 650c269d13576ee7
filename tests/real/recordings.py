"""The recorded answers of the real model, as typed data.

The files in `recorded/` are made from what `record` writes (`python -m tests.real.recordings RAW.jsonl DIR`).
Tokens are stored as columns: ids once in the file's own vocabulary of pieces, entropies and logprobs as whole
thousandths. The model's weights were quantised to 4 bits (Q4_1) by their packager; see `fetch_model`.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import detect_tokens
from stresstest.model import GenerationVerdict, Token
from stresstest.tasks import LanguageTask, load_task
from tests.real.cells import CONSTRAINED, SCHEMA

RECORDED = Path(__file__).parent / "recorded"
SCALE = 1000
"""Entropies (nats) and logprobs are kept to a thousandth."""


@dataclass(frozen=True)
class Recording:
    """One answer.

    half: "tuning" or "held", settled by the prompt. finish_reason: the server's word; None when we closed the
    stream (`aborted`), which happens only in an exact loop, 400 tokens past its alarm; `loop_at_abort` holds
    that loop's period and the repeated tokens beyond its alarm. seconds, first_token_s: since the request
    was sent, on a busy machine, 24 at once.
    """

    key: str
    model: str
    task: str
    language: str
    temperature: float
    top_p: float
    repetition_penalty: float
    max_tokens: int
    replicate: int
    half: str
    units: int
    seed: int
    prompt_id: str
    prompt: str
    prompt_tokens: int | None
    finish_reason: str | None
    aborted: bool
    loop_at_abort: tuple[int, int] | None
    first_token_s: float | None
    seconds: float | None
    tokens: tuple[Token, ...]

    @property
    def text(self) -> str:
        """The answer."""
        return "".join(token.text for token in self.tokens)

    @property
    def constrained(self) -> bool:
        """Whether a system prompt demanded the language."""
        return self.key.endswith(CONSTRAINED)

    @property
    def schema(self) -> bool:
        """Whether the decoder was held to a JSON schema."""
        return self.key.endswith(SCHEMA)

    @property
    def unconstrained_key(self) -> str:
        """The key of the same prompt and decoding without that system prompt or schema."""
        return self.key.removesuffix(CONSTRAINED).removesuffix(SCHEMA)

    @property
    def capped(self) -> bool:
        """Whether the answer was ended by max_tokens."""
        return self.finish_reason == "length"

    def without_logprobs(self) -> Recording:
        """The same answer from a server that sends no logprobs."""
        bare = tuple(replace(token, logprob=None, entropy=None) for token in self.tokens)
        return replace(self, tokens=bare)

    @property
    def spec(self) -> DetectorSpec:
        """What the detectors receive about the request."""
        task = _language_task(self.task, self.language)
        language = None if task.unit == "function" else self.language
        return DetectorSpec(language, task.unit_pattern, self.units, self.prompt, task.unit)

    def verdict(self) -> GenerationVerdict:
        """The verdict on the stored tokens."""
        return detect_tokens(self.tokens, self.spec, self.finish_reason)

    def word_of(self, token: int) -> int:
        """The 1-based word, counted at white space, in which a 1-based token begins.

        A token that is blank belongs to the word after it. The inverse of `token_of`.
        """
        before = "".join(each.text for each in self.tokens[: token - 1])
        piece = self.tokens[token - 1].text
        whole = len(before.split())
        inside = bool(before) and not before[-1].isspace() and bool(piece) and not piece[0].isspace()
        return max(1, whole if inside else whole + 1)

    def token_of(self, word: int) -> int:
        """The 1-based token that holds the first character of a 1-based word.

        Raises IndexError when the answer has fewer words.
        """
        starts = _word_starts(self.text)
        position, end = starts[word - 1], 0
        for number, token in enumerate(self.tokens, 1):
            end += len(token.text)
            if end > position:
                return number
        raise IndexError(word)


@cache
def _language_task(task: str, language: str) -> LanguageTask:
    return load_task(task).language(language)


def _word_starts(text: str) -> list[int]:
    return [i for i, ch in enumerate(text) if not ch.isspace() and (i == 0 or text[i - 1].isspace())]


def files(folder: Path = RECORDED) -> list[Path]:
    """The recorded files, one a task."""
    return sorted(folder.glob("*.jsonl.gz"))


def read(*paths: Path) -> Iterator[Recording]:
    """Every recording of the given files, by default of all, in the order of their keys."""
    for path in paths or files():
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            pieces: list[str] = json.loads(next(lines))["pieces"]
            for line in lines:
                yield _recording(json.loads(line), pieces)


def read_raw(path: Path) -> Iterator[Recording]:
    """Recordings as `record` writes them."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield _from_raw(json.loads(line))


def write(path: Path, recordings: Iterable[Recording]) -> int:
    """Write recordings, compressed; returns how many bytes. The bytes do not depend on the time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers: dict[str, int] = {}
    lines = [_line(each, numbers) for each in sorted(recordings, key=lambda r: r.key)]
    head = {"pieces": list(numbers)}
    data = "".join(f"{_json(each)}\n" for each in [head, *lines]).encode()
    path.write_bytes(gzip.compress(data, compresslevel=9, mtime=0))
    return path.stat().st_size


def _line(recording: Recording, numbers: dict[str, int]) -> dict[str, Any]:
    fields = {name: value for name, value in vars(recording).items() if name != "tokens"}
    tokens = recording.tokens
    return {
        **fields,
        "texts": [numbers.setdefault(token.text, len(numbers)) for token in tokens],
        "ids": [token.id for token in tokens],
        "entropies": [_thousandths(token.entropy) for token in tokens],
        "logprobs": [_thousandths(token.logprob) for token in tokens],
    }


def _recording(data: dict[str, Any], pieces: list[str]) -> Recording:
    columns = zip(
        data.pop("texts"), data.pop("ids"), data.pop("logprobs"), data.pop("entropies"), strict=True
    )
    tokens = tuple(
        Token(text=pieces[text], id=number, logprob=_unit(logprob), entropy=_unit(entropy))
        for text, number, logprob, entropy in columns
    )
    loop = data.pop("loop_at_abort")
    return Recording(tokens=tokens, loop_at_abort=tuple(loop) if loop else None, **data)


def _from_raw(data: dict[str, Any]) -> Recording:
    columns = zip(
        data.pop("texts"), data.pop("ids"), data.pop("logprobs"), data.pop("entropies"), strict=True
    )
    tokens = tuple(Token(text=t, id=i, logprob=lp, entropy=e) for t, i, lp, e in columns)
    loop = data.pop("loop_at_abort")
    del data["recorded_at"]
    return Recording(
        tokens=tokens, loop_at_abort=tuple(loop) if loop else None, **data.pop("decoding"), **data
    )


def _thousandths(value: float | None) -> int | None:
    return None if value is None else round(value * SCALE)


def _unit(value: int | None) -> float | None:
    return None if value is None else value / SCALE


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def main() -> None:
    """Compress what was recorded: one file a task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw", type=Path, nargs="+")
    parser.add_argument("--folder", type=Path, default=RECORDED)
    parser.add_argument("--add", action="store_true", help="keep what the folder holds already")
    args = parser.parse_args()
    kept = {each.key: each for each in read(*files(args.folder))} if args.add else {}
    new = {each.key: each for path in args.raw for each in read_raw(path)}
    recordings = list((kept | new).values())
    for task in sorted({recording.task for recording in recordings}):
        path = args.folder / f"{task}.jsonl.gz"
        chosen = [recording for recording in recordings if recording.task == task]
        print(f"{path}: {len(chosen)} answers, {write(path, chosen):,} bytes")


if __name__ == "__main__":
    main()
