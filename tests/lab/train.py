"""Recreates the lab model: `python -m tests.lab.train --out FOLDER --minutes 55`.

The model sees positions 0..767 only (`--trained`); its position table has 4,096 rows and the rest stay
as they were drawn. That is the whole trick: past 768 the model is as incoherent as it is fluent before.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from tests.lab.examples import END, ExampleSource
from tests.lab.gpt import Gpt, Shape, save_model, waves
from tests.lab.tokenizer import save_tokenizer, train_tokenizer

TRAINED = 768
"""Positions the model is trained on, unless told otherwise."""
CONTEXT = 4096
BUCKET = 128
"""Tokens: examples are padded to a multiple of it."""
LEAST_LEARNED = 32
"""Tokens of the answer that an example must hold within the trained positions."""
BATCH_TOKENS = 4 * TRAINED
IGNORED = -100
WARM_UP = 40


@dataclass
class Bucket:
    """Examples of about one length: inputs and targets, [examples, length]."""

    tokens: np.ndarray
    targets: np.ndarray


def encode(
    tokenizer: Tokenizer, source: ExampleSource, count: int, trained: int
) -> list[tuple[list[int], int]]:
    """`count` examples, less those that are all head, as (token ids cut to the trained context, length of the
    unlearned head)."""
    end = tokenizer.token_to_id(END)
    examples = [source.draw() for _ in range(count)]
    heads = tokenizer.encode_batch([e.prompt + e.given for e in examples])
    answers = tokenizer.encode_batch([e.answer for e in examples])
    encoded = []
    for example, head, answer in zip(examples, heads, answers, strict=True):
        ids = head.ids + answer.ids + ([end] if example.ended else [])
        if len(head.ids) + LEAST_LEARNED <= trained:
            encoded.append((ids[: trained + 1], len(head.ids)))
    return encoded


def bucketed(encoded: list[tuple[list[int], int]], end: int, trained: int) -> list[Bucket]:
    """Pad each example to the smallest bucket that holds it; the largest is the trained context."""
    sizes = (*range(2 * BUCKET, trained, BUCKET), trained)
    groups: list[list[tuple[list[int], int]]] = [[] for _ in sizes]
    for ids, head in encoded:
        groups[next(i for i, size in enumerate(sizes) if len(ids) - 1 <= size)].append((ids, head))
    buckets = []
    for size, group in zip(sizes, groups, strict=True):
        tokens = np.full((len(group), size), end, np.int16)
        targets = np.full((len(group), size), IGNORED, np.int16)
        for row, (ids, head) in enumerate(group):
            tokens[row, : len(ids) - 1] = ids[:-1]
            targets[row, head - 1 : len(ids) - 1] = ids[head:]
        buckets.append(Bucket(tokens, targets))
    return buckets


def batches(buckets: list[Bucket], rng: random.Random) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless shuffled batches of one bucket each, about the same number of tokens in all."""
    while True:
        plan = []
        for bucket in buckets:
            order = list(range(len(bucket.tokens)))
            rng.shuffle(order)
            size = BATCH_TOKENS // bucket.tokens.shape[1]
            plan += [(bucket, order[i : i + size]) for i in range(0, len(order) - size + 1, size)]
        rng.shuffle(plan)
        for bucket, rows in plan:
            tokens, targets = bucket.tokens[rows], bucket.targets[rows]
            yield torch.from_numpy(tokens.astype(np.int64)), torch.from_numpy(targets.astype(np.int64))


def make_optimizers(model: Gpt, rate: float, muon_rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices (about four times fewer tokens than AdamW for the same loss
    here), AdamW for the rest. No weight decay: on positions it would reach the untrained ones."""
    named = list(model.named_parameters())
    matrices = [p for n, p in named if p.ndim == 2 and n.startswith("h.")]
    rest = [p for n, p in named if not (p.ndim == 2 and n.startswith("h."))]
    return [
        torch.optim.Muon(matrices, lr=muon_rate, momentum=0.95, weight_decay=0.0),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]


def loss_of(model: Gpt, tokens: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy over the answers' tokens, in nats."""
    logits = model.logits(model.hidden(tokens))
    return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED)


