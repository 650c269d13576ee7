"""`export`: reads answers of runs and logs, pairs and splits them, and says what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from stresstest.campaign.conclusion.conclude import find_diagnosis, find_run
from stresstest.errors import UsageError
from stresstest.features.export.answers import AskedPrompt, ExportedAnswer, LeftOutAnswer
from stresstest.features.export.pairing import (
    PreferencePair,
    at_most_per_prompt,
    distinct,
    is_held_out,
    pair_answers,
    with_known_prompts,
)
from stresstest.features.export.recorded_answers import REQUEST_KEYS, recorded_answer
from stresstest.features.export.stored_answers import fork_link, forked_pairs, run_answers
from stresstest.model import CauseLink, Decoding, Run
from stresstest.records import FieldMapping, expand_names, names_records
from stresstest.scanning.job import ScanJob
from stresstest.scanning.scan import extract_with_verdicts
from stresstest.scanning.scan_state import RecordProgress
from stresstest.store.repository import Store


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is exported.

    sources, chosen_from: run ids, "latest" or files; healthy answers of `chosen_from` may stand beside
    degenerate ones of any decoding. copies: kept of what repeats, from the onset on. held_out: share of the
    prompts. per_prompt: most pairs of a prompt (most answers of a label, for KTO). strings: no messages.
    at_onset: pairs of forks of a diagnosis, in place of whole answers.
    """

    sources: tuple[str, ...]
    chosen_from: tuple[str, ...] = ()
    copies: int = 3
    held_out: float = 0.2
    per_prompt: int = 4
    strings: bool = False
    at_onset: bool = False
    language: str | None = None
    mapped: FieldMapping = field(default_factory=FieldMapping)


@dataclass(frozen=True, slots=True)
class ExportedSet:
    """What can be trained on, and what is held out.

    pairs, answers: of the training part, one of the two filled in (DPO, KTO). held_out: prompts for `check`.
    unpaired: prompts of the training part with a degenerate answer and no healthy one beside it.
    left_out: reason → answers. degenerate, healthy: usable answers read. repeated: those with the text of an
    earlier one. without_forks: runs without stored forks, where these were asked for. runs: that were read.
    cleared_by: the decoding that a stored diagnosis found to clear the first failure.
    """

    pairs: tuple[PreferencePair, ...] = ()
    answers: tuple[ExportedAnswer, ...] = ()
    held_out: tuple[AskedPrompt, ...] = ()
    unpaired: tuple[AskedPrompt, ...] = ()
    left_out: Counter[str] = field(default_factory=Counter)
    degenerate: int = 0
    healthy: int = 0
    repeated: int = 0
    train_prompts: int = 0
    without_forks: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    cleared_by: Decoding | None = None

    @property
    def examples(self) -> list[ExportedAnswer]:
        """The answers that are written, those of pairs on their two sides."""
        return [*self.answers, *(a for pair in self.pairs for a in (pair.chosen, pair.rejected))]


def export_dpo(options: ExportOptions, store: Store, listener: RecordProgress) -> ExportedSet:
    """Preference pairs. Raises UsageError for sources that cannot be used."""
    if options.at_onset:
        return _export_forks(options, store)
    read = _AnswerReader(options, store, listener)
    own = read.answers(options.sources)
    further = read.answers([each for each in options.chosen_from if each not in options.sources])
    known = with_known_prompts([*own, *further])
    kept = _of_one_format(distinct(known[: len(own)]), options)
    others = distinct(known[len(own) :])
    mixed = kept if set(options.chosen_from) & set(options.sources) else ()
    elsewhere = _training([*others, *mixed], options)
    pairs = pair_answers(_training(kept, options), elsewhere, options.per_prompt)
    paired = {pair.rejected.prompt.key for pair in pairs}
    failing = {a.prompt.key: a.prompt for a in _training(kept, options) if a.degenerate}
    return read.finish(
        [*kept, *others],
        repeated=len(known) - len(kept) - len(others),
        pairs=tuple(pairs),
        unpaired=tuple(prompt for key, prompt in failing.items() if key not in paired),
    )


def export_kto(options: ExportOptions, store: Store, listener: RecordProgress) -> ExportedSet:
    """Single answers with a label. Raises UsageError for sources that cannot be used."""
    read = _AnswerReader(options, store, listener)
    known = with_known_prompts(read.answers(options.sources))
    kept = _of_one_format(distinct(known), options)
    answers = at_most_per_prompt(_training(kept, options), options.per_prompt)
    return read.finish(kept, repeated=len(known) - len(kept), answers=tuple(answers))


