"""Scenarios with a hidden truth for `diagnose`: generated, never looked at by the rule that is scored."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from stresstest.model import Decoding

_REPEATS = ("loop", "near_loop", "flooding")
_LANGUAGES = ("it", "en", "fr")
_TASKS = ("narrative", "technical", "qa")
_SHORT_CONTEXT = 8_192
"""Of worlds with a small KV cache, which must hold one whole sequence."""


@dataclass(frozen=True)
class Hazard:
    """One hazard as a scenario file has it."""

    symptom: str
    plane: str
    median: int
    sigma: float
    requires: dict[str, str] = field(default_factory=dict)
    probability: float = 1.0

    def toml(self) -> str:
        """Its table."""
        lines = ["[[hazard]]", f'symptom = "{self.symptom}"', f'plane = "{self.plane}"']
        spread = f'{{ distribution = "lognormal", median = {self.median}, sigma = {self.sigma} }}'
        lines += [f"onset = {spread}", f"probability = {self.probability}"]
        if self.requires:
            lines.append(f"requires = {{ {', '.join(f'{k} = {v}' for k, v in self.requires.items())} }}")
        return "\n".join(lines)


@dataclass(frozen=True)
class World:
    """A scenario, how it is measured, and the truth: the planes of the chain, () when nothing is wrong.

    either: planes that are as right as the first, where two strike at the same place.
    """

    name: str
    kind: str
    hazards: tuple[Hazard, ...]
    truth: tuple[str, ...]
    decoding: Decoding
    language: str
    task: str
    horizon: int
    either: tuple[str, ...] = ()
    kv_cache_tokens: int | None = None

    def toml(self) -> str:
        """The scenario file."""
        engine = ""
        if self.kv_cache_tokens:
            engine = f"\n[model]\nmax_model_len = {_SHORT_CONTEXT}\n"
            engine += f"\n[engine]\nkv_cache_tokens = {self.kv_cache_tokens}\n"
        return f'name = "{self.name}"\n{engine}\n' + "\n\n".join(h.toml() for h in self.hazards) + "\n"


def worlds(count: int, seed: int) -> list[World]:
    """`count` worlds, the kinds in turn."""
    rng = random.Random(seed)
    return [_KINDS[i % len(_KINDS)][1](rng, i, _KINDS[i % len(_KINDS)][0]) for i in range(count)]


def _spread(rng: random.Random) -> float:
    return round(rng.uniform(0.08, 0.25), 2)


def _decoding(rng: random.Random, median: int, **more: float) -> tuple[Hazard, Decoding]:
    """A decoding hazard and the run's decoding under which it strikes; some declared change clears it."""
    way = rng.choice(("penalty", "penalty", "penalty", "hot", "high", "cold"))
    spread = _spread(rng)
    if way == "penalty":
        least = rng.choice(("1.05", "1.1", "1.15", "1.2"))
        requires = {"repetition_penalty": f'"<{least}"'}
        return Hazard(rng.choice(_REPEATS), "decoding", median, spread, requires, **more), Decoding()
    if way == "hot":
        requires = {"temperature": '">1.0"'}
        return Hazard("gibberish", "decoding", median, spread, requires, **more), Decoding(temperature=1.3)
    if way == "cold":
        requires = {"temperature": '"<0.5"'}
        return Hazard("loop", "decoding", median, spread, requires, **more), Decoding(temperature=0.2)
    requires = {"repetition_penalty": f'">={rng.choice(("1.1", "1.15", "1.2"))}"'}
    hazard = Hazard(
        rng.choice(("language_drift", "structure_break")), "decoding", median, spread, requires, **more
    )
    return hazard, Decoding(repetition_penalty=1.2)


def _context(rng: random.Random, median: int, **more: float) -> Hazard:
    symptom = rng.choice(("language_drift", "structure_break", "gibberish", "flooding", "loop", "truncation"))
    return Hazard(symptom, "context", median, round(rng.uniform(0.05, 0.1), 2), {}, **more)


def _system(rng: random.Random, median: int) -> Hazard:
    symptom = rng.choice(("gibberish", "flooding", "language_drift", "loop"))
    return Hazard(symptom, "system", median, _spread(rng), {"concurrency": f'">{rng.choice((3, 4, 5))}"'})


def _world(
    rng: random.Random,
    number: int,
    kind: str,
    hazards: list[Hazard],
    truth: tuple[str, ...],
    decoding: Decoding,
    *,
    either: tuple[str, ...] = (),
    kv: int | None = None,
    languages: tuple[str, ...] = _LANGUAGES,
) -> World:
    horizon = max([900, *(int(2.2 * h.median) for h in hazards)])
    where = rng.choice(languages), rng.choice(_TASKS)
    name = f"hidden-{number:03d}"
    return World(name, kind, tuple(hazards), truth, decoding, *where, horizon, either, kv)


