"""`sweep`: one campaign for each combination of values, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product

from stresstest.diagnosis.cells import answers, cell, ratios
from stresstest.errors import EndpointError, UsageError
from stresstest.model import Decoding, RunSettings
from stresstest.model.sweep import Cell, Sweep
from stresstest.report.progress import Progress
from stresstest.store.repository import Store
from stresstest.workflows.run import run_campaign

SUBJECTS = ("model", "base_url", "lang", "task")
SAMPLING = tuple(f.name for f in fields(Decoding))
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
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> Swept:
    """Measure every cell, one campaign after the other; each is stored as a run of its own.

    Trouble with an endpoint or an interruption ends the sweep; the cells measured so far are returned.
    """
    found: list[Cell] = []
    every = combinations(params, grid=grid)
    simulated = False
    for number, values in enumerate(every, 1):
        words = ", ".join(f"{name} {value}" for name, value in values.items())
        progress.note(f"cell {number} of {len(every)}: {words}")
        try:
            ending = await run_campaign(
                applied(settings, values), store, progress, api_key=api_key, stop=stop
            )
        except EndpointError as error:
            return Swept(_concluded(found, params, simulated, complete=False), error=error)
        if ending.interrupted or ending.error is not None:
            so_far = _concluded(found, params, simulated, complete=False)
            return Swept(so_far, interrupted=ending.interrupted, error=ending.error)
        simulated = simulated or ending.result.run.profile.simulated
        found.append(cell(values, ending.result))
    return Swept(_concluded(found, params, simulated, complete=True))


def _concluded(
    cells: Sequence[Cell], params: Mapping[str, Sequence[str]], simulated: bool, *, complete: bool
) -> Sweep:
    return Sweep(tuple(cells), answers(cells, list(params)), ratios(cells), complete, simulated)
