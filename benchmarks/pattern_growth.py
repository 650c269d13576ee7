"""Whether a text can be written that makes one of the package's patterns slow, where users' texts meet it.

python -m benchmarks.pattern_growth [--characters 12_000] [NAME…]

For every regular expression of the package, texts that make its repeats run: each repeat's unit alone, behind
what the pattern wants before it, between separators, and in random spellings. Each text goes through all that
reads foreign text (the detectors, alone and with the text as its prompt, what hides credentials, what knows
errors) at two lengths, one four times the other. What takes more than eight times as long is printed, and the
exit code is 1: four is linear, sixteen quadratic. NAME: only patterns whose module or name contains it.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import stresstest
from stresstest.config.credentials.texts import hide_credentials
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.records.replaced import is_error, is_replaced

code: Any = importlib.import_module("re._constants")
sre: Any = importlib.import_module("re._parser")
_MANY = 20
"""Repeats that end at fewer are no loops."""
_SLOW, _STEEP = 0.35, 8.0
"""CPU seconds of the shorter text from which on the longer one is tried; what is no longer linear."""
_SEPARATORS = ("", " ", "\n", "-")
_OTHERS = "a1 -x.,\n(_é~"
_CATEGORIES = {
    code.CATEGORY_DIGIT: "0123456789",
    code.CATEGORY_WORD: "abcdeno1_",
    code.CATEGORY_SPACE: " \n",
    code.CATEGORY_NOT_SPACE: "abc1.",
    code.CATEGORY_NOT_WORD: "-. ",
    code.CATEGORY_NOT_DIGIT: "abc ",
}

Nodes = Sequence[tuple[Any, Any]]
Loop = tuple[str, str]
"""What a pattern wants before a repeat, and the repeat's unit."""


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    """(name, pattern) of every pattern that a module of the package holds, once."""
    seen = set()
    for found in pkgutil.walk_packages(stresstest.__path__, "stresstest."):
        with suppress(ImportError):  # integrations need their packages
            module = importlib.import_module(found.name)
            for name, value in vars(module).items():
                if not (isinstance(value, re.Pattern) and isinstance(value.pattern, str)):
                    continue
                if (value.pattern, value.flags) not in seen:
                    seen.add((value.pattern, value.flags))
                    yield f"{found.name}.{name}", value


def _sign(op: object, value: Any, rng: random.Random) -> str:
    """A character that a node matches."""
    if op is code.LITERAL:
        return chr(value)
    if op is not code.IN:
        return rng.choice("abc 1,.-x") if op is code.ANY else "a" if value != ord("a") else "b"
    spans = [each for kind, given in value if (each := _span(kind, given))]
    if value[0][0] is not code.NEGATE:
        return rng.choice(rng.choice(spans))
    return next((sign for sign in _OTHERS if not any(sign in span for span in spans)), "~")


def _span(kind: object, given: Any) -> str:
    """The characters of a part of a class, at most a hundred."""
    if kind is code.LITERAL:
        return chr(given)
    if kind is code.RANGE:
        return "".join(map(chr, range(given[0], min(given[1], given[0] + 99) + 1)))
    return _CATEGORIES.get(given, "") if kind is code.CATEGORY else ""


def matched(nodes: Nodes, rng: random.Random, loops: list[Loop], before: str = "") -> str:
    """A text that the nodes match, each repeat once or as often as it must. loops: gets theirs."""
    text = ""
    for op, value in nodes:
        reached = before + text
        if op in (code.LITERAL, code.NOT_LITERAL, code.ANY, code.IN):
            text += _sign(op, value, rng)
        elif op is code.SUBPATTERN:
            text += matched(value[3], rng, loops, reached)
        elif op is code.ATOMIC_GROUP:
            text += matched(value, rng, loops, reached)
        elif op is code.BRANCH:
            text += rng.choice([matched(branch, rng, loops, reached) for branch in value[1]])
        elif op in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT):
            least, most, repeated = value
            unit = matched(repeated, rng, loops, reached)
            if unit and most > _MANY:
                loops.append((reached, unit))
            text += unit * max(1, least)
    return text


def writers(pattern: re.Pattern[str]) -> Iterator[Callable[[int], str]]:
    """Makers of hostile texts of any length."""
    nodes: Nodes = list(sre.parse(pattern.pattern, pattern.flags))
    loops: list[Loop] = []
    whole = matched(nodes, random.Random(1), loops)
    units = {whole, *(unit for _, unit in loops), *(head + unit for head, unit in loops)}
    units |= {unit + separator for _, unit in loops for separator in _SEPARATORS}
    for unit in sorted(units - {""}, key=lambda unit: (len(unit), unit)):
        yield partial(_repeated, unit)
    if loops:
        yield partial(_spelled, nodes, "")
        yield partial(_spelled, nodes, " ")


def _repeated(unit: str, length: int) -> str:
    return (unit * (length // len(unit) + 1))[:length]


def _spelled(nodes: Nodes, separator: str, length: int) -> str:
    """What the repeats of a pattern take, each time another spelling."""
    pieces: list[str] = []
    size = 0
    while size < length:
        rng, loops = random.Random(len(pieces)), list[Loop]()
        whole = matched(nodes, rng, loops)
        pieces.append(rng.choice(loops)[1] if loops else whole)
        size += len(pieces[-1]) + 1
    return separator.join(pieces)[:length]


READERS: dict[str, Callable[[str], object]] = {
    "detectors": lambda text: detect_recorded(text, DetectorSpec("en"), "length"),
    "detectors with the prompt": lambda text: detect_recorded(
        f"{text[:3000]} The boat left. {text[3000:]}", DetectorSpec("en", prompt_text=text), "length"
    ),
    "credentials": hide_credentials,
    "errors": is_error,
    "replaced texts": is_replaced,
}


def seconds(reader: Callable[[str], object], text: str) -> float:
    """CPU seconds of one reading, the lesser of two where it is slow."""
    least = float("inf")
    for _ in range(2):
        began = time.process_time()
        reader(text)
        least = min(least, time.process_time() - began)
        if least < _SLOW:
            break
    return least


def main() -> int:
    """Print each text that some reader is slow at, and how many were tried."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--characters", type=int, default=12_000, help="length of the shorter text")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    seen: set[str] = set()
    steep = count = 0
    for name, pattern in patterns():
        if asked.names and not any(wanted in name for wanted in asked.names):
            continue
        count += 1
        for write in writers(pattern):
            text = write(asked.characters)
            if text in seen:
                continue
            seen.add(text)
            for what, reader in READERS.items():
                short = seconds(reader, text)
                if short < _SLOW:
                    continue
                long = seconds(reader, write(4 * asked.characters))
                if long > _STEEP * short:
                    steep += 1
                    print(f"{name}: {what} {short:.2f} s → {long:.2f} s: {text[:60]!r}", flush=True)
    print(f"{count} patterns, {len(seen):,} texts, {len(READERS)} readers: {steep} steeper than linear")
    return int(steep > 0)


if __name__ == "__main__":
    sys.exit(main())
