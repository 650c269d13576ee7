"""The scenario file: TOML in, a checked :class:`Scenario` out, every complaint naming file and key."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from stresstest.errors import UsageError
from stresstest.model import Plane
from stresstest.simulation.engine.conditions import CONDITIONS, LOAD, Condition, parse_condition
from stresstest.simulation.engine.distribution import Distribution, Fixed, Lognormal, Uniform, Weibull
from stresstest.simulation.engine.scenario import (
    BLOCK,
    SERVICE_SYMPTOMS,
    TEXT_SYMPTOMS,
    EngineSpec,
    Hazard,
    Lengths,
    ModelSpec,
    Scenario,
    StepTime,
)
from stresstest.simulation.engine.writing.grammar import LANGUAGES
from stresstest.tasks._foreign import Malformed, Table, read, short, suggestion, toml_table

_SYMPTOMS = (*TEXT_SYMPTOMS, *SERVICE_SYMPTOMS)
_DISTRIBUTIONS: dict[str, tuple[str, ...]] = {
    "fixed": ("tokens",),
    "uniform": ("low", "high"),
    "lognormal": ("median", "sigma"),
    "weibull": ("scale", "shape"),
}
_MODEL_KEYS = (
    "max_model_len",
    "tokens_per_unit",
    "languages",
    "lengths",
    "early_end",
    "early_end_share",
    "early_end_correlation",
    "answer_tokens",
    "temperature",
    "top_p",
    "repetition_penalty",
)
_ENGINE_KEYS = (
    "kv_cache_tokens",
    "max_num_seqs",
    "max_num_batched_tokens",
    "prefix_caching",
    "step_ms",
    "speed",
)
_STEP_KEYS = ("base", "per_sequence", "per_1k_kv_tokens", "per_1k_prefill_tokens")
_HAZARD_KEYS = ("symptom", "plane", "onset", "probability", "requires", "ends", "factor", "seconds")


def shipped_scenarios() -> list[Scenario]:
    """The scenarios that come with the program, by name."""
    found = [_parse(entry.read_bytes(), entry.name) for entry in _shipped_files()]
    return sorted(found, key=lambda scenario: scenario.name)


def load_scenario(name_or_path: str) -> Scenario:
    """A shipped scenario by name, or a file: a path holds a separator or ends in ``.toml``.

    UsageError names the file, the key, and what is allowed.
    """
    if "/" in name_or_path or "\\" in name_or_path or name_or_path.endswith(".toml"):
        return _parse(read(name_or_path, "scenario file"), name_or_path)
    names = []
    for entry in _shipped_files():
        if entry.name == f"{name_or_path}.toml":
            return _parse(entry.read_bytes(), entry.name)
        names.append(entry.name.removesuffix(".toml"))
    raise UsageError(
        f"unknown scenario {short(name_or_path)}; shipped scenarios: {', '.join(sorted(names))}",
        hint=suggestion(name_or_path, names) or "a file of your own is given as a path: ./mine.toml",
    )


def _shipped_files() -> list[Traversable]:
    folder = resources.files("stresstest") / "simulation" / "scenarios"
    return [entry for entry in folder.iterdir() if entry.name.endswith(".toml")]


def _parse(raw: bytes, where: str) -> Scenario:
    with toml_table(raw, where) as table:
        table.refuse_unknown(("name", "summary", "model", "engine", "hazard"))
        name = table.label("name")
        model = _model(_sub(table, "model"))
        engine = _engine(_sub(table, "engine"), model.max_model_len)
        hazards = tuple(_hazard(each) for each in _tables(table, "hazard"))
        return Scenario(name, table.label("summary", name), model, engine, hazards)


def _model(table: Table) -> ModelSpec:
    table.refuse_unknown(_MODEL_KEYS)
    given = table.values
    default = ModelSpec()
    return ModelSpec(
        max_model_len=_whole(table, "max_model_len", default.max_model_len, 64),
        tokens_per_unit=_between(table, "tokens_per_unit", 12, 5_000) if "tokens_per_unit" in given else None,
        languages=_languages(table),
        lengths=tuple(_lengths(each) for each in _tables(table, "lengths")),
        early_end=_distribution(table, "early_end") if "early_end" in given else None,
        early_end_share=_between(table, "early_end_share", 0, 1, 1.0),
        early_end_correlation=_between(table, "early_end_correlation", -1, 1, 0.0),
        answer_tokens=_distribution(table, "answer_tokens")
        if "answer_tokens" in given
        else default.answer_tokens,
        temperature=_between(table, "temperature", 0, 2, default.temperature),
        top_p=_between(table, "top_p", 0.001, 1, default.top_p),
        repetition_penalty=_between(table, "repetition_penalty", 0.1, 2, default.repetition_penalty),
    )


def _engine(table: Table, longest: int) -> EngineSpec:
    table.refuse_unknown(_ENGINE_KEYS)
    default = EngineSpec()
    enough = -(-longest // BLOCK) * BLOCK
    kv_cache = _whole(table, "kv_cache_tokens", max(default.kv_cache_tokens, enough), 64)
    if kv_cache // BLOCK * BLOCK < longest:
        raise Malformed(
            f"{table.key('kv_cache_tokens')} must hold at least one sequence of max_model_len "
            f"({longest} tokens) in whole blocks of {BLOCK}, not {kv_cache}"
        )
    steps, usual = _sub(table, "step_ms"), default.step_ms
    steps.refuse_unknown(_STEP_KEYS)
    return EngineSpec(
        kv_cache_tokens=kv_cache,
        max_num_seqs=_whole(table, "max_num_seqs", default.max_num_seqs, 1),
        max_num_batched_tokens=_whole(table, "max_num_batched_tokens", default.max_num_batched_tokens, 16),
        prefix_caching=_flag(table, "prefix_caching", default.prefix_caching),
        step_ms=StepTime(
            base=_between(steps, "base", 0.001, 60_000, usual.base),
            per_sequence=_between(steps, "per_sequence", 0, 60_000, usual.per_sequence),
            per_1k_kv_tokens=_between(steps, "per_1k_kv_tokens", 0, 60_000, usual.per_1k_kv_tokens),
            per_1k_prefill_tokens=_between(
                steps, "per_1k_prefill_tokens", 0, 60_000, usual.per_1k_prefill_tokens
            ),
        ),
        speed=_between(table, "speed", 0.001, 1e6, default.speed),
    )


def _hazard(table: Table) -> Hazard:
    table.refuse_unknown(_HAZARD_KEYS)
    symptom = _word(table, "symptom", _SYMPTOMS)
    requires = _requires(table)
    service = symptom in SERVICE_SYMPTOMS
    of_load = any(condition.key in LOAD for condition in requires)
    plane = _plane(table, Plane.SYSTEM if service or of_load else Plane.DECODING)
    if service and plane is not Plane.SYSTEM:
        raise Malformed(f"{table.key('plane')} of {symptom} can only be 'system', not {plane.value!r}")
    for key, owner in (("factor", "slow"), ("seconds", "stall")):
        if key in table.values and symptom != owner:
            raise Malformed(f"{table.key(key)} belongs to {owner} only, not to {symptom}")
    if "ends" in table.values and service:
        raise Malformed(f"{table.key('ends')} belongs to symptoms of text only, not to {symptom}")
    default = Hazard("loop")
    return Hazard(
        symptom=symptom,
        plane=plane,
        onset=_distribution(table, "onset") if "onset" in table.values else default.onset,
        probability=_between(table, "probability", 0, 1, 1.0),
        requires=requires,
        ends=_flag(table, "ends", default.ends),
        factor=_between(table, "factor", 1, 1_000, default.factor),
        seconds=_between(table, "seconds", 0, 86_400, default.seconds),
    )


def _plane(table: Table, default: Plane) -> Plane:
    if "plane" not in table.values:
        return default
    return Plane(_word(table, "plane", tuple(plane.value for plane in Plane)))


def _lengths(table: Table) -> Lengths:
    table.refuse_unknown(("requires", "tokens_per_unit"))
    requires = _requires(table)
    for condition in requires:
        if condition.on_load:
            raise Malformed(
                f"{table.key('requires')}.{condition.key} cannot decide lengths: it changes while a text runs"
            )
    return Lengths(requires, _between(table, "tokens_per_unit", 12, 5_000))


def _requires(table: Table) -> tuple[Condition, ...]:
    requires = _sub(table, "requires")
    requires.refuse_unknown(CONDITIONS)
    found = []
    for key, value in requires.values.items():
        try:
            found.append(parse_condition(key, value))
        except ValueError as error:
            raise Malformed(f"{requires.key(key)} must be {error}, not {short(value)}") from None
    return tuple(found)


def _distribution(table: Table, key: str) -> Distribution:
    given = _sub(table, key)
    kind = _word(given, "distribution", tuple(_DISTRIBUTIONS))
    names = _DISTRIBUTIONS[kind]
    elsewhere = tuple(name for others in _DISTRIBUTIONS.values() for name in others)
    given.refuse_unknown(("distribution", *names), elsewhere, f"a {kind} has {' and '.join(names)}")
    if kind == "fixed":
        return Fixed(_between(given, "tokens", 1, 1e7))
    if kind == "uniform":
        low = _between(given, "low", 0, 1e7)
        return Uniform(low, _between(given, "high", low, 1e7))
    if kind == "lognormal":
        return Lognormal(_between(given, "median", 1, 1e7), _between(given, "sigma", 0, 5))
    return Weibull(_between(given, "scale", 1, 1e7), _between(given, "shape", 0.05, 100))


def _languages(table: Table) -> tuple[str, ...]:
    if "languages" not in table.values:
        return ()
    languages = tuple(dict.fromkeys(table.texts("languages")))
    for language in languages:
        if language not in LANGUAGES:
            raise Malformed(
                f"{table.key('languages')} can hold {', '.join(LANGUAGES)}, not {short(language)}"
            )
    return languages


def _sub(table: Table, key: str) -> Table:
    return table.table(key) if key in table.values else Table({}, table.key(key))


def _tables(table: Table, key: str) -> list[Table]:
    given: Any = table.values.get(key, [])
    if not isinstance(given, list):
        raise Malformed(
            f"{table.key(key)} must be a list of tables, [[{table.key(key)}]], not {short(given)}"
        )
    return [Table(each, f"{table.key(key)}[{i}]") for i, each in enumerate(given, start=1)]


def _word(table: Table, key: str, allowed: tuple[str, ...]) -> str:
    if key not in table.values:
        raise Malformed(f"the key {table.key(key)} is missing; allowed: {', '.join(allowed)}")
    value = table.values[key]
    if value in allowed:
        return str(value)
    close = suggestion(value, allowed) if isinstance(value, str) else None
    raise Malformed(
        f"{table.key(key)} must be one of {', '.join(allowed)}, not {short(value)}"
        + (f" ({close})" if close else "")
    )


def _between(table: Table, key: str, low: float, high: float, default: float | None = None) -> float:
    value = table.values.get(key, default)
    if value is None:
        raise Malformed(f"the key {table.key(key)} is missing")
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise Malformed(f"{table.key(key)} must be a number from {low:g} to {high:g}, not {short(value)}")
    return float(value)


def _whole(table: Table, key: str, default: int, low: int) -> int:
    value = table.values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 100_000_000:
        raise Malformed(f"{table.key(key)} must be a whole number of at least {low}, not {short(value)}")
    return int(value)


def _flag(table: Table, key: str, default: bool) -> bool:
    value = table.values.get(key, default)
    if not isinstance(value, bool):
        raise Malformed(f"{table.key(key)} must be true or false, not {short(value)}")
    return value
