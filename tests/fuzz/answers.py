"""`make fuzz`, second part: answers of any signs, judged. `python -m tests.fuzz.answers --seed 1`.

Rows that repeat with changes, so that every detector reads on, of words from all of Unicode beside those that
detectors look for: figures, labels, marks of lists, code, chat templates, foreign sentences. Both paths, the
screened one of `scan` and the suite of `run`, must end and agree; so must the suite on the same rows as
records, tables and functions that were asked for, in tokens of any length.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import unicodedata
from collections import Counter
from functools import cache

from stresstest.config.credentials.texts import hide_credentials
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import detect_text, detect_tokens
from stresstest.model import GenerationVerdict, Token

LANGUAGES = ("en", "it", "de", "el", "ru", "he", "ar", "hi", "th", "zh", "ja", "ko", None)
_PLANES = 0x30000
"""Code points below this one: the planes in which texts are written."""
_LONGEST = 6000
_KNOWN = (
    *("the", "of", "and", "said", "boat", "Chapter", "Q3", "1.", "2)", "IV.", "a)", "1,000", "3.5", "第三章"),
    *("|", "-", "**", "```", "if", "return", "=", "{", "}", '"a":', "$x^2$", "\\frac{1}{2}", "・", "゛"),
    *("User:", "Human:", "EN:", "IT:", "<think>", "</think>", "<|im_end|>", "http://a.b/c?d=e", "👩‍👩‍👧"),
    *("The old keeper walked to the light and", "la vecchia casa sul mare era", "\u200d", "\ufeff"),
)


@cache
def signs() -> tuple[tuple[str, ...], ...]:
    """The characters of Unicode in classes that programs tell apart: category, how they fold, whether they
    are digits."""
    classes: dict[tuple[object, ...], list[str]] = {}
    for sign in map(chr, range(_PLANES)):
        category = unicodedata.category(sign)
        if category not in ("Cs", "Cn", "Co"):
            folds = unicodedata.normalize("NFKC", sign) != sign, sign.casefold() != sign
            digit = sign.isdigit(), sign.isdecimal(), sign.isnumeric()
            classes.setdefault((category, folds, digit), []).append(sign)
    return tuple(map(tuple, classes.values()))


def word(rng: random.Random) -> str:
    """A known word, or up to five signs."""
    if rng.random() < 0.25:
        return rng.choice(_KNOWN)
    return "".join(
        rng.choice(rng.choice(signs())) if rng.random() < 0.5 else rng.choice("abcdefgh0123456789.-_")
        for _ in range(rng.randint(1, 5))
    )


def answer(rng: random.Random) -> str:
    """Up to forty rows of the same words, one word in ten changed."""
    words = [word(rng) for _ in range(rng.randint(3, 25))]
    between = rng.choice([" ", " ", "", "\n", " | ", ", ", ". "])
    rows = []
    for number in range(rng.randint(1, 40)):
        row = [rng.choice(words) if rng.random() < 0.1 else each for each in words]
        rows.append(between.join([*row, str(number)] if rng.random() < 0.5 else row))
    return rng.choice(["\n", " ", ". ", "\n\n", "; "]).join(rows)[:_LONGEST]


def judge(rng: random.Random) -> tuple[GenerationVerdict, GenerationVerdict]:
    """What `scan` and `run` say of one answer."""
    text = answer(rng)
    prompt = rng.choice(["", "", answer(rng)[:500], "Write the list 1 to 20 again."])
    spec = DetectorSpec(rng.choice(LANGUAGES), prompt_text=prompt)
    reason = rng.choice(["stop", "length", None])
    hide_credentials(text)
    return detect_recorded(text, spec, reason), detect_text(text, spec, reason)


def measure(rng: random.Random) -> GenerationVerdict:
    """What `run` says of an answer to a task with units."""
    rows, unit = answer(rng).split("\n"), rng.choice(["numbered", "json_record", "row", "function"])
    if unit == "json_record":
        text = "[" + ",\n".join(json.dumps({"id": n, "row": row}) for n, row in enumerate(rows))
    elif unit == "row":
        text = "\n".join(f"| {' | '.join(row.split())} |" for row in rows)
    elif unit == "function":
        text = "\n".join(f"def f{n}(x):\n    return {row}\n" for n, row in enumerate(rows))
    else:
        text = "\n".join(f"{n}. {row}" for n, row in enumerate(rows))
    if rng.random() < 0.3:  # a slip of the model, anywhere
        at = rng.randrange(len(text))
        text = text[:at] + text[at + rng.randint(1, 9) :]
    pattern = r"^(\d+)\." if unit == "numbered" else None
    spec = DetectorSpec(rng.choice(LANGUAGES), pattern, rng.choice([None, 3, 30]), unit=unit)
    tokens = []
    while text:
        size, entropy = rng.randrange(7), rng.choice([None, 0.0, rng.expovariate(1.0), 8.0])
        tokens.append(Token(text[:size], entropy=entropy, logprob=None if entropy is None else -entropy))
        text = text[size:]
    reason = rng.choice(["stop", "length", "repetition", None])
    return detect_tokens(tokens, spec, reason)


def fuzz(count: int, seed: int) -> Counter[str]:
    """Judge `count` answers without units, and as many with; their symptoms, counted. Raises what the first
    bad one raises."""
    found: Counter[str] = Counter()
    for number in range(count):
        try:
            scanned, measured = judge(random.Random(f"{seed}/{number}"))
            assert (scanned.symptom, scanned.onset) == (measured.symptom, measured.onset)
            structured = measure(random.Random(f"{seed}/{number}"))
        except BaseException:
            sys.stderr.write(f"answer {number} of seed {seed}\n")
            raise
        found.update(str(verdict.symptom or "healthy") for verdict in (measured, structured))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    began = time.monotonic()
    found = fuzz(args.count, args.seed)
    told = ", ".join(f"{symptom} {n:,}" for symptom, n in found.most_common())
    seconds = time.monotonic() - began
    print(f"{2 * args.count:,} answers in {seconds:.0f} s, seed {args.seed}: no crash, both paths agree")
    print(told)


if __name__ == "__main__":
    main()
