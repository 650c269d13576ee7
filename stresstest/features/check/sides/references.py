"""What a user means by --baseline and --candidate: files, a run, a model's latest run, a model to measure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stresstest.campaign.conclusion.conclude import find_run
from stresstest.campaign.refusals import rejected_run_ids
from stresstest.errors import UsageError
from stresstest.features.check.project.baseline import earlier_runs
from stresstest.features.check.sides.campaign_match import is_same_server, matches_settings
from stresstest.features.check.sides.origins import derived_runs
from stresstest.model import Run, RunSettings, RunStatus
from stresstest.records.input_file import is_address, label
from stresstest.store import RunSummary

if TYPE_CHECKING:
    from stresstest.store.repository import Store

_RUN_ID = re.compile(r"\d{6,8}(-\d{0,6}(-[0-9a-f]{0,4})?)?")
"""A run's id or its beginning; no model is called so."""
_LATEST = "latest"
_SHORTEST = 4
"""Characters of a run's id that are taken for its beginning where no model is called so."""
_FILE_ENDINGS = (".jsonl", ".json", ".gz", ".parquet", ".ndjson", ".log")


@dataclass(frozen=True, slots=True)
class CandidateQuery:
    """What a candidate that is named by its model must be, beside its baseline's task and language.

    settings: the campaign that would measure it. named: settings that were given explicitly, of
    `campaign_match.MEASUREMENT`. any_decoding: another one does not matter. measure: no stored run counts.
    base_url: the address given, if one was.
    """

    settings: Callable[[Run, str], RunSettings]
    named: Collection[str] = ()
    any_decoding: bool = False
    measure: bool = False
    base_url: str | None = None


@dataclass(frozen=True, slots=True)
class UnmeasuredModel:
    """A model of which no fitting run is stored; "" for whatever the endpoint serves."""

    model: str


Reference = tuple[str, ...] | Run | UnmeasuredModel
"""Files, a stored run, or a model that is still to be measured."""


def find_baseline(
    store: Store,
    words: Sequence[str],
    *,
    candidate: Sequence[str] = (),
    task: str | None = None,
    lang: str | None = None,
    allow_refused: bool = False,
) -> tuple[str, ...] | Run:
    """Files, or the run with the threshold to compare at. UsageError when there is none.

    candidate: what it is to be compared with; of a run, only earlier ones can be the baseline.
    A model's name means its newest finished run, a certified one if there is one and one that a user began
    rather than a sweep or a check, and "latest" the newest of any model. Both pass over runs that a check did
    not pass, because a regression that became the baseline would make the next check pass; a run that
    regressed is none by its id either, unless `allow_refused`.
    """
    files = _files(words, "--baseline")
    if files:
        return files
    later = _named_run(store, candidate[0]) if len(candidate) == 1 and candidate[0].strip() else None
    if words[0] == _LATEST:
        return _latest_baseline(store, later, task, lang)
    named = _named_run(store, words[0])
    if named is not None:
        if not allow_refused and named.id in rejected_run_ids(store, inconclusive=False):
            raise UsageError(
                f"Run {named.id} cannot be the baseline: a check found that it regressed. Compared "
                f"with it, the next regression would pass.",
                hint="To test whether the candidate is better than that run: --allow-refused-baseline",
            )
        return named
    rows = _finished_runs(store, words[0], task, lang)
    others = [] if rows else _finished_runs(store, words[0], None, None)
    if others:
        measured = dict.fromkeys(f"{row.subject.task} · {row.subject.language}" for row in others)
        wanted = " and ".join(
            f"--{name} {value}" for name, value in (("task", task), ("lang", lang)) if value
        )
        raise UsageError(
            f"--baseline {words[0]} has no finished run with {wanted}. It was measured for: "
            f"{', '.join(measured)}.",
            hint="To list the stored runs: stresstest runs list",
        )
    if later is not None:
        rows = earlier_runs(store, rows, later)
    if not rows:
        raise _unknown_reference(store, words[0], "" if later is None else f" before run {later.id}")
    subjects = list(dict.fromkeys(row.subject for row in rows))
    if len(subjects) > 1:
        listed = "; ".join(str(subject) for subject in subjects)
        raise UsageError(
            f"--baseline {words[0]} has finished runs of several subjects: {listed}.",
            hint="Select one with --task and --lang, or name a run.",
        )
    return store.run(_newest_accepted(store, rows, words[0]).id)


def _latest_baseline(store: Store, candidate: Run | None, task: str | None, lang: str | None) -> Run:
    """The newest finished run that no check refused; of those before the candidate, as real as it is."""
    done = _finished_runs(store, None, task, lang)
    if candidate is not None:
        simulated = candidate.profile.simulated
        done = [row for row in earlier_runs(store, done, candidate) if row.simulated == simulated]
    if not done:
        before = "" if candidate is None else f" before run {candidate.id}"
        raise UsageError(
            f"--baseline latest: no finished run is stored{before} that could be the baseline.",
            hint="To list the stored runs: stresstest runs list",
        )
    return store.run(_newest_accepted(store, done, _LATEST).id)


