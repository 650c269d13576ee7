"""The interventions, declared before the first request, ordered by the size of the change. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stresstest.model import Arm, Decoding, Plane

PENALTIES = (1.0, 1.05, 1.1, 1.15, 1.2)
HIGH_TEMPERATURE = 0.9
"""From this temperature on, the temperature arm tries a lower one."""
MILD_SAMPLING = (0.7, 0.9)
COOL_SAMPLING = (0.3, 0.9)
NOTHING = "nothing"
"""The change of the unchanged arm."""
UNCHANGED, ALONE, CONTEXT, BOTH = "unchanged", "alone", "last-units", "decoding-and-context"

ASKED_LANGUAGE = "the language asked for in the system prompt"
"""The change of the arm with a language constraint."""
NEUTRAL_PROMPT = "---"
"""A system prompt that says nothing, in any language."""
ASSUMED_PENALTY = "repetition_penalty 1 (the usual default)"
"""The change of a control where the server's default is not known."""
_SHAM_WORDS = "a change of the prompt that should have no effect"


def declare_arms(
    decoding: Decoding,
    *,
    constraint: str | None,
    concurrency: int,
    planes: Sequence[Plane],
    penalty: float | None = None,
    units: str = "sentences",
) -> list[Arm]:
    """All arms, the unchanged one first; the number of the others enters the significance level of each.

    constraint: the task's sentence that requires its language, if any. planes: the planes to test. penalty:
    the server's default repetition_penalty, in force if none is sent. units: name of the parts of an answer.
    """
    arms = [Arm(UNCHANGED, None, NOTHING, decoding)]
    if Plane.SYSTEM in planes and concurrency > 1:
        arms.append(Arm(ALONE, Plane.SYSTEM, "one request at a time", decoding, alone=True))
    if Plane.DECODING in planes:
        arms += decoding_arms(decoding, constraint, penalty)
    if Plane.CONTEXT in planes:
        words = f"the context cut to the instruction and the last few {units}"
        arms.append(Arm(CONTEXT, Plane.CONTEXT, words, decoding, truncated=True))
        if Plane.DECODING in planes:
            words = f"another decoding and {words}"
            arms.append(Arm(BOTH, Plane.CONTEXT, words, decoding, truncated=True))
    return arms


def decoding_arms(decoding: Decoding, constraint: str | None, penalty: float | None = None) -> list[Arm]:
    """Arms for penalties from the nearest to the farthest, language constraint, both, and temperature."""
    own = decoding.repetition_penalty or penalty or 1.0
    others = sorted((p for p in PENALTIES if abs(p - own) > 1e-9), key=lambda p: (abs(p - own), p))
    arms = [_penalty(decoding, p) for p in others]
    demanded = with_constraint(decoding, constraint)
    if demanded is not None:
        arms.append(Arm("constraint", Plane.DECODING, ASKED_LANGUAGE, demanded))
        with_it = 1.0 if own >= 1.15 else 1.15
        words = f"{ASKED_LANGUAGE}, and {_penalty_words(with_it)}"
        both = replace(demanded, repetition_penalty=with_it)
        arms.append(Arm("constraint-and-penalty", Plane.DECODING, words, both))
    arms.append(_temperature(decoding))
    return arms


def control_arms(unchanged: Arm, arm: Arm, number: int, penalty: float | None = None) -> list[Arm]:
    """What is continued beside an arm, each on forks of its own: unchanged, to show that the failure had not
    gone away by itself; and, where any change might do, one that is none (a sham).

    Where the arm changes what precedes the answer, a router may send the request to another replica, which
    is not broken; where it sends a field, a gateway may send it to another provider. The sham changes the
    prompt to no effect, and sends the penalty in force. It is no control on its own: a penalty that was
    not in force may make the answers fail by itself.

    number: of the look. penalty: the server's default repetition_penalty, in force if none is sent.
    """
    beside = [replace(unchanged, name=f"{arm.name}-control-{number}")]
    own, decoding, changes = unchanged.decoding, unchanged.decoding, []
    sham = arm.truncated or arm.decoding.system_prompt != own.system_prompt
    if sham:
        changes.append(_SHAM_WORDS)
    if arm.decoding.repetition_penalty is not None and own.repetition_penalty is None:
        changes.append(ASSUMED_PENALTY if penalty is None else _penalty_words(penalty))
        decoding = replace(own, repetition_penalty=1.0 if penalty is None else penalty)
    if changes:
        words = f"with {' and '.join(changes)}"
        name = f"{arm.name}-sham-{number}"
        beside.append(replace(unchanged, name=name, changed=words, decoding=decoding, sham=sham))
    return beside


def with_constraint(decoding: Decoding, constraint: str | None) -> Decoding | None:
    """The decoding with the constraint added to its system prompt; None if there is none to add."""
    if constraint is None or constraint in (decoding.system_prompt or ""):
        return None
    return add_to_system_prompt(decoding, constraint)


def add_to_system_prompt(decoding: Decoding, text: str) -> Decoding:
    """The decoding with a further line in its system prompt."""
    return replace(decoding, system_prompt=f"{decoding.system_prompt or ''}\n{text}".strip())


def _penalty(decoding: Decoding, penalty: float) -> Arm:
    changed = replace(decoding, repetition_penalty=penalty)
    return Arm(f"penalty-{penalty:g}", Plane.DECODING, _penalty_words(penalty), changed)


def _penalty_words(penalty: float) -> str:
    """1 is marked as off, to distinguish it from the unchanged arm."""
    return f"repetition_penalty {penalty:g}" + (" (off)" if penalty == 1.0 else "")


def _temperature(decoding: Decoding) -> Arm:
    """An arm with 0.7 and top_p 0.9, or with 0.3 if the run's own temperature is close to 0.7.

    A temperature that is not sent counts as 1.0.
    """
    own = decoding.temperature
    temperature, top_p = COOL_SAMPLING if own is not None and 0.5 < own < HIGH_TEMPERATURE else MILD_SAMPLING
    words = f"temperature {temperature:g}, top_p {top_p:g}"
    changed = replace(decoding, temperature=temperature, top_p=top_p)
    return Arm(f"temperature-{temperature:g}", Plane.DECODING, words, changed)
