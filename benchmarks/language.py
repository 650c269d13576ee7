"""Language drift and gibberish on real answers: recall and false alarms by language and model.

    python benchmarks/language.py --corpus PATH

PATH holds `MODEL.jsonl.gz` files of the Language Confusion Benchmark's monolingual answers (Marchisio
et al. 2024), one object a line with `language` (the wanted one), `response` and `label`: good, bad or
unsure. Beside the detectors' figures it prints the benchmark's own line-level pass rate (the share of
answers without any line of five or more words in another language), by our own identification of a
line, and the rate that the paper published.

A second table counts the same verdicts by labels that were read again (`tests/labels/corpus_language.jsonl`).
Only answers on which label and verdict disagreed were read, so it flatters; the truth lies between the two.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.gibberish.online import GibberishDetector
from stresstest.detectors.identification.foreign import detect_foreign_text, prefilter_language
from stresstest.detectors.identification.inference import infer_language
from stresstest.detectors.language.online import LanguageDetector
from stresstest.detectors.languages.function_words import extract_words
from stresstest.detectors.text.scripts import weighted_length
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.detectors.text.tokens import text_tokens
from stresstest.model import Symptom

READ_AGAIN = Path(__file__).parent.parent / "tests" / "labels" / "corpus_language.jsonl"
"""Labels that are wrong, with the reason."""
LINE_WORDS = 5
"""Shorter lines are not judged, as in the benchmark."""
DENSE_LINE = 15
"""The same for scripts without spaces, in letters of an alphabet."""
PUBLISHED = {"command-r": 98.6, "mistral-8x7b": 73.0, "gpt-4-turbo": 99.3}
"""Line-level pass rates, monolingual, in the paper's main table, by fastText."""
LINGUA = {"command-r": 97.7, "mistral-8x7b": 73.2, "gpt-4-turbo": 98.5}
"""The same measure recomputed with lingua."""


def answers(corpus: Path) -> Iterator[dict[str, Any]]:
    """Every answer of every model, in the order of the files' names."""
    for path in sorted(corpus.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def read_again() -> dict[tuple[str, str, str], str]:
    """(model, language, digest of the answer) → its right label, where the given one is wrong."""
    rows = map(json.loads, READ_AGAIN.read_text(encoding="utf-8").splitlines())
    return {(row["model"], row["language"], row["digest"]): row["label"] for row in rows}


def digest(text: str) -> str:
    """What an answer is known by, without its text."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def found_in(text: str, language: str) -> list[Symptom]:
    """Confirmed drift and gibberish of one answer."""
    feed = TextSegmenter()
    spec = DetectorSpec(language=language)
    detectors = (LanguageDetector(spec, feed), GibberishDetector(spec, feed))
    for token in text_tokens(text):
        feed.update(token)
        for detector in detectors:
            detector.update(token)
    for detector in detectors:
        detector.finish("length")
    return [symptom for detector in detectors for symptom in detector.symptoms() if symptom.confirmed]


def passes(text: str, language: str) -> bool:
    """Whether no line of five or more words is in another language, by our identification."""
    for raw in text.split("\n"):
        line = raw.strip()
        if len(extract_words(line)) < LINE_WORDS and weighted_length(line) - len(line) < DENSE_LINE:
            continue
        if not prefilter_language(line, language) and detect_foreign_text(line, language).foreign:
            return False
    return True


def percent(part: int, whole: int) -> str:
    """A share in per cent, or a dash where nothing was counted."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def table(name: str, counts: dict[str, Counter[str]]) -> None:
    """Print recall on bad and false alarms on good answers, one row a key."""
    print(f"\n{name:18} {'bad':>5} {'found':>5} {'recall':>8} {'good':>5} {'flagged':>7} {'alarms':>8}")
    for key, count in sorted(counts.items()):
        bad, good = count["bad"], count["good"]
        found, flagged = count["bad found"], count["good found"]
        shown = f"{key:18} {bad:5} {found:5} {percent(found, bad):>8} {good:5} {flagged:7}"
        print(f"{shown} {percent(flagged, good):>8}")


def _count(counts: Counter[str], label: str, symptoms: list[Symptom]) -> None:
    counts[label] += 1
    counts[f"{label} found"] += bool(symptoms)


def main() -> None:
    """Judge every answer and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True, help="folder of MODEL.jsonl.gz files")
    parser.add_argument(
        "--show", type=int, default=0, help="print so many flagged good and unflagged bad answers"
    )
    options = parser.parse_args()
    languages: dict[str, Counter[str]] = defaultdict(Counter)
    models: dict[str, Counter[str]] = defaultdict(Counter)
    right: dict[str, Counter[str]] = defaultdict(Counter)
    corrected = read_again()
    lines: dict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
    inferred: Counter[str] = Counter()
    wrong: list[tuple[str, dict[str, Any], str]] = []
    for row in answers(options.corpus):
        label, language, text = row["label"], row["language"], row["response"]
        symptoms = found_in(text, language)
        for count in (languages[language], languages["all"], models[row["model"]]):
            _count(count, label, symptoms)
        better = corrected.get((row["model"], language, digest(text)), label)
        for count in (right[language], right["all"]):
            _count(count, better, symptoms)
        lines[row["model"], language][passes(text, language)] += 1
        if label == "good":
            told = infer_language(text)
            inferred["right" if told == language else "unsure" if told is None else "wrong"] += 1
        if (label == "bad") != bool(symptoms) and label != "unsure":
            wrong.append((label, row, symptoms[0].summary if symptoms else "nothing found"))
    if not languages:
        sys.exit(f"no *.jsonl.gz in {options.corpus}")
    table("language", languages)
    table("model", models)
    table("labels read again", right)
    print(f"\n{'line-level pass rate':22} {'here':>6} {'published':>10} {'by lingua':>10}")
    for model in sorted(models):
        rates = [100 * count[True] / count.total() for (of, _), count in lines.items() if of == model]
        here = sum(rates) / len(rates)
        print(f"{model:22} {here:6.1f} {PUBLISHED.get(model, '–'):>10} {LINGUA.get(model, '–'):>10}")
    print(f"\nlanguage inferred from the start of good answers: {dict(inferred)}")
    for label, row, why in random.Random(0).sample(wrong, min(options.show, len(wrong))):
        print(f"\n{label} {row['model']} {row['language']}: {why}\n{row['response'][:400]!r}")


if __name__ == "__main__":
    main()
