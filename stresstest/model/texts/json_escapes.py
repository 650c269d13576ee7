"""JSON that was kept as text, with everything beyond ASCII escaped: Python's `json.dumps` writes it so, and
LiteLLM with it the arguments of tools and answers in JSON. As it stands, Chinese is Latin letters and
figures.
"""

from __future__ import annotations

import io
import re

_RUN = re.compile(r"\\\\|((?:\\u[0-9a-fA-F]{4})+)")


def without_json_escapes(text: str) -> str:
    """JSON with the characters that its escapes stand for, as far as they are beyond ASCII; other text as it
    is. Half a surrogate pair becomes U+FFFD."""
    if "\\u" not in text or text.lstrip()[:1] not in ("{", "["):
        return text
    made, end = io.StringIO(), 0
    for found in _RUN.finditer(text):
        if found[1] is not None:
            made.write(text[end : found.start()])
            made.write(_characters(found[1]))
            end = found.end()
    return made.getvalue() + text[end:]


def _characters(run: str) -> str:
    units = bytes.fromhex(run.replace("\\u", "")).decode("utf-16-be", "replace")
    return "".join(c if c > "\x7f" else f"\\u{ord(c):04x}" for c in units)
