"""Where the answers of a scan were read, and which texts beside them were not judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stresstest.records import Record
from stresstest.records.formats.unread import is_looked_at
from stresstest.records.full_texts import FULL_TEXT, PERHAPS_PROMPTED
from stresstest.records.templated_texts import SEVERAL_TURNS
from stresstest.scanning.text_lengths import TextLengths

_MAX_NAMES = 64
"""Names that are kept, the alphabetically first: memory stays bounded, and parts add up to the same."""
_MOST_ECHOES = 0.05
"""Share of answers up to which those that begin with their prompt repeat it."""


def prompt_notes(
    places: Mapping[str, int], answers: int, promptless: int, prompts: int, questions: int
) -> list[str]:
    """What makes the number of prompts doubtful. places: where answers were read; promptless: so many of the
    answers have no prompt. prompts, questions: different prompts, and different texts of them."""
    found = []
    none = promptless == answers
    if promptless and answers > 1:
        whose = "No prompts are known" if none else f"{promptless:,} answers have no known prompt"
        found.append(
            f"{whose}: each answer counts as one to a prompt of its own. If several answer one prompt, "
            f"intervals are too narrow and T is too high: name the prompt with --field prompt=PATH or "
            f"prompt_id=PATH."
        )
    if none and FULL_TEXT in places:
        found.append(
            f"{FULL_TEXT} may hold the prompt before each answer, as transformers' pipelines return "
            f"it (return_full_text): T then counts the prompt, too, and is too high. Log the answers alone, "
            f"or the prompts beside them."
        )
    prompted = sum(n for place, n in places.items() if place.endswith(PERHAPS_PROMPTED))
    if prompted > _MOST_ECHOES * answers:
        found.append(
            f"{prompted:,} of {answers:,} texts begin with their prompt, or may, and were read from there: T "
            f"then counts the prompt, too, and is too high. Log the answers alone, or scan such a model's "
            f"answers by themselves, with their whole prompts beside them."
        )
    if turns := sum(n for place, n in places.items() if place.endswith(SEVERAL_TURNS)):
        found.append(
            f"{turns:,} texts hold several turns in a chat template, and no prompt stands beside them: what "
            f"the model invented cannot be told from what it was given. For T and --fail-above, each counts "
            f"as a failure from its first word on. Log the answers alone, or the conversations as messages."
        )
    if 0 < questions <= prompts / 2:
        texts = "one text" if questions == 1 else f"only {questions:,} texts"
        found.append(
            f"{prompts:,} prompts have {texts}: what stands beside it (pictures, documents, a system prompt) "
            f"tells them apart. If the model read the same, intervals are too narrow and T is too high: name "
            f"the prompt with --field prompt_id=PATH."
        )
    return found


@dataclass(slots=True)
class TextsRead:
    """places: where answers were read → answers. unjudged: a text beside them → lines with it, of the
    looked_at lines whose other texts were looked for. left_out: lines in good order without an answer of a
    model's: turns of others, other spans and calls. lengths: of all texts."""

    places: Counter[str] = field(default_factory=Counter)
    unjudged: Counter[str] = field(default_factory=Counter)
    looked_at: int = 0
    left_out: int = 0
    lengths: TextLengths = field(default_factory=TextLengths)

    @classmethod
    def of(cls, records: Sequence[Record], left_out: int = 0) -> TextsRead:
        """Of the records of one chunk, in order."""
        found = cls(left_out=left_out, lengths=TextLengths.of(records))
        line = 0
        for record in records:
            found.places[record.read_from] += 1
            found.unjudged.update(record.beside)
            if record.line != line and is_looked_at(record.line):
                found.looked_at += 1
            line = record.line
        return found

    def merge(self, later: TextsRead) -> None:
        """Add what was read after it."""
        self.places.update(later.places)
        self.unjudged.update(later.unjudged)
        self.looked_at += later.looked_at
        self.left_out += later.left_out
        self.lengths.merge(later.lengths)
        for names in (self.places, self.unjudged):
            for name in sorted(names)[_MAX_NAMES:]:
                del names[name]

    def dump(self) -> dict[str, Any]:
        """Everything, for `load`."""
        return {
            "places": dict(self.places),
            "unjudged": dict(self.unjudged),
            "looked_at": self.looked_at,
            "left_out": self.left_out,
            "lengths": self.lengths.dump(),
        }

    @classmethod
    def load(cls, dumped: Mapping[str, Any]) -> TextsRead:
        """What was dumped."""
        places, unjudged = Counter(dumped["places"]), Counter(dumped["unjudged"])
        lengths = TextLengths.load(dumped["lengths"])
        return cls(places, unjudged, dumped["looked_at"], dumped["left_out"], lengths)
