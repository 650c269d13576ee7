"""Characters that steer a terminal instead of showing something."""

from __future__ import annotations

import regex

STEERING = regex.compile(r"[^\n\t\P{C}]|[\p{Zl}\p{Zp}]")
"""Control, format, surrogate, private and unassigned characters, but line breaks and tabs."""