def _single_decoding(rng: random.Random, number: int, kind: str) -> World:
    hazard, decoding = _decoding(rng, rng.randint(300, 900))
    return _world(rng, number, kind, [hazard], ("decoding",), decoding)


def _single_context(rng: random.Random, number: int, kind: str) -> World:
    hazard = _context(rng, rng.randint(700, 1600))
    return _world(rng, number, kind, [hazard], ("context",), Decoding())


def _single_system(rng: random.Random, number: int, kind: str) -> World:
    if rng.random() < 0.3:
        hazard = Hazard("gibberish", "system", rng.randint(400, 700), 0.2, {"kv_usage": '">=0.9"'})
        return _world(rng, number, kind, [hazard], ("system",), Decoding(), kv=9_000)
    return _world(rng, number, kind, [_system(rng, rng.randint(350, 700))], ("system",), Decoding())


def _pair(rng: random.Random, number: int, kind: str) -> World:
    """A loop that a penalty clears hides a context limit."""
    first = rng.randint(300, 600)
    least = rng.choice(("1.1", "1.15", "1.2"))
    spread = _spread(rng)
    loop = Hazard(rng.choice(_REPEATS), "decoding", first, spread, {"repetition_penalty": f'"<{least}"'})
    limit = _context(rng, int(first * rng.uniform(2.6, 3.6)) + 150)
    return _world(rng, number, kind, [loop, limit], ("decoding", "context"), Decoding())


def _system_pair(rng: random.Random, number: int, kind: str) -> World:
    """A failure under load hides a decoding one."""
    first = rng.randint(300, 450)
    loop = Hazard("loop", "decoding", int(first * 2.6), 0.12, {"repetition_penalty": '"<1.15"'})
    return _world(rng, number, kind, [_system(rng, first), loop], ("system", "decoding"), Decoding())


def _triple(rng: random.Random, number: int, kind: str) -> World:
    first = rng.randint(280, 350)
    loop = Hazard("loop", "decoding", int(first * 2.5), 0.12, {"repetition_penalty": '"<1.15"'})
    limit = Hazard("structure_break", "context", int(first * 6.5), 0.06)
    hazards = [_system(rng, first), loop, limit]
    return _world(rng, number, kind, hazards, ("system", "decoding", "context"), Decoding())


def _healthy(rng: random.Random, number: int, kind: str) -> World:
    return _world(rng, number, kind, [], (), Decoding())


def _two_at_once(rng: random.Random, number: int, kind: str) -> World:
    """A decoding failure and a context limit close together: whichever strikes first is right."""
    first = rng.randint(500, 800)
    loop = Hazard("loop", "decoding", first, 0.12, {"repetition_penalty": '"<1.15"'})
    limit = Hazard("language_drift", "context", int(first * rng.uniform(1.15, 1.4)) + 130, 0.06)
    either = ("decoding", "context")
    return _world(rng, number, kind, [loop, limit], either, Decoding(), either=either)


def _noise(rng: random.Random, number: int, kind: str) -> World:
    """The server errs now and then beside a failure of the text."""
    if rng.random() < 0.6:
        hazard, decoding = _decoding(rng, rng.randint(300, 700))
        truth = ("decoding",)
    else:
        hazard, decoding, truth = _context(rng, rng.randint(700, 1200)), Decoding(), ("context",)
    symptom = rng.choice(("http_500", "disconnect"))
    noise = Hazard(symptom, "system", 300, 0.5, {}, probability=round(rng.uniform(0.04, 0.1), 2))
    return _world(rng, number, kind, [hazard, noise], truth, decoding)


def _weak(rng: random.Random, number: int, kind: str) -> World:
    """A failure that only some answers carry."""
    share = round(rng.uniform(0.25, 0.75), 2)
    if rng.random() < 0.5:
        hazard, decoding = _decoding(rng, rng.randint(300, 700), probability=share)
        return _world(rng, number, kind, [hazard], ("decoding",), decoding)
    hazard = _context(rng, rng.randint(700, 1200), probability=share)
    return _world(rng, number, kind, [hazard], ("context",), Decoding())


def _unreachable(rng: random.Random, number: int, kind: str) -> World:
    """A decoding failure that no declared change clears: saying nothing is right, naming context wrong."""
    hazard = Hazard(rng.choice(_REPEATS), "decoding", rng.randint(300, 700), _spread(rng))
    return _world(rng, number, kind, [hazard], ("decoding",), Decoding())


_Maker = Callable[[random.Random, int, str], World]
_KINDS: tuple[tuple[str, _Maker], ...] = (
    ("decoding", _single_decoding),
    ("context", _single_context),
    ("system", _single_system),
    ("decoding hides context", _pair),
    ("decoding", _single_decoding),
    ("context", _single_context),
    ("nothing wrong", _healthy),
    ("two at once", _two_at_once),
    ("service noise beside", _noise),
    ("weak and rare", _weak),
    ("system hides decoding", _system_pair),
    ("no declared change clears", _unreachable),
    ("all three masked", _triple),
)
