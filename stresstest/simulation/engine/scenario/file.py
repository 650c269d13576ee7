"""The scenario file: TOML in, a checked :class:`Scenario` out, every complaint naming file and key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from stresstest.config.foreign_files import MalformedFileError, TomlTable, format_short, read_file, toml_table
from stresstest.config.suggestions import suggest_closest
from stresstest.errors import UsageError
from stresstest.model import AnswerPart, Plane, SymptomKind
from stresstest.simulation.engine.grammar import GRAMMAR_LANGUAGES
from stresstest.simulation.engine.scenario.distribution import (
    Distribution,
    FixedDistribution,
    LognormalDistribution,
    UniformDistribution,
    WeibullDistribution,
)
from stresstest.simulation.engine.scenario.spec import (
    CONDITIONS,
    KV_BLOCK_TOKENS,
    LOAD_CONDITIONS,
    SERVICE_SYMPTOMS,
    Condition,
    EngineSpec,
    Hazard,
    ModelSpec,
    Scenario,
    StepTime,
    UnitLengthRule,
    parse_condition,
)
from stresstest.simulation.engine.writing.failure_types import text_symptoms
from stresstest.simulation.engine.writing.unit_failures import FORMS

_Reader = Callable[[TomlTable, str], Any]
"""Reads the value of a key that the table has, and refuses one that is not allowed."""


def shipped_scenarios() -> list[Scenario]:
    """The scenarios that come with the program, by name."""
    found = [_parse(entry.read_bytes(), entry.name) for entry in _shipped_files()]
    return sorted(found, key=lambda scenario: scenario.name)


def load_scenario(name_or_path: str) -> Scenario:
    """A shipped scenario by name, or a file: a path holds a separator or ends in ``.toml``.

    UsageError names the file, the key, and what is allowed.
    """
    if "/" in name_or_path or "\\" in name_or_path or name_or_path.endswith(".toml"):
        return _parse(read_file(name_or_path, "scenario file"), name_or_path)
    names = []
    for entry in _shipped_files():
        if entry.name == f"{name_or_path}.toml":
            return _parse(entry.read_bytes(), entry.name)
        names.append(entry.name.removesuffix(".toml"))
    raise UsageError(
        f"unknown scenario {format_short(name_or_path)}; shipped scenarios: {', '.join(sorted(names))}",
        hint=suggest_closest(name_or_path, names) or "a file of your own is given as a path: ./mine.toml",
    )


def _shipped_files() -> list[Traversable]:
    folder = resources.files("stresstest") / "simulation" / "scenarios"
    return [entry for entry in folder.iterdir() if entry.name.endswith(".toml")]


def _parse(raw: bytes, where: str) -> Scenario:
    with toml_table(raw, where) as table:
        table.refuse_unknown(("name", "summary", "model", "engine", "hazard"))
        name = table.label("name")
        model = ModelSpec(**_read(_subtable(table, "model"), _MODEL))
        engine = _engine(_subtable(table, "engine"), model.max_model_len)
        hazards = tuple(_hazard(each) for each in _tables(table, "hazard"))
        return Scenario(name, table.label("summary", name), model, engine, hazards)


def _read(table: TomlTable, readers: Mapping[str, _Reader]) -> dict[str, Any]:
    """The values of a table's keys; those it lacks are left to the defaults of the specification."""
    table.refuse_unknown(tuple(readers))
    return {key: read(table, key) for key, read in readers.items() if key in table.values}


