"""Files judged one by one, by any number of machines, and added up to what one scan of all files gives.

A part is a file's verdicts and its counts, side by side in one folder. It appears whole or not at all, so
that killed work and work done twice leave the same folder, and it tells which work it is of.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stresstest import __version__, records
from stresstest.errors import StresstestError, UsageError
from stresstest.model.scanned import ScanVerdict
from stresstest.records import DamagedLine, Record, RecordChunk
from stresstest.records.input_file import FileState, file_state, is_address, label
from stresstest.records.source import UNREADABLE
from stresstest.scanning.answer.languages import infer_languages
from stresstest.scanning.detect_chunk import detect_chunk, parse_chunk
from stresstest.scanning.job import GroupKey, GroupLanguages, ScanJob
from stresstest.scanning.position_scale import tokenizer_digest
from stresstest.scanning.scan_state import ScanState
from stresstest.scanning.verdict_row import VERDICT_COLUMNS, verdict_row
from stresstest.table_file import table_encoder

PART_COLUMNS: dict[str, type] = {"source": str, "line": int, **VERDICT_COLUMNS, "damaged": str}
"""A row of a part: a verdict and its place, or what is wrong with a line, the other columns null."""
_DRAFT = ".stresstest-draft"
_DRAFT_NAME = re.compile(rf"{re.escape(_DRAFT)}\.(.+)\.[0-9a-f]{{32}}")
"""Of a part, and the writer's own."""


@dataclass(frozen=True, slots=True)
class PartWork:
    """One file to judge.

    name: as the user gave it, without credentials; verdicts and damage repeat it. path: an absolute path or
    an address. languages: of the groups, as far as this and earlier files tell. show: how many of the worst
    to keep. folder: absolute. tokenizer: a hash of its file, "" without one. scan: of this scan alone.
    """

    name: str
    path: str
    state: FileState
    job: ScanJob
    show: int
    folder: str
    languages: Mapping[GroupKey, str]
    tokenizer: str = ""
    scan: str = ""

    @property
    def mark(self) -> str:
        """What the part depends on, as a hash: of other work nothing is taken over."""
        told = (
            *(__version__, self.path, self.name, self.state, self.job, self.show, self.tokenizer),
            sorted(self.languages.items(), key=repr),
        )
        return hashlib.blake2b(repr(told).encode(), digest_size=16).hexdigest()

    @property
    def mark_of_scan(self) -> str:
        """The same of a part that no other scan may take over."""
        return f"{self.mark}.{self.scan}"

    @property
    def verdicts(self) -> Path:
        """Where the verdicts are: the file's name, told apart from others of that name in other folders."""
        place = hashlib.blake2b(self.path.encode(), digest_size=8).hexdigest()
        return Path(self.folder) / f"{Path(self.name).name}.{place}.verdicts.jsonl"

    @property
    def counts(self) -> Path:
        return self.verdicts.with_suffix(".counts")


def part_works(files: Sequence[str], job: ScanJob, show: int, folder: Path) -> list[PartWork]:
    """One piece of work a file, without languages. Raises UsageError for files that cannot be used."""
    if "-" in files:
        raise UsageError("stdin (-) cannot be shared out among machines: name files.")
    records.check_files(list(files))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder} cannot be a folder: {error.strerror or error}.") from None
    at, scan = str(folder.absolute()), uuid.uuid4().hex
    tokenizer = tokenizer_digest(job.tokenizer) if job.tokenizer else ""
    return [
        PartWork(label(name), _absolute(name), file_state(name), job, show, at, {}, tokenizer, scan)
        for name in files
    ]


def _absolute(name: str) -> str:
    return name if is_address(name) else str(Path(name).absolute())


def tell_languages(work: PartWork) -> GroupLanguages:
    """What the first answers of a file tell of its groups' languages."""
    first = next(_chunks(work), None)
    return {} if first is None else infer_languages(parse_chunk(first, work.job).records, work.job, ())


def with_languages(works: Sequence[PartWork], told: Iterable[GroupLanguages]) -> list[PartWork]:
    """The works with what their own and all earlier files tell; the earliest word counts, as in one scan."""
    known: GroupLanguages = {}
    found = []
    for work, here in zip(works, told, strict=True):
        known = {**here, **known}
        found.append(replace(work, languages=known))
    return found


