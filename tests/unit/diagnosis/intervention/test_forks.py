"""Where failing answers are cut, and up to where a continuation is watched."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stresstest.campaign.execution.continued import (
    alarm_position,
    continuation_verdict,
    occurs_in_continuation,
)
from stresstest.diagnosis.intervention.forks import (
    MAX_FORKS,
    choose_sources,
    cut_fork,
    select_failing,
    unit_start_tokens,
)
from stresstest.model import Generation, GenerationVerdict, Symptom, SymptomKind, Token
from tests.support.generations import make, make_job

PATTERN = r"^Paragrafo (\d+)"


def told(units: int, words: int = 10, *, ids: bool = True) -> list[Token]:
    """Units of a heading of three tokens ("Paragrafo", " 7", ".") and `words` words, then a blank line."""
    tokens: list[str] = []
    for unit in range(1, units + 1):
        tokens += ["Paragrafo", f" {unit}", ".", *[" parola"] * words, "\n\n"]
    return [Token(text, id=i if ids else None) for i, text in enumerate(tokens)]


def generation(
    onset: int,
    *,
    units: int = 20,
    start: int | None = None,
    index: int = 0,
    kind: SymptomKind = SymptomKind.LOOP,
) -> Generation:
    symptom = Symptom(kind, onset, onset + 20, start=start)
    made = make(make_job(index=index), 280, onset, symptom=kind, symptoms=(symptom,))
    return replace(made, tokens=tuple(told(20)))


def test_units_begin_at_their_headings() -> None:
    """1-based tokens, also where the heading follows a line break inside the token before it."""
    assert unit_start_tokens(told(3), PATTERN) == [1, 15, 29]
    joined = [Token("Paragrafo 1. a\n\n"), Token("Paragrafo"), Token(" 2.")]
    assert unit_start_tokens(joined, PATTERN) == [1, 2]
    assert unit_start_tokens([], PATTERN) == []


def test_the_cut_leaves_one_whole_unit_before_the_run() -> None:
    """A loop is cut before the unit ahead of its first copy, not of its onset."""
    looping = cut_fork(generation(150, start=120), PATTERN)
    # Token 120 lies in unit 9 (113 to 126); the unit before it begins at 99.
    assert looping.cut == 98
    drifting = cut_fork(generation(150, kind=SymptomKind.LANGUAGE_DRIFT), PATTERN)
    assert drifting.cut == 126
    assert drifting.history == drifting.source.tokens[:126]


def test_a_failure_in_the_first_units_is_asked_from_the_start() -> None:
    """Nothing healthy to keep: the fork is the prompt alone."""
    assert cut_fork(generation(10), PATTERN).cut == 0
    assert cut_fork(generation(10), PATTERN).kept_history == ()


def test_the_context_arm_keeps_few_units_and_its_window_stays_short_of_the_onset() -> None:
    """Otherwise a limit in the context would strike again inside the window and hide itself."""
    for onset in (60, 100, 150, 200, 270):
        fork = cut_fork(generation(onset, kind=SymptomKind.LANGUAGE_DRIFT), PATTERN)
        kept = len(fork.kept_history)
        assert kept <= max(14, 0.3 * onset)
        assert fork.window >= onset + 64
        watched = fork.window - fork.cut + kept
        assert watched <= max(0.75 * onset, onset + 64 - fork.cut + kept)
        assert fork.window <= max(1.5 * onset + 1, onset + 64)


def test_without_units_the_cut_is_some_sentences_back() -> None:
    """Own prompts have no numbered units: at a sentence about 80 tokens before the run."""
    words = [Token(" parola" if i % 10 else ". E ", id=i) for i in range(400)]
    found = cut_fork(replace(generation(300), tokens=tuple(words)), None)
    assert 200 <= found.cut <= 221


def test_one_fork_a_prompt_in_key_order_and_no_service_failures() -> None:
    """Copies of a prompt are no further witnesses; a stream that was cut did not degenerate."""
    made = [generation(150, index=i) for i in (3, 1, 2, 1)]
    lost = make(make_job(index=9), 50, 40, symptom=SymptomKind.TRUNCATION, lost=True)
    assert [g.job.index for g in select_failing([*made, lost])] == [1, 2, 3]


def test_one_kind_of_failure_at_a_time() -> None:
    """Where repetition has enough prompts of its own, a few drifts do not water its forks down."""
    loops = [generation(150, index=i) for i in range(14)]
    drifts = [generation(150, index=20 + i, kind=SymptomKind.LANGUAGE_DRIFT) for i in range(9)]
    chosen = choose_sources([*loops, *drifts], needed=14)
    assert {source.verdict.symptom for source in chosen} == {SymptomKind.LOOP}
    assert len(choose_sources([*loops, *drifts], needed=20)) == 23
    many = [generation(150, index=i) for i in range(60)]
    assert len(choose_sources(many, needed=14)) == MAX_FORKS


@given(st.integers(1, 280), st.integers(1, 280))
def test_a_fork_never_holds_its_failure(onset: int, start: int) -> None:
    """Whatever the positions: what is kept ends before the run, and the window reaches past the onset."""
    fork = cut_fork(generation(onset, start=min(start, onset)), PATTERN)
    assert 0 <= fork.cut < min(start, onset)
    assert 1 <= fork.kept_from <= fork.cut + 1
    assert fork.window > onset


def symptom(onset: int, alarm: int, *, end: int | None = None, confirmed: bool = True) -> Symptom:
    return Symptom(SymptomKind.LOOP, onset, alarm, end=end, confirmed=confirmed)


def test_what_was_known_within_the_history_does_not_count() -> None:
    """A continuation answers for what it wrote itself, and for a run that it carries on."""
    assert not occurs_in_continuation(symptom(10, 20, end=30), 50)
    assert not occurs_in_continuation(symptom(10, 20), 50)
    assert occurs_in_continuation(symptom(45, 60), 50)
    assert not occurs_in_continuation(symptom(45, 60, end=48), 50)


def test_positions_are_the_continuations_own() -> None:
    """Its first token is 1; an onset that was dated back into the history lies there."""
    found = symptom(45, 60)
    verdict = GenerationVerdict(
        90, 44, onset=45, alarm=60, symptom=SymptomKind.LOOP, symptoms=(symptom(5, 9), found)
    )
    moved = continuation_verdict(verdict, 50)
    assert (moved.tokens, moved.onset, moved.alarm, moved.observed) == (40, 1, 10, 0)
    assert len(moved.symptoms) == 1
    assert alarm_position(verdict, 50) == 60
    assert continuation_verdict(verdict, 0) is verdict


def test_a_symptom_of_the_history_alone_leaves_the_continuation_healthy() -> None:
    """The cut was healthy enough for the run; what the history holds is no failure of the arm."""
    verdict = GenerationVerdict(
        90, 4, onset=5, alarm=9, symptom=SymptomKind.LOOP, symptoms=(symptom(5, 9, end=30),)
    )
    moved = continuation_verdict(verdict, 50)
    assert not moved.degenerate
    assert moved.observed == 40
    assert alarm_position(verdict, 50) is None


def test_an_answer_whose_tokens_share_one_id_is_not_continued_from_it() -> None:
    """Some servers name the same id for every token; a prompt of it would be another conversation."""
    fork = cut_fork(generation(150), PATTERN)
    assert fork.has_ids
    for number in (None, 0):
        tokens = tuple(replace(token, id=number) for token in fork.source.tokens)
        assert not replace(fork, source=replace(fork.source, tokens=tokens)).has_ids