def _engine(table: TomlTable, longest: int) -> EngineSpec:
    enough = -(-longest // KV_BLOCK_TOKENS) * KV_BLOCK_TOKENS
    spec = EngineSpec(kv_cache_tokens=max(EngineSpec().kv_cache_tokens, enough))
    spec = replace(spec, **_read(table, _ENGINE))
    if spec.blocks * KV_BLOCK_TOKENS < longest:
        raise MalformedFileError(
            f"{table.key('kv_cache_tokens')} must hold at least one sequence of max_model_len "
            f"({longest} tokens) in whole blocks of {KV_BLOCK_TOKENS}, not {spec.kv_cache_tokens}"
        )
    return spec


def _hazard(table: TomlTable) -> Hazard:
    table.refuse_unknown(tuple(_HAZARD))
    symptom = _choice(table, "symptom", (*text_symptoms(), *SERVICE_SYMPTOMS))
    requires = _requires(table, "requires") if "requires" in table.values else ()
    service = symptom in SERVICE_SYMPTOMS
    of_load = any(condition.key in LOAD_CONDITIONS for condition in requires)
    plane = _plane(table, Plane.SYSTEM if service or of_load else Plane.DECODING)
    if service and plane is not Plane.SYSTEM:
        raise MalformedFileError(
            f"{table.key('plane')} of {symptom} can only be 'system', not {plane.value!r}"
        )
    for key, owner in (("factor", "slow"), ("seconds", "stall")):
        if key in table.values and symptom != owner:
            raise MalformedFileError(f"{table.key(key)} belongs to {owner} only, not to {symptom}")
    if "ends" in table.values and service:
        raise MalformedFileError(f"{table.key('ends')} belongs to symptoms of text only, not to {symptom}")
    if "form" in table.values:
        forms = FORMS.get(SymptomKind(symptom), ()) if not service else ()
        if not forms:
            owners = " and ".join(kind.value for kind in FORMS)
            raise MalformedFileError(f"{table.key('form')} belongs to {owners} only, not to {symptom}")
        _choice(table, "form", forms)
    return Hazard(**{**_read(table, _HAZARD), "plane": plane})


def _plane(table: TomlTable, default: Plane) -> Plane:
    if "plane" not in table.values:
        return default
    return Plane(_choice(table, "plane", tuple(plane.value for plane in Plane)))


def _lengths(table: TomlTable, key: str) -> tuple[UnitLengthRule, ...]:
    return tuple(_length_rule(each) for each in _tables(table, key))


def _length_rule(table: TomlTable) -> UnitLengthRule:
    table.refuse_unknown(("requires", "tokens_per_unit"))
    requires = _requires(table, "requires")
    for condition in requires:
        if condition.depends_on_load:
            raise MalformedFileError(
                f"{table.key('requires')}.{condition.key} cannot decide lengths: it changes while a text runs"
            )
    return UnitLengthRule(requires, _between(12, 5_000)(table, "tokens_per_unit"))


def _requires(table: TomlTable, key: str) -> tuple[Condition, ...]:
    requires = _subtable(table, key)
    requires.refuse_unknown(CONDITIONS)
    found = []
    for key, value in requires.values.items():
        try:
            found.append(parse_condition(key, value))
        except ValueError as error:
            raise MalformedFileError(
                f"{requires.key(key)} must be {error}, not {format_short(value)}"
            ) from None
    return tuple(found)


def _distribution(table: TomlTable, key: str) -> Distribution:
    given = _subtable(table, key)
    kind = _choice(given, "distribution", tuple(_DISTRIBUTIONS))
    family, names = _DISTRIBUTIONS[kind]
    elsewhere = tuple(name for _, others in _DISTRIBUTIONS.values() for name in others)
    given.refuse_unknown(("distribution", *names), elsewhere, f"a {kind} has {' and '.join(names)}")
    return family(**{name: read(given, name) for name, read in names.items()})


def _at_least_low(table: TomlTable, key: str) -> float:
    return _between(table.values["low"], 1e7)(table, key)


def _languages(table: TomlTable, key: str) -> tuple[str, ...]:
    languages = tuple(dict.fromkeys(table.texts(key)))
    for language in languages:
        if language not in GRAMMAR_LANGUAGES:
            raise MalformedFileError(
                f"{table.key(key)} can hold {', '.join(GRAMMAR_LANGUAGES)}, not {format_short(language)}"
            )
    return languages


def _subtable(table: TomlTable, key: str) -> TomlTable:
    return table.table(key) if key in table.values else TomlTable({}, table.key(key))


def _tables(table: TomlTable, key: str) -> list[TomlTable]:
    given: Any = table.values.get(key, [])
    if not isinstance(given, list):
        raise MalformedFileError(
            f"{table.key(key)} must be a list of tables, [[{table.key(key)}]], not {format_short(given)}"
        )
    return [TomlTable(each, f"{table.key(key)}[{i}]") for i, each in enumerate(given, start=1)]


def _choice(table: TomlTable, key: str, allowed: tuple[str, ...]) -> str:
    if key not in table.values:
        raise MalformedFileError(f"the key {table.key(key)} is missing; allowed: {', '.join(allowed)}")
    value = table.values[key]
    if value in allowed:
        return str(value)
    close = suggest_closest(value, allowed) if isinstance(value, str) else None
    raise MalformedFileError(
        f"{table.key(key)} must be one of {', '.join(allowed)}, not {format_short(value)}"
        + (f" ({close})" if close else "")
    )


def _between(low: float, high: float) -> Callable[[TomlTable, str], float]:
    def read(table: TomlTable, key: str) -> float:
        value = table.values.get(key)
        if value is None:
            raise MalformedFileError(f"the key {table.key(key)} is missing")
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise MalformedFileError(
                f"{table.key(key)} must be a number from {low:g} to {high:g}, not {format_short(value)}"
            )
        return float(value)

    return read


def _at_least(low: int) -> Callable[[TomlTable, str], int]:
    def read(table: TomlTable, key: str) -> int:
        value = table.values[key]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 100_000_000:
            raise MalformedFileError(
                f"{table.key(key)} must be a whole number of at least {low}, not {format_short(value)}"
            )
        return value

    return read


def _flag(table: TomlTable, key: str) -> bool:
    value = table.values[key]
    if not isinstance(value, bool):
        raise MalformedFileError(f"{table.key(key)} must be true or false, not {format_short(value)}")
    return value


def _step_time(table: TomlTable, key: str) -> StepTime:
    return StepTime(**_read(_subtable(table, key), _STEP))


_DISTRIBUTIONS: Mapping[str, tuple[Callable[..., Distribution], Mapping[str, _Reader]]] = {
    "fixed": (FixedDistribution, {"tokens": _between(1, 1e7)}),
    "uniform": (UniformDistribution, {"low": _between(0, 1e7), "high": _at_least_low}),
    "lognormal": (LognormalDistribution, {"median": _between(1, 1e7), "sigma": _between(0, 5)}),
    "weibull": (WeibullDistribution, {"scale": _between(1, 1e7), "shape": _between(0.05, 100)}),
}
_MODEL: Mapping[str, _Reader] = {
    "max_model_len": _at_least(64),
    "tokens_per_unit": _between(12, 5_000),
    "languages": _languages,
    "lengths": _lengths,
    "early_end": _distribution,
    "early_end_share": _between(0, 1),
    "early_end_correlation": _between(-1, 1),
    "answer_tokens": _distribution,
    "temperature": _between(0, 2),
    "top_p": _between(0.001, 1),
    "repetition_penalty": _between(0.1, 2),
    "reasoning_tokens": _distribution,
    "reasoning_parser": _flag,
}
_ENGINE: Mapping[str, _Reader] = {
    "kv_cache_tokens": _at_least(64),
    "max_num_seqs": _at_least(1),
    "max_num_batched_tokens": _at_least(16),
    "prefix_caching": _flag,
    "step_ms": _step_time,
    "speed": _between(0.001, 1e6),
}
_STEP: Mapping[str, _Reader] = {
    "base": _between(0.001, 60_000),
    "per_sequence": _between(0, 60_000),
    "per_1k_kv_tokens": _between(0, 60_000),
    "per_1k_prefill_tokens": _between(0, 60_000),
}
_HAZARD: Mapping[str, _Reader] = {
    "symptom": lambda table, key: table.values[key],
    "plane": lambda table, key: table.values[key],
    "onset": _distribution,
    "probability": _between(0, 1),
    "requires": _requires,
    "ends": _flag,
    "factor": _between(1, 1_000),
    "seconds": _between(0, 86_400),
    "part": lambda table, key: AnswerPart(_choice(table, key, tuple(part.value for part in AnswerPart))),
    "form": lambda table, key: table.values[key],
}
