"""The reward that TRL's GRPOTrainer calls, by TRL's calling convention; TRL itself is not needed."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from stresstest.errors import UsageError
from stresstest.integrations.trl import coherence_reward

HEALTHY = (
    "The keeper climbed the stairs before dawn, trimmed the wick and watched the first boats leave the "
    "harbour. By noon the wind had turned, and she rowed out to warn the crews about the rocks."
)
SENTENCE = "She looked at the sea and thought of the boy who had left. "
LOOPING = HEALTHY + " " + SENTENCE * 12
ITALIAN = (
    "Il guardiano salì le scale prima dell'alba e guardò le barche che lasciavano il porto. "
    "A mezzogiorno il vento era cambiato, e lei remò verso il largo per avvertire gli equipaggi degli scogli."
)


def called(completions: list[Any], prompts: list[Any] | None = None, **columns: Any) -> list[float]:
    """As GRPOTrainer calls a reward: by keywords, with token ids, columns and hooks that it does not need."""
    return coherence_reward(
        prompts=prompts or ["Write a story."] * len(completions),
        completions=completions,
        completion_ids=[[1, 2, 3]] * len(completions),
        trainer_state=None,
        log_metric=print,
        **columns,
    )


def assistant(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def test_coherent_answers_cost_nothing() -> None:
    """A healthy answer, one of no words, and one that was cut by the trainer's cap are all worth 0."""
    assert called([HEALTHY, "", HEALTHY[:-40]]) == [0.0, 0.0, 0.0]


def test_a_loop_costs_its_share_of_the_answer() -> None:
    """The earlier the onset, the more is lost; never more than 1, the range of TRL's repetition penalty."""
    long, longer = called([LOOPING, LOOPING + SENTENCE * 40])
    assert -1.0 <= longer < long < -0.5
    # Onset: the second copy. One copy and the healthy beginning are 45 of 177 words.
    assert long == pytest.approx(45 / 177 - 1, abs=0.05)


def test_messages_are_read_as_their_text() -> None:
    """Conversational data sets hand over messages."""
    prompts = [[{"role": "user", "content": "Write a story."}]] * 2
    assert called([assistant(LOOPING), assistant(HEALTHY)], prompts) == called([LOOPING, HEALTHY])


def test_of_several_turns_the_models_own_are_judged() -> None:
    """What a tool returns is not the model's doing; its reasoning and its calls are."""
    called_tool = {"role": "assistant", "content": "Let me look that up."}
    result = {"role": "tool", "content": SENTENCE * 40}
    assert called([[called_tool, result, *assistant(HEALTHY)]]) == [0.0]
    thought = {"role": "assistant", "content": "Done.", "reasoning_content": SENTENCE * 40}
    call = {"function": {"name": "write", "arguments": '{"text": "' + SENTENCE * 40 + '"}'}}
    written = {"role": "assistant", "content": "", "tool_calls": [call]}
    first, second, third = called([[thought], [written], [called_tool, *assistant(LOOPING)]])
    assert max(first, second) < -0.8
    assert called([LOOPING])[0] < third < -0.5


def test_languages_have_names_and_unknown_ones_are_refused() -> None:
    """A column may hold names; a typing error would switch the reward off without a word."""
    assert called([ITALIAN], language=["Italian"]) == [0.0]
    assert called([ITALIAN], language=["German"])[0] < -0.5
    with pytest.raises(UsageError):
        called([ITALIAN], language=["zz"])


def test_the_prompt_decides_what_may_be_repeated() -> None:
    """Repetition that the prompt asks for is no loop."""
    line = "I will not talk in class any more. "
    asked = f'Write "{line.strip()}" 30 times.'
    assert called([line * 30], [asked]) == [0.0]
    assert called([line * 30])[0] < -0.5


def test_the_prompt_of_a_vision_model_asks_for_no_repetition() -> None:
    """TRL writes its content as a list of parts: printed, every text of it stood in quotes, as a line that is
    to be repeated does, and loops over the prompt cost nothing."""
    asked = "Describe the picture in detail and say what the people are doing."
    parts = [{"type": "image"}, {"type": "text", "text": asked}]
    for content in (asked, parts):
        prompt = [{"role": "user", "content": content}]
        assert called([assistant(f"{asked} " * 20)], [prompt])[0] < -0.5
        assert called([assistant("image " * 200)], [prompt])[0] < -0.5


def test_language_is_judged_where_the_column_names_it() -> None:
    """An Italian answer to an English task is lost from its first word; without the column nobody knows."""
    assert called([ITALIAN], language=["it"]) == [0.0]
    assert called([ITALIAN]) == [0.0]
    assert called([ITALIAN], language=["en"])[0] < -0.5


def test_can_be_sent_to_another_process_and_has_a_name() -> None:
    """TRL logs a reward by its name and pickles it for asynchronous rollouts."""
    assert pickle.loads(pickle.dumps(coherence_reward)) is coherence_reward
    assert coherence_reward.__name__ == "coherence_reward"


@pytest.mark.parametrize("content", [7, True, {"a": 1}])
def test_a_message_without_text_is_refused_with_a_sentence(content: object) -> None:
    """It was an error of the package's own inside, which no caller can name."""
    with pytest.raises(UsageError, match="A completion cannot be read"):
        coherence_reward([[{"role": "assistant", "content": content}]])
