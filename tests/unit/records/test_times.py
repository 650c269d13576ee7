"""Times of a record: what is a date, and what is a number since 1970."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stresstest.records.record import as_seconds

NOON = datetime(2026, 11, 28, 10, 15, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("given", "fraction"),
    [
        ("20261128101530", 0.0),
        (20261128101530, 0.0),
        (20261128101530.0, 0.0),
        ("20261128_101530", 0.0),
        ("20261128 101530", 0.0),
        ("20261128T101530", 0.0),
        ("20261128101530Z", 0.0),
        ("20261128111530+0100", 0.0),
        ("20261128101530.25", 0.25),
        (20261128101530.25, 0.25),
        ("20261128101530250", 0.25),
        (20261128101530250, 0.25),
        ("20261128101530.250000", 0.25),
        ("20261128101530250000", 0.25),
    ],
)
def test_a_date_without_marks_between_its_figures_is_a_date(given: object, fraction: float) -> None:
    """It was taken for milliseconds, in the year 2612: a log of 50 minutes lasted 9 seconds."""
    assert as_seconds(given) == NOON + fraction


@pytest.mark.parametrize("since", [NOON, 1_760_000_000.0, 1_999_123_123.0, 2_026_112_810.0, 2_100_000_000.0])
@pytest.mark.parametrize("unit", [1, 1_000, 1_000_000, 1_000_000_000])
@pytest.mark.parametrize("kind", [int, float, str])
def test_a_number_since_1970_is_no_date(since: float, unit: int, kind: type) -> None:
    """Whatever its unit, and where its figures look like a date."""
    assert as_seconds(kind(int(since) * unit)) == pytest.approx(since, abs=1e-3)


@pytest.mark.parametrize("given", [20261328101530, "20261128256199"])
def test_figures_that_are_no_date_are_a_number(given: object) -> None:
    """A month 13 or an hour 25 is in no date; what it is, the number says."""
    assert as_seconds(given) == pytest.approx(float(str(given)) / 1e3)
