"""Verdicts inside Ray Data pipelines (the extra `ray`); for files alone, ``stresstest scan --engine ray``.

`Judge` reads rows or raw lines by the record parser of `scan`; its verdicts are columns, and damage is a row:

    ds = ray.data.read_text("outputs/*.jsonl.gz", include_paths=True)
    verdicts = ds.map_batches(Judge, fn_constructor_kwargs={"line": "text", "keep": ["path"]},
                              batch_format="pyarrow", concurrency=8)

`ray.data.read_json` guesses one schema for all lines and fails on mixed ones, and `write_parquet` appends to
what is in its folder: read lines as text, and write to a new folder. On a cluster with one CPU an actor
starves the reader: give it `num_cpus=0.5`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stresstest.records import Record, parse_fields, parse_line
from stresstest.records.arrow_values import table_rows
from stresstest.records.record import UnreadableError
from stresstest.scanning.answer.verdict import detect_records
from stresstest.scanning.job import ScanJob
from stresstest.scanning.verdict_row import VERDICT_COLUMNS, verdict_row

if TYPE_CHECKING:
    import pyarrow

    from stresstest.model.scanned import ScanVerdict

_NOWHERE = "\0"
"""Source of rows, whose file Ray does not tell: a record without an id has none."""
_WARM = "stresstest.scanning.preload"


class Judge:
    """For `Dataset.map_batches(Judge, batch_format="pyarrow", …)`: rows to verdicts, detectors loaded once.

    line: the column that holds whole lines of JSON (`ray.data.read_text`); without it every row is a record.
    fields: as ``--field``: ``["response=path.to.text"]``. language: that the answers are wanted in;
    without it each answer's own. keep: columns to copy beside the verdicts. Raises ValueError for a column
    that a verdict has, too.

    A row of the result is a verdict of ``scan --out``, or damage: then `damaged` says what is wrong, and the
    other columns are null. A record with several answers becomes several rows.
    """

    def __init__(
        self,
        line: str | None = None,
        fields: Sequence[str] = (),
        language: str | None = None,
        keep: Sequence[str] = (),
    ) -> None:
        own = (*VERDICT_COLUMNS, "damaged")
        twice = sorted({each for each in keep if each in own or list(keep).count(each) > 1})
        if twice:
            raise ValueError(
                f"keep: {', '.join(twice)} would be two columns of one name; rename them in the dataset first"
            )
        importlib.import_module(_WARM)
        self._line = line
        self._keep = tuple(keep)
        self._job = ScanJob(parse_fields(fields), language=language)

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        """The verdicts on a batch, in order."""
        import pyarrow

        read = [self._read(row) for row in table_rows(batch)]
        verdicts = iter(detect_records([record for found, _ in read for record in found], self._job, {}))
        judged: list[dict[str, Any]] = []
        places: list[int] = []
        for place, (found, damage) in enumerate(read):
            if damage is not None:
                judged.append({"damaged": damage})
            judged += [{**_columns(next(verdicts)), "damaged": None} for _ in found]
            places += [place] * (len(judged) - len(places))
        kept = batch.select(list(self._keep)).take(pyarrow.array(places, pyarrow.int64()))
        added = pyarrow.Table.from_pylist(judged, pyarrow.schema(_schema(pyarrow)))
        schema = pyarrow.schema([*kept.schema, *added.schema])
        return pyarrow.Table.from_arrays([*kept.columns, *added.columns], schema=schema)

    def _read(self, row: dict[str, Any]) -> tuple[list[Record], str | None]:
        raw = row if self._line is None else str(row[self._line]).encode()
        try:
            return parse_line(raw, _NOWHERE, 0, self._job.mapped), None
        except UnreadableError as error:
            return [], str(error)


def _columns(judged: ScanVerdict) -> dict[str, Any]:
    columns = verdict_row(judged)
    return {**columns, "id": None} if judged.id.startswith(_NOWHERE) else columns


def _schema(pyarrow: Any) -> list[Any]:
    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    return [pyarrow.field(name, types[kind]) for name, kind in {**VERDICT_COLUMNS, "damaged": str}.items()]
