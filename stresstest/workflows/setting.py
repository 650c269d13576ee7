"""What a campaign stands on: endpoint profile, prompts, horizon, ladder setup."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stresstest.detectors import PanelSpec
from stresstest.endpoint.capabilities import count_tokens, profile
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.defaults import generation_config
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
# What unmasks is to find the next failure: it plans the floor, and so many more for lost answers.
UNMASKING_SPARE = 2
# Without /tokenize a prompt is taken to have one token per this many characters: on the safe side.
CHARS_PER_TOKEN = 2.0


@dataclass(frozen=True, slots=True)
class Prompts:
    """Where a campaign's prompts come from: a task in one language, or the user's own file."""

    settings: RunSettings
    task: Task | None
    own: tuple[Prompt, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def distinct(self) -> int:
        """How many distinct prompts there are; the user's own were made distinct when they were read."""
        if self.task is None:
            return len(self.own)
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
        """Identifies everything that is asked and how it is judged (topics, pattern, tokens per unit), so
        that a resume cannot mix two versions of a file."""
        if self.task is None:
            content = [p.fingerprint for p in self.own]
        else:
            content = [repr(self.task.language(self.settings.subject.language))]
        return hashlib.sha256("\n".join(content).encode()).hexdigest()[:16]


def prompt_text(prompt: Prompt) -> str:
    """Everything that was asked, as one text."""
    return prompt.text if prompt.text is not None else "\n".join(m.content for m in prompt.messages)


def load_source(settings: RunSettings) -> Prompts:
    """The task or the user's prompts. Raises UsageError for an unknown task, language or bad file."""
    if settings.prompts_file:
        read = load_prompts(settings.prompts_file)
        own = tuple({p.fingerprint: p for p in reversed(read)}.values())[::-1]
        dropped = len(read) - len(own)
        note = f"{dropped} of {len(read)} prompts repeat an earlier one and are left out"
        return Prompts(settings, None, own, (note,) if dropped else ())
    task = load_task(settings.task_source)
    task.language(settings.subject.language)
    return Prompts(settings, task)


async def ask_endpoint(endpoint: Endpoint, settings: RunSettings) -> tuple[EndpointProfile, RunSettings]:
    """The endpoint's profile, and the settings with the model's name filled in when one is served.

    The profile holds the server's sampling defaults where the model's folder is on this machine.
    """
    found = await profile(endpoint, settings.subject.model or None)
    found = replace(found, defaults=generation_config(found.root) or {})
    subject = Subject(found.model, settings.subject.task, settings.subject.language)
    return found, replace(settings, subject=subject)


async def horizon_for(
    endpoint: Endpoint, found: EndpointProfile, prompts: Prompts, settings: RunSettings
) -> int:
    """Output tokens that a generation may have: the smaller of the request and the context's room."""
    wanted = settings.horizon or DEFAULT_HORIZON
    if found.max_model_len is None:
        return wanted
    lengths = await _prompt_lengths(endpoint, found, prompts)
    longest = max(lengths.values())
    room = found.max_model_len - longest - RESERVE_TOKENS
    if room < SMALLEST_HORIZON:
        if prompts.task is None:
            _refuse_long(found, lengths)
        raise UsageError(
            f"The context of {found.model} ({found.max_model_len} tokens) leaves {max(room, 0)} tokens for "
            f"the answer after a prompt of {longest}; at least {SMALLEST_HORIZON} are needed.",
            hint="Serve the model with a larger --max-model-len, or give shorter prompts with --prompts.",
        )
    if prompts.task is None:
        # Own prompts differ in length: each is capped by its own room, the horizon by the roomiest.
        room = found.max_model_len - min(lengths.values()) - RESERVE_TOKENS
    return min(wanted, room)


async def _prompt_lengths(endpoint: Endpoint, found: EndpointProfile, prompts: Prompts) -> dict[str, int]:
    """Tokens of every own prompt, by id; of a task's prompts a dozen, which are alike in length."""
    many = prompts.distinct if prompts.task is None else min(prompts.distinct, 12)
    sample = [prompts.get(index, 999) for index in range(many)]
    return {p.id: await prompt_length(endpoint, found, p) for p in sample}


def _refuse_long(found: EndpointProfile, lengths: dict[str, int]) -> None:
    limit = (found.max_model_len or 0) - RESERVE_TOKENS - SMALLEST_HORIZON
    long = [prompt_id for prompt_id, tokens in lengths.items() if tokens > limit]
    raise UsageError(
        f"{len(long)} of {len(lengths)} prompts leave less than {SMALLEST_HORIZON} tokens for the answer in "
        f"the context of {found.model} ({found.max_model_len} tokens), for example {long[0]!r} with "
        f"{lengths[long[0]]} tokens.",
        hint="Leave them out, or serve the model with a larger --max-model-len.",
    )


async def prompt_length(endpoint: Endpoint, found: EndpointProfile, prompt: Prompt) -> int:
    """Prompt tokens by /tokenize, else a cautious estimate from its characters."""
    if found.tokenize and prompt.text is None:
        counted = await count_tokens(endpoint, prompt.messages)
        if counted is not None:
            return counted
    return int(len(prompt_text(prompt)) / CHARS_PER_TOKEN) + 8


def ladder_setup(settings: RunSettings, prompts: Prompts, horizon: int) -> LadderSetup:
    rigor = RIGORS[settings.rigor]
    if settings.parent is not None:
        rigor = replace(rigor, planned=rigor.floor + UNMASKING_SPARE)
    return LadderSetup(
        rigor=rigor,
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
