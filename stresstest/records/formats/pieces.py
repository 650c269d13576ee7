"""Streamed answers that a log keeps in pieces. A piece judged by itself is always healthy, so none is taken
for an answer."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.records.formats.adapter import Place, Row, RowFormat
from stresstest.records.record import FieldMapping, Record, UnreadableError

_MIN_PIECES = 8
_MAX_MEAN, _MAX_MEAN_UNSPACED = 24, 8
"""Characters of a piece, a token or a few, on the mean; of one in a script without spaces."""
_SPACED = 0.3
"""Share of pieces that begin or end with a space: most tokens begin with one, and no answer does."""


def _is_piece(row: Row, _mapped: FieldMapping) -> bool:
    kind = row.get("object")
    if kind == "text_completion":
        choices = row.get("choices")
        ends = [c.get("finish_reason") for c in choices if isinstance(c, dict)] if choices else []
        return bool(ends) and not any(ends) and not row.get("usage")
    ollama = row.get("done") is False and "created_at" in row
    return ollama or (isinstance(kind, str) and kind.endswith(".chunk"))


def _raise_piece(_row: Row, _place: Place) -> list[Record]:
    raise UnreadableError("a piece of a streamed answer: put the pieces of each answer together")


PIECE = RowFormat("piece of a stream", _is_piece, _raise_piece)


def join_pieces(texts: Sequence[str]) -> str | None:
    """The answer that a list of texts is the pieces of; None where each is an answer of its own.

    Raises UnreadableError where nothing tells.
    """
    filled = [text for text in texts if text]
    if len(filled) < _MIN_PIECES or sum(map(len, filled)) > _MAX_MEAN * len(filled):
        return None
    if sum(text[0].isspace() or text[-1].isspace() for text in filled) >= _SPACED * len(filled):
        return "".join(texts)
    short = sum(map(len, filled)) <= _MAX_MEAN_UNSPACED * len(filled)
    if short and 2 * len(set(filled)) > len(filled):
        raise UnreadableError(
            f"a list of {len(texts)} short texts, which may be pieces of one answer: join them"
        )
    return None
