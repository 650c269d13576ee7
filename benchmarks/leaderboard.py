"""Degeneration beside quality: the public outputs of AlpacaEval, judged as `scan` judges them.

    git clone --depth 1 https://github.com/tatsu-lab/alpaca_eval
    python -m benchmarks.leaderboard judge alpaca_eval verdicts.jsonl           # minutes of one core
    python -m benchmarks.leaderboard sheets alpaca_eval verdicts.jsonl FOLDER   # for blind readers
    python -m benchmarks.leaderboard unread alpaca_eval verdicts.jsonl FOLDER   # what no reader has seen yet
    python -m benchmarks.leaderboard_reading a labels-a.jsonl FOLDER/key.json   # what a reader wrote
    python -m benchmarks.leaderboard page alpaca_eval verdicts.jsonl            # docs/results/leaderboard.md

The texts are CC-BY-NC and stay where they are; what is kept of them here are verdicts and rates.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from stresstest.model.scanned import ScanVerdict
from stresstest.records import DamagedLine, Record, parse_fields
from stresstest.scanning.job import ScanJob
from stresstest.scanning.scan import extract_with_verdicts
from stresstest.statistics.certify import clopper_pearson

BOARD = Path("src/alpaca_eval/leaderboards/data_AlpacaEval_2/weighted_alpaca_eval_gpt4_turbo_leaderboard.csv")
READ = 20
"""Models whose degenerate outputs are read: so many of the worst, and so many at random of the others."""
SEED = 19


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on one output, without its text. line: 1-based element of the model's file."""

    model: str
    line: int
    words: int
    characters: int
    symptom: str | None
    onset_char: int | None
    alarm_char: int | None
    loops_to_end: bool
    score: float

    @property
    def key(self) -> str:
        return f"{self.model}:{self.line}"


@dataclass(frozen=True, slots=True)
class Quality:
    """What AlpacaEval publishes of a model, in per cent: win rate, its standard error, length-controlled."""

    win_rate: float
    win_error: float
    controlled: float


@dataclass(frozen=True, slots=True)
class Model:
    """A row of the table. quality: None where AlpacaEval publishes no win rate."""

    name: str
    outputs: int
    degenerate: int
    symptoms: Counter[str]
    characters: float
    quality: Quality | None

    @property
    def rate(self) -> float:
        return self.degenerate / self.outputs

    @property
    def interval(self) -> tuple[float, float]:
        return clopper_pearson(self.degenerate, self.outputs)


class _Silent:
    def advanced(self, done: int, requests: int, degenerate: int) -> None:
        pass

    def damaged(self, damaged: DamagedLine) -> None:
        print(damaged)

    def noticed(self, note: str) -> None:
        print(note)


def outputs(checkout: Path) -> list[Path]:
    """The files of model outputs in a checkout, by model."""
    return sorted(checkout.glob("results/*/model_outputs.json"))


def judge(checkout: Path, target: Path) -> None:
    """Judge every output and write one verdict a line."""
    files = [str(path) for path in outputs(checkout)]
    job = ScanJob(
        parse_fields(["response=output", "prompt=instruction", "model=generator"], ["source"]), ("source",)
    )
    began = time.monotonic()
    with target.open("w", encoding="utf-8") as out:
        for found in extract_with_verdicts(files, job, _kept, _Silent(), workers=1):
            out.write(json.dumps(asdict(found)) + "\n")
    print(f"{len(files)} models in {time.monotonic() - began:.0f} s")


def _kept(record: Record, verdict: ScanVerdict) -> Judged:
    return Judged(
        Path(record.source).parent.name,
        record.line,
        verdict.words.length,
        len(record.text),
        verdict.symptom,
        verdict.onset_char,
        verdict.alarm_char,
        verdict.loops_to_end,
        verdict.score,
    )


def read_verdicts(path: Path) -> list[Judged]:
    return [Judged(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def read_texts(checkout: Path, model: str) -> list[tuple[str, str]]:
    """(prompt, answer) of every output of a model."""
    rows = json.loads((checkout / "results" / model / "model_outputs.json").read_text("utf-8"))
    return [(row["instruction"], row["output"]) for row in rows]


def read_board(checkout: Path) -> dict[str, Quality]:
    with (checkout / BOARD).open(encoding="utf-8", newline="") as file:
        return {
            row[""]: Quality(
                float(row["win_rate"]),
                float(row["standard_error"]),
                float(row["length_controlled_winrate"]),
            )
            for row in csv.DictReader(file)
        }


def models(judged: Iterable[Judged], board: dict[str, Quality]) -> list[Model]:
    """Every model, the highest rate first."""
    of = defaultdict[str, list[Judged]](list)
    for each in judged:
        of[each.model].append(each)
    found = [
        Model(
            name,
            len(rows),
            sum(row.symptom is not None for row in rows),
            Counter(row.symptom for row in rows if row.symptom is not None),
            sum(row.characters for row in rows) / len(rows),
            board.get(name),
        )
        for name, rows in of.items()
    ]
    return sorted(found, key=lambda model: (-model.rate, model.name.lower()))


def read_models(ranked: Sequence[Model]) -> tuple[list[str], list[str]]:
    """(the worst, some of the others at random): the models whose degenerate outputs are read."""
    names = [model.name for model in ranked]
    return names[:READ], sorted(random.Random(SEED).sample(names[READ:], READ))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["judge", "sheets", "unread", "page"])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("verdicts", type=Path)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("sheets"), help="for the sheets")
    args = parser.parse_args()
    if args.action == "judge":
        judge(args.checkout, args.verdicts)
        return
    judged = read_verdicts(args.verdicts)
    ranked = models(judged, read_board(args.checkout))
    if args.action == "sheets":
        from benchmarks.leaderboard_reading import write_sheets

        worst, others = read_models(ranked)
        texts = {name: read_texts(args.checkout, name) for name in (*worst, *others)}
        print(write_sheets(judged, [*worst, *others], texts, args.folder), "items")
    elif args.action == "unread":
        from benchmarks.leaderboard_reading import read_labels, write_sheets

        read = read_labels("a")
        names = sorted({each.model for each in judged if each.symptom is not None and each.key not in read})
        texts = {name: read_texts(args.checkout, name) for name in names}
        print(write_sheets(judged, names, texts, args.folder, read), "items")
    else:
        from benchmarks.leaderboard_page import write_page

        write_page(judged, ranked)


if __name__ == "__main__":
    main()
