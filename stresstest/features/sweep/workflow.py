"""`sweep`: one campaign for each combination of parameter values."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isfinite

from stresstest.campaign.campaign_setup import prepare_campaign
from stresstest.campaign.conclusion.judging import judged_threshold
from stresstest.campaign.conclusion.overruled import beside_others
from stresstest.campaign.progress import Progress
from stresstest.campaign.prompt_source import load_prompt_source
from stresstest.campaign.provenance.age import is_recent
from stresstest.campaign.provenance.doubts import doubts
from stresstest.campaign.provenance.foreign_answers import refuse_foreign
from stresstest.campaign.resume import resume_campaign
from stresstest.campaign.run import run_campaign
from stresstest.campaign.served_model import describe_server_changes
from stresstest.diagnosis.answers import sweep_answers, working_cells
from stresstest.diagnosis.cells import needs_no_cap, sweep_cell, threshold_ratios
from stresstest.errors import EndpointError, InterruptedEarlyError, UsageError
from stresstest.features.sweep.control import run_control
from stresstest.features.sweep.document import stored_document
from stresstest.model import PARAMETERS, DocumentKind, Run, RunResult, RunSettings, RunStatus
from stresstest.model.address import clean_url
from stresstest.model.sweep import CellLimit, Sweep, SweepCell, SweepControl
from stresstest.statistics import safe_max_tokens
from stresstest.store.documents import clean_settings
from stresstest.store.repository import Store

SUBJECT_PARAMETERS = ("model", "base_url", "lang", "task")
MAX_SWEEP_CELLS = 64


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The sweep so far, and why it ended early, if it did. stored: runs that were complete before it."""

    sweep: Sweep
    stored: tuple[Run, ...] = ()
    interrupted: bool = False
    error: EndpointError | None = None


def parameter_combinations(params: Mapping[str, Sequence[str]], *, grid: bool) -> list[dict[str, str]]:
    """The values of each cell. The first cell has the first value of every parameter.

    grid: every combination; otherwise each other cell changes one parameter of the first cell. Raises
    UsageError for an unknown parameter, a missing or invalid value, or more than `MAX_SWEEP_CELLS` cells.
    """
    known = (*PARAMETERS, "system_prompt", *SUBJECT_PARAMETERS)
    for name, values in params.items():
        if name not in known:
            raise UsageError(f"--param {name!r} is not known: choose from {', '.join(known)}.")
        if not values:
            raise UsageError(f"--param {name} names no value: write {name}=1.0,1.1")
        for value in values:
            parse_settings_value(name, value)
    if grid:
        cells = [dict(zip(params, row, strict=True)) for row in product(*params.values())]
    else:
        first = {name: values[0] for name, values in params.items()}
        moved = [first | {name: value} for name, values in params.items() for value in values[1:]]
        cells = [first, *moved]
    distinct = [c for i, c in enumerate(cells) if c not in cells[:i]]
    if len(distinct) > MAX_SWEEP_CELLS:
        raise UsageError(
            f"{len(distinct)} cells are more than {MAX_SWEEP_CELLS}; name fewer values, or leave --grid out."
        )
    return distinct


def parse_settings_value(name: str, value: str) -> str | float | int:
    """A parameter's value with the type it has in the settings. Raises UsageError for an invalid number."""
    if name in SUBJECT_PARAMETERS or name == "system_prompt":
        return value
    try:
        number = int(value) if name == "top_k" else float(value)
    except ValueError:
        raise UsageError(f"--param {name}: {value!r} is not a number.") from None
    if not isfinite(number):
        raise UsageError(f"--param {name}: {value!r} is not a finite number.")
    return number


def apply_values(settings: RunSettings, values: Mapping[str, str]) -> RunSettings:
    """The campaign's settings with the values of one cell."""
    sampling = {k: parse_settings_value(k, v) for k, v in values.items() if k not in SUBJECT_PARAMETERS}
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


