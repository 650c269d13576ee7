"""Where arms are run: forks under an arm become works, are stored as they end, and stop once decided."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stresstest.detectors import PanelSpec
from stresstest.diagnosis.chain import Outcome, judged
from stresstest.diagnosis.evidence import lost
from stresstest.diagnosis.forks import Fork
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.counting import prompt_ids
from stresstest.errors import InconclusiveError, InterruptedEarlyError
from stresstest.execution.driver import Work, drive
from stresstest.execution.events import Advanced, Event, Finished
from stresstest.model import Arm, Decoding, Generation, GenerationRequest, Job, Phase, Run, Token
from stresstest.report.progress import Progress
from stresstest.store.repository import Store
from stresstest.tasks import Prompt
from stresstest.workflows.setting import Prompts, prompt_text

ALARM_ROOM = 256
"""Tokens behind the window, so that an alarm about a late onset can still sound."""
KEEP_AFTER = 48
_TRIES = 3
"""Sessions with the server that a fork gets when service failures take its answer."""

Decided = Callable[[], bool]


@dataclass
class Bench:
    """One run's diagnosis against an open endpoint.

    budget: output tokens after which nothing more is begun. stored: its finished generations by key, earlier
    sessions' included. spent: output tokens of this session and of what is stored, those of dropped streams
    included as far as they were seen.
    """

    run: Run
    endpoint: Endpoint
    prompts: Prompts
    store: Store
    progress: Progress
    stop: asyncio.Event
    budget: int | None = None
    scratch: bool = False
    stored: dict[str, Generation] = field(default_factory=dict)
    spent: int = 0
    _ids: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    _running: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stored = {g.key: g for g in self.store.arm_generations(self.run.id)}
        self.spent = sum(g.output_tokens for g in self.stored.values())

    @property
    def concurrency(self) -> int:
        return self.run.settings.concurrency

    async def answer(
        self, outcome: Outcome, forks: Sequence[Fork], *, decided: Decided | None = None, load: int = 0
    ) -> None:
        """Have the forks answered under the outcome's arm, what is stored first. Call it with more of them to
        go on.

        decided: asked after each answer; True drops the rest, and marks the outcome as decided early. load:
        requests in flight to keep up, by further replays that count nothing, until the last answer is there.
        Raises InterruptedEarlyError when a stop was asked for, EndpointError when the server is gone.
        """
        arm = outcome.arm
        for fork in forks:
            known = self.answered(fork, arm)
            if known is not None and fork.key not in outcome.answers:
                outcome.answers[fork.key] = judged(fork, known, truncated=arm.truncated)
                outcome.tokens += known.output_tokens
        for _ in range(_TRIES):
            pending = [fork for fork in forks if fork.key not in outcome.answers]
            if not pending or (decided is not None and decided()):
                break
            await self._session(outcome, pending, decided, load)
        missing = [fork for fork in forks if fork.key not in outcome.answers]
        outcome.early = decided is not None and bool(missing) and decided()
        outcome.lost = 0 if outcome.early else len(missing)

    async def _session(
        self, outcome: Outcome, pending: Sequence[Fork], decided: Decided | None, load: int
    ) -> None:
        arm = outcome.arm
        self.progress.measuring(f"{arm.name}: {arm.changed}, {len(pending)} forks", len(pending))
        works = [await self.work(fork, arm) for fork in pending]
        by_key = {work.job.key: fork for work, fork in zip(works, pending, strict=True)}
        for i in range(max(0, load - len(works))):
            filler = replace(arm, name=f"load-{i // len(pending)}")
            works.append(await self.work(pending[i % len(pending)], filler))

        def take(generation: Generation) -> bool:
            fork = by_key.get(generation.key)
            if fork is not None and not lost(generation):
                outcome.answers[fork.key] = judged(fork, generation, truncated=arm.truncated)
            done = all(f.key in outcome.answers for f in pending)
            return done or (decided is not None and decided())

        outcome.tokens += await self.drive(works, take, alone=arm.alone)

    async def drive(
        self, works: Sequence[Work], take: Callable[[Generation], bool], *, alone: bool = False
    ) -> int:
        """Run works, hand each generation to `take` as it ends, store it; True from it drops what is left.

        The output tokens that it took. Raises InconclusiveError where the budget leaves works undone.
        """
        if self.stop.is_set():
            raise InterruptedEarlyError("The diagnosis was interrupted; what was measured is kept.")
        halt = asyncio.Event()
        finished = 0
        watch = asyncio.create_task(_pass_on(self.stop, halt))
        before = self.spent
        self._running.clear()

        def on_event(event: Event) -> None:
            # Decided here, not where it is stored: the next work must not be begun meanwhile.
            self._on_event(event)
            if isinstance(event, Finished) and take(event.generation):
                halt.set()

        try:
            async for generation in drive(
                self.endpoint,
                works,
                concurrency=1 if alone else self.concurrency,
                abort=True,
                keep_after=KEEP_AFTER,
                on_event=on_event,
                stop=halt,
                should_stop=lambda: halt.is_set() or self._over_budget(),
            ):
                finished += 1
                await asyncio.to_thread(self.store.add_generation, self.run.id, generation)
                self.stored[generation.key] = generation
                self.spent += generation.output_tokens
        finally:
            watch.cancel()
        self.spent += sum(self._running.values())
        if self.stop.is_set():
            raise InterruptedEarlyError("The diagnosis was interrupted; what was measured is kept.")
        if self._over_budget() and finished < len(works) and not halt.is_set():
            raise InconclusiveError("The token budget is spent; what was measured is kept.")
        return self.spent - before

    def _over_budget(self) -> bool:
        return self.budget is not None and self.spent >= self.budget

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Advanced):
            self._running[event.key] = event.tokens
        elif isinstance(event, Finished):
            self._running.pop(event.generation.key, None)
        self.progress.event(event)

    async def work(self, fork: Fork, arm: Arm) -> Work:
        """The fork's continuation under an arm: the prompt, and the kept part of the answer, as tokens."""
        prompt = self.prompt(fork, arm.decoding)
        history = fork.kept if arm.truncated else fork.history
        limit = fork.window - fork.cut + ALARM_ROOM
        job = self.job(fork, arm.name, limit)
        return await self.continued(job, prompt, arm.decoding, history, limit)

    async def continued(
        self, job: Job, prompt: Prompt, decoding: Decoding, history: Sequence[Token], limit: int
    ) -> Work:
        """A work that goes on from `history`; without any it is the prompt as it stands."""
        asked: tuple[int, ...] | None = None
        if history:
            asked = await self.ids(prompt)
            if asked is None:
                raise ValueError(f"the prompt {prompt.id!r} has no token ids to continue from")
        window = self.run.profile.max_model_len
        if window is not None and asked is not None:
            limit = max(1, min(limit, window - len(asked) - len(history) - 1))
        ids = None if asked is None else (*asked, *(t.id for t in history if t.id is not None))
        job = replace(job, max_tokens=limit)
        request = GenerationRequest(
            model=self.run.profile.model,
            max_tokens=limit,
            decoding=decoding,
            messages=prompt.messages if ids is None and prompt.text is None else None,
            prompt=prompt.text if ids is None else ids,
            seed=job.seed,
        )
        text = prompt_text(prompt)
        language = self.run.settings.subject.language or None
        spec = PanelSpec(language, self.prompts.unit_pattern, prompt.units, text)
        return Work(job, request, prompt.id, text, spec, tuple(history))

    async def once(
        self,
        what: str,
        wanted: Mapping[str, Callable[[], Awaitable[Work]]],
        *,
        enough: Callable[[Sequence[Generation]], bool] | None = None,
    ) -> list[Generation]:
        """The generations of these keys, what is stored first; only the others are made into works.

        enough: asked after each; True drops the rest. One that a service failure took is in it, with what
        came of it.
        """
        found = {key: known for key in wanted if (known := self._kept(key)) is not None}

        def take(generation: Generation) -> bool:
            found[generation.key] = generation
            return enough is not None and enough(list(found.values()))

        if enough is not None and enough(list(found.values())):
            return list(found.values())
        works = [await make() for key, make in wanted.items() if key not in found]
        if works:
            self.progress.measuring(what, len(works))
            await self.drive(works, take)
        return list(found.values())

    def answered(self, fork: Fork, arm: Arm) -> Generation | None:
        """What is stored of a fork under an arm; None where nothing is, or a service failure took it."""
        return self._kept(self.job(fork, arm.name, 1).key)

    def _kept(self, key: str) -> Generation | None:
        found = self.stored.get(key)
        return None if found is None or lost(found) else found

    def prompt(self, fork: Fork, decoding: Decoding) -> Prompt:
        """The fork's own prompt, under a decoding's system prompt."""
        settings = replace(self.run.settings, decoding=decoding)
        job = fork.source.job
        return replace(self.prompts, settings=settings).get(job.prompt_index, job.units)

    async def ids(self, prompt: Prompt) -> tuple[int, ...] | None:
        """Token ids of a prompt, asked once; None where the server does not give them."""
        if prompt.fingerprint not in self._ids:
            asked = prompt.text if prompt.text is not None else prompt.messages
            self._ids[prompt.fingerprint] = await prompt_ids(self.endpoint, asked)
        return self._ids[prompt.fingerprint]

    def job(self, fork: Fork, arm: str, limit: int) -> Job:
        """The fork's job under an arm of this name; its seed depends on nothing else."""
        source = fork.source.job
        seed = self.seed(f"{arm}/{fork.key}")
        return replace(source, phase=Phase.DIAGNOSE, arm=arm, seed=seed, max_tokens=limit)

    def seed(self, place: str) -> int:
        """The seed of a job at this place of the diagnosis."""
        name = f"{self.run.settings.seed}/{place}".encode()
        return int.from_bytes(hashlib.blake2b(name, digest_size=4).digest(), "big") & 0x7FFF_FFFF


async def _pass_on(stop: asyncio.Event, halt: asyncio.Event) -> None:
    await stop.wait()
    halt.set()
