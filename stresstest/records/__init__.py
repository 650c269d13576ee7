"""Foreign logs to records: whatever somebody kept of a model's answers, read in bounded memory."""

from stresstest.records.formats.registry import parse_line as parse_line
from stresstest.records.input_file import expand_names as expand_names
from stresstest.records.input_file import names_records as names_records
from stresstest.records.record import FIELD_TARGETS as FIELD_TARGETS
from stresstest.records.record import DamagedLine as DamagedLine
from stresstest.records.record import FieldMapping as FieldMapping
from stresstest.records.record import Record as Record
from stresstest.records.record import RecordChunk as RecordChunk
from stresstest.records.record import UnreadableError as UnreadableError
from stresstest.records.record import parse_fields as parse_fields
from stresstest.records.source import check_files as check_files
from stresstest.records.source import read_chunks as read_chunks
from stresstest.records.source import total_size as total_size
