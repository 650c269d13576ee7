"""The registry of detectors: the only place that lists them.

The suite, the screens of recorded text, the reports and the simulator read their detectors from here. Adding
one is a package beside the others, with its entry in `__init__.py`, and a line in `_SHIPPED`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from stresstest.detectors.entropy import ENTROPY_SHIFT
from stresstest.detectors.entry import DetectorEntry, Family, SymptomInfo
from stresstest.detectors.extra_turns import EXTRA_TURNS
from stresstest.detectors.flooding import FLOODING
from stresstest.detectors.gibberish import GIBBERISH
from stresstest.detectors.language import LANGUAGE_DRIFT
from stresstest.detectors.loop import LOOP
from stresstest.detectors.near_loop import NEAR_LOOP
from stresstest.detectors.prompt_echo import PROMPT_ECHO
from stresstest.detectors.structure import STRUCTURE_BREAK
from stresstest.detectors.truncation import TRUNCATION
from stresstest.model import SymptomKind

_SHIPPED = (
    LOOP,
    NEAR_LOOP,
    FLOODING,
    LANGUAGE_DRIFT,
    GIBBERISH,
    ENTROPY_SHIFT,
    STRUCTURE_BREAK,
    PROMPT_ECHO,
    EXTRA_TURNS,
    TRUNCATION,
)
_entries: dict[str, DetectorEntry] = {entry.kind: entry for entry in _SHIPPED}


def entries() -> tuple[DetectorEntry, ...]:
    """All registered detectors, in the order in which reports list their symptoms."""
    return tuple(_entries.values())


def added_entries() -> tuple[DetectorEntry, ...]:
    """The registered detectors that are not shipped: what another process does not know of."""
    return tuple(entry for entry in _entries.values() if entry not in _SHIPPED)


def register(entry: DetectorEntry) -> None:
    """Add a detector for this process. Raises ValueError when its symptom has one."""
    if entry.kind in _entries:
        raise ValueError(f"the symptom {entry.kind} already has a detector")
    _entries[entry.kind] = entry


@contextmanager
def registered(entry: DetectorEntry) -> Iterator[None]:
    """A detector that is registered inside the `with` block only."""
    register(entry)
    try:
        yield
    finally:
        del _entries[entry.kind]


def is_repetition(kind: str | None) -> bool:
    """Whether it is a symptom of text that repeats: loop, near-loop, flooding."""
    return kind is not None and symptom_info(kind).family is Family.REPETITION


def ends_answer(kind: str | None) -> bool:
    """Whether it is how the answer ends rather than a length at which it fails: a truncation."""
    return kind is not None and symptom_info(kind).ends_answer


def symptom_counts(kinds: Mapping[str, int]) -> str:
    """``loop 5, near-loop 2``, in the order given; empty for none. A name without a detector here stands as
    it is, with blanks for underscores."""
    known = {kind: _entries[kind].symptom.label for kind in kinds if kind in _entries}
    return ", ".join(f"{known.get(kind) or kind.replace('_', ' ')} {n}" for kind, n in kinds.items())


def symptom_info(kind: str) -> SymptomInfo:
    """What is known of a symptom. One without a detector here, from a store that another version has
    written, has its name as label and no traits."""
    found = _entries.get(SymptomKind(kind))
    if found is not None:
        return found.symptom
    words = kind.replace("_", " ")
    return SymptomInfo(
        SymptomKind(kind), label=words, description=f"{words}: no detector is registered for it"
    )
