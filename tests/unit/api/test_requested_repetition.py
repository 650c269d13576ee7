"""What a model repeated in an earlier turn was not asked for, whichever way its conversation is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import stresstest
from stresstest.campaign.prompt_source import requested_text
from stresstest.features.guard.asked import Route, read_request
from stresstest.integrations.trl import coherence_reward
from stresstest.model import Message
from stresstest.tasks.prompt import Prompt

SAID = "She walked to the harbour and looked at the sea, and she thought about her mother. "
TURNS = [
    {"role": "user", "content": "Tell me a long story."},
    {"role": "assistant", "content": f"Mara left at dawn. {SAID * 6}"},
    {"role": "user", "content": "You stopped in the middle. Please continue."},
]
ASKED = "Tell me a long story.\nYou stopped in the middle. Please continue."
ANSWER = SAID * 15


@pytest.mark.parametrize(
    "judge",
    {
        "a text": lambda: stresstest.detect(ANSWER, prompt=TURNS).degenerate,
        "a stream": lambda: stresstest.detect(iter([ANSWER]), prompt=TURNS).degenerate,
        "a record": lambda: stresstest.detect_many([{"messages": TURNS, "text": ANSWER}])[0].degenerate,
        "a reward": lambda: coherence_reward([ANSWER], [TURNS]) < [0.0],
    }.items(),
    ids=lambda item: item[0],
)
def test_a_loop_that_goes_on_where_the_model_is_told_to_continue_is_found(
    judge: tuple[str, Callable[[], Any]],
) -> None:
    """A model's own loop, handed back to it, excuses no further one."""
    assert judge[1]()


def test_the_guard_and_a_run_read_the_prompt_alike() -> None:
    """Without the model's own turns."""
    body = json.dumps({"model": "m", "messages": TURNS}).encode()
    asked = read_request(Route.CHAT, body)
    assert asked is not None
    assert asked.requested == ASKED
    messages = tuple(Message(turn["role"], turn["content"]) for turn in TURNS)
    assert requested_text(Prompt("p", messages, None, 0, None, None)) == ASKED
    assert requested_text(Prompt("p", messages[:1], None, 0, None, None)) is None


def test_what_the_user_asks_to_be_repeated_is_exempt() -> None:
    """As before, also in a conversation."""
    turns = [*TURNS[:2], {"role": "user", "content": f'Now write "{SAID.strip()}" 15 times.'}]
    assert not stresstest.detect(ANSWER, prompt=turns).degenerate
