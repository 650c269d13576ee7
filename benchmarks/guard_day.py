"""A day of traffic with 2.42 % loops under the guard's policies, in the simulator's virtual time.

``python -m benchmarks.guard_day [--write]``

The engine, the lengths of healthy answers, the share of loops and their onsets are those of the shipped
scenario `contagion`, after DharmaOCR's case. First the text of looping and of healthy answers is written and
goes through the guard's own watch, chunk by chunk: at which token it ends a loop, and that it ends no healthy
answer. Then two days are scheduled by their tokens alone, each under every policy: requests that arrive as a
day's do, and a queue that sixteen clients work off. All is drawn from a seed. `--write` puts the tables into
docs/results/guard.md.
"""

from __future__ import annotations

import argparse
import codecs
import json
import math
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from benchmarks.pages import table, write_section
from stresstest.detectors.entry import DetectorSpec
from stresstest.features.guard.answer import AnswerReader
from stresstest.features.guard.asked import Route
from stresstest.features.guard.watch import AnswerWatch
from stresstest.simulation.engine import Engine, Scenario, SimRequest, load_scenario, run_virtual
from stresstest.simulation.engine.scheduling.sequence import Sequence as Request
from stresstest.simulation.engine.vocabulary import EOS, encode_chat, token_bytes
from stresstest.simulation.engine.writing.token_emitter import EmittedToken

PAGE = "results/guard.md"
PROMPT = 100
CLIENTS = 16
HOUR = 3600.0
DAY = 24 * HOUR
SWING = 0.9
"""The rate of arrivals goes from a tenth of its mean at night to nearly twice the mean at noon."""
CAP_SHARE = 0.999
"""One cap is the length that this share of the healthy answers does not exceed."""
RISK, MARGIN = 0.05, 0.1
"""The other is what `run --rigor standard` certifies: the threshold at this risk, less the margin."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One request of the day. tokens: that it would write without a guard. onset: of its loop, None without
    one. ended: where `abort` ends it."""

    tokens: int
    onset: int | None
    ended: int

    @property
    def loops(self) -> bool:
        return self.onset is not None


@dataclass(frozen=True, slots=True)
class Watched:
    """delays: tokens from each loop's onset to where the guard had ended it. missed: loops that it never
    ended. healthy, ended: answers without a loop, and how many of them it ended."""

    delays: tuple[int, ...]
    missed: int
    healthy: int
    ended: int


def watch_texts(scenario: Scenario, answers: int) -> Watched:
    """So many looping and healthy answers through the guard's watch."""
    (loop,) = scenario.hazards
    delays, missed, ended = [], 0, 0
    for number in range(answers):
        looping = replace(scenario, hazards=(replace(loop, probability=1.0),))
        found, at = _watched(looping, number)
        onset = found.onset
        if onset is not None and onset <= found.written:  # some end before they would have begun
            delays += [at - onset] if at is not None else []
            missed += at is None
        ended += _watched(replace(scenario, hazards=()), number)[1] is not None
    return Watched(tuple(delays), missed, answers, ended)


def _watched(scenario: Scenario, number: int) -> tuple[Request, int | None]:
    """An answer, and the token after which the guard ended it; None where it did not."""
    text = f"Raccontami una lunga storia su un viaggio in mare, la numero {number}."
    messages = (("user", text),)
    request = SimRequest(
        tuple(encode_chat(messages)), scenario.model.max_model_len // 2, messages=messages, seed=number
    )
    watch = AnswerWatch(
        AnswerReader(Route.CHAT, DetectorSpec(language="it", prompt_text=text)), streamed=True, acting=()
    )
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def leave(sequence: Request) -> bool:
        if watch.add(_chunk(sequence.output[-1], decoder)):
            while watch.step():
                pass
        return watch.tripped is not None

    (sequence,) = run_virtual(Engine(scenario), [request], concurrency=1, leave=leave).sequences
    return sequence, sequence.written if watch.tripped is not None else None


def _chunk(token: EmittedToken, decoder: codecs.IncrementalDecoder) -> bytes:
    text = "" if token.id == EOS else decoder.decode(token_bytes(token.id))
    choice = {"index": 0, "delta": {"content": text}, "token_ids": [token.id], "finish_reason": None}
    return b"data: " + json.dumps({"id": "d", "choices": [choice]}).encode() + b"\n\n"


def draw(scenario: Scenario, watched: Watched, random: Random, requests: int) -> list[Wanted]:
    """The requests of a day."""
    (loop,), lengths = scenario.hazards, scenario.model.answer_tokens
    room = scenario.model.max_model_len - PROMPT
    day = []
    for _ in range(requests):
        length, onset = lengths.quantile(random.random()), loop.onset.quantile(random.random())
        loops, delay = random.random() < loop.probability and onset < length, random.choice(watched.delays)
        tokens = room if loops else min(room, max(2, round(length)))
        at = max(1, round(onset))
        day.append(Wanted(tokens, at if loops else None, at + delay if loops else tokens))
    return day


