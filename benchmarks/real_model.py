"""The source's claims on a real instruct model, from its recorded answers: `python -m benchmarks.real_model`.

Reads `tests/real/recorded/` (or RAW.jsonl files of `tests.real.record`), runs the detectors on every answer
of the grid, prints the tables of docs/results/real-model.md; `--write` puts them there. Intervals are exact
95 % (Clopper-Pearson); p-values are two-sided: a sign test for entropies, Kruskal-Wallis for onsets. A minute
or two on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from scipy.stats import binomtest, kruskal

from benchmarks.pages import table, write_section
from stresstest.diagnosis.intervention.effects import lexical_diversity, recurring_terms
from stresstest.model import GenerationVerdict, SymptomKind
from stresstest.statistics.certify import clopper_pearson
from tests.real.cells import CONSTRAINED_PENALTIES, PENALTIES, TASKS, TEMPERATURES, UNITS, plan
from tests.real.recordings import Recording, read, read_raw

PAGE = "results/real-model.md"
LOOPS = frozenset({SymptomKind.LOOP, SymptomKind.NEAR_LOOP})
WINDOW = 40
"""Tokens before and after an onset whose mean entropy is compared."""
COMPARED = 120
"""Healthy tokens of each answer used for the lexical measures: decodings are compared at equal length."""


@dataclass(frozen=True)
class Answer:
    """A recorded answer and the detectors' verdict on it."""

    recording: Recording
    verdict: GenerationVerdict

    @property
    def loops(self) -> bool:
        return self.verdict.symptom in LOOPS

    @property
    def drifts(self) -> bool:
        return any(s.kind is SymptomKind.LANGUAGE_DRIFT for s in self.verdict.symptoms)


Answers = Sequence[Answer]


def share(found: int, n: int) -> str:
    """For example `3 of 12, 25 % (5–57)`."""
    if not n:
        return "–"
    low, high = clopper_pearson(found, n)
    return f"{found} of {n}, {100 * found / n:.0f} % ({100 * low:.0f}–{100 * high:.0f})"


def penalties(answers: Answers) -> str:
    """Degenerate and looping answers by repetition penalty and temperature."""
    rows = []
    for penalty in PENALTIES:
        at = [a for a in answers if a.recording.repetition_penalty == penalty]
        rows.append(
            [
                f"{penalty}",
                share(sum(a.verdict.degenerate for a in at), len(at)),
                share(sum(a.loops for a in at), len(at)),
                *(_loops(at, temperature) for temperature in TEMPERATURES),
            ]
        )
    return table(["penalty", "degenerate", "loops", *(f"loops at {t}" for t in TEMPERATURES)], rows)


def _loops(answers: Answers, temperature: float) -> str:
    at = [a for a in answers if a.recording.temperature == temperature]
    return f"{sum(a.loops for a in at)} of {len(at)}"


def price(answers: Answers) -> str:
    """What a penalty costs the text: the first healthy tokens of answers with enough of them."""
    rows = []
    for task in TASKS:
        for penalty in PENALTIES:
            at = [
                a.recording.tokens[:COMPARED]
                for a in answers
                if (a.recording.task, a.recording.repetition_penalty) == (task, penalty)
                and a.verdict.observed >= COMPARED
            ]
            diversity = [d for tokens in at if (d := lexical_diversity(tokens)) is not None]
            terms = [t for tokens in at if (t := recurring_terms(tokens)) is not None]
            rows.append([task, f"{penalty}", str(len(diversity)), _middle(diversity, 2), _middle(terms, 1)])
    return table(["task", "penalty", "n", "distinct words in 50", "recurring terms per 100 words"], rows)


def _middle(values: Sequence[float], digits: int) -> str:
    """Median and range of the middle half."""
    if len(values) < 4:
        return "–"
    ordered = sorted(values)
    low, high = ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]
    return f"{median(ordered):.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def drift(answers: Answers) -> str:
    """Answers that leave the language that was asked for, by language and penalty."""
    rows = []
    for language in ("it", "fr", "en"):
        of = [a for a in answers if a.recording.language == language]
        by_penalty = [[a for a in of if a.recording.repetition_penalty == p] for p in PENALTIES]
        rows.append([language, *(share(sum(a.drifts for a in at), len(at)) for at in by_penalty)])
    return table(["asked for", *(f"penalty {p}" for p in PENALTIES)], rows)


