"""Sentences on an export that its console and its document share."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from stresstest.features.export.answers import NO_PROMPT
from stresstest.features.export.training import TRL_MAX_LENGTH, length_summary, length_unit, sequence_room
from stresstest.features.export.workflow import ExportedSet, ExportOptions
from stresstest.model import Decoding
from stresstest.records.input_file import label

_HEALING_PENALTY = 1.15
"""Suggested where no diagnosis has found the decoding that clears the failure."""

_ALIKE = 1.25
"""Up to this ratio of medians the two sides count as equally long."""


def nothing_sentence(found: ExportedSet, kind: str, options: ExportOptions) -> str:
    """Why nothing can be exported."""
    if options.at_onset:
        if found.without_forks:
            runs = ", ".join(found.without_forks)
            return f"No pair: no diagnosis has continued the answers of {runs} from stored tokens."
        return _held_out(found) or "No pair: no arm of the diagnosis kept any fork healthy."
    if not found.degenerate and not found.healthy and found.left_out[NO_PROMPT]:
        return "No pair: training data needs the prompt of each answer, and these records have none."
    if not found.degenerate and not found.healthy and found.left_out:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in found.left_out.most_common())
        return f"No pair: all of these answers are left out: {reasons}."
    if not found.degenerate and not found.healthy:
        return "No pair: no answer could be read."
    if not found.degenerate:
        return "No pair: none of these answers is degenerate, so there is nothing to reject."
    if kind == "kto":
        held_out = _held_out(found) if found.healthy else None
        return held_out or "No healthy answer ended on its own; KTO needs both labels."
    if not found.unpaired:
        return _held_out(found) or "No pair."
    alike = "" if options.chosen_from else " with the same decoding"
    count = len(found.held_out)
    held_out = (
        f" Prompts held out for a later check, and not counted here: {count} (--held-out)." if count else ""
    )
    return (
        f"No pairs: none of the {len(found.unpaired)} prompts with a degenerate answer has a healthy "
        f"answer{alike} that ended on its own, as requested.{held_out}"
    )


def _held_out(found: ExportedSet) -> str | None:
    if not found.held_out or not found.degenerate:
        return None
    return (
        "No pair is left for training: all of them are of held-out prompts. Lower --held-out, or add answers."
    )


def length_ratio(found: ExportedSet) -> float | None:
    """Median length of healthy answers over that of degenerate ones; None without both."""
    unit = length_unit(found.examples)
    good = length_summary([a for a in found.examples if not a.degenerate], unit)
    bad = length_summary([a for a in found.examples if a.degenerate], unit)
    return None if good is None or bad is None or not bad.median else good.median / bad.median


def next_commands(
    found: ExportedSet, options: ExportOptions, output: str, unpaired_file: str | None
) -> list[str]:
    """The commands that would give pairs, or more of them."""
    if options.at_onset:
        first = [f"stresstest diagnose {run}" for run in found.without_forks]
        again = ["stresstest", "export", "dpo", *map(label, options.sources), "--at-onset", "-o", output]
        return [*first, shlex.join(again)] if first else []
    if unpaired_file is None:
        return []
    words = ["stresstest", "run", "--prompts", unpaired_file]
    decoding = Decoding()
    if found.runs:
        settings = found.runs[0].settings
        words += ["--model", settings.subject.model]
        words += ["--lang", settings.subject.language] if settings.subject.language else []
        words += ["--base-url", settings.base_url]
        words += [] if settings.horizon is None else ["--horizon", str(settings.horizon)]
        decoding = settings.decoding
    elif options.language:
        words += ["--lang", options.language]
    changed = found.cleared_by or replace(decoding, repetition_penalty=_HEALING_PENALTY)
    for name, value in changed.options().items():
        words += [f"--{name.replace('_', '-')}", value]
    sources = [*options.sources, *(word for each in options.chosen_from for word in ("--chosen-from", each))]
    if not found.pairs and not found.answers:  # the prompts were written, and must not be written over
        path = Path(output)
        output = str(path.with_stem(f"{path.stem}-2"))
    spoken = ["--lang", options.language] if options.language else []
    again = ["stresstest", "export", "dpo", *map(label, sources), *spoken, "--chosen-from", "latest"]
    return [shlex.join(words), shlex.join([*again, "-o", output])]


def warnings(found: ExportedSet) -> list[str]:
    """What a reader must know before training on the set."""
    said = []
    room = sequence_room(found.examples)
    if room.beyond:
        said.append(
            f"Onsets beyond {TRL_MAX_LENGTH:,} tokens, prompt included: {room.beyond}. TRL's default "
            "max_length would cut them away, and both sides would be healthy text. Use the one below."
        )
    if room.counted < len(found.examples):
        said.append(
            f"Token counts are known of {room.counted} of {len(found.examples)} answers with their prompts: "
            "check max_length against the others."
        )
    elsewhere = sum(pair.chosen.decoding != pair.rejected.decoding for pair in found.pairs)
    if elsewhere:
        said.append(
            f"{elsewhere} chosen answers are of another decoding than the rejected one, as chosen_decoding "
            "says: what is learned may be that decoding's style as well."
        )
    ratio = length_ratio(found)
    if ratio is not None and not 1 / _ALIKE <= ratio <= _ALIKE:
        longer, effect = "chosen", "a larger --copies lengthens"
        if ratio < 1:
            longer, effect = "rejected", "a smaller --copies shortens"
        said.append(
            f"By the medians {longer} answers are {max(ratio, 1 / ratio):.1f} times as long as the "
            f"others, and length is learned with the rest: {effect} the loops of the rejected side."
        )
    models = sum(pair.chosen.subject.model != pair.rejected.subject.model for pair in found.pairs)
    if models:
        said.append(f"{models} chosen answers are another model's, as chosen_model says.")
    return said
