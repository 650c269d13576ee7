"""Judges a lab model with the oracle, offline: `python -m tests.lab.evaluate FOLDER`.

Texts are generated in lock-step: every row is at the same position, rows whose prompt is longer
are still reading theirs while others write. So no padding, and positions are exactly as served.
"""

from __future__ import annotations

import argparse
import codecs
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from tokenizers import Tokenizer, pre_tokenizers
from torch import Tensor

from tests.lab.examples import END, chat, load_prompts
from tests.lab.gpt import Gpt, load_model
from tests.lab.grammar import LANGUAGES
from tests.lab.parser import Report, Sentence, parse, token_index_of_char
from tests.lab.train import TRAINED


@dataclass(frozen=True)
class Output:
    """One generated text."""

    prompt: str
    prompt_tokens: int
    tokens: tuple[str, ...]
    ended: bool

    @property
    def text(self) -> str:
        return "".join(self.tokens)


@lru_cache
def _bytes_of_characters() -> dict[str, int]:
    """Byte-level BPE writes each byte as one printable character; this is the way back (GPT-2)."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    table = {chr(b): b for b in kept}
    for offset, byte in enumerate(b for b in range(256) if b not in kept):
        table[chr(256 + offset)] = byte
    return table


def token_texts(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, ...]:
    """The text each token adds; their concatenation is the whole text, split UTF-8 included."""
    assert set(_bytes_of_characters()) == set(pre_tokenizers.ByteLevel.alphabet())
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    table = _bytes_of_characters()
    raw = (bytes(table[c] for c in tokenizer.id_to_token(i)) for i in ids)
    return tuple(decoder.decode(piece) for piece in raw)


def penalised(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """vLLM's repetition penalty: over prompt and output, dividing positive scores."""
    if penalty == 1.0:
        return logits
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


@torch.inference_mode()
def generate(
    model: Gpt, tokenizer: Tokenizer, prompts: list[str], positions: int, temperature: float, penalty: float
) -> list[Output]:
    """One text for each prompt, up to `positions` tokens of prompt and text together."""
    end = tokenizer.token_to_id(END)
    heads = [tokenizer.encode(p).ids for p in prompts]
    rows = torch.full((len(prompts), positions), end)
    for row, head in enumerate(heads):
        rows[row, : len(head)] = torch.tensor(head)
    lengths = torch.tensor([len(h) for h in heads])
    seen = torch.zeros(len(prompts), model.shape.vocab_size, dtype=torch.bool)
    seen.scatter_(1, rows[:, : int(lengths.min())], True)
    stop = [positions] * len(prompts)
    cache = model.new_cache(len(prompts), positions)
    hidden = model.hidden(rows[:, : int(lengths.min())], cache)
    for at in range(int(lengths.min()), positions):
        logits = penalised(model.logits(hidden[:, -1]), seen, penalty)
        if temperature:
            picked = torch.multinomial(torch.softmax(logits / temperature, -1), 1)[:, 0]
        else:
            picked = logits.argmax(-1)
        rows[:, at] = torch.where(lengths <= at, picked, rows[:, at])
        seen.scatter_(1, rows[:, at : at + 1], True)
        for row in ((rows[:, at] == end) & (lengths <= at)).nonzero()[:, 0].tolist():
            stop[row] = min(stop[row], at)
        if max(stop) <= at:
            break
        hidden = model.hidden(rows[:, at : at + 1], cache, at)
    return [
        Output(p, len(h), token_texts(tokenizer, rows[r, len(h) : stop[r]].tolist()), stop[r] < positions)
        for r, (p, h) in enumerate(zip(prompts, heads, strict=True))
    ]


def prompts_for(
    language: str, task: str, count: int, units: int, seed: int, system: bool = False
) -> list[str]:
    """`count` distinct shipped prompts asking for `units` units."""
    prompts = load_prompts(language, task)
    topics = random.Random(seed).sample(prompts.topics, count)
    head = prompts.systems[0] if system else None
    return [chat(prompts.instruction.format(topic=t.text, units=units), head) for t in topics]


def quantiles(values: Sequence[int]) -> str:
    """Minimum, median and maximum."""
    ordered = sorted(values)
    return f"{ordered[0]}/{ordered[len(ordered) // 2]}/{ordered[-1]}" if ordered else "–"


def ends_below(sentence: Sentence, output: Output, position: int) -> bool:
    """Whether a sentence's last character lies below an absolute position."""
    if not sentence.whole or sentence.end > len(output.text):
        return False
    return output.prompt_tokens + token_index_of_char(output.tokens, sentence.end - 1) <= position


def summary(outputs: list[Output], reports: list[Report], trained: int) -> str:
    """One line: slips below the limit of training, onsets in tokens and in positions, what breaks, ends."""
    below: list[Sentence] = []
    tokens, positions = [], []
    for output, report in zip(outputs, reports, strict=True):
        below += [s for s in report.sentences if ends_below(s, output, trained)]
        if report.onset:
            tokens.append(token_index_of_char(output.tokens, report.onset.char))
            positions.append(output.prompt_tokens + tokens[-1])
    slips = sum(s.reason is not None for s in below)
    first = Counter(r.onset.reason for r in reports if r.onset)
    every = sum((r.reasons() for r in reports), Counter[str]())
    lengths = quantiles([len(o.tokens) for o in outputs])
    return (
        f"slips below {trained}: {slips}/{len(below)}  onsets {len(tokens)}/{len(outputs)} "
        f"token {quantiles(tokens)} position {quantiles(positions)}  first {dict(first)} all {dict(every)}  "
        f"ended {sum(o.ended for o in outputs)} length {lengths}"
        f" prompt {quantiles([o.prompt_tokens for o in outputs])}"
        f" distinct {len({o.text for o in outputs})}"
    )


def main() -> None:
    """Parse the command line, generate, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--languages", nargs="+", default=list(LANGUAGES))
    parser.add_argument("--task", default="narrative")
    parser.add_argument("--units", type=int, default=100)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--positions", type=int, default=1000)
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.7])
    parser.add_argument("--penalties", nargs="+", type=float, default=[1.0])
    parser.add_argument("--system", action="store_true", help="with the language constraint as system prompt")
    parser.add_argument("--show", type=int, default=0, help="explain this many texts of each setting")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trained", type=int, default=TRAINED, help="positions it was trained on")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    model, tokenizer = load_model(args.folder), Tokenizer.from_file(str(args.folder / "tokenizer.json"))
    for language in args.languages:
        prompts = prompts_for(language, args.task, args.count, args.units, args.seed, args.system)
        for temperature in args.temperatures:
            for penalty in args.penalties:
                outputs = generate(model, tokenizer, prompts, args.positions, temperature, penalty)
                reports = [parse(o.text, language, args.task, ended=o.ended) for o in outputs]
                told = summary(outputs, reports, args.trained)
                print(f"{language} t={temperature} p={penalty}: {told}", flush=True)
                for output, report in list(zip(outputs, reports, strict=True))[: args.show]:
                    print(report.explain(output.text, context=3), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