def _newest_accepted(store: Store, rows: Sequence[RunSummary], name: str) -> RunSummary:
    """The newest certified run that no check refused and that is not unfit, else the newest other one; of a
    model, one that a user began goes before those of sweeps and checks, whose candidate, passed with a
    tolerance, would move the baseline a little each time. rows: newest first."""
    refused = rejected_run_ids(store)
    good = [row for row in rows if row.id not in refused]
    if not good:
        raise UsageError(
            f"--baseline {name}: every matching finished run was rejected by a check.",
            hint="Measure a good baseline, or name a run by its id. To list the stored runs: "
            "stresstest runs list",
        )
    usable = [row for row in good if row.threshold is not None and row.threshold.usable]
    derived = {} if name == _LATEST else derived_runs(store)
    own = [row for row in usable if row.id not in derived]
    return (own or usable or good)[0]


def find_candidate(
    store: Store, words: Sequence[str], baseline: Run | None, query: CandidateQuery
) -> Reference:
    """Files, a run, or a model that must be measured. UsageError for what can be none of these.

    A model's name means its newest finished run of the baseline's task, language and decoding, measured
    at the address that was given, if one was, and with the settings that were given. Of the baseline's own
    model only a later run counts: the question is what has changed since.
    """
    files = _files(words, "--candidate")
    if files:
        return files
    if not words and baseline is None:
        raise UsageError(
            "--candidate is missing: recorded outputs do not contain what is needed to measure a "
            "candidate now.",
            hint="Name more recorded outputs, or a stored run.",
        )
    if not words:
        return UnmeasuredModel("")
    name = words[0]
    named = _named_run(store, name)
    if named is not None:
        if baseline is not None and named.id == baseline.id:
            raise UsageError(
                f"Run {named.id} is both the baseline and the candidate: its sample determined T and "
                f"cannot test it.",
                hint="Name another run, or a model to measure now.",
            )
        return named
    if name.lower().endswith(_FILE_ENDINGS):
        raise UsageError(f"--candidate {name}: file not found.")
    if baseline is None:
        runs = (store.run(row.id) for row in _finished_runs(store, name, None, None))
        there = query.base_url
        found = next((run for run in runs if there is None or is_same_server(run, there)), None)
        if found is None:
            raise _unknown_reference(store, name, "" if there is None else " at --base-url")
        return found
    if not query.measure:
        stored = _matching_runs(store, name, baseline, query)
        if stored is not None:
            return stored
    return UnmeasuredModel(name)


def _files(words: Sequence[str], option: str) -> tuple[str, ...]:
    """The words as files; empty when they are none. Several words can only be files."""
    if address := next(filter(is_address, words), None):
        raise UsageError(
            f"{option} {label(address)}: check reads no addresses, only files of this machine.",
            hint="Copy the file here first, or measure its rate where it is: stresstest scan --fail-above",
        )
    existing = [word for word in words if Path(word).is_file()]
    if len(words) > 1 and len(existing) < len(words):
        missing = next(word for word in words if word not in existing)
        raise UsageError(
            f"{option} {missing}: file not found.", hint=f"{option} accepts one run or model, or files."
        )
    return tuple(existing)


def _named_run(store: Store, word: str) -> Run | None:
    if not word.strip():
        raise UsageError("An empty name is not valid; give a run, a model or a file.")
    if word == _LATEST or _RUN_ID.fullmatch(word):
        return find_run(store, word)
    rows = store.runs()
    if len(word) < _SHORTEST or any(row.subject.model == word for row in rows):
        return next((store.run(row.id) for row in rows if row.id == word), None)
    return store.run(word) if any(row.id.startswith(word) for row in rows) else None


def _finished_runs(store: Store, model: str | None, task: str | None, lang: str | None) -> list[RunSummary]:
    """Finished runs that a person began, newest first. None: of any model, task or language."""
    rows = [row for row in store.runs() if row.status is RunStatus.DONE and row.parent is None]
    rows = [row for row in rows if model in (None, row.subject.model)]
    return [row for row in rows if task in (None, row.subject.task) and lang in (None, row.subject.language)]


def _matching_runs(store: Store, model: str, baseline: Run, query: CandidateQuery) -> Run | None:
    settings = baseline.settings
    wanted = query.settings(baseline, model)
    any_decoding = query.any_decoding and wanted.decoding == settings.decoding
    rows = _finished_runs(store, model, settings.subject.task, settings.subject.language)
    earlier = {row.id for row in earlier_runs(store, rows, baseline)}
    for row in rows:
        if row.id == baseline.id or row.simulated != baseline.profile.simulated:
            continue
        if model == settings.subject.model and row.id in earlier:
            continue
        run = store.run(row.id)
        if (any_decoding or row.decoding == wanted.decoding) and matches_settings(
            store, run, wanted, query.named
        ):
            return run
    return None


def _unknown_reference(store: Store, name: str, when: str = "") -> UsageError:
    models = list(dict.fromkeys(row.subject.model for row in store.runs() if row.status is RunStatus.DONE))
    known = " The store has no runs yet."
    if models:
        known = f" The store has finished runs of {', '.join(models[:5])}."
    return UsageError(
        f"{name!r} is neither a file, nor a stored run, nor a model with a finished run{when}.{known}",
        hint="To list the stored runs: stresstest runs list",
    )
