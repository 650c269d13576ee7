"""Data of the ladder chart: every generation with its zones, and its text for the reader dialog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stresstest.detectors.entry import INK
from stresstest.detectors.registry import entries, symptom_info
from stresstest.model import AnswerPart, Generation, GenerationLoader, GenerationRecord, Phase, RunResult
from stresstest.render.html.parts import PLAIN, excerpt_parts, fit_parts, onset_symptom
from stresstest.render.text import answer_name, sanitize

_PROMPT = 240
_SAID = 300
_MESSAGE = 120
_ZONES = 24
_ROOM = 1_100_000
"""Maximum bytes of the texts of all rows, which limits the size of the page."""
_ROW = 6_000


def ladder_data(result: RunResult, depths: Mapping[str, int], load: GenerationLoader) -> dict[str, Any]:
    """The data of the ladder chart: a group for each phase and rung, its rows sorted by onset.

    depths: generation's key → its index among those shown in depth. load: called once per generation.
    """
    groups: dict[tuple[bool, int], list[GenerationRecord]] = {}
    for generation in result.generations:
        job = generation.job
        groups.setdefault((job.phase is Phase.CERTIFY, job.rung), []).append(generation)
    room = min(_ROW, _ROOM // max(1, len(result.generations)))
    seeded = result.run.settings.send_seed
    return {
        "colours": {entry.kind: entry.symptom.colour for entry in entries() if entry.symptom.colour != INK},
        "longest": max((_length(g) for g in result.generations), default=0),
        "groups": [
            {
                "title": _title(certify, rung, members),
                "rows": [
                    _row(load(g), depths, room) | ({} if seeded else {"seed": None})
                    for g in sorted(members, key=_order)
                ],
            }
            for (certify, rung), members in sorted(groups.items())
        ],
    }


def _order(generation: GenerationRecord) -> tuple[float, int, str]:
    onset = generation.verdict.onset
    return (float("inf") if onset is None else onset, -_length(generation), generation.key)


def _length(generation: GenerationRecord) -> int:
    return max(generation.verdict.tokens, generation.token_summary.count, generation.output_tokens)


def _title(certify: bool, rung: int, members: list[GenerationRecord]) -> str:
    asked = sorted({g.job.units for g in members if g.job.units is not None})
    what = (
        f"{asked[0]} units requested"
        if len(asked) == 1
        else "production prompts"
        if not asked
        else "units vary"
    )
    role = "certifying sample" if certify else f"climb, rung {rung}"
    n = len(members)
    return f"{role} · {what} · {n} answer{'' if n == 1 else 's'}"


def _row(generation: Generation, depths: Mapping[str, int], room: int) -> dict[str, Any]:
    verdict, failure = generation.verdict, generation.failure
    symptom = onset_symptom(generation)
    prompt = fit_parts([(PLAIN, _cut(generation.prompt_text, _PROMPT))], room // 6)
    return {
        "key": generation.key,
        "name": answer_name(generation.job),
        "tokens": _length(generation),
        "zones": [[str(z.kind), z.start, z.end] for z in verdict.zones[:_ZONES]],
        "onset": verdict.onset,
        "alarm": verdict.alarm,
        "symptom": verdict.symptom and str(verdict.symptom),
        "words": symptom_info(verdict.symptom).label if verdict.symptom is not None else None,
        **({"where": " in the reasoning"} if verdict.onset_in is AnswerPart.REASONING else {}),
        "said": _cut(symptom.summary, min(_SAID, room // 12)) if symptom is not None else None,
        "ending": describe_ending(generation),
        "lost": failure is not None,
        "plane": generation.plane and str(generation.plane),
        "prompt": "".join(text for _, text in prompt),
        "seed": generation.job.seed,
        "parts": fit_parts(excerpt_parts(generation), room * 2 // 3),
        "depth": depths.get(generation.key),
    }


def describe_ending(generation: GenerationRecord) -> str:
    """How the generation ended, for the user."""
    failure = generation.failure
    if failure is not None:
        return f"lost to a service failure ({failure.kind}): {_cut(failure.message, _MESSAGE)}"
    if generation.aborted:
        return "stopped by stresstest after the onset"
    if generation.finish_reason == "length":
        return "reached the cap"
    if generation.finish_reason == "stop":
        return "ended on its own"
    return f"finish reason {sanitize(str(generation.finish_reason))[:40]}"


def _cut(text: str, longest: int) -> str:
    text = sanitize(text[: longest + 1])
    return text if len(text) <= longest else f"{text[:longest]}…"
