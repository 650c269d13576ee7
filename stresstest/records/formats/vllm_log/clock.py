"""The clock of a log whose lines have neither a year nor a fraction of a second."""

from __future__ import annotations

import re
from calendar import isleap
from datetime import UTC, date, datetime

_STAMP = re.compile(r"\b(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\b")
"""In vLLM's prefix, ``INFO 11-21 20:00:00 [logger.py:40]``."""
_LEAP_DAY = b"02-29 "
_HEAD = 96
_DAY, _HOUR = 86_400.0, 3_600.0
_LEAP_YEAR = 2024
_FEBRUARY_29 = datetime(_LEAP_YEAR, 2, 29, tzinfo=UTC).timestamp()
_MARCH_1 = _FEBRUARY_29 + _DAY


class LogClock:
    """Reads the times of a log's lines, in their order.

    Whether February has 29 days is not in a stamp, and a wrong guess makes the requests of that midnight
    last a day longer. The lines decide where they can: one of 29 February is of a leap year, and one of 1
    March less than an hour behind one of 28 February is of a common year. Otherwise (a log may have been
    rotated at midnight) the log is taken to be of the last twelve months, as logs without a year usually are.
    The file's own time would be that of its last copy or download. today: the day on which it is read.
    """

    def __init__(self, today: date | None = None) -> None:
        now = today or datetime.now(UTC).date()
        self._leap = isleap(now.year if now.month > 2 else now.year - 1)
        self._last: float | None = None

    def see(self, line: bytes) -> None:
        """Note whether a line is of 29 February: any will do, of a request or not."""
        if _LEAP_DAY not in line[:_HEAD]:
            return
        at = self._at(line[:_HEAD].decode("utf-8", "replace"))
        if at is not None and _FEBRUARY_29 <= at < _MARCH_1:
            self._leap, self._last = True, None

    def read(self, line: str) -> float | None:
        """Seconds on the log's own clock, whole ones; None without a time."""
        at = self._at(line)
        if at is None:
            return None
        last, self._last = self._last, at
        if last is not None and last < _FEBRUARY_29 and _MARCH_1 <= at < last + _DAY + _HOUR:
            self._leap = False
        return at if self._leap or at < _MARCH_1 else at - _DAY

    def _at(self, line: str) -> float | None:
        """The same in a leap year."""
        match = _STAMP.search(line[:_HEAD])
        if match is None:
            return None
        month, day, hour, minute, second = map(int, match.groups())
        try:
            return datetime(_LEAP_YEAR, month, day, hour, minute, second, tzinfo=UTC).timestamp()
        except ValueError:
            return None
