"""Text from models, servers and logs steers no terminal, whatever field it comes in."""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from stresstest.campaign.execution.events import (
    AlarmRaised,
    AttemptRetried,
    GenerationEvent,
    GenerationFinished,
    GenerationStarted,
)
from stresstest.campaign.ladder import CertifyStep, ClimbStep, LadderSetup, Rung, ladder_job, worst_case_plan
from stresstest.features.diagnose.console import print_diagnosis
from stresstest.features.plan.console import print_plan
from stresstest.features.runs.console import print_runs
from stresstest.features.scan.console import print_scan
from stresstest.features.sweep.console import print_sweep
from stresstest.model import (
    RIGORS,
    Diagnosis,
    FailureKind,
    Phase,
    ServiceFailure,
)
from stresstest.model.sweep import Sweep
from stresstest.records import DamagedLine
from stresstest.render.glyphs import BLOCK_GLYPHS
from stresstest.render.live.draw import live_view_lines
from stresstest.render.plain_progress import PlainProgress
from stresstest.render.run_summary import print_run
from stresstest.render.scan_progress import PlainScanProgress
from stresstest.store import RunSummary
from tests.support.terminal_scenes import PROFILE, SETTINGS, generation, live, run_result, scan_result

STEERING = (
    "\x1b[2J", "\x1b]0;owned\x07", "\x1b]8;;http://x\x1b\\", "\x1bP1$r\x1b\\", "\x1b", "\x9b31m",
    "\x9d0;t\x9c", "\x90q", "\x07", "\x08", "\r", "\x7f", "\x85", "\u202e", "\u2066", "\u200f", "\u2028",
    "\ufeff", "\U000e0041", "[red]", "[/red]", "[link=http://x]", ":smile:", "%s", "{0}", "\n\n", "\t",
)  # fmt: skip
HOSTILE = st.lists(st.sampled_from(STEERING) | st.text(max_size=6), min_size=1, max_size=8).map("".join)
_KEPT = {"rigor", "symptoms"}
"""Fields whose values are the program's own words."""


def poisoned(value: Any, text: str, *, keys: bool = True) -> Any:
    """`value` with `text` in every string in it, however deep: fields, items, and the keys of mappings."""
    if isinstance(value, Enum) or value is None:
        return value
    if isinstance(value, str):
        return f"{text}{value}{text}"
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            f.name: poisoned(getattr(value, f.name), text, keys=keys)
            for f in fields(value)
            if f.init and f.name not in _KEPT
        }
        if changed.get("extra_body") is not None:
            changed["extra_body"] = json.dumps({text: text})
        return replace(value, **changed)
    if isinstance(value, Mapping):
        return {poisoned(k, text) if keys else k: poisoned(v, text, keys=keys) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(poisoned(item, text, keys=keys) for item in value)
    return value


def example_of(kind: Any) -> Any:
    """A value of `kind` with everything in it: no field is None, no collection is empty. Numbers are 2."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return example_of(next(each for each in inner if each is not NoneType))
    if origin is tuple:
        return tuple(example_of(each) for each in inner if each is not Ellipsis)
    if origin is not None and issubclass(origin, Mapping):
        return {example_of(inner[0]): example_of(inner[1])}
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{f.name: example_of(hints[f.name]) for f in fields(kind)})  # type: ignore[operator]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    return {str: "x", int: 2, float: 2.0, bool: True}.get(kind, "x")


def harmless(shown: str) -> None:
    """Nothing but printable characters, blanks and line ends."""
    assert [c for c in shown if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and c != "\n"] == []


def printed(draw: Callable[[Console], None], width: int = 80) -> str:
    out = io.StringIO()
    draw(Console(file=out, width=width, color_system=None, highlight=False))
    return out.getvalue()


RESULT = replace(run_result(), generations=run_result().generations[:3])
SCAN = scan_result()
SUMMARY, DIAGNOSIS, SWEEP = example_of(RunSummary), example_of(Diagnosis), example_of(Sweep)
SETUP = LadderSetup(RIGORS["quick"], 8192, 56.0)
RUNG = Rung(1, 5, 256, 640)


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw",
    [
        lambda console, text: print_run(console, poisoned(RESULT, text)),
        lambda console, text: print_scan(console, poisoned(SCAN, text)),
        lambda console, text: print_runs(console, poisoned([SUMMARY], text)),
        lambda console, text: print_plan(console, poisoned(SETTINGS, text), worst_case_plan(SETUP), None),
        lambda console, text: print_diagnosis(console, poisoned(DIAGNOSIS, text), RESULT),
        # The keys are parameters' names, which the command line knows.
        lambda console, text: print_sweep(console, poisoned(SWEEP, text, keys=False)),
    ],
    ids=["run", "scan", "runs", "plan", "diagnosis", "sweep"],
)
@settings(max_examples=25, deadline=None)
@given(text=HOSTILE)
def test_no_field_of_a_result_steers_the_terminal(draw: Callable[[Console, str], None], text: str) -> None:
    """Every string of the result carries the attack: models' texts, names, facts, notes, keys, paths."""
    harmless(printed(lambda console: draw(console, text)))


def _events(text: str) -> list[GenerationEvent]:
    at = ladder_job(SETUP, Phase.CLIMB, RUNG, 0)
    failure = ServiceFailure(FailureKind.HTTP_ERROR, f"HTTP 500: {text}", 500)
    degenerate = poisoned(generation(at, 300, 120), text)
    lost = replace(generation(at, 20), failure=failure)
    return [
        GenerationStarted(at.key, 0.0),
        AttemptRetried(at, 1, failure, 0.5),
        AlarmRaised(at.key, 160),
        GenerationFinished(degenerate),
        GenerationFinished(lost),
    ]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(HOSTILE)
def test_no_progress_steers_the_terminal(text: str) -> None:
    """Plain lines and the live view: a server's errors, a model's name, the text around an onset."""
    out = io.StringIO()
    plain = PlainProgress(out)
    plain.started(text, poisoned(SETTINGS, text), poisoned(PROFILE, text))
    plain.stage(ClimbStep(RUNG, (), text))
    plain.stage(CertifyStep(RUNG, (), 38, text, 38))
    board, sample = live(1)
    board.measuring(text, 2)
    for event in _events(text):
        plain.event(event)
        board.event(event)
    plain.note(text)
    harmless(out.getvalue())
    lines = live_view_lines(board.snapshot(), (sample.rigor, sample.threshold()), 80, 40, BLOCK_GLYPHS)
    shown = [line.plain for line in lines]
    harmless("\n".join(shown))
    assert not any("\n" in line for line in shown)


@given(HOSTILE)
def test_no_damaged_line_steers_the_terminal(text: str) -> None:
    """`scan` names files and quotes what it could not read."""
    out = io.StringIO()
    PlainScanProgress(100, out).damaged(DamagedLine(text, 3, text))
    harmless(out.getvalue())
