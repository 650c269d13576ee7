"""Objections to a pass: most of them on recorded outputs, which were not planned as a sample."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from stresstest.errors import UsageError
from stresstest.features.check.sides.sample import MAX_NAMED, CheckSample
from stresstest.model.model_names import is_other_model
from stresstest.model.percent import percent
from stresstest.model.server import PROVIDER
from stresstest.statistics.assessment import CheckRule
from stresstest.statistics.comparison import lower_bound
from stresstest.statistics.findings import LeftAsideOutputs, assess_left_aside, count_repeated
from stresstest.statistics.replays import replays
from stresstest.statistics.sample import are_mostly_answerless, count_answerless


@dataclass(frozen=True, slots=True)
class RecordedReservations:
    """Objections to a pass on recorded outputs.

    healthy: the candidate's answers that reach T in health. same: those of them that are word for word the
    baseline's.
    """

    left_aside: LeftAsideOutputs | None = None
    same: int = 0
    healthy: int = 0

    @property
    def mostly_same(self) -> bool:
        return 2 * self.same > self.healthy

    def pass_objection(self, rule: CheckRule) -> str | None:
        """Why a pass is not believed: the outputs left aside fail, or the sample is the baseline's own."""
        aside = self.left_aside
        if aside is not None and aside.lower is not None and aside.lower > rule.alpha:
            return (
                f"the first output of every prompt passes, but of {aside.outputs} further outputs of "
                f"the same prompts, which are not part of the sample, {aside.failed} of "
                f"{aside.at_risk} at risk for T = {rule.tokens:,} {rule.unit} degenerate: certainly "
                f"more than {percent(rule.alpha, 1)}"
            )
        if self.mostly_same:
            return (
                f"{self.same} of the candidate's {self.healthy} healthy answers that reach T = "
                f"{rule.tokens:,} {rule.unit} are identical to the baseline's: the sample that "
                f"determined T cannot test it"
            )
        return None


def refuse_same_file(before: Collection[str], after: Collection[str]) -> None:
    """UsageError where one file, or a copy of it, is on both sides: a run against itself is refused too."""
    for one in before:
        for other in after:
            if _same_file(Path(one), Path(other)):
                how = "is on both sides" if one == other else f"has the same content as {one}"
                raise UsageError(
                    f"{other} {how}: its sample determined T and cannot test it.",
                    hint="Record the candidate's own outputs.",
                )


def _same_file(one: Path, other: Path) -> bool:
    try:
        if one.samefile(other):
            return True
        sizes = one.stat().st_size, other.stat().st_size
        return sizes[0] == sizes[1] > 0 and _content_hash(one) == _content_hash(other)
    except OSError:  # stdin, or a file that is gone since it was read
        return False


