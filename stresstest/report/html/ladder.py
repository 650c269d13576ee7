"""The ladder as data: every generation a line from 0 to its end, by zones, with its text for a click."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stresstest.model import Generation, Phase, RunResult
from stresstest.report.html.parts import PLAIN, fitted, onset_symptom, parts
from stresstest.report.text import SYMPTOM_WORDS, clean

_PROMPT = 240
_SAID = 300
_MESSAGE = 120
_ZONES = 24
_ROOM = 1_100_000
"""Bytes that the texts of all rows take together, so that the page stays small whatever was written."""
_ROW = 6_000


def ladder_data(result: RunResult, depths: Mapping[str, int]) -> dict[str, Any]:
    """groups: one a phase and rung, in the order of the campaign; in it the earliest onset first.

    depths: generation's key → its place among those shown in depth.
    """
    groups: dict[tuple[bool, int], list[Generation]] = {}
    for generation in result.generations:
        job = generation.job
        groups.setdefault((job.phase is Phase.CERTIFY, job.rung), []).append(generation)
    room = min(_ROW, _ROOM // max(1, len(result.generations)))
    return {
        "longest": max((_length(g) for g in result.generations), default=0),
        "groups": [
            {
                "title": _title(certify, rung, members),
                "rows": [_row(g, depths, room) for g in sorted(members, key=_order)],
            }
            for (certify, rung), members in sorted(groups.items())
        ],
    }


def _order(generation: Generation) -> tuple[float, int, str]:
    onset = generation.verdict.onset
    return (float("inf") if onset is None else onset, -_length(generation), generation.key)


def _length(generation: Generation) -> int:
    return max(generation.verdict.tokens, len(generation.tokens), generation.output_tokens)


def _title(certify: bool, rung: int, members: list[Generation]) -> str:
    asked = sorted({g.job.units for g in members if g.job.units is not None})
    what = (
        f"{asked[0]} units asked" if len(asked) == 1 else "production prompts" if not asked else "units vary"
    )
    role = "certifying sample" if certify else f"climb, rung {rung}"
    n = len(members)
    return f"{role} · {what} · {n} generation{'' if n == 1 else 's'}"


def _row(generation: Generation, depths: Mapping[str, int], room: int) -> dict[str, Any]:
    verdict, failure = generation.verdict, generation.failure
    symptom = onset_symptom(generation)
    prompt = fitted([(PLAIN, _cut(generation.prompt_text, _PROMPT))], room // 6)
    return {
        "key": generation.key,
        "tokens": _length(generation),
        "zones": [[str(z.kind), z.start, z.end] for z in verdict.zones[:_ZONES]],
        "onset": verdict.onset,
        "alarm": verdict.alarm,
        "symptom": verdict.symptom and str(verdict.symptom),
        "words": SYMPTOM_WORDS[verdict.symptom] if verdict.symptom is not None else None,
        "said": _cut(symptom.summary, min(_SAID, room // 12)) if symptom is not None else None,
        "ending": ending(generation),
        "lost": failure is not None,
        "plane": generation.plane and str(generation.plane),
        "prompt": "".join(text for _, text in prompt),
        "seed": generation.job.seed,
        "parts": fitted(parts(generation), room * 2 // 3),
        "depth": depths.get(generation.key),
    }


def ending(generation: Generation) -> str:
    """How it ended, in words."""
    failure = generation.failure
    if failure is not None:
        return f"lost to a service failure ({failure.kind}): {_cut(failure.message, _MESSAGE)}"
    if generation.aborted:
        return "stopped by us after the onset"
    if generation.finish_reason == "length":
        return "reached the cap"
    if generation.finish_reason == "stop":
        return "ended by itself"
    return f"finish reason {clean(str(generation.finish_reason))[:40]}"


def _cut(text: str, longest: int) -> str:
    text = clean(text[: longest + 1])
    return text if len(text) <= longest else f"{text[:longest]}…"
