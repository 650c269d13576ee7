"""The verdict on one text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from stresstest.model.scanned import ScanVerdict
from stresstest.scanning.verdict_row import verdict_row


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a text degenerates, where, and how: what ``scan --out`` writes of it, and two values more.

    id: the record's own, else where it stood. symptom: what degenerated ("loop", "language_drift", …), None
    for a healthy text. onset_char: 0-based character at which the degenerate part begins; for a loop that is
    where the second copy does, so that ``text[:onset_char]`` is the part to keep; None inside reasoning.
    onset_token: 1-based, where the record has token counts. alarm_char: the character at which a reader of
    the stream could first have known. loops_to_end: a loop continues to the last character. recovered: it
    looped and went on. score: 0–1, monotone in the evidence. language: that the text was judged against, None
    where it is not known, so that drift was not looked for. summary: one sentence on the symptom.
    """

    id: str
    degenerate: bool
    symptom: str | None
    onset_char: int | None
    onset_token: int | None
    alarm_char: int | None
    loops_to_end: bool
    recovered: bool
    score: float
    language: str | None = None
    summary: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, of types that JSON has."""
        return asdict(self)


def public_verdict(judged: ScanVerdict) -> Verdict:
    """The engine's verdict as users see it."""
    summary = None if judged.shown is None else judged.shown.summary or None
    return Verdict(**verdict_row(judged), language=judged.language, summary=summary)
