"""Do two names of a model mean the same one?"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_VERSION = re.compile(r"[-@:.]\d{3,8}(?:[-.]\d+)*")
"""What a server adds to a model's name: -2024-08-06, -0613."""


def is_other_model(asked: str, answered: str) -> bool:
    """Whether the name that a stream gives is another model's than was asked. With a date, "latest" or a
    provider more or less it is the same."""
    one, other = sorted((_base(asked), _base(answered)), key=len)
    if other == one or (other.startswith(one) and _VERSION.fullmatch(other.removeprefix(one))):
        return False
    return not (other.endswith(one) and other.removesuffix(one).endswith((":", ".")))


def other_models(known: Collection[str], named: Iterable[str]) -> list[str]:
    """The names that are another model's than all known ones, sorted; none where nothing is known."""
    return sorted(name for name in named if known and all(is_other_model(own, name) for own in known))


def _base(name: str) -> str:
    return name.lower().rstrip("/").rpartition("/")[2].removesuffix("-latest")