def _content_hash(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").digest()


def find_reservations(baseline: CheckSample, candidate: CheckSample, rule: CheckRule) -> RecordedReservations:
    """Those of a recorded candidate; none of a run, whose every prompt was planned."""
    if not candidate.files:
        return RecordedReservations()
    aside = assess_left_aside(rule.tokens, candidate.further, rule.confidence)
    if not baseline.files:
        return RecordedReservations(aside)
    known = (*baseline.observations, *baseline.further)
    return RecordedReservations(aside, *count_repeated(rule.tokens, known, candidate.observations))


def count_unanswered(baseline: CheckSample, candidate: CheckSample) -> tuple[int, bool]:
    """Prompts of recorded baseline answers without one by the candidate; whether they may have failed.

    They may where most have an answer: a line that was never written is no better than an empty one. Where
    few have, `few_answers_objection` stands against a pass.
    """
    known, answered = baseline.by_prompt.keys(), candidate.by_prompt.keys()
    both = baseline.files and candidate.files and baseline.complete and candidate.complete
    if not both or not known & answered:
        return 0, False
    return len(known - answered), 2 * len(known & answered) >= len(known)


def few_answers_objection(baseline: CheckSample, candidate: CheckSample) -> str | None:
    """Why a part of the baseline's prompts decides no pass: those that fail may be the ones left out."""
    missing, doubted = count_unanswered(baseline, candidate)
    if not missing or doubted:
        return None
    known = len(baseline.by_prompt)
    return (
        f"the candidate answers {known - missing} of the baseline's {known} prompts, fewer than half, and "
        f"those that it leaves out may fail. If it was not asked them, remove them from the baseline's file"
    )


def foreign_language_objection(baseline: CheckSample, candidate: CheckSample, rule: CheckRule) -> str | None:
    """Why answers in languages that are rare in the baseline decide no pass: each is judged in its own.

    Where --lang or the records say the language, such answers are language drift instead.
    """
    before = baseline.languages or ({baseline.subject.language: 1} if baseline.subject.language else {})
    known, answers = sum(before.values()), sum(candidate.languages.values())
    if not known or not answers:
        return None
    rare = {name for name in candidate.languages if before.get(name, 0) <= rule.alpha * known}
    moved = sum(candidate.languages[name] for name in rare)
    usual = sum(before.get(name, 0) for name in rare) / known
    if lower_bound(moved, answers, rule.confidence) <= rule.alpha + usual:
        return None
    return (
        f"{moved} of the candidate's {answers} answers are in languages that are rare in the baseline "
        f"({', '.join(sorted(rare)[:MAX_NAMED])}), and were judged in these. To count them as language "
        f"drift: --lang"
    )


def reservation_notes(
    baseline: CheckSample, candidate: CheckSample, found: RecordedReservations
) -> list[str]:
    """What a reader must know of the two sides, whatever the verdict."""
    notes = [other_server] if (other_server := provider_note(baseline, candidate)) else []
    if candidate.unread or candidate.lost:
        notes.append(
            "Lines without an answer, or whose answer the service gave up, may have failed. For a pass "
            "they count as failed."
        )
    missing, doubted = count_unanswered(baseline, candidate)
    if missing:
        notes.append(
            f"{missing} of the baseline's {len(baseline.by_prompt)} prompts have no answer in the candidate."
            + (" For a pass they count as failed." if doubted else "")
        )
    if (
        baseline.by_prompt
        and candidate.by_prompt
        and not baseline.by_prompt.keys() & candidate.by_prompt.keys()
    ):
        notes.append(
            "The two sides have no prompt in common: the candidate is judged on other questions than the "
            "baseline, and answers that it leaves out cannot be seen."
        )
    if found.same and not found.mostly_same:
        notes.append(
            f"{found.same} of the candidate's {found.healthy} healthy answers that reach T are "
            f"identical to the baseline's."
        )
    if baseline.further:
        notes.append(
            f"{len(baseline.further)} further outputs of the baseline for the same prompts are not "
            f"used: T is based on the first output of each prompt."
        )
    return notes


def replayed_objection(baseline: CheckSample, candidate: CheckSample) -> str | None:
    """Why a sample that holds the baseline's own answers decides nothing."""
    again = len(replays(candidate.certifying, baseline.certifying))
    if not again:
        return None
    return (
        f"{again} of the candidate's {len(candidate.certifying)} answers are the baseline's own again, by "
        "id and text: a cache in front of the server gave them. Ask the server itself, or send seeds"
    )


def provider_note(baseline: CheckSample, candidate: CheckSample) -> str | None:
    """That a gateway has answered with another server than before."""
    before, now = (
        {g.fingerprint for g in side.certifying if (g.fingerprint or "").startswith(PROVIDER)}
        for side in (baseline, candidate)
    )
    if not before or not now - before:
        return None
    names = (" and ".join(sorted(filter(None, each))[:MAX_NAMED]) for each in (now, before))
    return "The candidate's streams name the {}, and the baseline's the {}: another server answers.".format(
        *names
    )


def answerless_objection(candidate: CheckSample) -> str | None:
    """Why answers that were never seen decide nothing."""
    if not are_mostly_answerless(candidate.certifying):
        return None
    return (
        f"{count_answerless(candidate.certifying)} of the candidate's {len(candidate.certifying)} answers "
        f"were cut within their reasoning: language and structure of these answers were not seen. Perhaps "
        f"the server's parser takes the answers for reasoning"
    )


def other_model_objection(baseline: CheckSample, candidate: CheckSample) -> str | None:
    """Why answers that are not of the candidate's model, by the names in their streams, decide nothing: some
    name another one where the baseline's name their own, or all the same one for two models. Of recorded
    outputs nobody knows what was asked."""
    if baseline.run is None or candidate.run is None:
        return None
    asked, before = candidate.subject.model, baseline.subject.model
    named, named_before = _named_models(candidate), _named_models(baseline)
    foreign = {name for name in named if is_other_model(asked, name)}
    is_alias = named_before and all(is_other_model(before, each) for each in named_before)
    if asked == before:
        foreign -= named_before
    # A folder (KServe's /mnt/models) names no model.
    is_same = asked != before and named == (named_before or {before}) and not any(map(_is_folder, named))
    if not (is_same or (foreign and not is_alias)):
        return None
    others = " and ".join(sorted(foreign or named)[:MAX_NAMED])
    return (
        f"the candidate's streams name the model {others}, not {asked}: a gateway answers with another model "
        f"than was asked"
    )


def _is_folder(name: str) -> bool:
    return name.startswith("/")


def _named_models(sample: CheckSample) -> set[str]:
    return {g.answered_by for g in sample.certifying if g.answered_by is not None}
