"""What a project file may not name that was only found in the current folder.

It may have come with somebody else's repository. One that the user names with --config or STRESSTEST_CONFIG
is the user's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stresstest.config.task_source import OPEN_FORM, is_task_file
from stresstest.errors import UsageError

PROJECT_FILE = "stresstest.toml"
_FILE_STORES = ("sqlite:///", "sqlite+pysqlite:///")
_TRUST = f"If you trust the file, name it: --config {PROJECT_FILE}"


def refuse_found_options(found: Mapping[str, Any]) -> None:
    """Raise UsageError for a store or for texts to send that nobody but a found file names, outside of its
    folder. found: the options that it alone sets, and its table [check]."""
    _refuse_store(str(found.get("store") or ""))
    if not _names_address(found):
        return  # the texts go to a server that the user named
    for option, given in _texts_to_send(found):
        if _is_outside(given):
            raise UsageError(
                f"./{PROJECT_FILE} would send {given} ({option}), which is outside of this folder, to an "
                "address that only this file names.",
                hint=_TRUST,
            )


def _refuse_store(store: str) -> None:
    """libpq would send a server passwords of the user (PGPASSWORD, ~/.pgpass, services), and its address may
    name files to read and to write (passfile, sslkeylogfile). A new file elsewhere may be one that something
    reads: a shell runs what a system prompt in ~/.profile holds."""
    prefix = next((each for each in _FILE_STORES if store.startswith(each)), "")
    if "://" in store and not prefix and not store.startswith("sqlite"):
        raise UsageError(
            f"./{PROJECT_FILE} names a database server as the store: passwords of yours could go there.",
            hint=_TRUST,
        )
    path = store.removeprefix(prefix)
    is_question = bool(prefix) and not {"?", "%"}.isdisjoint(path)  # no part of the name, or another one
    if path not in ("", ":memory:", "sqlite://") and (
        "://" in path or path.startswith("file:") or is_question or _is_outside(path)
    ):
        raise UsageError(
            f"./{PROJECT_FILE} names a store outside of this folder, where a file would be written: {store}",
            hint=_TRUST,
        )


def _names_address(found: Mapping[str, Any]) -> bool:
    table = found.get("check")
    models = table.get("models") if isinstance(table, dict) else None
    listed = [each for each in models if isinstance(each, dict)] if isinstance(models, list) else []
    return found.get("base_url") is not None or any("base_url" in each for each in listed)


def _texts_to_send(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(option, path) of each file whose text would be sent."""
    if prompts := found.get("prompts"):
        yield "prompts", str(prompts)
    table = found.get("check")
    tasks = table.get("tasks") if isinstance(table, dict) else None
    for task in (found.get("task"), *(tasks if isinstance(tasks, list) else ())):
        plain = str(task).removesuffix(OPEN_FORM)
        if is_task_file(plain):
            yield "task", plain


def _is_outside(path: str) -> bool:
    """Whether a path leads out of the current folder, also by a link. One that cannot be resolved does."""
    try:
        return not Path(path).expanduser().resolve().is_relative_to(Path.cwd().resolve())
    except (OSError, RuntimeError, ValueError):
        return True
