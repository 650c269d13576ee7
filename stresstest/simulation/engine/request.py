"""What a simulated server is asked, and how it refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stresstest.simulation.engine.scenario.spec import ConditionValue


@dataclass(frozen=True, slots=True)
class RepetitionDetection:
    """vLLM's early stop: `min_count` exact adjacent copies of a pattern of min..max token ids at the tail."""

    max_pattern_size: int = 0
    min_pattern_size: int = 0
    min_count: int = 0


@dataclass(frozen=True, slots=True)
class SimRequest:
    """One request.

    prompt_ids: the whole prompt as the model sees it; its special ids tell roles apart. messages: as they
    came, for the record. None for a sampling parameter means that it was not sent: the model's default.
    json_text: an answer to be written as it is. silent: the number of tokens of an answer without text, whose
    prompt is counted and never read.
    """

    prompt_ids: Sequence[int]
    max_tokens: int
    chat: bool = True
    messages: tuple[tuple[str, str], ...] | None = None
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    seed: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    repetition_detection: RepetitionDetection | None = None
    json_text: str | None = None
    silent: int | None = None

    def effective_sampling(self, defaults: Mapping[str, float]) -> dict[str, ConditionValue | None]:
        """The sampling parameters in force: what was sent, else the defaults."""
        sent = {
            "repetition_penalty": self.repetition_penalty,
            "temperature": self.temperature,
            "top_p": self.top_p,
        }
        return {key: defaults[key] if value is None else value for key, value in sent.items()}


class SimRequestError(Exception):
    """The simulated server refuses: HTTP `status` and the message of the error body.

    No StresstestError: it is the simulated server's answer, never this program's.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
