"""The ``--prompts`` file: one JSON object a line. Of a large one a sample is kept."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from stresstest.config.foreign_files import MalformedFileError, format_short, read_file
from stresstest.config.request_fields import canonical
from stresstest.errors import UsageError
from stresstest.model import PARAMETERS, Decoding
from stresstest.model.request import request_fields
from stresstest.tasks.bodies import parse_fields, parse_messages, sendable
from stresstest.tasks.prompt import Prompt

MAX_PROMPTS_FILE = 256 * 1024 * 1024
"""Bytes: the file is in memory as a whole."""
MAX_PROMPTS_ITEMS = 2_000_000
"""Lists and objects of such a file: two bytes each, which take a hundred. A prompt has about three."""
MAX_LINE_VALUES = 200_000
"""Values of one line. Numbers take twenty times their two bytes, and no request has so many."""
KEPT_PROMPTS = 20_000
"""Distinct prompts that are kept, a sample by their hash: more than any campaign asks (15,136, strict and
tightened)."""
_TOLD_VALUES = 2
_NEXT_VALUE = re.compile(rb',\s*+(?:["\[{\d-]|true|false|null)')
"""In JSON, or in a text that holds a figure behind a comma."""


@dataclass(frozen=True, slots=True)
class PromptsFile:
    """The user's prompts.

    prompts: distinct ones, in the order of the file; of a larger file the `KEPT_PROMPTS` whose fingerprints
    are the smallest. lines, distinct: how many prompts the file holds. digest: of all distinct fingerprints
    and of `common`, the request fields of all of them, as canonical JSON, which belong to the decoding.
    own_values: of each field that differs between prompts, up to two values. not_sent: names of the fields
    that a measurement sets in their place.
    """

    prompts: tuple[Prompt, ...]
    lines: int
    distinct: int
    digest: str
    common: str | None
    own_values: Mapping[str, tuple[Any, ...]]
    not_sent: tuple[str, ...]

    @property
    def differing(self) -> tuple[str, ...]:
        """Names of the fields that each prompt brings itself."""
        return tuple(sorted(self.own_values))

    def decoding(self, given: Decoding) -> Decoding:
        """The decoding that is given, with what the file's requests have in common.

        Raises UsageError where both name a parameter or a field, and not the same.
        """
        common, extra = request_fields(self.common), given.extra()
        for name, values in {**{name: (value,) for name, value in common.items()}, **self.own_values}.items():
            other = getattr(given, name) if name in PARAMETERS else extra.get(name)
            if other is not None and any(other != value for value in values):
                option = f"--{name.replace('_', '-')}" if name in PARAMETERS else "--extra-body"
                raise UsageError(
                    f"{option} and the prompts file give {name!r} different values.",
                    hint=f"Leave the option out, or take {name!r} out of the file.",
                )
        extra |= {name: value for name, value in common.items() if name not in PARAMETERS}
        parameters = {name: value for name, value in common.items() if name in PARAMETERS}
        return replace(given, extra_body=canonical(extra) if extra else None, **parameters)


def load_prompts(path: str | Path) -> PromptsFile:
    """The user's prompts: JSONL, ``{"id", "messages"}`` or ``{"id", "prompt"}`` with any fields of a request
    a line, blank lines skipped.

    A missing id becomes the content's fingerprint, which repeated lines share. UsageError names the line and
    what is wrong with it.
    """
    state = _state_of(path)
    return _load(str(path)) if state is None else _load_unchanged(str(path), state)


def _state_of(path: str | Path) -> tuple[int, ...] | None:
    """Another one once a file has changed; None for what is no file, of which the reading tells."""
    try:
        found = os.stat(os.path.expanduser(path))  # noqa: PTH111, PTH116  (Path.expanduser raises on "~nobody")
    except (OSError, ValueError):
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


@lru_cache(maxsize=1)
def _load_unchanged(path: str, _state: tuple[int, ...]) -> PromptsFile:
    """A command reads its prompts two or three times. _state: of the file, another once it has changed."""
    return _load(path)


def _load(path: str) -> PromptsFile:
    content = read_file(path, "prompts file", MAX_PROMPTS_FILE)
    if not content and Path(path).is_fifo():
        raise UsageError(
            f"{path} is a pipe, which can be read once; prompts are read again when a run is resumed.",
            hint="Write them to a file.",
        )
    if content.count(b"[") + content.count(b"{") > MAX_PROMPTS_ITEMS:
        raise UsageError(f"prompts file {path} holds more than {MAX_PROMPTS_ITEMS:,} lists and objects")
    return _Reading(path, content).read()


class _Reading:
    """One reading of a file's content, in one pass or two."""

    def __init__(self, path: str, content: bytes) -> None:
        self._path = path
        self._content = content
        self._line = 0

    def read(self) -> PromptsFile:
        """Raises UsageError, which names the line."""
        first = next((fields for _, fields, _ in self._lines()), None)
        if first is None:
            hint = 'one object a line: {"id": …, "messages": […]}'
            raise UsageError(f"{self._path} holds no prompts", hint=hint)
        # A fingerprint leaves out what all lines share, which only the last one tells.
        sample, common = self._sample(first)
        if common != first:
            sample, _ = self._sample(common)
        sample.refuse_repeated_ids(self._path, self._content)
        return sample.result(common)

    def _lines(self) -> Iterator[tuple[Prompt, dict[str, Any], set[str]]]:
        """(prompt, the fields of its request, those that are not sent) of each line that is not blank."""
        count = 0
        # Split as bytes: str.splitlines would also cut at U+2028, which JSON allows inside a string.
        for number, raw in enumerate(io.BytesIO(self._content), start=1):
            if not raw.strip():
                continue
            self._line = number
            if raw.count(b",") > MAX_LINE_VALUES:
                self._refuse_many_values(raw)
            try:
                yield _parse_prompt(raw.removesuffix(b"\n"), count)
            except MalformedFileError as error:
                raise UsageError(f"{self._path}, line {number}: {error}") from error
            count += 1

    def _refuse_many_values(self, raw: bytes) -> None:
        for count, _ in enumerate(_NEXT_VALUE.finditer(raw), start=1):
            if count > MAX_LINE_VALUES:
                raise UsageError(
                    f"{self._path}, line {self._line}, holds more than {MAX_LINE_VALUES:,} values"
                )

    def _sample(self, common: Mapping[str, Any]) -> tuple[_Sample, dict[str, Any]]:
        """(the prompts without the fields in `common`, the fields that all lines have with equal values)."""
        sample, first, shared = _Sample(), None, dict(common)
        for prompt, fields, not_sent in self._lines():
            first = fields if first is None else first
            for name in PARAMETERS:
                if fields.get(name) != first.get(name):
                    raise UsageError(
                        f'{self._path}, line {self._line}: "{name}" is not that of the first line; one run '
                        "measures one decoding",
                        hint="Split the file, or leave the parameter out and give it as an option.",
                    )
            shared = {k: v for k, v in shared.items() if k in fields and fields[k] == v}
            own = {name: value for name, value in fields.items() if name not in common}
            sample.add(prompt, own, not_sent, self._line)
        return sample, shared


