"""From the ladder's jobs to requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stresstest.campaign.execution.attempt import GenerationTask
from stresstest.campaign.horizon import prompt_length
from stresstest.campaign.prompt_source import PromptSource, prompt_text, requested_text
from stresstest.detectors.entry import DetectorSpec
from stresstest.endpoint.client import Endpoint
from stresstest.errors import UsageError
from stresstest.model import EndpointProfile, GenerationRequest, Job, RunSettings


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
        return [await self._create_task(job) for job in jobs]

    async def _create_task(self, job: Job) -> GenerationTask:
        prompt = self.prompts.prompt_at(job.prompt_index, job.units)
        limit = job.max_tokens
        if self.profile.max_model_len is not None:
            if prompt.fingerprint not in self._lengths:
                length = await prompt_length(self.endpoint, self.profile, prompt, self.settings.decoding)
                self._lengths[prompt.fingerprint] = length
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
