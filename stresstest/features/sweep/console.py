"""A sweep on the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stresstest.detectors.registry import symptom_counts
from stresstest.diagnosis.answers import differing_loads
from stresstest.model import Run, Threshold
from stresstest.model.percent import percent
from stresstest.model.sweep import CellLimit, Sweep, SweepCell, SweepControl, ThresholdRatio
from stresstest.render.limits import safe_words
from stresstest.render.text import (
    NOT_MEASURED,
    SIMULATED_WARNING,
    certified_sentence,
    format_count,
    risk_words,
    sanitize,
)

if TYPE_CHECKING:
    from rich.console import Console


_FAILURE_COLUMNS = ("T", "safe", "failed", "onset", "unit", "symptoms")
_TEXT_COLUMNS = ("foreign", "whole", "end", "diversity", "terms")
_LEGEND = (
    "T, safe, onset: tokens. foreign: the first token in another language. unit: where failures begin. "
    "whole: answers that are healthy and have all requested units (the others fail, meet their cap or stop "
    "short); end: answers with all units, healthy or not. diversity: distinct words in 50. terms: recurring "
    "ones per 100 words."
)


def print_sweep(console: Console, found: Sweep) -> None:
    """Print the cells, then the answers and the ratios."""
    from rich.table import Table
    from rich.text import Text

    if found.simulated:
        console.print(Text(SIMULATED_WARNING, style="bold yellow"))
    parameters = ", ".join(name.replace("_", " ") for name in found.cells[0].values) if found.cells else ""
    for columns, row in ((_FAILURE_COLUMNS, _failure_cells), (_TEXT_COLUMNS, _text_cells)):
        rows = Table(box=None, padding=(0, 1), header_style="bold")
        rows.add_column(parameters, overflow="fold")
        for name in columns:
            words = name == "symptoms"
            rows.add_column(name, justify="left" if words else "right", no_wrap=not words, overflow="fold")
        for each in found.cells:
            rows.add_row(*(Text(sanitize(part)) for part in (_label(each), *row(each))))
        console.print(rows)
    for line in filter(None, (certified_words(found), _LEGEND)):
        console.print(Text(line, style="dim"))
    for answer in found.answers:
        console.print(Text(f" → {sanitize(answer)}", style="cyan"))
    for ratio in found.ratios:
        console.print(Text(sanitize(f" → {ratio_words(ratio)}"), style="cyan"))
    if loads := differing_loads(found.cells):
        console.print(Text(sanitize(f"note: {_load_words(*loads)}"), style="yellow"))
    for doubt in _doubts(found.cells):
        console.print(Text(sanitize(f"note: {doubt}"), style="yellow"))
    if caps := sorted({each.server_cap for each in found.cells if each.server_cap is not None}):
        console.print(Text(f"note: {_cap_words(caps)}", style="yellow"))
    if found.control is not None:
        console.print(Text(sanitize(f"   {_control_words(found.control, found.cells[0])}"), style="dim"))
    if not found.complete:
        missing = "cells, or the control of the first one, are missing"
        console.print(Text(f"The sweep is not complete: {missing}.", style="yellow"))
    if best := farthest_cell(found):
        console.print(Text(sanitize(f" → {best_words(best, len(found.cells))}"), style="bold cyan"))
    else:
        console.print(Text(sanitize(_unproven_words(found)), style="yellow"), end="")


def farthest_cell(found: Sweep) -> SweepCell | None:
    """The cell that is certified farthest at a confidence that holds for all of them together, with a safe
    max_tokens or without need of one; None where there is none, or the sweep is not done."""
    usable = [each for each in _compared(found) if chosen_limit(each).usable]
    return max(usable, key=lambda each: _reach(chosen_limit(each)), default=None)


def chosen_limit(cell: SweepCell) -> CellLimit:
    """What is certified of a cell that is chosen among all for its T."""
    return cell.limit if cell.joint is None else cell.joint


def _farthest_alone(found: Sweep) -> SweepCell | None:
    """The same where each cell is looked at alone: nothing holds of it once it is chosen for that."""
    usable = [each for each in _compared(found) if each.limit.usable]
    return max(usable, key=lambda each: _reach(each.limit), default=None)


def _compared(found: Sweep) -> Sequence[SweepCell]:
    done = found.complete and (found.control is None or found.control.confirms)
    return found.cells if done else ()


def _reach(limit: CellLimit) -> tuple[int, int, bool]:
    return limit.threshold.tokens or 0, limit.safe_max_tokens or 0, limit.needs_no_cap


def best_words(cell: SweepCell, cells: int) -> str:
    """What the farthest of so many cells is, up to where it is certified, and how to send its setting."""
    limit = chosen_limit(cell)
    certified = certified_sentence(limit.threshold, cell.generations)
    if cells > 1:
        certified += f", and although it is the best of {cells} cells"
    if limit.needs_no_cap:
        certified = f"answers up to T need no max_tokens, longer ones were not measured; {certified}"
    else:
        certified = f"the largest safe max_tokens, {format_count(limit.safe_max_tokens)}; {certified}"
    sent = {name: cell.decoding.given()[name] for name in cell.values if name in cell.decoding.given()}
    words = f"with {_values(cell.values)}: {certified}."
    if not sent or "system_prompt" in sent:
        return words
    return f"{words} To send it, add to the body of each request: {json.dumps(sent)[1:-1]}"


def _unproven_words(found: Sweep) -> str:
    """That no T is certified of the best of the cells, and what to do; empty where no cell has one alone."""
    cell = _farthest_alone(found)
    if cell is None:
        return ""
    return (
        f" → {_values(cell.values)} is certified farthest when each cell is taken alone. But the best of "
        f"{len(found.cells)} is the best by chance, too: {cell.generations} answers a cell certify nothing "
        f"of it. Compare fewer values, take a higher --rigor, or measure this setting once more, alone: "
        f"stresstest run with another --seed.\n"
    )


def certified_words(found: Sweep) -> str:
    """The risk and confidence of every T; empty without a cell."""
    words = (f"T: with {percent(t.confidence)} confidence, {risk_words(t)} by T." for t in _thresholds(found))
    return " ".join(dict.fromkeys(words))


def _thresholds(found: Sweep) -> list[Threshold]:
    return [each.threshold for each in found.cells]


def stored_words(runs: Sequence[Run], cells: int) -> str:
    """That so many of the cells were not measured now, and what to do where the model may have changed."""
    oldest = datetime.fromtimestamp(min(run.created for run in runs), UTC).date()
    one = len(runs) == 1
    return (
        f"{len(runs)} of {cells} cells {'is a stored run' if one else 'are stored runs'} of {oldest}"
        f"{'' if one else ' or later'}, with the same settings, address and model name. If the model behind "
        f"them may have changed, measure again with --fresh."
    )


def ratio_words(ratio: ThresholdRatio) -> str:
    """One sentence, such as "A reaches 25.4 times as far as B (90 % interval 21.9 to 27.8)"."""
    least = "at least " if ratio.at_least else ""
    lo = NOT_MEASURED if ratio.lo is None else f"{ratio.lo:.1f}"
    hi = "no end" if ratio.hi is None else f"{ratio.hi:.1f}"
    words = f"{ratio.of} reaches {least}{ratio.ratio:.1f} times as far as {ratio.over}"
    words += f" (90 % interval {lo} to {hi})"
    if ratio.onsets is not None:
        words += f"; median onsets {ratio.onsets:.1f} ({ratio.onsets_lo:.1f} to {ratio.onsets_hi:.1f})"
    return words


def _load_words(fewest: SweepCell, most: SweepCell) -> str:
    """That a difference between cells may come from other clients' load."""
    least, highest = (f"{each.others or 0:.0f} with {_values(each.values)}" for each in (fewest, most))
    return (
        f"other clients had requests at the server, in the median about {highest} and {least}: a difference "
        f"between cells may come from that."
    )


