"""Which interventions are declared, and what their outcomes decide."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.diagnosis.intervention.arms import (
    ALONE,
    BOTH,
    CONTEXT,
    UNCHANGED,
    control_arms,
    declare_arms,
    decoding_arms,
    with_constraint,
)
from stresstest.diagnosis.intervention.chain import PlaneDecision, decide_plane, likeliest_decoding
from stresstest.diagnosis.intervention.forks import Fork
from stresstest.diagnosis.intervention.outcome import (
    CONTROL_FORKS,
    ArmOutcome,
    ForkOutcome,
    arm_result,
    assess_continuation,
    can_clear,
    choose_control,
    seems_to_clear,
)
from stresstest.diagnosis.intervention.wording import link_sentence
from stresstest.model import Arm, Basis, CauseLink, Decoding, Plane, SymptomKind
from tests.support.generations import make, make_job

LOOP, DRIFT = SymptomKind.LOOP, SymptomKind.LANGUAGE_DRIFT
ALL = tuple(Plane)
CONSTRAINT = "Solo in italiano."


def declared(decoding: Decoding | None = None, *, concurrency: int = 8) -> list[Arm]:
    return declare_arms(decoding or Decoding(), constraint=CONSTRAINT, concurrency=concurrency, planes=ALL)


def outcome(arm: Arm, failing: int, of: int = 24, *, symptom: SymptomKind = LOOP) -> ArmOutcome:
    """`failing` of `of` forks fail, and all of the control."""
    return ArmOutcome(arm, answered(failing, of, symptom), controls=[control(CONTROL_FORKS)])


def answered(failing: int, of: int, symptom: SymptomKind = LOOP) -> dict[str, ForkOutcome]:
    bad, good = ForkOutcome(True, 500, symptom), ForkOutcome(False, None, None)
    return {f"1/{i}": bad if i < failing else good for i in range(of)}


def control(failing: int) -> ArmOutcome:
    return ArmOutcome(declared()[0], answered(failing, CONTROL_FORKS))


def outcomes(**failing: int | tuple[int, SymptomKind]) -> dict[str, ArmOutcome]:
    """Outcomes by arm name (- written as _); those not named are left out."""
    arms = {arm.name.replace("-", "_").replace(".", "_"): arm for arm in declared()}
    found = {}
    for name, value in failing.items():
        count, symptom = value if isinstance(value, tuple) else (value, LOOP)
        found[arms[name].name] = outcome(arms[name], count, symptom=symptom)
    return found


def decided(**failing: int | tuple[int, SymptomKind]) -> PlaneDecision:
    return decide_plane(outcomes(**failing), arms=len(declared()) - 1, forks=24)


@pytest.mark.parametrize("arm", ["penalty_1_1", "last_units", "alone"])
@pytest.mark.parametrize(("failing", "confirmed"), [([0], False), ([3], False), ([4], True), ([8, 3], False)])
def test_a_failure_that_went_away_by_itself_is_not_cleared(
    arm: str, failing: list[int], confirmed: bool
) -> None:
    """The load of others ended while a diagnosis ran: a penalty was confirmed that changed nothing. With two
    looks, the failure must have been there at each."""
    found = outcomes(unchanged=24, **{arm: 0})
    changed = list(found.values())[-1]
    changed.controls = [control(n) for n in failing]
    decision = decide_plane(found, arms=10, forks=24)
    assert (decision.plane is not None) is confirmed
    assert ("something else has changed" in (decision.lacking or "")) is not confirmed
    assert arm_result(changed, found[UNCHANGED], 10).clears is confirmed


def controlled(arm: Arm, *failing: int, default: float | None = None) -> list[ArmOutcome]:
    """The controls of an arm's look, each with the number of its eight forks that failed again."""
    arms = control_arms(declared()[0], arm, 1, default)
    return [replace(control(n), arm=each) for n, each in zip(failing, arms, strict=True)]


