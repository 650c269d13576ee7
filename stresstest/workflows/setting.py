"""What a campaign stands on: endpoint profile, prompts, horizon, ladder setup."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stresstest.detectors import PanelSpec
from stresstest.endpoint.capabilities import count_tokens, profile
from stresstest.endpoint.client import Endpoint
from stresstest.errors import UsageError
from stresstest.execution.driver import Work
from stresstest.ladder import LadderSetup
from stresstest.model import (
    RIGORS,
    EndpointProfile,
    GenerationRequest,
    Job,
    Message,
    RunSettings,
    Subject,
)
from stresstest.tasks import Prompt, Task, load_prompts, load_task

DEFAULT_HORIZON = 16_384
SMALLEST_HORIZON = 64
# Room left for what the chat template adds and for prompts a little longer than those counted.
RESERVE_TOKENS = 16
# Without /tokenize a prompt is taken to have one token per this many characters: on the safe side.
CHARS_PER_TOKEN = 2.0


@dataclass(frozen=True, slots=True)
class Prompts:
    """Where a campaign's prompts come from: a task in one language, or the user's own file."""

    settings: RunSettings
    task: Task | None
    own: tuple[Prompt, ...] = ()

    @property
    def distinct(self) -> int:
        """How many distinct prompts there are."""
        if self.task is None:
            return len({p.fingerprint for p in self.own})
        return self.task.distinct(self.settings.subject.language)

    @property
    def tokens_per_unit(self) -> float:
        if self.task is None:
            return 60.0
        return self.task.language(self.settings.subject.language).tokens_per_unit

    @property
    def unit_pattern(self) -> str | None:
        return self.task.language(self.settings.subject.language).unit_pattern if self.task else None

    def get(self, index: int, units: int | None) -> Prompt:
        """Prompt number `index`, asking for `units` units; starts over when the prompts run out."""
        system = self.settings.decoding.system_prompt
        if self.task is not None:
            return self.task.prompt(self.settings.subject.language, index, units or 1, system_prompt=system)
        prompt = self.own[index % len(self.own)]
        if system is None or prompt.text is not None:
            return prompt
        return replace(prompt, messages=(Message("system", system), *prompt.messages))

    def digest(self) -> str:
        """Identifies the prompts' content, so that a resume cannot mix two versions of a task file."""
        hasher = hashlib.sha256()
        sample = self.own or tuple(self.get(i, 7) for i in range(min(self.distinct, 50)))
        for prompt in sample:
            hasher.update(prompt.fingerprint.encode())
        return hasher.hexdigest()[:16]


def prompt_text(prompt: Prompt) -> str:
    """Everything that was asked, as one text."""
    return prompt.text if prompt.text is not None else "\n".join(m.content for m in prompt.messages)


def load_source(settings: RunSettings) -> Prompts:
    """The task or the user's prompts. Raises UsageError for an unknown task, language or bad file."""
    if settings.prompts_file:
        return Prompts(settings, None, tuple(load_prompts(settings.prompts_file)))
    task = load_task(settings.task_source)
    task.language(settings.subject.language)
    return Prompts(settings, task)


async def ask_endpoint(endpoint: Endpoint, settings: RunSettings) -> tuple[EndpointProfile, RunSettings]:
    """The endpoint's profile, and the settings with the model's name filled in when one is served."""
    found = await profile(endpoint, settings.subject.model or None)
    subject = Subject(found.model, settings.subject.task, settings.subject.language)
    return found, replace(settings, subject=subject)


async def horizon_for(
    endpoint: Endpoint, found: EndpointProfile, prompts: Prompts, settings: RunSettings
) -> int:
    """Output tokens that a generation may have: the smaller of the request and the context's room."""
    wanted = settings.horizon or DEFAULT_HORIZON
    if found.max_model_len is None:
        return wanted
    longest = 0
    for index in range(min(prompts.distinct, 12)):
        longest = max(longest, await prompt_length(endpoint, found, prompts.get(index, 999)))
    room = found.max_model_len - longest - RESERVE_TOKENS
    if room < SMALLEST_HORIZON:
        raise UsageError(
            f"The context of {found.model} ({found.max_model_len} tokens) leaves {max(room, 0)} tokens for "
            f"the answer after a prompt of {longest}; at least {SMALLEST_HORIZON} are needed.",
            hint="Serve the model with a larger --max-model-len, or give shorter prompts with --prompts.",
        )
    return min(wanted, room)


async def prompt_length(endpoint: Endpoint, found: EndpointProfile, prompt: Prompt) -> int:
    """Prompt tokens by /tokenize, else a cautious estimate from its characters."""
    if found.tokenize and prompt.text is None:
        counted = await count_tokens(endpoint, prompt.messages)
        if counted is not None:
            return counted
    return int(len(prompt_text(prompt)) / CHARS_PER_TOKEN) + 8


def ladder_setup(settings: RunSettings, prompts: Prompts, horizon: int) -> LadderSetup:
    return LadderSetup(
        rigor=RIGORS[settings.rigor],
        horizon=horizon,
        tokens_per_unit=prompts.tokens_per_unit,
        max_units=None,
        distinct_prompts=prompts.distinct,
        prompts_fixed=prompts.task is None,
        tighten=settings.tighten,
        seed=settings.seed,
        abort=settings.abort,
        budget_tokens=settings.budget_tokens,
    )


@dataclass(slots=True)
class WorkFactory:
    """Turns the ladder's jobs into requests; prompt lengths are asked once a prompt."""

    endpoint: Endpoint
    profile: EndpointProfile
    prompts: Prompts
    settings: RunSettings
    lengths: dict[str, int]

    async def works(self, jobs: Sequence[Job]) -> list[Work]:
        return [await self._work(job) for job in jobs]

    async def _work(self, job: Job) -> Work:
        prompt = self.prompts.get(job.prompt_index, job.units)
        limit = job.max_tokens
        if self.profile.max_model_len is not None:
            if prompt.fingerprint not in self.lengths:
                self.lengths[prompt.fingerprint] = await prompt_length(self.endpoint, self.profile, prompt)
            limit = min(limit, self.profile.max_model_len - self.lengths[prompt.fingerprint] - 1)
        if limit < 1:
            raise UsageError(
                f"The prompt {prompt.id!r} ({self.lengths[prompt.fingerprint]} tokens) fills the context of "
                f"{self.profile.model} ({self.profile.max_model_len} tokens)."
            )
        request = GenerationRequest(
            model=self.profile.model,
            max_tokens=limit,
            decoding=self.settings.decoding,
            messages=prompt.messages if prompt.text is None else None,
            prompt=prompt.text,
            seed=job.seed,
        )
        spec = PanelSpec(
            language=self.settings.subject.language or None,
            unit_pattern=self.prompts.unit_pattern,
            units=prompt.units,
            prompt_text=prompt_text(prompt),
        )
        return Work(job=job, request=request, prompt_id=prompt.id, prompt_text=prompt_text(prompt), spec=spec)