def _export_forks(options: ExportOptions, store: Store) -> ExportedSet:
    """Pairs that continue one fork of a diagnosis."""
    pairs: list[PreferencePair] = []
    left_out: Counter[str] = Counter()
    runs = [find_run(store, reference) for reference in options.sources]
    for run in runs:
        for found in forked_pairs(store, run, options.copies):
            if isinstance(found, LeftOutAnswer):
                left_out[found.reason] += 1
            else:
                pairs.append(found)
    prompts = {pair.rejected.prompt.key: pair.rejected.prompt for pair in pairs}
    held = {key for key, prompt in prompts.items() if is_held_out(prompt, options.held_out)}
    train = [pair for pair in pairs if pair.rejected.prompt.key not in held]
    _of_one_format([pair.rejected for pair in train], options)
    return ExportedSet(
        pairs=tuple(train),
        held_out=tuple(prompts[key] for key in prompts if key in held),
        left_out=left_out,
        degenerate=len(pairs),
        healthy=len(pairs),
        train_prompts=len(prompts) - len(held),
        without_forks=tuple(run.id for run in runs if fork_link(store, run) is None),
        runs=tuple(runs),
    )


class _AnswerReader:
    """Reads the answers of several sources and remembers what was left out."""

    def __init__(self, options: ExportOptions, store: Store, listener: RecordProgress) -> None:
        self.options, self._store, self._listener = options, store, listener
        self.left_out: Counter[str] = Counter()
        self.runs: list[Run] = []
        self._shared: dict[Hashable, Any] = {}

    def answers(self, references: Sequence[str]) -> list[ExportedAnswer]:
        """The answers of runs and files in the order of the references; each source once.

        They share what is equal: a log repeats prompts that may be as long as a book.
        """
        found: list[ExportedAnswer] = []
        for reference in dict.fromkeys(references):
            for answer in self._read(reference):
                if isinstance(answer, LeftOutAnswer):
                    self.left_out[answer.reason] += 1
                else:
                    shared = {
                        name: self._shared.setdefault(value := getattr(answer, name), value)
                        for name in ("source", "prompt", "subject", "decoding")
                    }
                    found.append(replace(answer, **shared))
        return found

    def _read(self, reference: str) -> Iterable[ExportedAnswer | LeftOutAnswer]:
        options = self.options
        if not names_records(reference):
            run = find_run(self._store, reference)
            self.runs.append(run)
            return run_answers(self._store, run, options.copies)
        job = ScanJob(mapped=FieldMapping(options.mapped.fields, REQUEST_KEYS), language=options.language)
        extract = partial(recorded_answer, copies=options.copies, strings=options.strings)
        return extract_with_verdicts(expand_names([reference]), job, extract, self._listener)

    def finish(
        self,
        kept: Sequence[ExportedAnswer],
        *,
        repeated: int,
        pairs: tuple[PreferencePair, ...] = (),
        answers: tuple[ExportedAnswer, ...] = (),
        unpaired: tuple[AskedPrompt, ...] = (),
    ) -> ExportedSet:
        """What was found, with the prompts of all answers split."""
        prompts = {answer.prompt.key: answer.prompt for answer in kept}
        held = [each for each in prompts.values() if is_held_out(each, self.options.held_out)]
        self.left_out.update(answer.flaw for answer in kept if answer.flaw)
        return ExportedSet(
            pairs=pairs,
            answers=answers,
            held_out=tuple(held),
            unpaired=unpaired,
            left_out=self.left_out,
            degenerate=sum(answer.degenerate for answer in kept),
            healthy=sum(answer.healthy for answer in kept),
            repeated=repeated,
            train_prompts=len(prompts) - len(held),
            runs=tuple(self.runs),
            cleared_by=self._cleared_by(),
        )

    def _cleared_by(self) -> Decoding | None:
        links = [link for run in self.runs for link in _chain(self._store, run)]
        return next((link.cleared_decoding for link in links if link.cleared_decoding is not None), None)


def _chain(store: Store, run: Run) -> Sequence[CauseLink]:
    found = find_diagnosis(store, run)
    return () if found is None else found.chain


def _training(answers: Iterable[ExportedAnswer], options: ExportOptions) -> list[ExportedAnswer]:
    return [answer for answer in answers if not is_held_out(answer.prompt, options.held_out)]


def _of_one_format(answers: Sequence[ExportedAnswer], options: ExportOptions) -> Sequence[ExportedAnswer]:
    """The answers. Raises UsageError for prompts of both kinds, and for messages where strings are wanted."""
    texts = {answer.prompt.text is not None for answer in answers}
    if len(texts) > 1:
        raise UsageError("Some prompts are messages and others plain texts: TRL takes one kind in a file.")
    if options.strings and texts == {False}:
        raise UsageError(
            "--strings is for prompts that are plain texts; these are messages, whose roles would be lost.",
            hint="Leave --strings out: TRL applies the model's chat template to messages.",
        )
    return answers
