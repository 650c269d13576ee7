"""Runs the arms of a diagnosis: forks become tasks, answers are stored as they end, decided arms stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from stresstest.campaign.campaign_setup import PreparedCampaign
from stresstest.campaign.execution.driver import GenerationTask, drive
from stresstest.campaign.execution.events import GenerationAdvanced, GenerationEvent, GenerationFinished
from stresstest.campaign.ladder import derive_seed
from stresstest.campaign.progress import Progress
from stresstest.campaign.prompt_source import PromptSource, prompt_text, requested_text
from stresstest.campaign.provenance.foreign_answers import ForeignAnswersError, refuse_foreign
from stresstest.campaign.served_model import ReplacedServerError, same_server
from stresstest.detectors.entry import DetectorSpec
from stresstest.diagnosis.evidence.server import is_lost
from stresstest.diagnosis.intervention.arms import NEUTRAL_PROMPT, add_to_system_prompt
from stresstest.diagnosis.intervention.forks import Fork
from stresstest.diagnosis.intervention.outcome import ArmOutcome, assess_continuation
from stresstest.diagnosis.intervention.wording import condition_words
from stresstest.endpoint.counting import prompt_ids
from stresstest.errors import InconclusiveError, InterruptedEarlyError
from stresstest.model import (
    Arm,
    Decoding,
    Generation,
    GenerationRecord,
    GenerationRequest,
    Job,
    Phase,
    Run,
    Token,
)
from stresstest.model.request import request_fields
from stresstest.model.sweep import SWEEP_CONTROL
from stresstest.store.repository import Store
from stresstest.tasks import Prompt

ALARM_HEADROOM = 256
"""Tokens after the window, so that a late onset can still raise its alarm."""
KEEP_AFTER_TOKENS = 48
_FROM_THE_START = ("response_format", "structured_outputs", "tools")
"""Fields whose grammar would begin again in the middle of an answer."""
_MAX_TRIES = 3
"""Attempts at a fork whose answer is lost to service failures."""

StopCondition = Callable[[], bool]
_Place = tuple[ArmOutcome, Fork]
"""A fork under an arm."""


@dataclass
class InterventionRunner:
    """One run's diagnosis against an open endpoint.

    budget: output tokens after which no further request is started. scratch: answers cannot be continued, so
    that prompts are answered from the start. stored: the diagnosis' finished generations by key, including
    those of earlier sessions. spent: output tokens of the stored generations and of dropped streams.

    The answers of this session's arms keep their tokens, at most `MAX_FORKS` an arm: the store keeps fewer
    digits of entropies.
    """

    run: Run
    prepared: PreparedCampaign
    store: Store
    progress: Progress
    stop: asyncio.Event
    budget: int | None = None
    scratch: bool = False
    stored: dict[str, GenerationRecord] = field(default_factory=dict)
    spent: int = 0
    _ids: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    _streamed: dict[str, Generation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arms = self.store.arm_records(self.run.id)
        self.stored = {g.key: g for g in arms if not g.job.arm.startswith(SWEEP_CONTROL)}
        self.spent = sum(g.output_tokens for g in self.stored.values())
        self._measured = self.store.records(self.run.id)

    @property
    def prompts(self) -> PromptSource:
        return self.prepared.prompts

    @property
    def concurrency(self) -> int:
        return self.run.settings.concurrency

    def load(self, record: GenerationRecord) -> Generation:
        """A generation of the run or of its diagnosis with its tokens."""
        return self._streamed.get(record.key) or self.store.loader(self.run.id)(record)

    async def run_arm(
        self,
        outcome: ArmOutcome,
        forks: Sequence[Fork],
        *,
        decided: StopCondition | None = None,
        load: int = 0,
        controls: Sequence[Sequence[_Place]] = (),
    ) -> None:
        """Answer the forks under the outcome's arm; stored answers are used. Call again with more forks to
        extend it.

        decided: checked after each answer; True drops the remaining forks and marks the outcome as decided
        early. load: requests kept in flight until the last answer, by replays that are not counted. controls:
        forks that are answered in between, each under arms of its own. Raises InterruptedEarlyError after a
        stop, EndpointError when the server is unreachable.
        """
        every = _alternate([(outcome, fork) for fork in forks], controls)
        for each, fork in every:
            known = self.stored_answer(fork, each.arm)
            if known is not None and fork.key not in each.answers:
                each.answers[fork.key] = assess_continuation(fork, known, truncated=each.arm.truncated)
                outcome.tokens += known.output_tokens
        for _ in range(_MAX_TRIES):
            pending = [(each, fork) for each, fork in every if fork.key not in each.answers]
            if not pending or (decided is not None and decided()):
                break
            await self._run_session(outcome, pending, decided, load)
        missing = [fork for fork in forks if fork.key not in outcome.answers]
        outcome.early = decided is not None and bool(missing) and decided()
        outcome.lost = 0 if outcome.early else len(missing)

    async def _run_session(
        self,
        outcome: ArmOutcome,
        pending: Sequence[_Place],
        decided: StopCondition | None,
        load: int,
    ) -> None:
        arm = outcome.arm
        tasks = [await self.continuation_task(fork, each.arm) for each, fork in pending]
        by_key = {task.job.key: place for task, place in zip(tasks, pending, strict=True)}
        replayed = [fork for _, fork in pending]
        for i in range(max(0, load - len(tasks))):
            filler = replace(arm, name=f"load-{i // len(pending)}")
            tasks.append(await self.continuation_task(replayed[i % len(pending)], filler))
        own = sum(each is outcome for each, _ in pending)
        stage = f"{arm.name}: {_forks_words(own, outcome, decided)}, {condition_words(arm)}"
        if len(tasks) > len(pending):
            stage += f" ({len(tasks) - len(pending)} replays keep up the load)"
        if own < len(pending):
            stage += f" ({len(pending) - own} controls in between: {outcome.control_words})"
        cuts = {t.job.key: replayed[i % len(pending)].cut for i, t in enumerate(tasks) if t.history}
        self.progress.measuring(stage, len(tasks), cuts)

        def take(generation: GenerationRecord) -> bool:
            place = by_key.get(generation.key)
            if place is not None and not is_lost(generation):
                each, fork = place
                each.answers[fork.key] = assess_continuation(fork, generation, truncated=each.arm.truncated)
            done = all(fork.key in each.answers for each, fork in pending)
            return done or (decided is not None and decided())

        outcome.tokens += await self.drive(tasks, take, alone=arm.alone)

    async def drive(
        self,
        tasks: Sequence[GenerationTask],
        take: Callable[[GenerationRecord], bool],
        *,
        alone: bool = False,
        keep_tokens: bool = True,
        limit: int | None = None,
    ) -> int:
        """Run tasks; pass each generation to `take` as it ends and store it. True from `take` drops the rest.

        limit: output tokens after which no further task is started; None without a limit. Returns the output
        tokens spent. Raises InconclusiveError when the budget leaves tasks undone.
        """
        if self.stop.is_set():
            raise InterruptedEarlyError("The diagnosis was interrupted; the results so far are kept.")
        halt = asyncio.Event()
        answers: list[GenerationRecord] = []
        earlier = [*self._measured, *self.stored.values()]
        stop_watch = asyncio.create_task(_forward_stop(self.stop, halt))
        before = self.spent
        running: dict[str, int] = {}

        def on_event(event: GenerationEvent) -> None:
            self.progress.event(event)
            if isinstance(event, GenerationAdvanced):
                running[event.key] = event.tokens
            elif isinstance(event, GenerationFinished):
                running.pop(event.generation.key, None)
                # Decided here and not after storing, so that no further task starts in between.
                if take(event.generation.to_record()):
                    halt.set()

        try:
            async with same_server(self.prepared.endpoint, self.prepared.profile, self.stop):
                async for generation in drive(
                    self.prepared.endpoint,
                    tasks,
                    concurrency=1 if alone else self.concurrency,
                    abort=True,
                    keep_after=KEEP_AFTER_TOKENS,
                    on_event=on_event,
                    stop=halt,
                    should_stop=lambda: halt.is_set() or self._over_budget() or self._is_spent(before, limit),
                ):
                    answers.append(generation.to_record())
                    await asyncio.to_thread(self.store.add_generation, self.run.id, generation)
                    self.stored[generation.key] = generation.to_record()
                    if keep_tokens:
                        self._streamed[generation.key] = generation
                    self.spent += generation.output_tokens
            refuse_foreign(answers, earlier, self.run.profile.clock)
        except (ReplacedServerError, ForeignAnswersError):
            # Any of them may be another server's, model's, or a cache's: a diagnosis that goes on asks again.
            keys = [each.key for each in answers]
            for key in keys:
                self.stored.pop(key, None)
                self._streamed.pop(key, None)
            await asyncio.to_thread(self.store.remove_generations, self.run.id, keys)
            raise
        finally:
            stop_watch.cancel()
        self.spent += sum(running.values())
        if self.stop.is_set():
            raise InterruptedEarlyError("The diagnosis was interrupted; the results so far are kept.")
        if self._over_budget() and len(answers) < len(tasks) and not halt.is_set():
            raise InconclusiveError("The token budget is spent; the results so far are kept.")
        return self.spent - before

    def _over_budget(self) -> bool:
        return self._is_spent(0, self.budget)

    def _is_spent(self, before: int, limit: int | None) -> bool:
        return limit is not None and self.spent - before >= limit

    async def continuation_task(self, fork: Fork, arm: Arm) -> GenerationTask:
        """The fork's continuation under an arm: the prompt and the kept part of the answer as tokens."""
        history = fork.kept_history if arm.truncated else fork.history
        decoding = arm.decoding
        if arm.sham and not history:
            decoding = add_to_system_prompt(decoding, NEUTRAL_PROMPT)
        prompt = self.fork_prompt(fork, decoding)
        limit = fork.window - fork.cut + ALARM_HEADROOM
        job = self.fork_job(fork, arm.name, limit)
        return await self.continued_task(job, prompt, decoding, history, limit, sham=arm.sham)

    async def continued_task(
        self,
        job: Job,
        prompt: Prompt,
        decoding: Decoding,
        history: Sequence[Token],
        limit: int,
        *,
        sham: bool = False,
    ) -> GenerationTask:
        """A task that continues from `history`; the prompt alone if it is empty. sham: the first token comes
        twice where token ids are sent, which changes what a router sees of the prompt, and nothing else."""
        prefix: tuple[int, ...] | None = None
        if history:
            prefix = await self.prompt_token_ids(prompt)
            if prefix is None:
                raise ValueError(f"the prompt {prompt.id!r} has no token ids to continue from")
            prefix = (*prefix[:1], *prefix) if sham else prefix
        window = self.run.profile.max_model_len
        if window is not None and prefix is not None:
            limit = max(1, min(limit, window - len(prefix) - len(history) - 1))
        ids = None if prefix is None else (*prefix, *(t.id for t in history if t.id is not None))
        job = replace(job, max_tokens=limit)
        request = GenerationRequest(
            model=self.run.profile.model,
            max_tokens=limit,
            decoding=decoding,
            messages=prompt.messages if ids is None and prompt.text is None else None,
            prompt=prompt.text if ids is None else ids,
            seed=job.seed,
            body=prompt.body,
        )
        text = prompt_text(prompt)
        spec = DetectorSpec(
            self.prompts.judged_language,
            self.prompts.unit_pattern,
            prompt.units,
            text,
            self.prompts.unit,
            requested_text=requested_text(prompt),
        )
        return GenerationTask(job, request, prompt.id, text, spec, tuple(history))

    async def run_missing(
        self,
        what: str,
        factories: Mapping[str, Callable[[], Awaitable[GenerationTask]]],
        *,
        enough: Callable[[Sequence[GenerationRecord]], bool] | None = None,
        keep_tokens: bool = True,
        limit: int | None = None,
    ) -> list[GenerationRecord]:
        """The generations of these keys; only those that are not stored are made into tasks.

        enough: checked after each; True drops the rest. Generations lost to a service failure are included.
        keep_tokens: False leaves the tokens in the store. limit: see `drive`.
        """
        found = {key: known for key in factories if (known := self._stored(key)) is not None}

        def take(generation: GenerationRecord) -> bool:
            found[generation.key] = generation
            return enough is not None and enough(list(found.values()))

        if enough is not None and enough(list(found.values())):
            return list(found.values())
        tasks = [await make() for key, make in factories.items() if key not in found]
        if tasks:
            self.progress.measuring(what, len(tasks))
            await self.drive(tasks, take, keep_tokens=keep_tokens, limit=limit)
        return list(found.values())

    def stored_answer(self, fork: Fork, arm: Arm) -> GenerationRecord | None:
        """The stored answer of a fork under an arm; None if there is none or a service failure cut it."""
        return self._stored(self.fork_job(fork, arm.name, 1).key)

    def _stored(self, key: str) -> GenerationRecord | None:
        found = self.stored.get(key)
        return None if found is None or is_lost(found) else found

    def fork_prompt(self, fork: Fork, decoding: Decoding) -> Prompt:
        """The fork's prompt with the system prompt of a decoding."""
        settings = replace(self.run.settings, decoding=decoding)
        job = fork.source.job
        return replace(self.prompts, settings=settings).prompt_at(job.prompt_index, job.units)

    async def prompt_token_ids(self, prompt: Prompt) -> tuple[int, ...] | None:
        """Token ids of a prompt, requested once; None if the server does not return them.

        None as well for what cannot be continued in the middle: a grammar would begin again there, and ids
        hold no images.
        """
        fields = self.run.settings.decoding.extra() | request_fields(prompt.body)
        if any(fields.get(name) for name in _FROM_THE_START) or any(m.wire for m in prompt.messages):
            return None
        if prompt.fingerprint not in self._ids:
            content = prompt.text if prompt.text is not None else prompt.messages
            self._ids[prompt.fingerprint] = await prompt_ids(
                self.prepared.endpoint, content, fields, context=self.run.profile.max_model_len
            )
        return self._ids[prompt.fingerprint]

    def fork_job(self, fork: Fork, arm: str, limit: int) -> Job:
        """The fork's job under an arm of this name, with a seed derived from both."""
        source = fork.source.job
        seed = self.job_seed(f"{arm}/{fork.key}")
        return replace(source, phase=Phase.DIAGNOSE, arm=arm, seed=seed, max_tokens=limit)

    def job_seed(self, place: str) -> int:
        """The seed of the job at this place of the diagnosis."""
        return derive_seed(f"{self.run.settings.seed}/{place}")


def _alternate(one: Sequence[_Place], others: Sequence[Sequence[_Place]]) -> list[_Place]:
    """The places of both, in turn from the end: the last of `one` lie between the groups of `others`."""
    first = one[: len(one) - len(others)] if len(one) > len(others) else ()
    pairs = zip_longest(one[len(first) :], others, fillvalue=None)
    return [*first, *(each for place, group in pairs for each in (place, *(group or ())) if each is not None)]


def _forks_words(number: int, outcome: ArmOutcome, decided: StopCondition | None) -> str:
    """How many forks a stage continues, such as "up to 8 more forks"."""
    most = "up to " if decided is not None and number > 1 else ""
    more = " more" if outcome.answers else ""
    return f"{most}{number}{more} fork{'' if number == 1 else 's'}"


async def _forward_stop(stop: asyncio.Event, halt: asyncio.Event) -> None:
    await stop.wait()
    halt.set()
