"""Foreign logs to records: whatever somebody kept of a model's answers, read in bounded memory."""

from stresstest.records.finish import ending
from stresstest.records.mapping import TARGETS, Mapped, parse_fields
from stresstest.records.record import Chunk, Damaged, Record, TextlessError, UnreadableError
from stresstest.records.shapes import TEXT_KEYS, records
from stresstest.records.source import check, chunks, size

__all__ = [
    "TARGETS",
    "TEXT_KEYS",
    "Chunk",
    "Damaged",
    "Mapped",
    "Record",
    "TextlessError",
    "UnreadableError",
    "check",
    "chunks",
    "ending",
    "parse_fields",
    "records",
    "size",
]
