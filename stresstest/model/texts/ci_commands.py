"""Words with which a line of a log commands a CI server."""

from __future__ import annotations

import re

LOG_COMMAND = re.compile(r"(##[A-Za-z]*)\[")
"""Commands that CI servers find inside a line: `##[error]` (GitHub, Azure), `##vso[…]`, `##teamcity[…]`."""
