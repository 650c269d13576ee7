"""A document as JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from stresstest.render.steering import escape_steering

T = TypeVar("T")


def dumps(document: dict[str, Any]) -> str:
    """The document as strictly valid JSON. Raises ValueError for NaN.

    Non-ASCII text is not escaped, except what steers a terminal, and what steers a CI server's log (`##[`,
    `##vso[`).
    """
    return "".join(json_pieces(document))


def json_pieces(document: dict[str, Any]) -> Iterator[str]:
    """`dumps`, piece by piece, so that a document with `LazyRows` is never whole in memory."""
    encoder = json.JSONEncoder(ensure_ascii=False, indent=2, allow_nan=False)
    return map(escape_steering, encoder.iterencode(document))


class LazyRows(list[dict[str, Any]]):
    """A list in a document for `json_pieces`: each of its rows is made when it is written."""

    def __init__(self, row: Callable[[T], dict[str, Any]], of: Sequence[T]) -> None:
        super().__init__()
        self._rows: Callable[[], Iterator[dict[str, Any]]] = lambda: map(row, of)
        self._count = len(of)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._rows()

    def __len__(self) -> int:
        return self._count
