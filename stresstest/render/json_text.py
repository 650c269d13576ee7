"""A document as JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from stresstest.render.steering import escape_steering

T = TypeVar("T")
_FORM: dict[str, Any] = {"ensure_ascii": False, "indent": 2, "allow_nan": False}
_VALUES = 8192
"""Keys and values of a piece, which are escaped at once. No text is in two pieces."""


def dumps(document: dict[str, Any]) -> str:
    """The document as strictly valid JSON. Raises ValueError for NaN.

    Non-ASCII text is not escaped, except what steers a terminal, and what steers a CI server's log (`##[`,
    `##vso[`).
    """
    return escape_steering(json.dumps(document, **_FORM))


def json_pieces(document: dict[str, Any]) -> Iterator[str]:
    """`dumps`, thousands of values at a time, so that a document with `LazyRows` is never whole in memory."""
    values = json.JSONEncoder(**_FORM).iterencode(document)
    while piece := "".join(islice(values, _VALUES)):
        yield escape_steering(piece)


class LazyRows(list[dict[str, Any]]):
    """A list in a document for `json_pieces`: each of its rows is made when it is written."""

    def __init__(self, row: Callable[[T], dict[str, Any]], items: Sequence[T]) -> None:
        super().__init__()
        self._rows: Callable[[], Iterator[dict[str, Any]]] = lambda: map(row, items)
        self._count = len(items)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._rows()

    def __len__(self) -> int:
        return self._count
