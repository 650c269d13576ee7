"""The prompts of a campaign: a task in one language, or the user's own file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from stresstest.detectors.text.templated import asked_in, without_model_turns
from stresstest.model import RIGORS, Message, RunSettings
from stresstest.tasks import UNITS, Prompt, PromptsFile, Task, load_prompts, load_task


@dataclass(frozen=True, slots=True)
class PromptSource:
    """Where a campaign's prompts come from: a task in one language, or the user's own file.

    custom_prompts: of the file, in an order that a hash of their text draws. file_digest: of all that the
    file holds.
    """

    settings: RunSettings
    task: Task | None
    custom_prompts: tuple[Prompt, ...] = ()
    notes: tuple[str, ...] = ()
    file_digest: str = ""

    @property
    def distinct(self) -> int:
        """How many distinct prompts there are; the user's own were made distinct when they were read."""
        if self.task is None:
            return len(self.custom_prompts)
        return self.task.distinct(self.settings.subject.language)

    @property
    def tokens_per_unit(self) -> float:
        if self.task is None:
            return 60.0
        return self.task.language(self.settings.subject.language).tokens_per_unit

    @property
    def asks_units(self) -> bool:
        """Whether the prompts ask for a number of units, and so for a length."""
        return self.task is not None and self.task.language(self.settings.subject.language).asks_units

    @property
    def unit_pattern(self) -> str | None:
        return self.task.language(self.settings.subject.language).unit_pattern if self.task else None

    @property
    def unit(self) -> str:
        """How the answers' units are recognised."""
        return self.task.language(self.settings.subject.language).unit if self.task else UNITS[0]

    @property
    def judged_language(self) -> str | None:
        """The language that the answers are judged against; None for code, which has none."""
        return None if self.unit == "function" else self.settings.subject.language or None

    def prompt_at(self, index: int, units: int | None) -> Prompt:
        """Prompt number `index`, asking for `units` units; starts over when the prompts run out."""
        system = self.settings.decoding.system_prompt
        if self.task is not None:
            return self.task.prompt(self.settings.subject.language, index, units or 1, system_prompt=system)
        prompt = self.custom_prompts[index % len(self.custom_prompts)]
        if system is None or prompt.text is not None:
            return prompt
        return replace(prompt, messages=(Message("system", system), *prompt.messages))

    def digest(self) -> str:
        """Identifies the prompts and what judges their answers (topics, pattern, tokens per unit), so that a
        resume cannot mix two versions of a file."""
        if self.task is None:
            return self.file_digest
        return task_digest(self.task, self.settings.subject.language)


def task_digest(task: Task, language: str) -> str:
    """The same of a task alone. Raises UsageError where it lacks the language."""
    return hashlib.sha256(repr(task.language(language)).encode()).hexdigest()[:16]


def prompt_text(prompt: Prompt) -> str:
    """The whole prompt as one text."""
    return prompt.text if prompt.text is not None else "\n".join(m.content for m in prompt.messages)


def requested_text(prompt: Prompt) -> str | None:
    """The same without the model's own earlier turns and the results of tools; None where there are none."""
    if prompt.text is not None:
        return without_model_turns(prompt.text)
    others = [m.content for m in prompt.messages if m.role not in ("assistant", "tool")]
    return asked_in(others, all_of_them=len(others) == len(prompt.messages))


def load_prompt_source(settings: RunSettings) -> PromptSource:
    """The task or the user's prompts. Raises UsageError for an unknown task, language or bad file."""
    if settings.prompts_file:
        read = load_prompts(settings.prompts_file)
        # The sample is their beginning: a file in order of time, tenant or length must not choose it.
        drawn = tuple(sorted(read.prompts, key=lambda prompt: prompt.fingerprint))
        return PromptSource(settings, None, drawn, _notes(read, settings), read.digest)
    task = load_task(settings.task_source)
    task.language(settings.subject.language)
    return PromptSource(settings, task)


def _notes(read: PromptsFile, settings: RunSettings) -> tuple[str, ...]:
    distinct, dropped = read.distinct, read.lines - read.distinct
    notes = []
    if dropped:
        notes.append(
            f"{dropped} of {read.lines} prompts repeat an earlier one and are skipped: the limit is for "
            "distinct prompts, and one that your traffic repeats weighs no more than another"
        )
    sample = RIGORS[settings.rigor].planned
    if distinct > sample:
        notes.append(
            f"the file has {distinct:,} distinct prompts, of which a sample of {sample:,} is drawn by a hash "
            f"of their text, whatever their order"
        )
    if read.not_sent:
        notes.append(f"set by the measurement, not taken from the prompts file: {', '.join(read.not_sent)}")
    if read.differing:
        notes.append(f"sent as each prompt sets it: {', '.join(read.differing)}")
    return tuple(notes)
