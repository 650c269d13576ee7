"""The bound on a real model: campaigns drawn from its recorded answers, against the risk among all of them.

    python -m benchmarks.real_coverage [--campaigns 4000] [--write]

A campaign draws as many answers as its rigor plans, with replacement, from answers that were generated
separately (`tests/real/recorded/`, `examples/dpo/measured/`): a population with a known risk. T is certified
from the detectors' onsets, as `run` does. The promise is kept where the risk of the whole population at T is
at most the rigor's; that risk is counted over the detectors' own onsets, which tests the bound, or over those
of blind readers, which tests bound and detectors together: an answer that was missed or dated too late counts
there.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.dpo_page import read_answers
from benchmarks.pages import table, write_section
from benchmarks.real_model import PAGE, share
from stresstest.model import RIGORS, GenerationVerdict, Observation
from stresstest.statistics.certify import certify, risk_at
from tests.real.cells import mild_plan
from tests.real.labels import Settled, read_labels, settle
from tests.real.recordings import Recording, read

SEED = 15
STORIES = ("base", "penalty-1.15", *(f"stories-{of}" for of in ("base", "sft", "dpo")))
STORIES += ("stories-penalty-1.1", "stories-penalty-1.2", "stories-temperature-0.7")
"""Of docs/results/dpo.md: English stories, at most 512 tokens, that no server cut."""


@dataclass(frozen=True)
class Population:
    """Answers, with what a run sees of each, and what is true of each."""

    name: str
    seen: Sequence[Observation]
    true: Sequence[Observation]


def as_seen(recording: Recording, verdict: GenerationVerdict) -> Observation:
    """What `run` would make of it: worst case where something was still open at the end."""
    healthy = verdict.onset is None
    return Observation(
        verdict.onset,
        verdict.observed,
        ended=healthy and recording.finish_reason == "stop",
        unresolved=healthy and verdict.observed < verdict.tokens,
    )


def as_read(recording: Recording, settled: Settled) -> Observation:
    """What the readers say of it."""
    if not settled.label.degenerate:
        return Observation(None, len(recording.tokens), ended=recording.finish_reason == "stop")
    onset = recording.token_of(settled.label.onset or 1)
    return Observation(onset, onset - 1)


def stories() -> list[Observation]:
    """Of three models and five decodings; their open ends were not kept."""
    return [
        Observation(a.onset, a.tokens if a.onset is None else a.onset - 1, ended=a.ended)
        for a in read_answers()
        if a.of in STORIES
    ]


def populations() -> list[Population]:
    """All answers of the recordings, those that readers read, and English stories."""
    labels = settle(read_labels("a"), read_labels("b"), read_labels("c"))
    known = [(r, as_seen(r, r.verdict())) for r in read()]
    mild = {planned.key for planned in mild_plan()}
    ours = [seen for _, seen in known]
    narratives = [seen for r, seen in known if r.key in mild]
    labelled = [(r, seen) for r, seen in known if r.key in labels]
    readers = [as_read(r, labels[r.key]) for r, _ in labelled]
    calm = [i for i, (r, _) in enumerate(labelled) if r.key in mild]
    seen = [each for _, each in labelled]
    told = stories()
    return [
        Population("English stories, detectors' onsets", told, told),
        Population("all, detectors' onsets", ours, ours),
        Population("narratives at mild penalties, detectors' onsets", narratives, narratives),
        Population("those that were read, readers' onsets", seen, readers),
        Population(
            "mild ones that were read, readers' onsets", [seen[i] for i in calm], [readers[i] for i in calm]
        ),
    ]


def coverage(population: Population, campaigns: int) -> list[list[str]]:
    """A row for each rigor: how often the promise is kept, and what is certified."""
    rows = []
    for name, rigor in RIGORS.items():
        rng = random.Random(SEED)
        kept, lengths = 0, []
        for _ in range(campaigns):
            drawn = rng.choices(population.seen, k=rigor.planned)
            sample = [replace(o, cluster=f"{i}", digest=f"{i}") for i, o in enumerate(drawn)]
            tokens = certify(sample, rigor).tokens or 0
            lengths.append(tokens)
            n, d = risk_at(tokens, population.true) if tokens else (1, 0)
            kept += d <= rigor.alpha * n
        rows.append(
            [
                population.name,
                str(len(population.seen)),
                name,
                share(kept, campaigns),
                f"{rigor.confidence:.0%}",
                f"{median(lengths):.0f}",
                str(lengths.count(0)),
            ]
        )
    return rows


def main() -> None:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--campaigns", type=int, default=4000)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    rows = [row for each in populations() for row in coverage(each, args.campaigns)]
    head = ["drawn from", "answers", "rigor", "promise kept", "promised", "median T", "nothing certified"]
    text = table(head, rows)
    if args.write:
        write_section(PAGE, "coverage", text)
    print(text)


if __name__ == "__main__":
    main()
