"""Records, functions and rows of a real instruct model, and JSON held to a schema, from its recorded answers.

    python -m benchmarks.structured_model [RAW.jsonl] [--write] [--texts FOLDER]

Reads `tests/real/recorded/` (or a RAW.jsonl of `tests.real.record --plan structured`), runs the detectors on
every answer of the plan and prints the tables of docs/results/structure.md; `--write` puts them there,
`--texts` writes one file an answer, with its verdict, for reading. The same prompts are asked with the
decoder free and held to the schema, so those two are compared pair by pair: rates by McNemar's exact test,
onsets by Wilcoxon's signed-rank test. Intervals are exact 95 % (Clopper-Pearson).
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from scipy.stats import binomtest, wilcoxon

from benchmarks.pages import table, write_section
from benchmarks.real_model import share
from stresstest.detectors.suite import detect_tokens
from stresstest.model import GenerationVerdict
from tests.real.cells import RECORDS, STRUCTURED_TASKS
from tests.real.recordings import Recording, read, read_raw

PAGE = "results/structure.md"
FREE, HELD = "json", "json, held to the schema"
ARMS = (FREE, HELD, "code", "catalogue")


@dataclass(frozen=True)
class Answer:
    """One answer and its verdict. units: complete before the onset, or in all."""

    recording: Recording
    verdict: GenerationVerdict
    units: int

    @property
    def arm(self) -> str:
        return HELD if self.recording.schema else self.recording.task

    @property
    def ended(self) -> bool:
        """Whether the model ended it by itself, in health."""
        return self.recording.finish_reason == "stop" and not self.verdict.degenerate

    @property
    def whole(self) -> bool:
        """Whether it is JSON from its first character to its last."""
        try:
            json.loads(self.recording.text)
        except ValueError:
            return False
        return True


Answers = Sequence[Answer]


def judge(recording: Recording) -> Answer:
    """The detectors on one answer, and once more on what stands before its onset."""
    verdict = recording.verdict()
    healthy = verdict
    if verdict.onset is not None:
        before = replace(recording, tokens=recording.tokens[: verdict.onset - 1])
        healthy = detect_tokens(before.tokens, before.spec, None)
    return Answer(recording, verdict, healthy.units or 0)


def rates(answers: Answers) -> str:
    """What becomes of each kind of answer."""
    rows = []
    for arm in ARMS:
        of = [a for a in answers if a.arm == arm]
        failed = [a for a in of if a.verdict.degenerate]
        kinds = Counter(a.verdict.symptom.value.replace("_", " ") for a in failed if a.verdict.symptom)
        rows.append(
            [
                arm,
                share(len(failed), len(of)),
                _middle([a.verdict.onset or 0 for a in failed]),
                _middle([a.units for a in failed]),
                ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()) or "–",
                str(sum(a.ended for a in of)),
                str(sum(a.recording.finish_reason == "length" or a.recording.aborted for a in of)),
            ]
        )
    head = ["answer", "degenerate", "onset, tokens", "units before it", "symptoms"]
    return table([*head, "ended by itself, healthy", "at the cap"], rows)


def _middle(values: Sequence[float]) -> str:
    """Median and range of the middle half."""
    if len(values) < 4:
        return "–"
    ordered = sorted(values)
    return f"{median(ordered):.0f} ({ordered[len(ordered) // 4]:.0f}–{ordered[3 * len(ordered) // 4]:.0f})"


def by_length(answers: Answers) -> str:
    """Degenerate answers by how many units were asked for."""
    rows = [
        [arm, *(_failed([a for a in answers if (a.arm, a.recording.units) == (arm, n)]) for n in RECORDS)]
        for arm in ARMS
    ]
    return table(["answer", *(f"{n} asked for" for n in RECORDS)], rows)


def _failed(of: Answers) -> str:
    onsets = [a.verdict.onset for a in of if a.verdict.onset is not None]
    return f"{len(onsets)} of {len(of)}" + (f", at {median(onsets):.0f}" if onsets else "")


def schema(answers: Answers) -> str:
    """The same prompts with the decoder free and held to the schema."""
    pairs = _pairs(answers)
    only_free = sum(a.verdict.degenerate and not b.verdict.degenerate for a, b in pairs)
    only_held = sum(b.verdict.degenerate and not a.verdict.degenerate for a, b in pairs)
    both = [(a, b) for a, b in pairs if a.verdict.degenerate and b.verdict.degenerate]
    lines = [
        f"* {len(pairs)} prompts. Degenerate in both forms: {len(both)}; only free: {only_free}; "
        f"only held to the schema: {only_held} ({_mcnemar(only_free, only_held)})."
    ]
    shifts = [(b.verdict.onset or 0) - (a.verdict.onset or 0) for a, b in both]
    if len(shifts) >= 6:
        p = wilcoxon(shifts).pvalue
        units = median(b.units - a.units for a, b in both)
        lines.append(
            f"* Onset, held to the schema less free, where both fail: median {median(shifts):+.0f} tokens "
            f"({units:+.0f} records), earlier in {sum(s < 0 for s in shifts)} of {len(shifts)} (p = {p:.2g})."
        )
    for name, side in (("Free", 0), ("Held to the schema", 1)):
        of = [pair[side] for pair in pairs]
        closed = [a for a in of if a.recording.finish_reason == "stop"]
        whole = sum(a.whole for a in closed)
        ill = sum(a.verdict.degenerate and a.whole for a in of)
        lines.append(
            f"* {name}: {len(closed)} end by themselves, {whole} of them are JSON as they stand; "
            f"{ill} are whole JSON and degenerate."
        )
    return "\n".join(lines)


def _pairs(answers: Answers) -> list[tuple[Answer, Answer]]:
    free = {a.recording.key: a for a in answers if a.arm == FREE}
    held = [a for a in answers if a.arm == HELD]
    return [(free[key], a) for a in held if (key := a.recording.unconstrained_key) in free]


def _mcnemar(one: int, other: int) -> str:
    return f"p = {binomtest(one, one + other).pvalue:.2g}" if one + other else "no pair differs"


def write_texts(answers: Answers, folder: Path) -> None:
    """One file an answer: prompt, verdict, and the text with a mark at its onset."""
    folder.mkdir(parents=True, exist_ok=True)
    for answer in answers:
        r, verdict = answer.recording, answer.verdict
        cut = len(r.tokens) if verdict.onset is None else verdict.onset - 1
        before, after = ("".join(t.text for t in part) for part in (r.tokens[:cut], r.tokens[cut:]))
        kind = verdict.symptom.value if verdict.symptom else "healthy"
        mark = f"▶{after}" if verdict.degenerate else ""
        head = f"{kind} at {verdict.onset}, {len(r.tokens)} tokens, {r.finish_reason}, {answer.units} units"
        name = r.key.replace("/", "_")
        (folder / f"{name}.txt").write_text(f"{head}\n\n{r.prompt}\n\n{before}{mark}\n", encoding="utf-8")


SECTIONS = {"model": rates, "lengths": by_length, "schema": schema}


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw", type=Path, nargs="?", help="answers as recorded; default: those that are kept")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--texts", type=Path)
    args = parser.parse_args()
    recordings = read_raw(args.raw) if args.raw else read()
    answers = [judge(each) for each in recordings if each.task in STRUCTURED_TASKS]
    for name, make in SECTIONS.items():
        text = make(answers)
        if args.write:
            write_section(PAGE, name, text)
        print(f"\n## {name}\n\n{text}")
    if args.texts:
        write_texts(answers, args.texts)


if __name__ == "__main__":
    main()