class _Sample:
    """The prompts of a file so far: some of them, and of all their hashes, of 64 bits each."""

    def __init__(self) -> None:
        self._kept: dict[int, Prompt] = {}
        self._bound = 1 << 64
        self._fingerprints = array("Q")
        self._ids = array("Q")
        self._lines = array("Q")
        self._named = bytearray()
        self._own_values: dict[str, tuple[Any, ...]] = {}
        self._not_sent: set[str] = set()

    def add(self, prompt: Prompt, own: Mapping[str, Any], not_sent: set[str], line: int) -> None:
        """own: fields that not all prompts share."""
        prompt = replace(prompt, body=canonical(own) if own else None)
        fingerprint = prompt.fingerprint
        named = bool(prompt.id)
        name = prompt.id or fingerprint
        number = int(fingerprint, 16)
        if number < self._bound and number not in self._kept:
            self._kept[number] = prompt if named else replace(prompt, id=fingerprint)
            if len(self._kept) > 2 * KEPT_PROMPTS:
                self._forget()
        self._fingerprints.append(number)
        self._ids.append(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big"))
        self._lines.append(line)
        self._named.append(named)
        self._not_sent |= not_sent
        for field, value in own.items():
            values = self._own_values.get(field, ())
            if len(values) < _TOLD_VALUES and value not in values:
                self._own_values[field] = (*values, value)

    def _forget(self) -> None:
        """Keep the prompts with the smallest fingerprints."""
        least = sorted(self._kept)[:KEPT_PROMPTS]
        self._kept = {number: self._kept[number] for number in least}
        self._bound = least[-1]

    def refuse_repeated_ids(self, path: str, content: bytes) -> None:
        """Raise UsageError where a line's id is that of an earlier one, unless no line names it: prompts
        without an id may repeat."""
        ids, named = np.frombuffer(self._ids, np.uint64), np.frombuffer(self._named, np.uint8)
        order = np.argsort(ids, kind="stable")
        starts = np.flatnonzero(np.concatenate(([True], ids[order][1:] != ids[order][:-1])))
        ends = np.append(starts[1:], len(order))
        clashing = np.flatnonzero((ends - starts > 1) & (np.maximum.reduceat(named[order], starts) > 0))
        clashes = []
        for group in clashing:
            first, *later = order[starts[group] : ends[group]].tolist()
            clashes.append((next(i for i in later if named[first] or named[i]), first))
        if clashes:
            at, first = min(clashes)
            given = f"{self._fingerprints[at]:016x}"
            if named[at]:
                raw = next(islice(io.BytesIO(content), self._lines[at] - 1, None))
                given = _parse_id(json.loads(raw))
            raise UsageError(
                f"{path}, line {self._lines[at]}: id {format_short(given)} is already used on line "
                f"{self._lines[first]}"
            )

    def result(self, common: Mapping[str, Any]) -> PromptsFile:
        self._forget()
        distinct = np.unique(np.frombuffer(self._fingerprints, np.uint64))
        shared = canonical(common) if common else None
        digest = hashlib.sha256(f"{distinct[0]:016x}".encode())
        for number in distinct[1:].tolist():
            digest.update(f"\n{number:016x}".encode())
        if shared is not None:
            digest.update(f"\n{shared}".encode())
        return PromptsFile(
            prompts=tuple(sorted(self._kept.values(), key=lambda prompt: prompt.index)),
            lines=len(self._lines),
            distinct=len(distinct),
            digest=digest.hexdigest()[:16],
            common=shared,
            own_values=dict(self._own_values),
            not_sent=tuple(sorted(self._not_sent)),
        )


def _parse_prompt(raw: bytes, index: int) -> tuple[Prompt, dict[str, Any], set[str]]:
    """(prompt, the fields of its request, those that are not sent); without an id where the line has none."""
    try:
        record = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MalformedFileError(f"not UTF-8 (byte {error.start} of the line)") from error
    except (ValueError, RecursionError) as error:
        raise MalformedFileError(f"not valid JSON, one object a line is expected: {error}") from error
    if not isinstance(record, dict):
        raise MalformedFileError(f"a JSON object is expected, not {format_short(record)}")
    fields, own = parse_fields(record)
    messages, text = record.get("messages"), record.get("prompt")
    if (messages is None) == (text is None):
        raise MalformedFileError(
            'it needs either "messages" or "prompt"' + ("" if text is None else ", not both")
        )
    if text is not None:
        text = sendable(text, '"prompt"')
        if not text.strip():
            raise MalformedFileError('"prompt" is empty')
    parsed = () if messages is None else parse_messages(messages)
    return Prompt(_parse_id(record), parsed, text, index, units=None, topic=None), fields, own


def _parse_id(record: Mapping[str, Any]) -> str:
    """The id; empty where there is none."""
    given = record.get("id")
    if given is None:
        return ""
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    if not isinstance(given, str) or not given.strip() or len(given) > 200 or not given.isprintable():
        raise MalformedFileError(f'"id" must be a short text or a whole number, not {format_short(given)}')
    return given
