"""Results as plain rows and as DataFrames. pandas and polars are imported when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stresstest.api.verdict import Verdict
from stresstest.errors import UsageError
from stresstest.model import RunResult
from stresstest.model.scanned import ScanResult
from stresstest.render.rows import generation_row, group_row, run_row

if TYPE_CHECKING:
    import pandas
    import polars

Results = Iterable[Verdict] | Iterable[RunResult] | RunResult | ScanResult
"""What can be shown as a table."""


def to_rows(results: Results) -> list[dict[str, Any]]:
    """Flat rows with one set of keys: one for each verdict, each run, each generation of a single run, or
    each group of a scan. A value that was not measured is None."""
    if isinstance(results, RunResult):
        return [generation_row(results.run, each) for each in results.generations]
    if isinstance(results, ScanResult):
        return [group_row(group) for group in results.groups]
    return [run_row(each) if isinstance(each, RunResult) else each.to_dict() for each in results]


def to_pandas(results: Results) -> pandas.DataFrame:
    """The rows of `to_rows` with pandas' nullable types. Raises UsageError where pandas is not installed."""
    return _library("pandas").DataFrame(to_rows(results)).convert_dtypes()


def to_polars(results: Results) -> polars.DataFrame:
    """The rows of `to_rows`. Raises UsageError where polars is not installed."""
    return _library("polars").DataFrame(to_rows(results), infer_schema_length=None)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise UsageError(
            f"to_{name} needs {name}, which is not installed.",
            hint=f"Install {name} into this environment, or use to_rows, which needs nothing.",
        ) from None
