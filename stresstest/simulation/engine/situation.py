"""What a prompt amounts to, for the model that answers it."""

from __future__ import annotations

from dataclasses import dataclass

from stresstest.simulation.engine.conditions import Value


@dataclass(frozen=True, slots=True)
class Situation:
    """A prompt as read.

    task: a shipped task's name, None for any other prompt. language: ISO code of the answer. structure:
    "rigid" or "open". units: how many are asked for. tokens_per_unit: the task's own guess.
    answer: token ids of the answer so far, when the prompt holds part of one; answer_text the same as text.
    first_unit: number of the first unit in that part; next_unit: of the next to begin. inside_unit: the part
    ends within a unit.
    """

    task: str | None
    language: str
    structure: str
    topic: str
    units: int | None
    tokens_per_unit: float
    language_constraint: bool
    system_prompt: bool
    answer: tuple[int, ...] = ()
    answer_text: str = ""
    first_unit: int = 1
    next_unit: int = 1
    inside_unit: bool = False

    def conditions(self) -> dict[str, Value | None]:
        """What `requires` can ask about the prompt."""
        return {
            "task": self.task,
            "language": self.language,
            "structure": self.structure,
            "language_constraint": self.language_constraint,
        }