def lengths(answers: Answers) -> str:
    """Onsets by how many units were asked for, without a penalty."""
    without = [a for a in answers if a.recording.repetition_penalty == 1.0]
    return _onsets(without, UNITS, lambda a: a.recording.units, "units asked")


def tasks(answers: Answers) -> str:
    """Onsets and rates by task, without a penalty."""
    return _onsets(
        [a for a in answers if a.recording.repetition_penalty == 1.0],
        TASKS,
        lambda a: a.recording.task,
        "task",
    )


def _onsets(answers: Answers, groups: Sequence[object], key: Callable[[Answer], object], name: str) -> str:
    rows, samples = [], []
    for group in groups:
        of = [a for a in answers if key(a) == group]
        onsets = [
            float(a.verdict.onset)
            for a in of
            if a.verdict.onset is not None and a.verdict.symptom is not SymptomKind.TRUNCATION
        ]
        samples.append(onsets)
        rows.append([str(group), share(sum(a.verdict.degenerate for a in of), len(of)), _middle(onsets, 0)])
    text = table([name, "degenerate", "onset, tokens"], rows)
    if all(len(onsets) >= 5 for onsets in samples):
        text += f"\n\nOnsets alike: p = {kruskal(*samples).pvalue:.2g} (Kruskal–Wallis)."
    return text


def entropy(answers: Answers) -> str:
    """Mean entropy over the 40 tokens before and after the onset, by symptom."""
    rows = []
    for kind in SymptomKind:
        pairs = [pair for a in answers if a.verdict.symptom is kind and (pair := _around(a)) is not None]
        if len(pairs) < 5:
            continue
        falls = sum(after < before for before, after in pairs)
        rows.append(
            [
                kind.value.replace("_", " "),
                str(len(pairs)),
                f"{fmean(b for b, _ in pairs):.2f} → {fmean(a for _, a in pairs):.2f}",
                share(falls, len(pairs)),
                f"{binomtest(falls, len(pairs)).pvalue:.2g}",
            ]
        )
    return table(["symptom", "n", "nats before → after", "falls", "p"], rows)


def _around(answer: Answer) -> tuple[float, float] | None:
    onset = answer.verdict.onset or 0
    known = [t.entropy for t in answer.recording.tokens]
    before, after = known[max(0, onset - 1 - WINDOW) : onset - 1], known[onset - 1 : onset - 1 + WINDOW]
    values = [e for e in (*before, *after) if e is not None]
    if len(before) < WINDOW or len(after) < WINDOW or len(values) < 2 * WINDOW:
        return None
    return fmean(values[:WINDOW]), fmean(values[WINDOW:])


def constraint(answers: Answers) -> str:
    """The same prompts at the same decoding, with and without the sentence that demands the language."""
    with_it = [a for a in answers if a.recording.constrained]
    plain = {a.recording.key: a for a in answers if not a.recording.constrained}
    pairs = [(plain[key], a) for a in with_it if (key := a.recording.unconstrained_key) in plain]
    rows = []
    for language in ("it", "fr"):
        for penalty in CONSTRAINED_PENALTIES:
            of = [
                (without, demanded)
                for without, demanded in pairs
                if (demanded.recording.language, demanded.recording.repetition_penalty) == (language, penalty)
            ]
            rows.append(
                [
                    language,
                    f"{penalty}",
                    *(share(sum(pair[side].drifts for pair in of), len(of)) for side in (0, 1)),
                    *(share(sum(pair[side].verdict.degenerate for pair in of), len(of)) for side in (0, 1)),
                ]
            )
    head = ["language", "penalty", "drift", "drift, constrained", "degenerate", "degenerate, constrained"]
    return table(head, rows)


SECTIONS: dict[str, Callable[[Answers], str]] = {
    "penalties": penalties,
    "price": price,
    "drift": drift,
    "constraint": constraint,
    "lengths": lengths,
    "tasks": tasks,
    "entropy": entropy,
}


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw", type=Path, nargs="*", help="answers as recorded; default: those that are kept")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    recordings = [each for path in args.raw for each in read_raw(path)] if args.raw else read()
    answers = [Answer(recording, recording.verdict()) for recording in recordings]
    grid = {planned.key for planned in plan()}
    plain = [answer for answer in answers if answer.recording.key in grid]
    for name, make in SECTIONS.items():
        if make is constraint and not any(answer.recording.constrained for answer in answers):
            continue
        text = make(answers if make is constraint else plain)
        if args.write:
            write_section(PAGE, name, text)
        print(f"\n## {name} ({len(plain)} answers)\n\n{text}")


if __name__ == "__main__":
    main()