def judge_part(work: PartWork) -> None:
    """Judge a file and write its part. Raises UsageError where it, or the tokenizer, is not the one named."""
    _require_same_file(work)
    _require_same_tokenizer(work)
    state = ScanState(work.job.keys, work.show)
    job = replace(work.job, extract=_line_number)
    encoder = table_encoder(work.verdicts.name, PART_COLUMNS)
    draft = work.verdicts.with_name(f"{_DRAFT}.{work.verdicts.name}.{uuid.uuid4().hex}")
    cut = False
    try:
        with draft.open("wb") as out:
            for chunk in _chunks(work):
                batch = detect_chunk(chunk, job, work.languages)
                cut = cut or any(each.reason.startswith(UNREADABLE) for each in batch.damaged)
                state.add_batch(batch)
                verdicts = zip(batch.extracted, batch.judged, strict=True)
                out.write(encoder.encode(_rows(work.name, verdicts, batch.damaged)))
        draft.replace(work.verdicts)
        # What could not be told from its next state, or was cut by the network, is judged again another time.
        lasting = work.state.mark and not (cut and is_address(work.path))
        mark = work.mark if lasting else work.mark_of_scan
        draft.write_bytes(_encode({"mark": mark, "state": state.dump()}))
        draft.replace(work.counts)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def is_finished(work: PartWork) -> bool:
    """Whether the part of just this work is there."""
    return _read_counts(work) is not None and work.verdicts.exists()


def merge_parts(works: Iterable[PartWork], state: ScanState) -> None:
    """Add the finished parts up, in order. Raises UsageError as `ScanState` does for damage."""
    for work in works:
        dumped = _read_counts(work)
        if dumped is None:
            raise StresstestError(
                f"The counts of {work.name} are not in {work.folder}, although it was judged.",
                hint="All nodes and this machine must see the same folder: name one on a shared file system.",
            )
        state.merge(dumped)


def clear_drafts(works: Sequence[PartWork]) -> None:
    """Remove what killed work on these parts has left half-written, and nothing else from their folder."""
    own = {work.verdicts.name for work in works}
    for path in Path(works[0].folder).iterdir() if works else ():
        draft = _DRAFT_NAME.fullmatch(path.name)
        if draft and draft[1] in own:
            with contextlib.suppress(OSError):
                path.unlink()


def _require_same_file(work: PartWork) -> None:
    try:
        state = file_state(work.path)
    except OSError as error:
        why = error.strerror or str(error)
    else:
        if state == work.state:
            return
        why = "it has another size or time there"
    raise UsageError(
        f"{work.name} is not the file that was named, where it was to be judged: {why}.",
        hint="All nodes must see the same files: name some on a shared file system.",
    )


def _require_same_tokenizer(work: PartWork) -> None:
    if work.tokenizer and tokenizer_digest(work.job.tokenizer or "") != work.tokenizer:
        raise UsageError(
            f"--tokenizer {work.job.tokenizer} is another file where {work.name} was to be judged.",
            hint="All nodes must see the same files: name one on a shared file system.",
        )


def _chunks(work: PartWork) -> Iterator[RecordChunk]:
    for chunk in records.read_chunks(work.path):
        damaged = tuple(replace(line, source=work.name) for line in chunk.damaged)
        yield replace(chunk, source=work.name, damaged=damaged)


def _line_number(record: Record, _verdict: ScanVerdict) -> int:
    return record.line


def _rows(
    source: str, verdicts: Iterable[tuple[int, ScanVerdict]], damaged: Sequence[DamagedLine]
) -> list[dict[str, Any]]:
    """Verdicts and damage by line: a damaged line is a row too."""
    absent = dict.fromkeys(PART_COLUMNS)
    rows = [(line, {**verdict_row(judged), "damaged": None}) for line, judged in verdicts]
    rows += [(each.line, {"damaged": each.reason}) for each in damaged]
    rows.sort(key=lambda row: row[0])
    return [{**absent, "source": source, "line": line, **columns} for line, columns in rows]


def _encode(document: dict[str, Any]) -> bytes:
    import msgspec

    return msgspec.msgpack.encode(document)


def _read_counts(work: PartWork) -> dict[str, Any] | None:
    import msgspec

    try:
        document = msgspec.msgpack.decode(work.counts.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    known = document.get("mark") in (work.mark, work.mark_of_scan)
    found: dict[str, Any] | None = document["state"] if known else None
    return found
