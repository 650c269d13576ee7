"""What a user means by --baseline and --candidate: files, a run, a model's latest run, a model to measure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stresstest.errors import UsageError
from stresstest.model import Run, RunSettings, RunStatus
from stresstest.store import RunSummary
from stresstest.workflows.check_baseline import refused
from stresstest.workflows.check_same import fits, same_server
from stresstest.workflows.conclude import find_run

if TYPE_CHECKING:
    from stresstest.store.repository import Store

_RUN_ID = re.compile(r"\d{6,8}(-\d{0,6}(-[0-9a-f]{0,4})?)?")
"""A run's id or its beginning; no model is called so."""
_SHORTEST = 4
"""Characters of a run's id that are taken for its beginning where no model is called so."""
_FILE_ENDINGS = (".jsonl", ".json", ".gz", ".parquet", ".ndjson", ".log")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a candidate that is named by its model must be, beside its baseline's task and language.

    settings: the campaign that would measure it. named: settings that were asked for by name, of
    `check_same.MEASUREMENT`. any_decoding: another one is no obstacle. measure: no stored run will do.
    base_url: the address asked for, if one was.
    """

    settings: Callable[[Run, str], RunSettings]
    named: Collection[str] = ()
    any_decoding: bool = False
    measure: bool = False
    base_url: str | None = None


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A model of which no fitting run is stored; "" for whatever the endpoint serves."""

    model: str


Reference = tuple[str, ...] | Run | Unmeasured
"""Files, a stored run, or a model that is still to be measured."""


def find_baseline(
    store: Store,
    words: Sequence[str],
    *,
    candidate: Sequence[str] = (),
    task: str | None = None,
    lang: str | None = None,
) -> tuple[str, ...] | Run:
    """Files, or the run with the threshold to compare at. UsageError when there is none.

    candidate: what it is to be compared with; of a run, only earlier ones can be the baseline.
    A model's name stands for its newest finished run: a certified one that no check has refused, if there is
    one, because a regression that became the baseline would make the next check pass.
    """
    files = _files(words, "--baseline")
    if files:
        return files
    named = _named_run(store, words[0])
    if named is not None:
        return named
    rows = _of_model(store, words[0], task, lang)
    later = _named_run(store, candidate[0]) if len(candidate) == 1 and candidate[0].strip() else None
    if later is not None:
        rows = [row for row in rows if row.created < later.created]
    if not rows:
        raise _unknown(store, words[0], "" if later is None else f" before run {later.id}")
    subjects = list(dict.fromkeys(row.subject for row in rows))
    if len(subjects) > 1:
        listed = "; ".join(str(subject) for subject in subjects)
        raise UsageError(
            f"--baseline {words[0]} has finished runs of several subjects: {listed}.",
            hint="Choose one with --task and --lang, or name a run.",
        )
    certified = [row for row in rows if row.threshold is not None and row.threshold.certified]
    spoilt = refused(store)
    good = [row for row in certified if row.id not in spoilt]
    return store.run((good or certified or rows)[0].id)


def find_candidate(store: Store, words: Sequence[str], baseline: Run | None, asked: Asked) -> Reference:
    """Files, a run, or a model that must be measured. UsageError for what can be none of these.

    A model's name stands for its newest finished run of the baseline's task, language and decoding, measured
    at the address that was asked for, if one was, and with what else was asked for. Of the baseline's own
    model only a later run will do: the question is what has changed since.
    """
    files = _files(words, "--candidate")
    if files:
        return files
    if not words and baseline is None:
        raise UsageError(
            "--candidate is missing: recorded outputs do not say what a server would have to be asked.",
            hint="Name more recorded outputs, or a stored run.",
        )
    if not words:
        return Unmeasured("")
    name = words[0]
    named = _named_run(store, name)
    if named is not None:
        if baseline is not None and named.id == baseline.id:
            raise UsageError(
                f"Run {named.id} is baseline and candidate: its sample chose T and cannot test it.",
                hint="Name another run, or a model to be measured now.",
            )
        return named
    if name.lower().endswith(_FILE_ENDINGS):
        raise UsageError(f"--candidate {name}: there is no such file.")
    if baseline is None:
        runs = (store.run(row.id) for row in _of_model(store, name, None, None))
        there = asked.base_url
        found = next((run for run in runs if there is None or same_server(run, there)), None)
        if found is None:
            raise _unknown(store, name, "" if there is None else " at --base-url")
        return found
    if not asked.measure:
        stored = _like(store, name, baseline, asked)
        if stored is not None:
            return stored
    return Unmeasured(name)


def _files(words: Sequence[str], option: str) -> tuple[str, ...]:
    """The words as files; empty when they are none. Several words can only be files."""
    existing = [word for word in words if Path(word).is_file()]
    if len(words) > 1 and len(existing) < len(words):
        missing = next(word for word in words if word not in existing)
        raise UsageError(
            f"{option} {missing}: there is no such file.", hint=f"{option} takes one run or model, or files."
        )
    return tuple(existing)


def _named_run(store: Store, word: str) -> Run | None:
    if not word.strip():
        raise UsageError("A run, a model or a file is needed; an empty name is none.")
    if word == "latest" or _RUN_ID.fullmatch(word):
        return find_run(store, word)
    rows = store.runs()
    if len(word) < _SHORTEST or any(row.subject.model == word for row in rows):
        return next((store.run(row.id) for row in rows if row.id == word), None)
    return store.run(word) if any(row.id.startswith(word) for row in rows) else None


def _of_model(store: Store, model: str, task: str | None, lang: str | None) -> list[RunSummary]:
    """Finished runs of a model that a person began, newest first."""
    rows = [row for row in store.runs() if row.subject.model == model and row.status is RunStatus.DONE]
    rows = [row for row in rows if task in (None, row.subject.task) and lang in (None, row.subject.language)]
    return [row for row in rows if row.parent is None]


def _like(store: Store, model: str, baseline: Run, asked: Asked) -> Run | None:
    settings = baseline.settings
    wanted = asked.settings(baseline, model)
    any_decoding = asked.any_decoding and wanted.decoding == settings.decoding
    for row in _of_model(store, model, settings.subject.task, settings.subject.language):
        if row.id == baseline.id or row.simulated != baseline.profile.simulated:
            continue
        if model == settings.subject.model and row.created <= baseline.created:
            continue
        run = store.run(row.id)
        if (any_decoding or row.decoding == wanted.decoding) and fits(store, run, wanted, asked.named):
            return run
    return None


def _unknown(store: Store, name: str, when: str = "") -> UsageError:
    models = list(dict.fromkeys(row.subject.model for row in store.runs() if row.status is RunStatus.DONE))
    known = f" Finished runs are stored of: {', '.join(models[:5])}." if models else " No run is stored yet."
    return UsageError(
        f"{name!r} is neither a file, nor a stored run, nor a model with a finished run{when}.{known}",
        hint="See: stresstest runs list",
    )
