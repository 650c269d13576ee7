"""What the detectors cost a token online, and what vLLM's own check costs at a window that sees as much.

    python -m benchmarks.detector_cost [--corpus PATH] [--vllm-python PATH]

CPU time of this process, on healthy texts of about 1,500 tokens with entropies, the cheapest of several
rounds (other load on the machine only ever adds). vLLM's `check_sequence_repetition` runs over the same
token ids at every token, as its scheduler does, with patterns of 1..2048 and three copies: our loops have no
longest period. With --vllm-python it is imported from that interpreter's vLLM; else a re-statement of its
semantics (benchmarks/rivals.py) is measured and labelled so.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.detectors import outputs
from benchmarks.rivals import has_repeating_tail
from stresstest.detectors.entropy.online import EntropyDetector
from stresstest.detectors.entry import Detector, DetectorSpec
from stresstest.detectors.flooding.online import FloodingDetector
from stresstest.detectors.gibberish.online import GibberishDetector
from stresstest.detectors.language.online import LanguageDetector
from stresstest.detectors.loop.online import LoopDetector
from stresstest.detectors.near_loop.online import NearLoopDetector
from stresstest.detectors.structure.online import StructureDetector
from stresstest.detectors.suite import DetectorSuite
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.detectors.text.tokens import text_tokens
from stresstest.model import Token
from tests.lab.grammar import StoryWriter, numbered

LARGEST, COPIES = 2048, 3
LIMIT = 12.0
LOOKED_EVERY = 8  # as stresstest.campaign.execution.attempt
"""µs a token: what all detectors together may cost."""

_IN_VLLM = """
import json, sys, time
from types import SimpleNamespace
from vllm.v1.core.sched.utils import check_sequence_repetition as check
texts = json.load(sys.stdin)
params = SimpleNamespace(max_pattern_size=%d, min_pattern_size=1, min_count=%d)
started, tokens = time.process_time(), 0
for ids in texts:
    seen = []
    for one in ids:
        seen.append(one)
        check(seen, params)
        tokens += 1
print(1e6 * (time.process_time() - started) / tokens)
"""


def sample(corpus: Path | None, count: int) -> list[tuple[str, list[Token]]]:
    """(language, tokens) of healthy texts: of the corpus, or of the lab's grammars."""
    rng = random.Random(1)
    if corpus is not None:
        texts = [text for _, text in outputs(corpus) if 6000 < len(text) < 9000]
        chosen = [("en", text) for text in rng.sample(texts, count)]
    else:
        chosen = []
        for seed in range(count):
            language = ("it", "en", "fr")[seed % 3]
            writer = StoryWriter(language, "narrative", random.Random(seed))
            chosen.append((language, numbered(language, "narrative", writer.units(30))))
    return [
        (language, [replace(t, entropy=rng.expovariate(1.2)) for t in text_tokens(text)])
        for language, text in chosen
    ]


def cost(
    texts: Sequence[tuple[str, list[Token]]], rounds: int, watch: Callable[[str, list[Token]], None]
) -> float:
    """µs a token of `watch`, the cheapest round."""
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        for language, tokens in texts:
            watch(language, tokens)
        best = min(best, time.process_time() - started)
    return 1e6 * best / sum(len(tokens) for _, tokens in texts)


def alone(make: Callable[[DetectorSpec], Detector]) -> Callable[[str, list[Token]], None]:
    """A detector without the others."""

    def watch(language: str, tokens: list[Token]) -> None:
        detector = make(DetectorSpec(language=language))
        update = detector.update
        for token in tokens:
            update(token)
        detector.finish("stop")

    return watch


def on_feed(
    make: Callable[[DetectorSpec, TextSegmenter], Detector] | None,
) -> Callable[[str, list[Token]], None]:
    """A text detector and the feed it reads; the feed alone for None."""

    def watch(language: str, tokens: list[Token]) -> None:
        feed = TextSegmenter()
        detector = make(DetectorSpec(language=language), feed) if make else None
        for token in tokens:
            feed.update(token)
            if detector is not None:
                detector.update(token)
        feed.close()
        if detector is not None:
            detector.finish("stop")

    return watch


def whole(language: str, tokens: list[Token]) -> None:
    """The suite at its dearest: every token, and after every token whether there is an alarm."""
    _watch(language, tokens, 1)


def as_run(language: str, tokens: list[Token]) -> None:
    """The suite as a run uses it: every token, and after every eighth whether there is an alarm."""
    _watch(language, tokens, LOOKED_EVERY)


def _watch(language: str, tokens: list[Token], every: int) -> None:
    suite = DetectorSuite(DetectorSpec(language=language))
    for number, token in enumerate(tokens, 1):
        suite.update(token)
        if number % every == 0 and suite.alarm is not None:
            break
    suite.finish("stop")


def vllm_cost(texts: Sequence[tuple[str, list[Token]]], python: Path | None) -> tuple[str, float]:
    """(what was measured, µs a token) of the repetition check, on the first two texts."""
    ids = []
    for _, tokens in texts[:2]:
        codes: dict[str, int] = {}
        ids.append([codes.setdefault(token.text, len(codes)) for token in tokens])
    if python is not None:
        done = subprocess.run(
            [str(python), "-c", _IN_VLLM % (LARGEST, COPIES)],
            input=json.dumps(ids),
            capture_output=True,
            text=True,
            check=True,
        )
        return "vLLM check_sequence_repetition, imported", float(done.stdout.split()[-1])
    started, tokens_seen = time.process_time(), 0
    for one in ids:
        for end in range(1, len(one) + 1):
            has_repeating_tail(one[:end], 1, LARGEST, COPIES)
            tokens_seen += 1
    seconds = time.process_time() - started
    return "vLLM check_sequence_repetition, re-stated", 1e6 * seconds / tokens_seen


def main() -> None:
    """Measure and print both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--vllm-python", type=Path)
    parser.add_argument("--texts", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    texts = sample(options.corpus, options.texts)
    feed = cost(texts, options.rounds, on_feed(None))
    rows = [
        ("loop", cost(texts, options.rounds, alone(LoopDetector))),
        ("near-loop", cost(texts, options.rounds, alone(NearLoopDetector))),
        ("flooding", cost(texts, options.rounds, alone(FloodingDetector))),
        ("entropy", cost(texts, options.rounds, alone(lambda spec: EntropyDetector()))),  # noqa: ARG005
        ("text feed (shared)", feed),
        ("language", cost(texts, options.rounds, on_feed(LanguageDetector)) - feed),
        ("gibberish", cost(texts, options.rounds, on_feed(GibberishDetector)) - feed),
        ("structure", cost(texts, options.rounds, on_feed(StructureDetector)) - feed),
    ]
    everything = cost(texts, options.rounds, whole)
    running = cost(texts, options.rounds, as_run)
    name, theirs = vllm_cost(texts, options.vllm_python)
    for row, micros in rows:
        print(f"{row:<44}{micros:8.2f} µs a token")
    print(f"{'all detectors in the suite, asked every token':<44}{everything:8.2f} µs a token")
    print(f"{'all detectors, asked every 8th, as run does':<44}{running:8.2f} µs a token")
    print(f"{name:<44}{theirs:8.2f} µs a token (patterns 1..{LARGEST}, {COPIES} copies)")
    met = running <= LIMIT and everything < theirs
    print(f"required: at most {LIMIT:.0f} µs, and less than vLLM's: {'met' if met else 'NOT MET'}")


if __name__ == "__main__":
    main()
