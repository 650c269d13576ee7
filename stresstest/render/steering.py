"""Characters that steer a terminal, and words that steer a CI server, instead of showing something."""

from __future__ import annotations

import re

import regex

STEERING = regex.compile(r"[^\n\t\P{C}]|[\p{Zl}\p{Zp}]")
"""Control, format, surrogate, private and unassigned characters, but line breaks and tabs."""

LOG_COMMAND = re.compile(r"(##[A-Za-z]*)\[")
"""Commands that CI servers find inside a line: `##[error]` (GitHub, Azure), `##vso[…]`, `##teamcity[…]`."""
