"""How many tokens a text can have, by the pieces that a stream brings it in, against how many it has.

    python -m benchmarks.shown_tokens examples/dpo/measured/answers.jsonl.gz --key text

The bound of `campaign/execution/unseen.py` must never be below the truth by as much as it takes for unseen
tokens, and an event must not be taken for a token where it is several (speculative decoding: one to four at
random) or a word. Needs tiktoken, which fetches its tables from the network once. Results: decision 036.
"""

from __future__ import annotations

import argparse
import codecs
import gzip
import json
import random
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import median

import tiktoken

from stresstest.campaign.execution.unseen import count_unseen
from stresstest.detectors.text.tokens import split_pieces
from stresstest.model import Token
from stresstest.model.tokens import MIN_UNSEEN_TOKENS

ENCODINGS = ("cl100k_base", "o200k_base")
HIDDEN = 300


def texts_of(path: Path, key: str) -> Iterator[str]:
    """The texts of a file of JSON Lines, gzip or not."""
    packed = path.read_bytes()
    for line in (gzip.decompress(packed) if path.suffix == ".gz" else packed).splitlines():
        text = json.loads(line).get(key)
        if isinstance(text, str) and text:
            yield text


def shown(encoding: tiktoken.Encoding, text: str) -> tuple[int, list[str]]:
    """How many tokens a text has, and the pieces that a server would send it in: whole characters only."""
    ids = encoding.encode(text, disallowed_special=())
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    pieces = (decode(encoding.decode_single_token_bytes(each)) for each in ids)
    return len(ids), [piece for piece in pieces if piece]


def unseen(pieces: Sequence[str], counted: int) -> int:
    """What a campaign would hold for unseen of an answer that came in these pieces."""
    tokens = [Token(word) for word in split_pieces("".join(pieces))]
    return count_unseen(tokens, counted, list(accumulate(map(len, pieces))))


def accepted(pieces: list[str], rng: random.Random) -> list[str]:
    """The same in events of one to four tokens, as speculative decoding sends them."""
    events, at = [], 0
    while at < len(pieces):
        size = rng.randint(1, 4)
        events.append("".join(pieces[at : at + size]))
        at += size
    return events


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--key", default="text", help="the key of the text in each line")
    options = parser.parse_args()
    texts, rng = list(texts_of(options.file, options.key)), random.Random(36)
    print("| tokenizer | texts | held for hidden | of 300 hidden found | the same, events of several |")
    print("| --- | --- | --- | --- | --- |")
    for name in ENCODINGS:
        encoding = tiktoken.get_encoding(name)
        wrong, joined, found = 0, 0, []
        for text in texts:
            count, pieces = shown(encoding, text)
            if len(pieces) < MIN_UNSEEN_TOKENS:
                continue
            wrong += unseen(pieces, count) > 0
            found.append(unseen(pieces, count + HIDDEN))
            joined += (
                unseen(accepted(pieces, rng), count) > 0 or unseen(re.findall(r"\s*\S+", text), count) > 0
            )
        print(f"| {name} | {len(found)} | {wrong} | {median(found):.0f} | {joined} |")


if __name__ == "__main__":
    main()