class Schedule:
    """Warm-up, then a cosine down to 1 % of the peak, over steps or over minutes."""

    def __init__(self, steps: int | None, minutes: float) -> None:
        self.steps, self.seconds = steps, minutes * 60
        self.started = time.monotonic()

    def progress(self, step: int) -> float:
        """Share of the training done, 0..1."""
        if self.steps:
            return step / self.steps
        return (time.monotonic() - self.started) / self.seconds

    def factor(self, step: int) -> float:
        """The learning rate now, as a share of its peak."""
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, self.progress(step))))
        return min(1.0, (step + 1) / WARM_UP) * (0.01 + 0.99 * cosine)


def train(args: argparse.Namespace) -> None:
    """Build the data, train, write snapshots and the final model."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    shared = args.tokenizer and Tokenizer.from_file(str(args.tokenizer / "tokenizer.json"))
    tokenizer = shared or train_tokenizer(args.seed)
    end = tokenizer.token_to_id(END)
    languages = tuple(args.languages.split(","))
    source = ExampleSource(args.seed + 1, fresh=not args.repetitive, languages=languages)
    buckets = bucketed(encode(tokenizer, source, args.examples, args.trained), end, args.trained)
    print("examples by bucket", [(len(b.tokens), b.tokens.shape[1]) for b in buckets], flush=True)
    model = Gpt(Shape(tokenizer.get_vocab_size(), args.width, args.layers, args.heads, CONTEXT))
    with torch.no_grad():
        model.wpe.weight[: args.trained] = waves(args.trained, args.width)
    print("parameters", sum(p.numel() for p in model.parameters()), flush=True)
    optimizers = make_optimizers(model, args.rate, args.muon_rate)
    peaks = [group["lr"] for optimizer in optimizers for group in optimizer.param_groups]
    snapshots = [float(x) / 100 for x in args.snapshots.split(",") if x]
    schedule = Schedule(args.steps, args.minutes)
    recent: list[float] = []
    for step, (tokens, targets) in enumerate(batches(buckets, random.Random(args.seed + 2))):
        if schedule.progress(step) >= 1:
            break
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        for group, peak in zip(groups, peaks, strict=True):
            group["lr"] = peak * schedule.factor(step)
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            loss = loss_of(model, tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        recent.append(loss.item())
        if step % 50 == 49:
            report(schedule, step, recent)
            recent.clear()
        if snapshots and schedule.progress(step) >= snapshots[0]:
            write(model, tokenizer, args.scratch / f"at-{round(snapshots.pop(0) * 100)}-percent", end)
    print("steps", step, "seconds", round(time.monotonic() - schedule.started), flush=True)
    write(model, tokenizer, args.out, end)


def report(schedule: Schedule, step: int, losses: list[float]) -> None:
    """One line of progress."""
    seconds = time.monotonic() - schedule.started
    done = schedule.progress(step)
    print(
        f"step {step + 1} loss {sum(losses) / len(losses):.4f} rate {schedule.factor(step):.1%} "
        f"done {done:.1%} elapsed {seconds:.0f}s eta {seconds / max(done, 1e-9) - seconds:.0f}s",
        flush=True,
    )


def write(model: Gpt, tokenizer: Tokenizer, folder: Path, end: int) -> None:
    """A complete model folder."""
    save_model(model, folder, end)
    save_tokenizer(tokenizer, folder, CONTEXT)


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, help="where snapshots go (default: beside --out)")
    parser.add_argument("--snapshots", default="", help="percentages of the training, e.g. 8,15,25")
    parser.add_argument("--minutes", type=float, default=55)
    parser.add_argument("--steps", type=int, help="instead of --minutes; reproducible")
    parser.add_argument("--examples", type=int, default=40_000)
    parser.add_argument("--rate", type=float, default=3e-3, help="AdamW's peak")
    parser.add_argument("--muon-rate", type=float, default=0.02, help="Muon's peak")
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--trained", type=int, default=TRAINED, help="positions that are trained")
    parser.add_argument("--languages", default="it,en,fr")
    parser.add_argument("--tokenizer", type=Path, help="a model folder whose tokenizer is used again")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--repetitive", action="store_true", help="stories that repeat: the looping sibling")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true", help="bfloat16 autocast (needs avx512_bf16 to pay)")
    args = parser.parse_args()
    args.scratch = args.scratch or args.out.parent
    train(args)


if __name__ == "__main__":
    main()
