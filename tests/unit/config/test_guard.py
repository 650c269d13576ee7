"""The [guard] table: rules inherit from it, and what is misspelt is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from stresstest.config.guard import guard_config, with_policy
from stresstest.errors import UsageError
from stresstest.features.guard.settings import check_symptoms
from stresstest.model.guard import GuardPolicy


def test_a_rule_takes_from_the_table_what_it_does_not_set() -> None:
    """And the last rule that fits wins."""
    config = guard_config(
        {
            "language": "it",
            "policy": "cap",
            "rules": [{"model": "Qwen*", "policy": "abort"}, {"route": "/v1/completions", "max_tokens": 64}],
        },
        "x",
    )
    chat, text = "/v1/chat/completions", "/v1/completions"
    assert config.rule("other", chat).policy is GuardPolicy.CAP
    assert (config.rule("Qwen3", chat).policy, config.rule("Qwen3", chat).language) == (
        GuardPolicy.ABORT,
        "it",
    )
    assert config.rule("Qwen3", text).max_tokens == 64
    assert "vllm:num_requests_running" in config.series


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ({"polcy": "abort"}, "'guard.polcy'"),
        ({"rules": [{"modle": "x"}]}, "Did you mean 'model'"),
        ({"policy": "stop"}, "'guard.policy'"),
        ({"policy": "retry"}, "without a change"),
        ({"rules": [{"policy": "retry"}]}, "guard.rules.0"),
        ({"max_tokens": 0}, "guard.max_tokens"),
    ],
)
def test_what_is_wrong_is_named(section: dict[str, Any], named: str) -> None:
    """With the key, and the one that was probably meant."""
    with pytest.raises(UsageError) as refused:
        guard_config(section, "stresstest.toml")
    assert named in f"{refused.value} {refused.value.hint}"


def test_a_policy_of_the_command_line_holds_for_all() -> None:
    """Whatever the file says; retry still needs changes that are declared."""
    config = guard_config({"rules": [{"policy": "abort"}]}, "x")
    assert with_policy(config, GuardPolicy.COUNT).rule("m", "r").policy is GuardPolicy.COUNT
    with pytest.raises(UsageError):
        with_policy(config, GuardPolicy.RETRY)


def test_a_symptom_that_nothing_confirms_is_refused() -> None:
    """A rule that waits for it would never act."""
    with pytest.raises(UsageError):
        check_symptoms(guard_config({"symptoms": ["lop"]}, "x"))
