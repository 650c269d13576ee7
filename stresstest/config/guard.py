"""The [guard] table of a project file: which policy holds for which model and route."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stresstest.config.project import validation_sentence
from stresstest.errors import UsageError
from stresstest.model.guard import GuardConfig, GuardPolicy, GuardRule

SECTION = "guard"


def guard_config(section: Mapping[str, Any], where: str) -> GuardConfig:
    """The rules that a [guard] table describes; a rule takes from the table what it does not set.

    where: the file's name in messages. Raises UsageError for unknown keys and invalid values.
    """
    from pydantic import ValidationError

    from stresstest.config.tables import GuardTable

    try:
        table = GuardTable.model_validate(section)
    except ValidationError as error:
        raise UsageError(f"{where}: {validation_sentence(error, SECTION)}") from None
    common = _rule(GuardRule(), table)
    rules = (common, *(_rule(common, each) for each in table.rules))
    for number, rule in enumerate(rules):
        place = SECTION if number == 0 else f"{SECTION}.rules.{number - 1}"
        if rule.policy is GuardPolicy.RETRY and not rule.changes:
            raise UsageError(
                f"{where}: '{place}' retries without a change.",
                hint="Say what changes, for example: change = { repetition_penalty = 1.1 }",
            )
    return GuardConfig(rules, tuple(table.series))


def with_policy(config: GuardConfig, policy: GuardPolicy) -> GuardConfig:
    """The same rules, all with one policy. Raises UsageError for retry where no rule declares a change."""
    rules = tuple(replace(rule, policy=policy) for rule in config.rules)
    if policy is GuardPolicy.RETRY and not all(rule.changes for rule in rules):
        raise UsageError(
            "--policy retry needs changes that are declared in stresstest.toml.",
            hint="For example: [guard] change = { repetition_penalty = 1.1 }",
        )
    return replace(config, rules=rules)


def _rule(common: GuardRule, table: Any) -> GuardRule:
    given = {name: getattr(table, name) for name in table.model_fields_set - {"rules", "series"}}
    if "change" in given:
        given["changes"] = given.pop("change")
    if "symptoms" in given:
        given["symptoms"] = tuple(given["symptoms"])
    return replace(common, **given)
