"""pandas and polars themselves: tables in, DataFrames out.

build/integrations/frames/bin/python -m pytest tests/integrations/check_frames.py
"""

from __future__ import annotations

import pandas
import polars

import stresstest
from tests.integrations.answers import HEALTHY, LOOPING

ROWS = [
    {"id": "a", "response": HEALTHY, "language": "en", "completion_tokens": 40},
    {"id": "b", "response": LOOPING, "language": None, "completion_tokens": None},
]


def test_tables_of_both_give_the_verdicts_of_their_rows() -> None:
    """Also where a column has no value in a row: pandas writes NaN there."""
    expected = stresstest.detect_many(ROWS)
    assert stresstest.detect_many(pandas.DataFrame(ROWS)) == expected
    assert stresstest.detect_many(pandas.DataFrame(ROWS).convert_dtypes()) == expected
    assert stresstest.detect_many(polars.DataFrame(ROWS)) == expected
    assert stresstest.detect_many(pandas.Series([HEALTHY, LOOPING]))[1].degenerate
    assert stresstest.detect_many(polars.Series([HEALTHY, LOOPING]))[1].degenerate


def test_verdicts_become_dataframes_with_whole_numbers() -> None:
    """An absent onset is absent: neither 0 nor a reason for 623.0."""
    verdicts = stresstest.detect_many(ROWS)
    frame = stresstest.to_pandas(verdicts)
    assert frame["degenerate"].tolist() == [False, True]
    assert pandas.isna(frame["onset_char"][0])
    assert str(frame["onset_char"].dtype) == "Int64"
    table = stresstest.to_polars(verdicts)
    assert table["onset_char"].to_list() == [None, verdicts[1].onset_char]
    assert table.schema["onset_char"] == polars.Int64
