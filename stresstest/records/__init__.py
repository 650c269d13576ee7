"""Foreign logs to records: whatever somebody kept of a model's answers, read in bounded memory."""

from stresstest.records.finish import ending
from stresstest.records.mapping import TARGETS, Mapped, parse_fields
from stresstest.records.record import Chunk, Damaged, Record, UnreadableError
from stresstest.records.shapes import records
from stresstest.records.source import check, chunks, size

__all__ = [
    "TARGETS",
    "Chunk",
    "Damaged",
    "Mapped",
    "Record",
    "UnreadableError",
    "check",
    "chunks",
    "ending",
    "parse_fields",
    "records",
    "size",
]
