"""What a trainer needs to know of a set: lengths of both sides, room for them, and a configuration. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from stresstest.features.export.answers import ExportedAnswer
from stresstest.features.export.workflow import ExportedSet, ExportOptions

TRL_MAX_LENGTH = 1024
"""Default of TRL's `max_length` (1.16), which keeps the start of prompt and answer together."""
_END_TOKENS = 8
"""Room for what a chat template puts behind an answer."""
_MULTIPLE = 128
_SFT_WEIGHT = 0.2


@dataclass(frozen=True, slots=True)
class LengthSummary:
    """Lengths of one side of a set: how many, and their 10 %, 50 % and 90 % quantiles."""

    n: int
    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class SequenceRoom:
    """Room that prompts and answers need. max_length: for the longest, None where nothing is counted. beyond:
    degenerate answers whose onset TRL's default cuts away. counted: answers with known token counts."""

    max_length: int | None
    beyond: int
    counted: int


def length_unit(answers: Sequence[ExportedAnswer]) -> str:
    """The unit in which all answers are known."""
    return "words" if any(answer.tokens is None for answer in answers) else "tokens"


def length_summary(answers: Sequence[ExportedAnswer], unit: str) -> LengthSummary | None:
    """None without answers."""
    lengths = [answer.words if unit == "words" else answer.tokens or 0 for answer in answers]
    if not lengths:
        return None
    cuts = quantiles(lengths if len(lengths) > 1 else lengths * 2, n=10, method="inclusive")
    return LengthSummary(len(lengths), cuts[0], cuts[4], cuts[8])


def sequence_room(answers: Sequence[ExportedAnswer]) -> SequenceRoom:
    """As far as the tokens of prompts and answers are known. A chosen answer has its own prompt's count."""
    counted = [(a.prompt_tokens, a) for a in answers if a.prompt_tokens is not None and a.tokens is not None]
    longest = max((asked + (a.tokens or 0) + _END_TOKENS for asked, a in counted), default=None)
    beyond = sum(a.onset is not None and asked + a.onset > TRL_MAX_LENGTH for asked, a in counted)
    room = None if longest is None else -(-longest // _MULTIPLE) * _MULTIPLE
    return SequenceRoom(room, beyond, len(counted))


def training_config(found: ExportedSet, options: ExportOptions) -> dict[str, Any]:
    """Arguments of TRL's DPOConfig, or of its KTOConfig for single answers.

    The SFT term keeps DPO from making chosen answers less likely too, which it does where both sides are the
    model's own. Pairs at an onset end where they were cut, so they have none: it would teach to stop there.
    """
    room = sequence_room(found.examples).max_length
    length = {} if room is None else {"max_length": max(room, TRL_MAX_LENGTH)}
    common = {"beta": 0.1, "learning_rate": 2e-5, "per_device_train_batch_size": 4, "num_train_epochs": 2}
    if found.answers:
        bad = sum(answer.degenerate for answer in found.answers)
        good = len(found.answers) - bad
        weights = {"desirable_weight": bad / good, "undesirable_weight": good / bad}
        return {**common, **{name: max(1.0, round(each, 2)) for name, each in weights.items()}, **length}
    loss: dict[str, Any] = {"loss_type": ["sigmoid"]}
    if not options.at_onset:
        loss = {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, _SFT_WEIGHT]}
    return {**loss, **common, **length, "precompute_ref_log_probs": True}


def config_text(found: ExportedSet, options: ExportOptions) -> str:
    """The configuration as Python."""
    name = "KTOConfig" if found.answers else "DPOConfig"
    arguments = (
        f"    {key}={str(value) if isinstance(value, bool) else json.dumps(value)},"
        for key, value in training_config(found, options).items()
    )
    return "\n".join([f"{name}(", *arguments, ")"])