def certified(day: Sequence[Wanted]) -> int:
    """The safe max_tokens of these requests: the largest T with P(onset ≤ T | not ended by T) ≤ RISK."""
    failed = sorted(each.onset for each in day if each.onset is not None)
    ended = sorted(each.tokens for each in day if each.onset is None)
    threshold = 0
    for tokens in range(1, max(each.tokens for each in day)):
        bad, gone = bisect_right(failed, tokens), bisect_left(ended, tokens)
        if bad > RISK * (len(day) - gone):
            break
        threshold = tokens
    return int(threshold * (1 - MARGIN))


def arrivals(random: Random, mean: float) -> Iterator[float]:
    """Seconds of a day at which requests arrive: a Poisson process whose rate follows the hour."""
    now, most = 0.0, mean * (1 + SWING)
    while (now := now + random.expovariate(most)) < DAY:
        if random.random() * most < mean * (1 - SWING * math.cos(2 * math.pi * now / DAY)):
            yield now


@dataclass(frozen=True, slots=True)
class Policy:
    """How a policy changes what is written. without: as though nothing looped, the best there is."""

    name: str
    cap: int | None = None
    aborts: bool = False
    without: bool = False

    def tokens(self, wanted: Wanted, usual: int) -> int:
        """Tokens that are written. usual: the length of a healthy answer."""
        if wanted.loops and self.without:
            return usual
        tokens = wanted.ended if self.aborts else wanted.tokens
        return tokens if self.cap is None else min(tokens, self.cap)


def measure(
    scenario: Scenario, policy: Policy, day: Sequence[Wanted], times: Sequence[float] | None
) -> list[str]:
    """The row of one policy. times: of the arrivals; None for the queue."""
    usual = round(scenario.model.answer_tokens.quantile(0.5))
    lengths = [policy.tokens(each, usual) for each in day]
    requests = [
        SimRequest((index + 1,) * PROMPT, max_tokens=tokens, silent=tokens)
        for index, tokens in enumerate(lengths)
    ]
    engine = Engine(scenario)
    if times is None:
        run = run_virtual(engine, requests, concurrency=CLIENTS)
    else:
        run = run_virtual(engine, requests, arrivals=times)
    pairs = list(zip(run.sequences, day, strict=True))
    healthy = sorted(s.finished - s.arrived for s, each in pairs if not each.loops and s.finished is not None)
    cut = sum(tokens < each.tokens for tokens, each in zip(lengths, day, strict=True) if not each.loops)
    return [
        policy.name,
        f"{run.seconds / HOUR:.2f} h",
        f"{healthy[len(healthy) // 2]:.1f} s",
        f"{healthy[int(len(healthy) * 0.95)]:.1f} s",
        f"{sum(lengths) / 1e6:.1f} M",
        f"{cut} of {len(healthy)}",
        f"{run.peak_kv:.0%}",
    ]


def results(texts: int, queue: int, rate: float, seed: int) -> str:
    """Both tables as Markdown."""
    scenario = load_scenario("contagion")
    watched = watch_texts(scenario, texts)
    if not watched.delays:
        raise SystemExit("no loop was ended: ask for more texts")
    longest = round(scenario.model.answer_tokens.quantile(CAP_SHARE))
    safe = certified(draw(scenario, watched, Random(f"certified {seed}"), 100_000))
    policies = [
        Policy("`count`"),
        Policy(f"`cap`, {longest:,} tokens ({CAP_SHARE:.1%} of healthy lengths)", cap=longest),
        Policy(f"`cap`, {safe:,} tokens (certified at {RISK:.0%})", cap=safe),
        Policy("`abort`", aborts=True),
        Policy("had nothing looped", without=True),
    ]
    times = list(arrivals(Random(f"arrivals {seed}"), rate))
    random = Random(f"requests {seed}")
    days = [
        (draw(scenario, watched, random, len(times)), times, f"that arrive over 24 hours, {rate:g} a second"),
        (draw(scenario, watched, random, queue), None, f"in a queue that {CLIENTS} clients work off"),
    ]
    delays = sorted(watched.delays)
    parts = [
        f"The guard's watch on {len(delays) + watched.missed} looping texts: {len(delays)} ended, after a "
        f"median of {delays[len(delays) // 2]} tokens from the onset (95 % within "
        f"{delays[int(len(delays) * 0.95)]}); on {watched.healthy} healthy texts: {watched.ended} ended."
    ]
    head = ["policy", "wall clock", "healthy: median", "healthy: p95", "tokens written", "healthy cut"]
    for day, at, words in days:
        rows = [measure(scenario, policy, day, at) for policy in policies]
        loops = sum(each.loops for each in day)
        parts.append(f"{len(day):,} requests {words}; {loops:,} of them loop:\n")
        parts.append(table([*head, "KV cache, at most"], rows))
    return "\n\n".join(parts).replace(":\n\n\n", ":\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=300, help="looping and healthy texts that are judged")
    parser.add_argument("--queue", type=int, default=100_000, help="requests of the queue")
    parser.add_argument("--rate", type=float, default=0.8, help="mean arrivals a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write docs/results/guard.md")
    given = parser.parse_args()
    text = results(given.texts, given.queue, given.rate, given.seed)
    sys.stdout.write(text + "\n")
    if given.write:
        write_section(PAGE, "day", text)


if __name__ == "__main__":
    main()
