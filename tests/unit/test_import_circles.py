"""No modules of the package import each other in a circle, not even for their types."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.imports import import_statements
from tests.support.paths import ROOT


def _modules() -> dict[str, Path]:
    found = {}
    for path in (ROOT / "stresstest").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imports(path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules that a file imports, inside functions and for type checking as well."""
    found = set()
    for node in import_statements(path):
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in modules else node.module)
    return found


@pytest.mark.slow
def test_no_modules_import_each_other() -> None:
    """A circle means that neither module can be understood, tested or moved without the other."""
    modules = _modules()
    assert len(modules) > 300
    graph = {name: _imports(path, modules) - {name} for name, path in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' → '.join(error.args[1])}")
