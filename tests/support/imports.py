"""The import statements of a file, wherever they stand in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def import_statements(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """Those in functions and for type checking as well. Expressions are not looked into: they hold none."""
    waiting: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        for block in _BLOCKS:
            waiting += getattr(node, block, [])
