"""The interventions, declared before the first is sent, in the order of the smallest change. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stresstest.model import Arm, Decoding, Plane

PENALTIES = (1.0, 1.05, 1.1, 1.15, 1.2)
WARM = 0.9
"""Temperatures from here on are high: the arm tries a lower one."""
MILD = (0.7, 0.9)
COOL = (0.3, 0.9)
UNCHANGED, ALONE, CONTEXT, BOTH = "unchanged", "alone", "last-units", "decoding-and-context"


def declare(
    decoding: Decoding,
    *,
    constraint: str | None,
    concurrency: int,
    planes: Sequence[Plane],
    penalty: float | None = None,
) -> list[Arm]:
    """All arms, the unchanged one first; the others count in the bound that each must pass.

    constraint: the task's sentence that demands its language, None without one. planes: those to test.
    penalty: the repetition_penalty in force where none is sent, the server's default.
    """
    arms = [Arm(UNCHANGED, None, "nothing", decoding)]
    if Plane.SYSTEM in planes and concurrency > 1:
        arms.append(Arm(ALONE, Plane.SYSTEM, "alone on the server", decoding, alone=True))
    if Plane.DECODING in planes:
        arms += decoding_arms(decoding, constraint, penalty)
    if Plane.CONTEXT in planes:
        words = "the instruction and the last units only"
        arms.append(Arm(CONTEXT, Plane.CONTEXT, words, decoding, truncated=True))
        if Plane.DECODING in planes:
            words = "another decoding, and the last units only"
            arms.append(Arm(BOTH, Plane.CONTEXT, words, decoding, truncated=True))
    return arms


def decoding_arms(decoding: Decoding, constraint: str | None, penalty: float | None = None) -> list[Arm]:
    """Penalties from the nearest to the farthest, language constraint, both, another temperature."""
    own = decoding.repetition_penalty or penalty or 1.0
    others = sorted((p for p in PENALTIES if abs(p - own) > 1e-9), key=lambda p: (abs(p - own), p))
    arms = [_penalty(decoding, p) for p in others]
    demanded = constrained(decoding, constraint)
    if demanded is not None:
        arms.append(Arm("constraint", Plane.DECODING, "language constraint", demanded))
        with_it = 1.0 if own >= 1.15 else 1.15
        words = f"language constraint and {_penalty_words(with_it)}"
        both = replace(demanded, repetition_penalty=with_it)
        arms.append(Arm("constraint-and-penalty", Plane.DECODING, words, both))
    arms.append(_temperature(decoding))
    return arms


def constrained(decoding: Decoding, constraint: str | None) -> Decoding | None:
    """The decoding with the constraint in its system prompt; None without one, or where it is there."""
    system = decoding.system_prompt or ""
    if constraint is None or constraint in system:
        return None
    return replace(decoding, system_prompt=f"{system}\n{constraint}".strip())


def _penalty(decoding: Decoding, penalty: float) -> Arm:
    changed = replace(decoding, repetition_penalty=penalty)
    return Arm(f"penalty-{penalty:g}", Plane.DECODING, _penalty_words(penalty), changed)


def _penalty_words(penalty: float) -> str:
    """1 is said to be off: beside an unchanged arm it would look like a repeat of it."""
    return f"repetition_penalty {penalty:g}" + (" (off)" if penalty == 1.0 else "")


def _temperature(decoding: Decoding) -> Arm:
    """0.7 with top_p 0.9; where that is (nearly) the run's own, cooler. Not sent counts as 1.0."""
    own = decoding.temperature
    temperature, top_p = COOL if own is not None and 0.5 < own < WARM else MILD
    words = f"temperature {temperature:g}, top_p {top_p:g}"
    changed = replace(decoding, temperature=temperature, top_p=top_p)
    return Arm(f"temperature-{temperature:g}", Plane.DECODING, words, changed)
