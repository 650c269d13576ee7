"""How often a log's token counts are taken for sums of running counts, where they are and where they are not.

    python -m benchmarks.running_counts examples/dpo/measured/answers.jsonl.gz --key text

Each sample is some of the file's texts, with their true counts, or with the sums of the counts that a stream
tells every so many tokens. Needs tiktoken, which fetches its tables from the network once.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import tiktoken

from benchmarks.shown_tokens import ENCODINGS, texts_of
from stresstest.scanning.running_counts import are_running_sums

SAMPLES, LEAST_CHARS = 50, 20
SIZES, EVERY = (8, 20, 60, 300), (1, 10, 30, 110, 200)


def summed(count: int, every: int) -> int:
    """The sum of the counts that are told after each `every` tokens and at the end."""
    return sum(min(told, count) for told in range(every, count + every, every))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--key", default="text", help="the key of the text in each line")
    options = parser.parse_args()
    texts = [text for text in texts_of(options.file, options.key) if len(text) >= LEAST_CHARS]
    rng = random.Random(36)
    print("| tokenizer | answers | samples | true counts | " + " | ".join(f"sums, {n}" for n in EVERY) + " |")
    print("| --- " * (4 + len(EVERY)) + "|")
    for name in ENCODINGS:
        encoding = tiktoken.get_encoding(name)
        sizes = [len(text.encode()) for text in texts]
        counts = [len(encoding.encode(text, disallowed_special=())) for text in texts]
        for size in SIZES:
            drawn = [rng.sample(range(len(texts)), size) for _ in range(SAMPLES) if size <= len(texts)]
            told = [
                sum(
                    are_running_sums(
                        [counts[i] if every is None else summed(counts[i], every) for i in each],
                        [sizes[i] for i in each],
                    )
                    for each in drawn
                )
                for every in (None, *EVERY)
            ]
            print(f"| {name} | {size} | {len(drawn)} | " + " | ".join(map(str, told)) + " |")


if __name__ == "__main__":
    main()
