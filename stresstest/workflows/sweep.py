"""`sweep`: one campaign for each combination of values, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from stresstest.diagnosis.cells import answers, cell, ratios
from stresstest.endpoint.client import Endpoint
from stresstest.errors import EndpointError, UsageError
from stresstest.model import SAMPLING, DocumentKind, Run, RunSettings
from stresstest.model.sweep import Cell, Sweep
from stresstest.report.progress import Progress
from stresstest.report.sweep import sweep_document
from stresstest.store.documents import clean_settings
from stresstest.store.repository import Store
from stresstest.workflows.run import changed_server, resume_campaign, run_campaign
from stresstest.workflows.setting import ask_endpoint, horizon_for, load_source

SUBJECTS = ("model", "base_url", "lang", "task")
_WHOLE = {"top_k"}
MOST_CELLS = 64


@dataclass(frozen=True, slots=True)
class Swept:
    """How a sweep ended: what is known, and what cut it short, if anything."""

    sweep: Sweep
    interrupted: bool = False
    error: EndpointError | None = None


def combinations(params: Mapping[str, Sequence[str]], *, grid: bool) -> list[dict[str, str]]:
    """The cells' values, first the first value of each parameter.

    grid: every combination; else one parameter at a time is moved away from the first values. Raises
    UsageError for an unknown parameter, no value, or more than 64 cells.
    """
    known = (*SAMPLING, *SUBJECTS)
    for name, values in params.items():
        if name not in known:
            raise UsageError(f"--param {name!r} is not known: choose from {', '.join(known)}.")
        if not values:
            raise UsageError(f"--param {name} names no value: write {name}=1.0,1.1")
        for value in values:
            settings_value(name, value)
    if grid:
        cells = [dict(zip(params, row, strict=True)) for row in product(*params.values())]
    else:
        first = {name: values[0] for name, values in params.items()}
        moved = [first | {name: value} for name, values in params.items() for value in values[1:]]
        cells = [first, *moved]
    distinct = [c for i, c in enumerate(cells) if c not in cells[:i]]
    if len(distinct) > MOST_CELLS:
        raise UsageError(
            f"{len(distinct)} cells are more than {MOST_CELLS}; name fewer values, or leave --grid out."
        )
    return distinct


def settings_value(name: str, value: str) -> str | float | int:
    """A value as the settings hold it; UsageError when it is no number where one is needed."""
    if name in SUBJECTS or name == "system_prompt":
        return value
    try:
        return int(value) if name in _WHOLE else float(value)
    except ValueError:
        raise UsageError(f"--param {name}: {value!r} is no number.") from None


def applied(settings: RunSettings, values: Mapping[str, str]) -> RunSettings:
    """The campaign's settings with one cell's values in force."""
    sampling = {k: settings_value(k, v) for k, v in values.items() if k in SAMPLING}
    subject = replace(
        settings.subject,
        model=values.get("model", settings.subject.model),
        language=values.get("lang", settings.subject.language),
        task=values.get("task", settings.subject.task),
    )
    return replace(
        settings,
        subject=subject,
        base_url=values.get("base_url", settings.base_url),
        task_source=values.get("task", settings.task_source),
        decoding=replace(settings.decoding, **sampling),  # type: ignore[arg-type]
    )


async def sweep(
    settings: RunSettings,
    params: Mapping[str, Sequence[str]],
    store: Store,
    progress: Progress,
    *,
    grid: bool = False,
    fresh: bool = False,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> Swept:
    """Measure every cell, one campaign after the other; each is a run of its own, the sweep a document.

    A cell that the store has already, with the same settings, prompts and server, is not measured again, one
    that was cut short goes on; fresh: all are measured anew. Trouble with an endpoint or an interruption ends
    the sweep; the cells measured so far are returned.
    """
    every = combinations(params, grid=grid)
    sheet = _Sheet(store, params, len(every))
    for number, values in enumerate(every, 1):
        words = ", ".join(f"{name} {value}" for name, value in values.items())
        progress.note(f"cell {number} of {len(every)}: {words}")
        asked = applied(settings, values)
        try:
            known = None if fresh else await _known(asked, store, api_key)
            if known is None:
                ending = await run_campaign(asked, store, progress, api_key=api_key, stop=stop)
            else:
                progress.note(f"run {known.id} has these settings and is taken")
                ending = await resume_campaign(known.id, store, progress, api_key=api_key, stop=stop)
        except EndpointError as error:
            return Swept(sheet.so_far(), error=error)
        if ending.interrupted or ending.error is not None:
            return Swept(sheet.so_far(), interrupted=ending.interrupted, error=ending.error)
        found = cell(values, ending.result, load_source(asked).unit_pattern)
        sheet.add(found, simulated=ending.result.run.profile.simulated)
    return Swept(sheet.so_far())


class _Sheet:
    """The cells that are there so far, kept as one document of the store."""

    def __init__(self, store: Store, params: Mapping[str, Sequence[str]], cells: int) -> None:
        self._store = store
        self._names = list(params)
        self._wanted = cells
        self._cells: list[Cell] = []
        self._simulated = False
        self._id: str | None = None

    def add(self, found: Cell, *, simulated: bool) -> None:
        self._cells.append(found)
        self._simulated = self._simulated or simulated
        sweep = self.so_far()
        self._id = self._store.save_document(
            DocumentKind.SWEEP,
            sweep_document(sweep),
            complete=sweep.complete,
            simulated=sweep.simulated,
            runs=[each.run_id for each in self._cells],
            id=self._id,
        )

    def so_far(self) -> Sweep:
        cells = tuple(self._cells)
        complete = len(cells) == self._wanted
        return Sweep(cells, answers(cells, self._names), ratios(cells), complete, self._simulated)


async def _known(settings: RunSettings, store: Store, api_key: str | None) -> Run | None:
    """The newest run that was asked for with just these settings, of the same prompts on the same server."""
    wanted = settings.subject
    found = [
        store.run(row.id)
        for row in store.runs()
        if (row.subject.task, row.subject.language) == (wanted.task, wanted.language)
        and row.decoding == settings.decoding
    ]
    if not found:
        return None
    prompts = load_source(settings)
    async with Endpoint(settings.base_url, api_key=api_key, model=wanted.model or None) as endpoint:
        profile, settings = await ask_endpoint(endpoint, settings)
        horizon = await horizon_for(endpoint, profile, prompts, settings)
    asked = clean_settings(replace(settings, horizon=horizon))
    for run in found:
        same = run.settings == asked and run.prompts_digest == prompts.digest()
        if same and changed_server(run, profile) is None:
            return run
    return None
