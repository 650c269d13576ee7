"""The detectors against blind readers on a real model's answers: `python -m benchmarks.real_labels`.

Two readers labelled answers without knowing how they were made or judged, a third settled what they disagreed
on (`tests/real/INSTRUCTIONS.md`, `tests/real/labels/`). Detectors were tuned on one half of the prompts; what
is reported is the other. `--write` puts the tables into docs/results/real-model.md, `--list` prints what is
missed, flagged wrongly, or placed elsewhere.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.pages import table, write_section
from benchmarks.real_model import PAGE, share
from stresstest.model import GenerationVerdict
from tests.real.cells import LANGUAGES
from tests.real.labels import Settled, disputed, kappa, read_labels, settle
from tests.real.recordings import Recording, read

EARLY, LATE = 5, 16
"""An onset from this many words before the reader's to this many after it is right."""


@dataclass(frozen=True)
class Read:
    """One answer that was read, and the detectors' verdict on it."""

    recording: Recording
    settled: Settled
    verdict: GenerationVerdict

    @property
    def degenerate(self) -> bool:
        return self.settled.label.degenerate

    @property
    def words_off(self) -> int | None:
        """Words from the readers' onset to ours; negative: ours is earlier. None where either has none."""
        ours, theirs = self.verdict.onset, self.settled.label.onset
        return None if ours is None or theirs is None else self.recording.word_of(ours) - theirs

    @property
    def placed(self) -> bool:
        off = self.words_off
        return off is not None and -EARLY <= off <= LATE


def scores(name: str, of: Sequence[Read]) -> list[str]:
    """A row: found of the degenerate, placed of the found, flagged of what both readers call healthy."""
    failing = [r for r in of if r.degenerate]
    found = [r for r in failing if r.verdict.degenerate]
    healthy = [r for r in of if not r.degenerate and r.settled.unanimous]
    off = [r.words_off for r in found if r.words_off is not None]
    return [
        name,
        share(len(found), len(failing)),
        share(sum(r.placed for r in found), len(found)),
        f"{median(off):+.0f}" if off else "–",
        share(sum(r.verdict.degenerate for r in healthy), len(healthy)),
    ]


def detection(answers: Sequence[Read], without: Sequence[Read]) -> str:
    """The table of one half: in all, without logprobs, by language, by symptom as read."""
    symptoms = Counter(r.settled.label.symptom for r in answers if r.degenerate)
    rows = [
        scores("all", answers),
        scores("all, without logprobs", without),
        *(scores(code, [r for r in answers if r.recording.language == code]) for code in LANGUAGES),
        *(
            scores(f"{name}".replace("_", " "), [r for r in answers if r.settled.label.symptom == name])
            for name, _ in symptoms.most_common()
        ),
    ]
    return table(["answers", "found", "onset right", "words off, median", "healthy ones flagged"], rows)


def agreement() -> str:
    """How far the two readers agree."""
    first, second = read_labels("a"), read_labels("b")
    both = sorted(first.keys() & second.keys())
    failing = [k for k in both if first[k].degenerate and second[k].degenerate]
    symptoms = sum(first[k].symptom == second[k].symptom for k in failing)
    apart = [abs((first[k].onset or 0) - (second[k].onset or 0)) for k in failing]
    same = sum(first[k].degenerate == second[k].degenerate for k in both)
    return (
        f"Two readers read {len(both)} answers. Degenerate or not: they agree on {share(same, len(both))}; "
        f"Cohen's κ = {kappa(first, second):.2f}. Where both call it degenerate ({len(failing)}): the same "
        f"first symptom in {share(symptoms, len(failing))}; onsets {median(apart):.0f} words apart in the "
        f"median, at most {LATE} in {share(sum(a <= LATE for a in apart), len(apart))}. A third reader "
        f"settled {len(disputed(first, second))}."
    )


def main() -> None:
    """Print, list or write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--list", choices=["tuning", "held"], help="the errors in this half")
    args = parser.parse_args()
    settled = settle(read_labels("a"), read_labels("b"), read_labels("c"))
    chosen = [r for r in read() if r.key in settled]
    answers = [Read(r, settled[r.key], r.verdict()) for r in chosen]
    without = [Read(r, settled[r.key], r.without_logprobs().verdict()) for r in chosen]
    sections = {"agreement": agreement()}
    for half in ("held", "tuning"):
        of, bare = ([r for r in side if r.recording.half == half] for side in (answers, without))
        sections[half] = detection(of, bare)
    for name, text in sections.items():
        if args.write:
            write_section(PAGE, name, text)
        print(f"\n## {name}\n\n{text}")
    for each in (r for r in answers if r.recording.half == args.list):
        if each.degenerate != each.verdict.degenerate or (each.degenerate and not each.placed):
            label, ours, off = each.settled.label, each.verdict.symptom, each.words_off
            print(f"{each.recording.key}: {label.symptom} {label.onset}; {ours}, {off} off")


if __name__ == "__main__":
    main()
