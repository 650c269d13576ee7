"""Languages that nothing here was developed on: one set of documents in forty-odd languages.

    python -m benchmarks.translated_docs --docs DIR [--most 150] [--write]

DIR: folders named by language code, each with the same Markdown files, such as `translations/` of
github.com/microsoft/IoT-For-Beginners (translated by a language model). Each document is cut at a heading
after about 6,000 characters. Of its own language, whatever is found is a false alarm, but for what the
translator left in English. Where a relative in the same script is expected, each has drifted.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

from benchmarks.pages import table, write_section
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.languages.catalog import catalog
from stresstest.detectors.screening.recorded import RecordedText, detect_many
from stresstest.model import GenerationVerdict, SymptomKind

PAGE = "detectors.md"
LEAST, MOST = 1_500, 6_000
"""Characters of a document."""
RELATIVES = (("ru", "uk", "bg", "sr"), ("ar", "fa", "ur"), ("hi", "mr", "ne"))
_HEADING = re.compile(r"^#", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)

Texts = Mapping[str, Sequence[str]]


def documents(folder: Path, most: int, seed: int = 1) -> Texts:
    """Language → documents that all of the known languages have, at most so many."""
    known = [each for each in sorted(folder.iterdir()) if each.name in catalog().languages]
    names = set.intersection(*({p.relative_to(each) for p in each.rglob("*.md")} for each in known))
    chosen = random.Random(seed).sample(sorted(names), min(most, len(names)))
    cut = {each.name: [_start((each / name).read_text("utf-8")) for name in chosen] for each in known}
    return {code: [text for text in texts if len(text) >= LEAST] for code, texts in cut.items()}


def _start(text: str) -> str:
    text = _COMMENT.sub("", text)
    ends = [match.start() for match in _HEADING.finditer(text) if LEAST <= match.start() <= MOST]
    return text[: ends[-1]] if ends else ""


def judged(texts: Sequence[str], language: str) -> list[GenerationVerdict]:
    return detect_many([RecordedText(text, DetectorSpec(language), "length") for text in texts])


def main() -> None:
    """Print both tables; with --write, into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--most", type=int, default=150, help="documents of each language at most")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE}")
    asked = parser.parse_args()
    texts = documents(asked.docs, asked.most)
    found: dict[str, Counter[str]] = {}
    for code, own in texts.items():
        verdicts = judged(own, code)
        found[code] = Counter(str(v.symptom) for v in verdicts if v.symptom is not None)
        for verdict in verdicts:
            if verdict.symptom is not None:
                print(f"{code}: {verdict.symptoms[0].summary}")
    total, flagged = sum(map(len, texts.values())), Counter[str]()
    for each in found.values():
        flagged.update(each)
    named = "; ".join(
        f"{code} {', '.join(f'{kind} {n}' for kind, n in each.items())}"
        for code, each in found.items()
        if each
    )
    lines = [
        f"{total:,} documents in {len(texts)} languages, each expected in its own: {flagged.total()} are "
        f"called degenerate ({100 * flagged.total() / total:.1f} %): {named or 'none'}.",
        "",
        table(["expected", "written in", "called drift"], _relatives(texts)),
    ]
    print("\n".join(lines))
    if asked.write:
        write_section(PAGE, "translated", "\n".join(lines))


def _relatives(texts: Texts) -> list[list[str]]:
    rows = []
    for group in RELATIVES:
        for wanted, written in permutations([code for code in group if code in texts], 2):
            verdicts = judged(texts[written], wanted)
            drifted = sum(v.symptom is SymptomKind.LANGUAGE_DRIFT for v in verdicts)
            rows.append([wanted, written, f"{drifted} of {len(verdicts)}"])
    return rows


if __name__ == "__main__":
    main()
