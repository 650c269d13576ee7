"""From the ladder's jobs to requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from stresstest.campaign.execution.attempt import GenerationTask
from stresstest.campaign.horizon import prompt_length
from stresstest.campaign.prompt_source import PromptSource, prompt_text, requested_text
from stresstest.detectors.entry import DetectorSpec
from stresstest.endpoint.client import Endpoint
from stresstest.errors import UsageError
from stresstest.model import EndpointProfile, GenerationRequest, Job, RunSettings
from stresstest.tasks.prompt import Prompt

_LENGTHS_AT_ONCE = 8


@dataclass(slots=True)
class TaskFactory:
    """Turns jobs into requests. The length of a prompt is requested from the server once."""

    endpoint: Endpoint
    profile: EndpointProfile
    prompts: PromptSource
    settings: RunSettings
    _lengths: dict[str, int] = field(default_factory=dict)

    async def create_tasks(self, jobs: Sequence[Job]) -> list[GenerationTask]:
        """One task a job. Raises UsageError for a prompt that leaves no room for an answer."""
        if self.profile.max_model_len is not None:
            await self._measure_prompts(jobs)
        return [self._create_task(job) for job in jobs]

    async def _measure_prompts(self, jobs: Sequence[Job]) -> None:
        """Ask for the lengths that are not known yet, several at once: a server may leave each unanswered."""
        asked = (self.prompts.prompt_at(job.prompt_index, job.units) for job in jobs)
        prompts = {prompt.fingerprint: prompt for prompt in asked}
        places = asyncio.Semaphore(_LENGTHS_AT_ONCE)

        async def measure(prompt: Prompt) -> None:
            async with places:
                length = await prompt_length(self.endpoint, self.profile, prompt, self.settings.decoding)
            self._lengths[prompt.fingerprint] = length

        await asyncio.gather(*(measure(each) for name, each in prompts.items() if name not in self._lengths))

    def _create_task(self, job: Job) -> GenerationTask:
        prompt = self.prompts.prompt_at(job.prompt_index, job.units)
        limit = job.max_tokens
        if self.profile.max_model_len is not None:
            limit = min(limit, self.profile.max_model_len - self._lengths[prompt.fingerprint] - 1)
        if limit < 1:
            raise UsageError(
                f"The prompt {prompt.id!r} ({self._lengths[prompt.fingerprint]} tokens) fills the context of "
                f"{self.profile.model} ({self.profile.max_model_len:,} tokens)."
            )
        request = GenerationRequest(
            model=self.profile.model,
            max_tokens=limit,
            decoding=self.settings.decoding,
            messages=prompt.messages if prompt.text is None else None,
            prompt=prompt.text,
            seed=job.seed,
            body=prompt.body,
        )
        spec = DetectorSpec(
            language=self.prompts.judged_language,
            unit_pattern=self.prompts.unit_pattern,
            units=prompt.units,
            prompt_text=prompt_text(prompt),
            unit=self.prompts.unit,
            requested_text=requested_text(prompt),
        )
        return GenerationTask(
            job=job, request=request, prompt_id=prompt.id, prompt_text=prompt_text(prompt), spec=spec
        )
