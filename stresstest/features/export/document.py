"""`export --json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stresstest.features.export.training import (
    length_summary,
    length_unit,
    sequence_room,
    training_config,
)
from stresstest.features.export.workflow import ExportedSet, ExportOptions
from stresstest.model import Subject


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files of an export; None for one that was not needed."""

    output: str | None = None
    held_out: str | None = None
    unpaired: str | None = None


def export_document(
    found: ExportedSet,
    options: ExportOptions,
    files: WrittenFiles,
    nothing: str | None,
    commands: Sequence[str],
) -> dict[str, Any]:
    """``export dpo --json`` and ``export kto --json``. nothing: why there is no example, if there is none."""
    examples = found.examples
    unit = length_unit(examples)
    sides = {
        "chosen": [a for a in examples if not a.degenerate],
        "rejected": [a for a in examples if a.degenerate],
    }
    summaries = {name: length_summary(side, unit) for name, side in sides.items()}
    return {
        "pairs": len(found.pairs),
        "answers": len(found.answers),
        "files": asdict(files),
        "train_prompts": found.train_prompts,
        "held_out_prompts": len(found.held_out),
        "unpaired_prompts": len(found.unpaired),
        "lengths": {"unit": unit, **{name: each and asdict(each) for name, each in summaries.items()}},
        "subjects": {str(subject): n for subject, n in subject_counts(found).most_common()},
        "symptoms": dict(symptom_counts(found).most_common()),
        "other_decoding": sum(pair.chosen.decoding != pair.rejected.decoding for pair in found.pairs),
        "simulated": any(run.profile.simulated for run in found.runs),
        "left_out": dict(found.left_out.most_common()),
        "repeated": found.repeated,
        "room": asdict(sequence_room(examples)),
        "training": training_config(found, options) if examples else None,
        "nothing": nothing,
        "commands": list(commands),
    }


def subject_counts(found: ExportedSet) -> Counter[Subject]:
    """Examples of each subject: pairs by their rejected side, or answers."""
    return Counter(answer.subject for answer in found.answers or [p.rejected for p in found.pairs])


def symptom_counts(found: ExportedSet) -> Counter[str]:
    """Degenerate answers among the examples by their symptom."""
    return Counter(answer.symptom for answer in found.examples if answer.symptom is not None)
