"""The statistical end to end on real vLLM: ``make e2e-full``. Makes the recordings and writes docs/e2e.md.

Records the lab models (several languages and decodings), judges the panel against the grammar's own
parser on the same outputs, beside the first version's panel, and resamples campaigns whose bound is
compared with the true quantile from a separate recording. ``--analyse`` repeats the analysis over the
recordings that are there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from itertools import groupby

from tests.e2e.document import DOCUMENT, document
from tests.e2e.judging import judge
from tests.e2e.record import record
from tests.e2e.recordings import ALL, UNITS, Recording
from tests.e2e.records import Record, write
from tests.lab.serve import MODELS, serve


async def record_all(model: str, recordings: list[Recording]) -> None:
    """Serve one model and make the recordings that are not there yet."""
    missing = [r for r in recordings if not r.path.exists()]
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
            print(f"\n{r.name}: {len(records)} outputs, {tokens / (time.monotonic() - began):.0f} tokens/s")
            if r.keep:
                write(r.path, records)
            else:
                r.path.write_text(json.dumps(onsets_of(records), separators=(",", ":")) + "\n")


def onsets_of(records: list[Record]) -> dict[str, list[int | None]]:
    """Where each generation truly broke, by the parser, and where the panel says it did."""
    score = judge(records)
    return {
        "true_onset": [c.true_onset for c in score.cases],
        "length": [len(c.record.tokens) for c in score.cases],
        "panel_onset": [c.verdict.onset for c in score.cases],
        "panel_observed": [c.verdict.observed for c in score.cases],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--analyse", action="store_true", help="only analyse what is recorded")
    if not parser.parse_args().analyse:
        for model, recordings in groupby(ALL, key=lambda r: r.model):
            asyncio.run(record_all(model, list(recordings)))
    DOCUMENT.write_text(document(), encoding="utf-8")
    print(f"wrote {DOCUMENT.name}")


if __name__ == "__main__":
    main()
