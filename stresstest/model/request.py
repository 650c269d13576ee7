"""What is asked for: decoding, messages, requests, jobs, settings."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields

from stresstest.model.words import Phase, Subject


@dataclass(frozen=True, slots=True)
class Decoding:
    """The sampling parameters and system prompt in force. `None`: not sent."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    system_prompt: str | None = None

    def given(self) -> dict[str, float | int | str]:
        """What is set, the system prompt included: as documents tell it."""
        return {k: v for k, v in asdict(self).items() if v is not None}

    def sent(self) -> dict[str, float | int]:
        """The sampling parameters that go into the request body."""
        return {k: v for k, v in asdict(self).items() if v is not None and k != "system_prompt"}


SAMPLING = tuple(parameter.name for parameter in fields(Decoding))
"""The names of what a decoding sets."""


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One request as the wire needs it; either `messages` or `prompt` (text or token ids) is set.

    ignore_eos: write on to `max_tokens` whatever the model says (vLLM); only for the stand-ins of `cost`.
    """

    model: str
    max_tokens: int
    decoding: Decoding
    messages: tuple[Message, ...] | None = None
    prompt: str | tuple[int, ...] | None = None
    seed: int | None = None
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One generation that the ladder asks for. `key` is stable over resumes of the same run.

    arm: name of the intervention, of a diagnosis alone; rung and index are then those of the failing
    generation that is asked again.
    """

    phase: Phase
    rung: int
    index: int
    units: int | None
    prompt_index: int
    seed: int
    max_tokens: int
    arm: str = ""

    @property
    def key(self) -> str:
        arm = f"/{self.arm}" if self.arm else ""
        return f"{self.phase}{arm}/{self.rung}/{self.index}"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What was asked for; everything a resume needs. Holds no secret.

    parent: the run whose diagnosis or sweep began this one.
    """

    subject: Subject
    base_url: str
    task_source: str
    rigor: str = "standard"
    decoding: Decoding = field(default_factory=Decoding)
    concurrency: int = 8
    horizon: int | None = None
    margin: float = 0.10
    prompts_file: str | None = None
    budget_tokens: int | None = None
    budget_seconds: float | None = None
    tighten: bool = False
    abort: bool = True
    seed: int = 1
    gpus: str = "auto"
    gpu_exporter: str | None = None
    parent: str | None = None
