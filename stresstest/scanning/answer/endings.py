"""How a recorded answer ended, and what of it the log does not show."""

from __future__ import annotations

from stresstest.detectors.screening.screen import OPEN_TAIL
from stresstest.model import GenerationVerdict
from stresstest.model.finish_reason import (
    LENGTH,
    LOST_REASONS,
    STOP,
    is_foreign_reason,
    normalize_finish_reason,
)
from stresstest.model.texts.copies import breaks_off_repeating, ends_in_second_copy
from stresstest.model.tokens import MIN_UNSEEN_TOKENS
from stresstest.model.words import REPETITION_REASON
from stresstest.records import Record
from stresstest.scanning.position_scale import is_implausible

_ENDED_CLEANLY = "closed"
"""For the suite: no reason is known, but the text ends like one that ended by itself. Nothing is left open;
a truncation is concluded from known reasons only, and this word is none of them."""
CHOSEN = (STOP, _ENDED_CLEANLY)
_MORE_THAN_CAP, _MORE_SHARE = 8, 0.02
"""Tokens by which a count may exceed max_tokens: special ones, and those of a last speculative step."""
_TERMINAL = tuple(".!?…؟।۔。！？｡:;\"'»”’)]}*_`」』>~|")


def finish_reason(record: Record) -> str | None:
    """The finish reason passed to the suite; a text that ends in good order for no known reason is closed."""
    known = _known_end(record)
    if record.stop_unsure and known == REPETITION_REASON:
        return None  # its text alone suggests it
    if known is None:
        return None if was_capped(record) or _ends_mid_sentence(record.text) else _ENDED_CLEANLY
    return "abort" if known in LOST_REASONS else known


def was_capped(record: Record) -> bool | None:
    """Whether max_tokens ended it: by the finish reason, else by the counts; None where nobody knows."""
    known = _known_end(record)
    if known is not None:
        return known == LENGTH
    if record.max_tokens is not None and record.completion_tokens is not None:
        return record.completion_tokens >= record.max_tokens
    return None


def counted_to_cap(record: Record) -> bool | None:
    """Whether max_tokens ended it after as many tokens as were counted, which is so where the server's own
    tokenizer counts; False where more were counted than max_tokens allows, as another tokenizer does. None
    where nothing tells."""
    most, counted = record.max_tokens, record.completion_tokens
    if most is None or counted is None:
        return None
    if counted > most + max(_MORE_THAN_CAP, most * _MORE_SHARE):
        return False
    return True if abs(counted - most) <= 1 and _known_end(record) == LENGTH else None


def is_unresolved(record: Record, verdict: GenerationVerdict, cut: bool) -> bool:
    """Whether it ended with a candidate open, so that nobody knows whether it was failing there.

    Any candidate after an end of its own, which a failing answer reaches with one and a healthy one with
    none, or after a loss, which may be the failure's doing. Where it was cut, by its cap or by what nothing
    tells, one that is open for longer than an alarm may be late.
    """
    if verdict.degenerate:
        return False
    usual = OPEN_TAIL if cut else 0
    return verdict.tokens - verdict.observed > usual or ended_as_repetition(record)


def was_cut_repeating(record: Record, verdict: GenerationVerdict) -> bool:
    """Whether what a cap cut repeated itself at its end, and is no loop yet: in a copy of a long passage, of
    which one more would have been one, in what the prompt shows as an answer, or in signs, of which lines and
    forms have as many."""
    said = record.text or record.reasoning
    return not verdict.degenerate and (ends_in_second_copy(said) or breaks_off_repeating(said))


def ended_as_repetition(record: Record) -> bool:
    """Whether the server ended it because it repeats itself: by its word, or, where there is none, by an end
    in copies (Ollama broke off after 31 equal tokens, and told no reason)."""
    if normalize_finish_reason(record.finish_reason) == REPETITION_REASON:
        return True
    if _known_end(record) is not None or was_capped(record):
        return False
    return breaks_off_repeating(record.text or record.reasoning)


def lacks_its_text(record: Record, capped: bool | None) -> bool:
    """Whether it has no text although tokens were spent, up to a cap or more than special ones, or although
    nothing says how it ended: where reasoning is left out, that is what is left of a loop in it."""
    if not record.has_text:
        return True
    if (record.text or record.reasoning).strip() or record.tokens is not None or record.calls:
        return False
    if record.completion_tokens is None:
        return capped is True or record.finish_reason is None
    return capped is True or record.completion_tokens >= MIN_UNSEEN_TOKENS


def lacks_its_end(record: Record) -> bool:
    """Whether the log kept less text than the answer had: where the text ends the answer did not."""
    if record.hole is not None and record.hole >= len(record.reasoning) + len(record.text):
        return True
    return record.completion_tokens is not None and is_implausible(
        record.completion_tokens, record.reasoning + record.text
    )


def was_lost(record: Record, verdict: GenerationVerdict) -> bool:
    """Whether the service gave it up before it failed; nothing at all, without an end of its own, is that."""
    known = _known_end(record)
    nothing = not verdict.tokens and known != STOP
    return not verdict.degenerate and (nothing or known in LOST_REASONS)


def _known_end(record: Record) -> str | None:
    """The finish reason in one word; ``error`` for a word that nobody knows where the text breaks off."""
    known = normalize_finish_reason(record.finish_reason)
    if known is None and is_foreign_reason(record.finish_reason) and _ends_mid_sentence(record.text):
        return "error"
    return known


def _ends_mid_sentence(text: str) -> bool:
    """Whether a text stops in mid-sentence: no closing mark, and no closing words on a line of their own."""
    text = text.rstrip()
    last = text[text.rfind("\n") + 1 :]
    signed = len(last.split()) <= 4 and not any(c.isdigit() for c in last) and last[:1].isalpha()
    return bool(text) and not text.endswith(_TERMINAL) and not (signed and len(last) < len(text))