def test_a_change_of_the_prompt_is_controlled_by_another_prompt() -> None:
    """One of eight replicas was broken, behind a router that binds prompts to replicas: "caused by decoding:
    it goes away with the language asked for", which only led to another replica."""
    unchanged, *others = declared()
    for arm in others:
        same, *shams = control_arms(unchanged, arm, 1)
        assert same == replace(unchanged, name=f"{arm.name}-control-1")
        changes = arm.truncated or arm.decoding.system_prompt != unchanged.decoding.system_prompt
        sent = arm.decoding.repetition_penalty is not None
        assert len(shams) == (changes or sent)
        for sham in shams:
            assert sham.decoding.system_prompt == unchanged.decoding.system_prompt
            assert (sham.name, sham.plane, sham.sham) == (f"{arm.name}-sham-1", None, changes)
            assert not sham.truncated
    constraint = next(arm for arm in others if arm.name == "constraint")
    found = outcomes(unchanged=24, constraint=0)
    changed = found["constraint"]
    changed.controls = controlled(constraint, 8, 0)
    decision = decide_plane(found, arms=10, forks=24)
    assert decision.plane is None
    assert (
        "continued with a change of the prompt that should have no effect, at the same time, none of 8"
        in str(decision.lacking)
    )
    assert "another server" in str(decision.lacking)
    result = arm_result(changed, found[UNCHANGED], 10)
    assert result.control == "unchanged or with a change of the prompt that should have no effect"
    assert (result.control_failed, result.control_n) == (8, 16)


@pytest.mark.parametrize("name", ["penalty-1.05", "constraint", CONTEXT])
def test_a_sham_that_fails_does_not_show_that_the_failure_is_still_there(name: str) -> None:
    """A server's own penalty of 1.1 was not known, so that the control's 1 made the answers loop, while the
    failure of the run had gone away with other clients' load: "caused by decoding; confirmed"."""
    found = outcomes(unchanged=24, **{name.replace("-", "_").replace(".", "_"): 0})
    changed = next(outcome for outcome in found.values() if outcome.arm.name == name)
    changed.controls = controlled(changed.arm, 0, 8)
    decision = decide_plane(found, arms=10, forks=24)
    assert decision.plane is None
    assert "continued unchanged, at the same time, none of 8 failed again" in str(decision.lacking)
    assert "something else has changed" in str(decision.lacking)
    changed.controls = controlled(changed.arm, 6, 8)
    assert decide_plane(found, arms=10, forks=24).plane is changed.arm.plane


@pytest.mark.parametrize(
    ("own", "default", "sent"), [(None, None, 1.0), (None, 1.05, 1.05), (1.1, None, None)]
)
def test_a_field_that_an_arm_sends_is_sent_by_its_control(
    own: float | None, default: float | None, sent: float | None
) -> None:
    """A gateway sends requests with a penalty to the providers that take one: the value in force, when sent,
    is what the run had. A run that sends one itself needs no such control."""
    unchanged = declared()[0]
    unchanged = replace(unchanged, decoding=replace(unchanged.decoding, repetition_penalty=own))
    changed = replace(unchanged, name="p", decoding=replace(unchanged.decoding, repetition_penalty=1.2))
    same, *shams = control_arms(unchanged, changed, 1, default)
    assert same.decoding == unchanged.decoding
    assert [sham.decoding for sham in shams] == [
        replace(unchanged.decoding, repetition_penalty=value) for value in (sent,) if value is not None
    ]


@pytest.mark.parametrize(("default", "named"), [(None, True), (1.05, False)])
def test_a_default_penalty_that_nobody_knows_may_be_the_cause(default: float | None, named: bool) -> None:
    """A server whose own penalty of 1.2 causes the drift: the control sends 1, which heals, and the sentence
    put that down to the load or to a router alone."""
    found = outcomes(unchanged=24, penalty_1_05=0)
    changed = found["penalty-1.05"]
    changed.controls = controlled(changed.arm, 8, 0, default=default)
    lacking = str(decide_plane(found, arms=10, forks=24).lacking)
    assert ("this server's own default is another penalty and causes the failure" in lacking) is named
    assert ("(--repetition-penalty 1)" in lacking) is named
    assert "none of 8 failed again" in lacking
    changed.controls = controlled(changed.arm, 8, 8, default=default)
    confirmed = decide_plane(found, arms=10, forks=24)
    assert (confirmed.plane, confirmed.basis) == (Plane.DECODING, Basis.CONFIRMED)
    assert ("The server does not report its default repetition_penalty" in str(confirmed.note)) is named