async def run_sweep(
    settings: RunSettings,
    params: Mapping[str, Sequence[str]],
    store: Store,
    progress: Progress,
    *,
    grid: bool = False,
    fresh: bool = False,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> SweepResult:
    """Measure every cell, one campaign after the other. Each is a stored run, the sweep a stored document.

    A cell whose run is stored with the same settings, prompts and server is not measured again; an
    interrupted run is resumed. fresh: measure all cells. Where a value is found to work, some prompts of the
    first cell are asked again at the end, as a control. An endpoint error or an interruption ends the
    sweep; the cells measured so far are returned.
    """
    every = parameter_combinations(params, grid=grid)
    document = _SweepDocument(store, params, len(every))
    stored: list[Run] = []
    for number, values in enumerate(every, 1):
        shown = {name: clean_url(value) if name == "base_url" else value for name, value in values.items()}
        words = ", ".join(f"{name} {value}" for name, value in shown.items())
        progress.note(f"cell {number} of {len(every)}: {words}")
        cell_settings = apply_values(settings, values)
        try:
            known = None if fresh else await _find_measured_run(cell_settings, store, api_key)
            if known is None:
                ending = await run_campaign(cell_settings, store, progress, api_key=api_key, stop=stop)
            else:
                progress.note(f"run {known.id} has these settings and is taken")
                if known.status is RunStatus.DONE:
                    stored.append(known)
                ending = await resume_campaign(known.id, store, progress, api_key=api_key, stop=stop)
            refuse_foreign(ending.result.certifying, (), ending.result.run.profile.clock)
        except EndpointError as error:
            return SweepResult(document.current(), tuple(stored), error=error)
        if ending.interrupted or ending.error is not None:
            return SweepResult(
                document.current(), tuple(stored), interrupted=ending.interrupted, error=ending.error
            )
        pattern = load_prompt_source(cell_settings).unit_pattern
        result = ending.result if known is None else beside_others(store, ending.result)
        if result.overruled_by in {cell.run_id for cell in document.cells}:
            result = ending.result  # this sweep compares the two
        found = sweep_cell(shown, result, pattern, store.loader(ending.result.run.id))
        found = replace(
            found,
            doubts=tuple(doubts(result.run, result.generations, result.samples)),
            measured_now=known is None or known.status is not RunStatus.DONE,
            joint=_joint_limit(result, len(every)),
        )
        document.add(found, simulated=ending.result.run.profile.simulated)
    if working := working_cells(document.cells, list(params)):
        progress.note("the prompts of the first cell are asked again: are its failures still there?")
        first = apply_values(settings, every[0])
        try:
            control = await run_control(
                document.cells, working, first, store, progress, api_key=api_key, stop=stop or asyncio.Event()
            )
        except EndpointError as error:
            return SweepResult(document.current(), tuple(stored), error=error)
        except InterruptedEarlyError:
            return SweepResult(document.current(), tuple(stored), interrupted=True)
        document.add_control(control)
    return SweepResult(document.current(), tuple(stored))


def _joint_limit(result: RunResult, cells: int) -> CellLimit:
    """What is certified of a cell where so many are compared, and the farthest is chosen."""
    threshold = judged_threshold(result.run, result.generations, among=cells)
    if result.overruled_by is not None:
        threshold = replace(threshold, withheld=result.threshold.withheld)
    safe = safe_max_tokens(threshold, result.run.settings.margin)
    needs_none = needs_no_cap(replace(result, threshold=threshold, safe_max_tokens=safe))
    return CellLimit(threshold, safe, needs_none)


class _SweepDocument:
    """The cells measured so far, stored as one document."""

    def __init__(self, store: Store, params: Mapping[str, Sequence[str]], cells: int) -> None:
        self._store = store
        self._names = list(params)
        self._planned = cells
        self.cells: list[SweepCell] = []
        self._control: SweepControl | None = None
        self._simulated = False
        self._id: str | None = None

    def add(self, found: SweepCell, *, simulated: bool) -> None:
        self.cells.append(found)
        self._simulated = self._simulated or simulated
        self._save()

    def add_control(self, found: SweepControl) -> None:
        self._control = found
        self._save()

    def _save(self) -> None:
        sweep = self.current()
        self._id = self._store.save_document(
            DocumentKind.SWEEP,
            stored_document(sweep),
            complete=sweep.complete,
            simulated=sweep.simulated,
            runs=[each.run_id for each in self.cells],
            id=self._id,
        )

    def current(self) -> Sweep:
        cells = tuple(self.cells)
        controlled = self._control is not None or not working_cells(cells, self._names)
        return Sweep(
            cells,
            sweep_answers(cells, self._names, self._control),
            threshold_ratios(cells),
            complete=controlled and len(cells) == self._planned,
            simulated=self._simulated,
            control=self._control,
        )


async def _find_measured_run(settings: RunSettings, store: Store, api_key: str | None) -> Run | None:
    """The newest stored run with the same settings, prompts and server that is complete or may go on; None if
    there is none."""
    subject = settings.subject
    found = [
        store.run(row.id)
        for row in store.runs()
        if (row.subject.task, row.subject.language) == (subject.task, subject.language)
        and row.decoding == settings.decoding
    ]
    if not found:
        return None
    async with prepare_campaign(settings, api_key=api_key) as prepared:
        expected, digest = clean_settings(prepared.settings), prepared.prompts.digest()
    for run in found:
        same = run.settings == expected and run.prompts_digest == digest
        usable = run.status is RunStatus.DONE or is_recent(run)
        if same and usable and describe_server_changes(run, prepared.profile) is None:
            return run
    return None
