"""Keys to group by that depend on how an answer ended: a group of those that ended by themselves has no loop
in it, and would certify any length."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stresstest.records.record import FieldMapping

_TOLD = frozenset(
    {"finish", "finished", "done", "ended", "completed", "complete", "truncated", "truncation", "capped"}
    | {
        "status",
        "error",
        "errors",
        "exception",
        "failed",
        "failure",
        "success",
        "outcome",
        "timeout",
        "symptom",
    }
    | {
        "latency",
        "duration",
        "elapsed",
        "seconds",
        "ms",
        "aborted",
        "cancelled",
        "canceled",
        "loop",
        "looped",
    }
    | {"degenerate", "repetition", "passed", "quality", "score", "rating", "feedback", "verdict", "refusal"}
    | {"regenerated", "retry", "retried", "retries", "attempt", "attempts", "thumbs", "liked", "flagged"}
)
_SIZES, _ASKED = (
    frozenset({"tokens", "length", "chars", "words", "cap"}),
    frozenset({"prompt", "input", "max"}),
)
"""Sizes are of the answer, unless the name is of the request."""
_END = frozenset({"stop", "stopped", "end", "completion", "termination", "close"})
_CAUSE = frozenset({"reason", "reasons", "type", "cause"})
"""One word of each together: `stop` alone is a request's."""
_WHOLE = frozenset({"level", "loglevel", "severity", "state", "result", "ok", "valid"})
"""Names that tell it where no other word is with them."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def outcome_key(keys: Sequence[str], mapping: FieldMapping) -> str | None:
    """The first of the keys that tells how an answer ended, by its name or by the field that it is read from;
    None if none does."""
    for key in keys:
        path = mapping.fields.get(key, ())
        if any(_tells_the_end(str(name)) for name in (key.rpartition(".")[2], *path[-1:])):
            return key
    return None


def _tells_the_end(name: str) -> bool:
    words = {word.lower() for word in _WORD.findall(name)}
    return (
        not _TOLD.isdisjoint(words)
        or "".join(sorted(words, key=name.lower().find)) in _WHOLE
        or (not _SIZES.isdisjoint(words) and _ASKED.isdisjoint(words))
        or not (_END.isdisjoint(words) or _CAUSE.isdisjoint(words))
    )