def test_an_arm_without_a_control_clears_nothing() -> None:
    """All of its control was lost to service failures."""
    for arm in ("penalty_1_1", "alone"):
        found = outcomes(unchanged=24, **{arm: 0})
        list(found.values())[-1].controls = []
        assert "no answer came back" in (decide_plane(found, arms=10, forks=24).lacking or "")


def test_the_control_is_of_forks_that_failed_again() -> None:
    """What did not fail again unchanged could not show that the failure is still there."""
    unchanged = ArmOutcome(declared()[0], {f"1/{i}": ForkOutcome(i % 2 == 1, 500, LOOP) for i in range(24)})
    chosen = choose_control(forks(), unchanged)
    assert [fork.key for fork in chosen] == [f"1/{i}" for i in range(1, 16, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("left", [0.0, 0.1, 0.2, 0.3])
def test_simulated_error_where_the_failure_goes_away_by_itself(left: float) -> None:
    """After the unchanged forks, failures become as rare as `left`: at most 2 % of the diagnoses confirm an
    arm that changes nothing."""
    rng = random.Random(5)
    arms = declared()
    named = 0
    for _ in range(400):
        found = {arms[0].name: outcome(arms[0], 24)}
        for arm in arms[2:]:
            found[arm.name] = ArmOutcome(
                arm, {f"1/{i}": ForkOutcome(rng.random() < left, 500, LOOP) for i in range(24)}
            )
            found[arm.name].controls = [control(sum(rng.random() < left for _ in range(CONTROL_FORKS)))]
            if seems_to_clear(found[arm.name], found[UNCHANGED], len(arms) - 1):
                break
        named += decide_plane(found, arms=len(arms) - 1, forks=24).plane is not None
    assert named <= 8


def test_penalties_come_nearest_first_and_never_the_runs_own() -> None:
    """The smallest change that clears is found first, whatever the run began with."""
    names = [arm.name for arm in decoding_arms(Decoding(), None)]
    assert names == ["penalty-1.05", "penalty-1.1", "penalty-1.15", "penalty-1.2", "temperature-0.7"]
    high = [arm.name for arm in decoding_arms(Decoding(repetition_penalty=1.2), None)]
    assert high[:4] == ["penalty-1.15", "penalty-1.1", "penalty-1.05", "penalty-1"]
    assert [a.name for a in decoding_arms(Decoding(temperature=0.7), None)][-1] == "temperature-0.3"
    # The model's generation_config.json says 1.1, and nothing is sent: 1.1 is what fails already.
    default = declare_arms(Decoding(), constraint=None, concurrency=1, planes=(Plane.DECODING,), penalty=1.1)
    assert [arm.name for arm in default][1:5] == ["penalty-1.15", "penalty-1.05", "penalty-1.2", "penalty-1"]


def test_only_one_thing_changes_in_an_arm() -> None:
    """Everything that an arm does not name stays as the run had it, seed and system prompt included."""
    own = Decoding(temperature=1.3, top_k=40, system_prompt="Sei uno scrittore.")
    penalty = next(a for a in decoding_arms(own, CONSTRAINT) if a.name == "penalty-1.1")
    assert penalty.decoding == replace(own, repetition_penalty=1.1)
    demanded = with_constraint(own, CONSTRAINT)
    assert demanded is not None
    assert demanded.system_prompt == f"Sei uno scrittore.\n{CONSTRAINT}"
    assert with_constraint(demanded, CONSTRAINT) is None


def test_alone_is_declared_only_where_there_was_load() -> None:
    """A run of one request at a time has nothing to compare with; fewer declared arms, a wider bound."""
    assert ALONE in {arm.name for arm in declared()}
    assert ALONE not in {arm.name for arm in declared(concurrency=1)}
    only = declare_arms(Decoding(), constraint=None, concurrency=8, planes=(Plane.CONTEXT,))
    assert [arm.name for arm in only] == [UNCHANGED, CONTEXT]


def test_the_first_plane_that_clears_is_named() -> None:
    """System before decoding before context, each by its own arm."""
    assert decided(unchanged=24, alone=0).plane is Plane.SYSTEM
    found = decided(unchanged=24, alone=4, penalty_1_05=20, penalty_1_1=1)
    assert (found.plane, found.basis) == (Plane.DECODING, Basis.CONFIRMED)
    assert found.arm is not None
    assert found.arm.name == "penalty-1.1"
    assert decided(unchanged=24, alone=4, penalty_1_1=8, last_units=2).plane is Plane.CONTEXT


def test_another_symptom_clears_nothing() -> None:
    """Failures are all-cause: a constraint that turns drift into broken structure has healed nobody."""
    found = decided(unchanged=(24, DRIFT), constraint=(24, SymptomKind.STRUCTURE_BREAK), last_units=20)
    assert found.plane is None
    assert found.lacking is not None


def test_failures_that_do_not_come_again_are_inconclusive_with_the_n_that_is_lacking() -> None:
    """Under half of the unchanged forks fail again: nothing to clear, and how many prompts it takes."""
    found = decided(unchanged=8)
    assert found.plane is None
    assert found.lacking is not None
    assert "8 of 24" in found.lacking
    assert "45 failing prompts would be needed to decide, but a diagnosis tests at most 24" in found.lacking
    more_than_half = decided(unchanged=14)
    assert more_than_half.lacking is not None
    assert "14 of 24" in more_than_half.lacking
    assert "26 failing prompts" in more_than_half.lacking
    few = decide_plane({}, arms=9, forks=5)
    assert few.lacking == "15 failing prompts are needed, 5 are there"


def test_two_failures_close_together_are_told_by_both_changes() -> None:
    """Neither heals alone; the one whose symptom strikes first, proven in the other's background, leads."""
    found = outcomes(
        unchanged=(24, LOOP), penalty_1_15=(22, DRIFT), last_units=(24, LOOP), decoding_and_context=0
    )
    both = found[BOTH]
    changed = replace(both.arm, decoding=found["penalty-1.15"].arm.decoding)
    found[BOTH] = ArmOutcome(changed, both.answers, controls=both.controls)
    decision = decide_plane(found, arms=10, forks=24)
    assert decision.plane is Plane.DECODING
    assert decision.note is not None
    assert "only in combination" in decision.note
    found["penalty-1.15"] = outcomes(penalty_1_15=(4, DRIFT))["penalty-1.15"]
    single = decide_plane(found, arms=10, forks=24)
    assert (single.plane, single.arm) == (Plane.DECODING, found["penalty-1.15"].arm)
    assert single.note == (
        f"Shown together with {found[CONTEXT].arm.changed}; with repetition_penalty 1.15 alone, 4 of 24 fail."
    )
    found["penalty-1.15"] = outcomes(penalty_1_15=(22, DRIFT))["penalty-1.15"]
    chosen = likeliest_decoding(found)
    assert chosen is not None
    assert chosen.arm.name == "penalty-1.15"
    found[BOTH].controls = [control(1)]
    assert "something else has changed" in (decide_plane(found, arms=10, forks=24).lacking or "")


def test_what_fails_in_every_decoding_alike_needs_no_second_background() -> None:
    """No decoding changes the symptom: the arm with both changes is not sent."""
    assert likeliest_decoding(outcomes(unchanged=24, penalty_1_05=20, penalty_1_1=24)) is None


def forks(n: int = 24) -> list[Fork]:
    return [Fork(make(make_job(index=i), 900, 500), 400, 300, 500, 750) for i in range(n)]


@given(st.lists(st.booleans(), min_size=24, max_size=24), st.integers(0, 24))
def test_stopping_early_never_changes_the_answer(fails: list[bool], seen: int) -> None:
    """An arm that is given up would not have cleared, whatever its remaining forks had said."""
    arms = declared()
    unchanged = outcome(arms[0], 24)
    whole = ArmOutcome(arms[2], {f"1/{i}": ForkOutcome(bad, None, None) for i, bad in enumerate(fails)})
    part = ArmOutcome(arms[2], dict(list(whole.answers.items())[:seen]))
    if not can_clear(part, unchanged, forks(), len(arms) - 1):
        assert not seems_to_clear(whole, unchanged, len(arms) - 1)


def test_simulated_error_of_the_rule() -> None:
    """Arms that change nothing (failures come again at 70 %): none of 400 diagnoses names a plane."""
    rng = random.Random(3)
    arms = declared()
    named = 0
    for _ in range(400):
        found = {
            arm.name: ArmOutcome(
                arm,
                {f"1/{i}": ForkOutcome(rng.random() < 0.7, 500, LOOP) for i in range(24)},
                controls=[control(CONTROL_FORKS)],
            )
            for arm in arms
        }
        named += decide_plane(found, arms=len(arms) - 1, forks=24).plane is not None
    assert named == 0


def test_the_sentence_of_a_link() -> None:
    """What fails, where, why, and what shows it, in words that can be read once."""
    by = "repetition_penalty 1.15"
    link = CauseLink("r", Plane.DECODING, Basis.CONFIRMED, LOOP, 903.0, 24, "", cleared_by=by)
    assert link_sentence(link) == (
        "loop from about token 900 (median of the tested answers), "
        "caused by decoding; confirmed: it goes away with "
        "repetition_penalty 1.15"
    )
    unchanged = arm_result(outcomes(unchanged=(24, DRIFT))[UNCHANGED], outcomes(unchanged=24)[UNCHANGED], 9)
    swapped = outcomes(unchanged=24, constraint=(24, SymptomKind.STRUCTURE_BREAK))
    arm = arm_result(swapped["constraint"], swapped[UNCHANGED], 9)
    drift = CauseLink("r", Plane.CONTEXT, Basis.CONFIRMED, DRIFT, 5312.0, 24, "", arms=(unchanged, arm))
    assert link_sentence(drift) == (
        "language drift from about token 5,300 (median of the tested answers), "
        "caused by the context; confirmed. Asking for the language in "
        "the system prompt does not help: the answers then fail by structure break, "
        "at about the same token"
    )


@pytest.mark.parametrize("n", [0, 14])
def test_too_few_failing_prompts_decide_nothing(n: int) -> None:
    """Below the n at which an arm that heals all could clear, no arm is even asked."""
    assert decide_plane({}, arms=9, forks=n).plane is None


def test_an_answer_that_ends_before_the_failure_proves_nothing() -> None:
    """A penalty may make a model end early, in good order: it never got to the place, so it is not healed.
    Ended with all the units asked for, or behind the place, it is."""
    fork = Fork(make(make_job(), 900, 500), 400, 300, 500, 750, units_before=4)
    short = make(make_job(), 60, units=5)
    assert assess_continuation(fork, short).short
    assert not assess_continuation(fork, make(make_job(), 60, units=5, finish="length")).short
    assert not assess_continuation(fork, make(make_job(), 60, units=10)).short
    assert not assess_continuation(fork, make(make_job(), 100, units=5)).short
    last_units = make(make_job(), 60, units=6)
    assert assess_continuation(fork, last_units).short
    assert not assess_continuation(fork, last_units, truncated=True).short
    assert assess_continuation(fork, make(make_job(), 60, 30)) == ForkOutcome(True, 430, LOOP)


def test_arms_whose_answers_end_early_do_not_clear_and_that_is_said() -> None:
    """Of 24 answers 20 ended short: the four that tell are too few, whatever they say."""
    found = outcomes(unchanged=24, penalty_1_2=0)
    arm = found["penalty-1.2"]
    arm.answers = {key: replace(answer, short=i < 20) for i, (key, answer) in enumerate(arm.answers.items())}
    row = arm_result(arm, found[UNCHANGED], 10)
    assert (row.n, row.short, row.clears) == (4, 20, False)
    assert not can_clear(arm, found[UNCHANGED], forks(), 10)
    decision = decide_plane(found, arms=10, forks=24)
    assert decision.plane is None
    assert "under repetition_penalty 1.2 most answers end before the place" in (decision.lacking or "")
