"""The tests mirror the packages, and what tests share is no test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.imports import import_statements
from tests.support.paths import ROOT

TESTS = ROOT / "tests"
OF_THE_TESTS = {"lab", "support"}
"""Folders of tests/unit whose subject is a part of the tests themselves."""


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, anywhere in it; `from a import b` may mean a.b."""
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def is_collected(module: str) -> bool:
    """pytest itself loads these: imported, they would be loaded for what lies beside the tests in them."""
    file = TESTS.parent.joinpath(*module.split(".")).with_suffix(".py")
    return file.is_file() and (file.name.startswith("test_") or file.name == "conftest.py")


def test_no_module_imports_a_test_module_or_a_conftest() -> None:
    """Shared helpers are in tests/support/, or beside the tests of one folder in a module of their own."""
    files = [*TESTS.rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    wrong = [
        f"{file.relative_to(ROOT)} imports {module}"
        for file in files
        for module in imported(file)
        if module.startswith("tests.") and is_collected(module)
    ]
    assert not wrong


def test_every_folder_of_unit_tests_is_a_package() -> None:
    """tests/unit/<package>/ holds the tests of stresstest/<package>/."""
    folders = {
        str(file.parent.relative_to(TESTS / "unit"))
        for file in (TESTS / "unit").rglob("test_*.py")
        if file.parent != TESTS / "unit"
    }
    wrong = {name for name in folders if not (ROOT / "stresstest" / name / "__init__.py").is_file()}
    assert wrong <= OF_THE_TESTS
