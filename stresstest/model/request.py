"""Requests and what they are built from: decoding, messages, jobs, run settings."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import Any

from stresstest.model.rigor import RIGORS, UNMASKING_HEADROOM
from stresstest.model.words import Phase, Subject


@dataclass(frozen=True, slots=True)
class Decoding:
    """The sampling parameters, system prompt and further request fields in force. `None`: not sent.

    extra_body: the further fields as canonical JSON, equal where the content is equal.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    system_prompt: str | None = None
    extra_body: str | None = None

    def given(self) -> dict[str, Any]:
        """Everything that is set, the system prompt and the further fields included."""
        extra = {"extra_body": self.extra()} if self.extra_body is not None else {}
        return {k: v for k, v in asdict(self).items() if v is not None} | extra

    def options(self) -> dict[str, str]:
        """Everything that is set, as the options of the same names take it."""
        return {k: str(v) for k, v in asdict(self).items() if v is not None}

    def sent(self) -> dict[str, float | int]:
        """The sampling parameters that are set."""
        return {k: v for k, v in asdict(self).items() if v is not None and k in PARAMETERS}

    def extra(self) -> dict[str, Any]:
        """The further fields of the request body."""
        return request_fields(self.extra_body)

    def extra_words(self, limit: int = 60) -> list[str]:
        """The further fields in words, one each: ``stop ["END"]``; long values are cut."""
        words = [f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in self.extra().items()]
        return [each if len(each) <= limit else f"{each[:limit].rstrip()}…" for each in words]


def request_fields(document: str | None) -> dict[str, Any]:
    """Fields of a request body from their JSON; none for None."""
    return {} if document is None else dict(json.loads(document))


SAMPLING = tuple(parameter.name for parameter in fields(Decoding))
"""Names of the fields of a decoding."""
PARAMETERS = tuple(name for name in SAMPLING if name not in ("system_prompt", "extra_body"))
"""Names of its numbers."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. content: its text. wire: the whole message as JSON where it is more than role and text: image
    parts, calls of tools."""

    role: str
    content: str
    wire: str | None = None

    def as_sent(self) -> dict[str, Any]:
        """The message as it is in a request body; not to be changed, as requests share it."""
        return {"role": self.role, "content": self.content} if self.wire is None else _decoded(self.wire)


@lru_cache(maxsize=64)
def _decoded(wire: str) -> Any:
    """One object for all requests in flight with this message: its pictures are large."""
    return json.loads(wire)


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One request to the endpoint; either `messages` or `prompt` (text or token ids) is set.

    body: further fields that the prompt itself brings, as JSON; those of the decoding apply beside them.
    ignore_eos: generate up to `max_tokens` even if the model would end (vLLM); only for the stand-ins of
    `cost`.
    """

    model: str
    max_tokens: int
    decoding: Decoding
    messages: tuple[Message, ...] | None = None
    prompt: str | tuple[int, ...] | None = None
    seed: int | None = None
    ignore_eos: bool = False
    body: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One generation to be requested. `key` is stable across resumes of the same run.

    units: number of units requested. arm: name of the intervention, in a diagnosis only; rung and index are
    then those of the failing generation.
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
    """The options of a run: everything needed to resume it, without secrets.

    send_seed: whether each request brings its own seed; without one nothing is reproducible. logprobs:
    whether log probabilities are requested. stall_timeout: seconds that a stream may pause; None: as long as
    the server's own pauses suggest.
    parent: the run whose diagnosis or sweep started this one. holds_up_to: requests in flight up to which its
    limit holds, where that diagnosis has shown that a larger load makes the answers fail. earlier_urls: the
    addresses that parts of the run were measured at before it was continued at `base_url`. continued_after:
    how many answers were stored when it last was; 0 if it never was.
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
    send_seed: bool = True
    logprobs: bool = True
    stall_timeout: float | None = None
    parent: str | None = None
    holds_up_to: int | None = None
    earlier_urls: tuple[str, ...] = field(default=(), compare=False)
    continued_after: int = field(default=0, compare=False)

    @property
    def smallest_sample(self) -> int:
        """Requests of the smallest sample that may certify. A diagnosis' own campaign has as few as certify,
        or as many as the load takes."""
        rigor = RIGORS[self.rigor]
        if self.parent is not None:
            return max(rigor.floor + UNMASKING_HEADROOM, self.concurrency)
        return rigor.planned if self.budget_tokens is None else rigor.floor

    @property
    def in_flight(self) -> int:
        """Requests that are in flight at once: no more than the sample has, as no others are sent."""
        return min(self.concurrency, self.smallest_sample)
