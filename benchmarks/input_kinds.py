"""Texts of thirty kinds at any length: what a scan of other people's logs meets.

Prose is that of Python's own library, which everybody has: the paragraphs of its docstrings that are
sentences without code, figures and brackets, about 200,000 characters.
"""

from __future__ import annotations

import ast
import base64
import json
import random
import re
import string
import sysconfig
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

_PARAGRAPH = re.compile(r"[A-Z][^`<>{}=_|\\*\[\]()/@#$%^&+~\"0-9]{80,2000}\.")

_COMMON = [
    "the",
    "a",
    "of",
    "and",
    "to",
    "in",
    "is",
    "was",
    "for",
    "on",
    "with",
    "as",
    "by",
    "at",
    "from",
    "it",
    "that",
    "this",
    "old",
    "new",
    "red",
    "house",
    "river",
    "story",
    "morning",
    "people",
    "water",
    "light",
    "town",
    "boat",
    "garden",
    "bridge",
    "winter",
    "table",
    "letter",
    "window",
    "market",
    "road",
    "village",
    "teacher",
    "friend",
    "walked",
    "looked",
    "carried",
    "opened",
    "wrote",
    "found",
    "kept",
    "waited",
    "crossed",
    "turned",
    "slowly",
    "quietly",
    "again",
    "before",
    "after",
]
_CJK = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生"
_KANA = "のにはをたがでてとしれさあいうえおかきくけこなまもやよりるわんアイウエオカキ"
_ARABIC = "ابتثجحخدذرزسشصضطظعغفقكلمنهوي"
_THAI = "กขคงจชซดตถทนบปผพฟมยรลวสหอาิีึืุูเแโใไ"


@cache
def _library_prose() -> tuple[str, ...]:
    root = Path(sysconfig.get_path("stdlib"))
    found: dict[str, None] = {}
    for path in sorted([*root.glob("*.py"), *root.glob("*/*.py")]):
        if path.parent.name not in ("site-packages", "test"):
            found |= dict.fromkeys(_paragraphs(path))
    return tuple(found)


def _paragraphs(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                text = " ".join(paragraph.split())
                if _PARAGRAPH.fullmatch(text):
                    yield f"{text}\n\n"


def _prose(rng: random.Random) -> Iterator[str]:
    """The paragraphs in an order of their own, each once."""
    paragraphs = _library_prose()
    yield from rng.sample(paragraphs, len(paragraphs))


def _pseudowords(rng: random.Random) -> Iterator[str]:
    """Pronounceable words, nearly all of them unique."""
    while True:
        word = "".join(rng.choice("bcdfglmnprstv") + rng.choice("aeiou") for _ in range(rng.randrange(2, 6)))
        yield word + (". " if rng.random() < 0.1 else " ")


def _joined(alphabet: str, stops: str, share: float) -> Callable[[random.Random], Iterator[str]]:
    """Characters without spaces, with one of `stops` after a share of them."""

    def pieces(rng: random.Random) -> Iterator[str]:
        while True:
            yield rng.choice(alphabet) + (rng.choice(stops) if stops and rng.random() < share else "")

    return pieces


def _lines(line: Callable[[random.Random, int], str]) -> Callable[[random.Random], Iterator[str]]:
    def pieces(rng: random.Random) -> Iterator[str]:
        n = 0
        while True:
            n += 1
            yield line(rng, n)

    return pieces


def _phrase(rng: random.Random, n: int = 4) -> str:
    return " ".join(rng.choices(_COMMON, k=n))


def _repeated(text: str) -> Callable[[random.Random], Iterator[str]]:
    return _lines(lambda _, __: text)


def _letters(rng: random.Random, n: int) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=n))


KINDS: dict[str, Callable[[random.Random], Iterator[str]]] = {
    "prose": _prose,
    "unique words": _pseudowords,
    "base64": lambda rng: (base64.b64encode(rng.randbytes(300)).decode() for _ in iter(int, 1)),
    "base64 in lines": lambda rng: (
        base64.b64encode(rng.randbytes(57)).decode() + "\n" for _ in iter(int, 1)
    ),
    "hexadecimal": lambda rng: (rng.randbytes(64).hex() for _ in iter(int, 1)),
    "random letters": _lines(lambda rng, _: _letters(rng, 200)),
    "random letters in words": _lines(lambda rng, _: _letters(rng, rng.randrange(3, 9)) + " "),
    "random characters": _lines(lambda rng, _: "".join(rng.choices(string.printable, k=80))),
    "joined words": _lines(lambda rng, _: _phrase(rng, 1) + "-"),
    "Chinese": _joined(_CJK, "。，", 0.08),
    "Chinese without stops": _joined(_CJK, "", 0.0),
    "Japanese": _joined(_KANA + _CJK, "。、", 0.08),
    "Thai": _joined(_THAI, " ", 0.05),
    "Korean": _lines(lambda rng, _: "".join(chr(rng.randrange(0xAC00, 0xD7A4)) for _ in range(4)) + " "),
    "Arabic": _lines(lambda rng, _: "".join(rng.choices(_ARABIC, k=rng.randrange(2, 8))) + " "),
    "numbers in a row": _lines(lambda _, n: f"{n}, "),
    "numbers at random": _lines(lambda rng, _: f"{rng.randrange(10**6)} "),
    "digits without spaces": _lines(lambda rng, _: str(rng.randrange(10**9))),
    "CSV": _lines(lambda rng, n: f"{n},{_phrase(rng, 2)},{rng.random():.4f},{rng.randrange(99)}\n"),
    "Markdown table": _lines(lambda rng, n: f"| {n} | {_phrase(rng, 3)} | {rng.randrange(99)} |\n"),
    "JSON": _lines(
        lambda rng, n: json.dumps({"id": n, "name": _phrase(rng, 2), "value": rng.random()}) + ",\n"
    ),
    "code": _lines(lambda rng, n: f"def f{n}(x):\n    return x + {rng.randrange(99)}  # {_phrase(rng)}\n\n"),
    "list items": _lines(lambda rng, n: f"{n}. {_phrase(rng, 5)}\n"),
    "links": _lines(lambda rng, n: f"https://example.org/{_letters(rng, 12)}?id={n} "),
    "one letter": _repeated("a"),
    "blanks": _repeated(" "),
    "line breaks": _repeated("\n"),
    "one word": _repeated("word "),
    "one sentence": _repeated("The boat left the harbour in the morning. "),
    "a counter in a sentence": _lines(lambda _, n: f"Chapter {n} is a story in numbered paragraphs. "),
    "opening brackets": _repeated("("),
    "punctuation": _lines(lambda rng, _: "".join(rng.choices("!?.,;:-–…\"'()[]", k=40))),
    "emoji": _lines(lambda rng, _: "".join(rng.choices("😀🎉👍🔥🚀✨🌍💡", k=20))),
    "one sentence without an end": _lines(lambda rng, _: _phrase(rng, 6) + " "),
    "template": _lines(lambda rng, n: f"Dear {_phrase(rng, 1)}, order {n} of {_phrase(rng, 2)} is sent. "),
}


def text_of(kind: str, characters: int, seed: int = 1) -> str:
    """A text of this kind and length. Raises ValueError where there is less prose."""
    pieces: list[str] = []
    size = 0
    for piece in KINDS[kind](random.Random(f"{kind}/{seed}")):
        pieces.append(piece)
        size += len(piece)
        if size >= characters:
            break
    else:
        raise ValueError(f"there are {size:,} characters of {kind}, and {characters:,} are needed")
    return "".join(pieces)[:characters]
