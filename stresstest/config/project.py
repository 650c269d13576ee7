"""The [check] table of a project file (``stresstest.toml``): which cells to check, and their budgets.

The file's other keys are the run options in :mod:`stresstest.config.settings`. The JSON Schema of the
file is published as ``docs/stresstest.schema.json``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from stresstest.config import settings as config
from stresstest.config.suggestions import did_you_mean
from stresstest.errors import UsageError
from stresstest.model import SAMPLING, Decoding
from stresstest.model.comparison import Budget, BudgetName, CellPlan, Project

SECTION = "check"
MOST_CELLS = 256
DEFAULT_DECODING = "default"


def project(section: Mapping[str, Any], options: Mapping[str, Any], where: str) -> Project:
    """The cells described by a [check] table; the run options supply what it omits.

    where: the file's name in messages. Raises UsageError for unknown keys (with a suggestion), invalid
    values, a budget that cannot be tested, or more than 256 cells.
    """
    from pydantic import ValidationError

    from stresstest.config.tables import CheckTable, ModelTable

    try:
        table: Any = CheckTable.model_validate(section)
    except ValidationError as error:
        raise UsageError(f"{where}: {validation_sentence(error, SECTION)}") from None
    decodings = _decodings(table, options)
    models = table.models or [ModelTable.model_validate(options["model"] or "")]
    languages = table.languages or ([options["lang"]] if options["lang"] else [])
    tasks = table.tasks or [options["task"]]
    if not languages:
        raise UsageError(f"{where}: no language to check: set languages in [check], or lang.")
    if options["prompts"] and table.tasks:
        raise UsageError(f"{where}: prompts and [check] tasks exclude each other: name one of them.")
    combined = list(product(models, tasks, languages, decodings))
    if len(combined) > MOST_CELLS:
        raise UsageError(f"{where}: {len(combined)} cells are more than {MOST_CELLS}.")
    _refuse_idle(table, ([model.name for model in models], tasks, languages, list(decodings)), where)
    cells = []
    for model, task, language, name in combined:
        budgets = _budgets(table, (model.name, task, language, name), where)
        plan = CellPlan(model.name, task, language, name, decodings[name], budgets, model.base_url)
        cells.append(plan)
    reuse = 0.0 if table.reuse is None else table.reuse
    return Project(tuple(dict.fromkeys(cells)), table.baseline, reuse, tuple(table.allow_different))


def schema() -> dict[str, Any]:
    """The JSON Schema of a whole project file: the run options, [check] and [guard]."""
    from pydantic import Field, create_model

    from stresstest.config.tables import LENIENT, SHARE, CheckTable, GuardTable

    check: Any = CheckTable
    described = Field(default=None, description="What `stresstest check` checks, and its budgets.")
    guard: Any = GuardTable
    guarded = Field(default=None, description="What `stresstest guard` does to which requests.")
    whole: Any = create_model(
        "Project",
        __config__={"extra": "forbid"},
        **config.option_fields(),
        check=(check | None, described),
        guard=(guard | None, guarded),
    )
    found: dict[str, Any] = _without_null(whole.model_json_schema())
    options = found["properties"]
    for name, type_ in (("margin", SHARE), ("budget_time", LENIENT), ("budget_tokens", LENIENT)):
        options[name] = {"title": options[name]["title"], **type_}
    for name, allowed in config.CHOICES.items():
        options[name]["enum"] = list(allowed)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "title": "stresstest.toml"}


def _without_null(node: Any) -> Any:
    """The schema without null types and empty defaults, since TOML has no null."""
    if isinstance(node, list):
        return [_without_null(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {key: _without_null(value) for key, value in node.items() if not (key == "default" and not value)}
    options = [each for each in found.get("anyOf", []) if each != {"type": "null"}]
    if len(options) == 1:
        del found["anyOf"]
        found = options[0] | found
    return found


def _decodings(table: Any, options: Mapping[str, Any]) -> dict[str, Decoding]:
    """The decodings by name; the run options supply what a decoding does not set."""
    common = {name: options[name] for name in SAMPLING}
    if not table.decodings:
        return {DEFAULT_DECODING: Decoding(**common)}
    return {
        name: Decoding(**(common | each.model_dump(exclude_unset=True)))
        for name, each in table.decodings.items()
    }


def _budgets(table: Any, cell: Sequence[str], where: str) -> tuple[Budget, ...]:
    found = _set(table.budgets)
    for override in table.override:
        lists = (override.models, override.tasks, override.languages, override.decodings)
        if all(not names or own in names for own, names in zip(cell, lists, strict=True)):
            found |= _set(override.budgets)
    least = found.get(BudgetName.MIN_SAFE_TOKENS)
    risk = found.get(BudgetName.MAX_DEGENERATION)
    if risk is not None and risk.at_tokens is None:
        if least is None:
            raise UsageError(
                f"{where}: max_degeneration needs at_tokens: by which token, for example "
                "{ value = 0.05, at_tokens = 2000 }."
            )
        found[BudgetName.MAX_DEGENERATION] = Budget(risk.name, risk.limit, risk.level, int(least.limit))
    return tuple(found[name] for name in BudgetName if name in found)


def _refuse_idle(table: Any, known: Sequence[Sequence[str]], where: str) -> None:
    """Raise UsageError if an override names something that is not checked: it would never apply."""
    kinds = ("models", "tasks", "languages", "decodings")
    for number, override in enumerate(table.override):
        for kind, checked in zip(kinds, known, strict=True):
            for name in getattr(override, kind):
                if name not in checked:
                    hint = did_you_mean(name, checked) or f"Checked: {', '.join(checked)}."
                    raise UsageError(f"{where}: 'check.override.{number}.{kind}' names {name!r}. {hint}")


def _set(budgets: Any) -> dict[BudgetName, Budget]:
    given = {name: getattr(budgets, name) for name in BudgetName if getattr(budgets, name) is not None}
    return {n: Budget(n, b.value, b.level, getattr(b, "at_tokens", None)) for n, b in given.items()}


def validation_sentence(error: Any, section: str) -> str:
    """The first validation error and its location; for an unknown key, the closest known key as well."""
    every = error.errors()
    first = next((each for each in every if each["type"] == "extra_forbidden"), every[0])
    place = ".".join(str(part) for part in (section, *first["loc"]))
    if first["type"] == "extra_forbidden":
        known = _known(first["loc"], section)
        hint = did_you_mean(str(first["loc"][-1]), known) or f"Known keys: {', '.join(known)}."
        return f"unknown key {place!r}. {hint}"
    message = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{place!r} is not valid: {message[:1].lower()}{message[1:]}."


def _known(loc: Sequence[str | int], section: str) -> tuple[str, ...]:
    """The known keys of the table that contains the key at `loc`."""
    from stresstest.config.tables import BY_KEY

    parents = [str(part) for part in loc[:-1] if not isinstance(part, int)]
    if len(parents) == 2 and parents[0] == "decodings":
        parents.pop()
    name = parents[-1] if parents else section
    return tuple(BY_KEY[name].model_fields) if name in BY_KEY else ()