def _doubts(cells: Sequence[SweepCell]) -> list[str]:
    """What speaks against the answers of cells, each once, with its cell's values where it is not of all."""
    found: dict[str, list[SweepCell]] = {}
    for each in cells:
        for doubt in each.doubts:
            found.setdefault(doubt, []).append(each)
    return [
        doubt
        if len(own) == len(cells)
        else f"with {'; '.join(_values(each.values) for each in own)}: {doubt}"
        for doubt, own in found.items()
    ]


def _cap_words(caps: Sequence[int]) -> str:
    """That answers ended before they could fail, or could stay healthy."""
    lengths = " and ".join(format_count(each) for each in caps)
    return (
        f"the server cuts answers at {lengths} tokens although more were asked: nothing beyond that was "
        f"measured. The cell's run says more: stresstest runs show RUN"
    )


def _control_words(control: SweepControl, first: SweepCell) -> str:
    """What a control shows, such as "Control: 8 prompts with temperature 1.0, asked again …"."""
    failed = symptom_counts(control.kinds)
    return (
        f"Control: {control.n} prompts with {_values(first.values)}, asked again after the last cell: "
        f"{failed or 'none fails'}."
    )


def _values(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _label(cell: SweepCell) -> str:
    """A cell's values; addresses are shortened."""
    return ", ".join(value.removeprefix("http://").removesuffix("/v1") for value in cell.values.values())


def _failure_cells(cell: SweepCell) -> tuple[str, ...]:
    threshold = cell.threshold
    reach = f"≥ {format_count(threshold.tokens)}" if threshold.censored_at else format_count(threshold.tokens)
    kinds = symptom_counts(cell.kinds)
    return (
        reach,
        safe_words(threshold, cell.safe_max_tokens),
        f"{cell.failed}/{cell.generations}",
        format_count(cell.median_onset),
        format_count(cell.onset_unit),
        kinds or NOT_MEASURED,
    )


def _text_cells(cell: SweepCell) -> tuple[str, ...]:
    return (
        format_count(cell.first_foreign),
        percent(cell.completed),
        percent(cell.finished),
        NOT_MEASURED if cell.diversity is None else f"{cell.diversity:.2f}",
        NOT_MEASURED if cell.terms is None else f"{cell.terms:.1f}",
    )
