"""The suspicion that symptom, onset and decoding raise, for the cases an inference engineer knows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from stresstest.diagnosis import annotate_planes, plane_verdict
from stresstest.model import (
    Basis,
    Decoding,
    EndpointProfile,
    Evidence,
    Generation,
    GenerationRecord,
    Phase,
    Plane,
    PlaneVerdict,
    Symptom,
    SymptomKind,
)
from tests.support.generations import make, make_job

PROFILE = EndpointProfile("http://localhost:8000/v1", "lab", max_model_len=16_384)
SYSTEM = Evidence(Plane.SYSTEM, True, "vllm /metrics", "2 preemptions before the onset", 2.0)


def scattered(n: int, kind: SymptomKind, change: float | None = None) -> list[Generation]:
    """Onsets drawn lognormally around 900, prompts of about the same length."""
    rng = random.Random(3)
    return [failure(i, int(rng.lognormvariate(6.8, 0.5)), 60 + i % 4, kind, change) for i in range(n)]


def at_one_place(n: int, kind: SymptomKind, change: float | None = None) -> list[Generation]:
    """Onsets where prompt + onset is 780 give or take 15: a limit in the context."""
    rng = random.Random(4)
    prompts = [40 + 12 * (i % 8) for i in range(n)]
    return [failure(i, 780 - p + rng.randint(-15, 15), p, kind, change) for i, p in enumerate(prompts)]


def failure(index: int, onset: int, prompt: int, kind: SymptomKind, change: float | None) -> Generation:
    shift = () if change is None else (_shift(onset, change),)
    return make(make_job(index=index), onset + 200, onset, symptom=kind, prompt_tokens=prompt, symptoms=shift)


def _shift(onset: int, change: float) -> Symptom:
    detail = {"mean_before": 1.0, "mean_after": 1.0 + change}
    return Symptom(SymptomKind.ENTROPY_SHIFT, onset, onset + 20, confirmed=False, detail=detail)


def judge(
    generations: Sequence[GenerationRecord], decoding: Decoding, profile: EndpointProfile = PROFILE
) -> PlaneVerdict:
    return plane_verdict(generations, decoding, profile)


@pytest.mark.parametrize(
    ("kind", "decoding", "plane"),
    [
        (SymptomKind.LOOP, Decoding(temperature=0.0), Plane.DECODING),
        (SymptomKind.FLOODING, Decoding(temperature=0.2, repetition_penalty=1.0), Plane.DECODING),
        (SymptomKind.LANGUAGE_DRIFT, Decoding(repetition_penalty=1.2), Plane.DECODING),
        (SymptomKind.LANGUAGE_DRIFT, Decoding(temperature=0.7), Plane.CONTEXT),
        (SymptomKind.GIBBERISH, Decoding(temperature=1.6), Plane.DECODING),
        (SymptomKind.STRUCTURE_BREAK, Decoding(temperature=1.8), Plane.DECODING),
    ],
)
def test_scattered_onsets_are_judged_by_symptom_and_decoding(
    kind: SymptomKind, decoding: Decoding, plane: Plane
) -> None:
    """Where onsets come by chance, what degenerated under which decoding gives the suspicion."""
    if plane is Plane.CONTEXT:
        generations = [failure(i, 800 + 40 * (i % 4), 60, kind, None) for i in range(4)]
    else:
        generations = scattered(24, kind)
    verdict = judge(generations, decoding)
    assert (verdict.plane, verdict.basis) == (plane, Basis.OBSERVED)
    assert "(not tested yet)" in verdict.sentence
    assert verdict.advice[0].startswith("To test the cause")


@pytest.mark.parametrize(
    "decoding",
    [
        Decoding(temperature=0.0),
        Decoding(temperature=0.7, repetition_penalty=1.2),
        Decoding(temperature=1.0),
    ],
)
def test_limit_in_the_context_is_suspected_under_every_decoding(decoding: Decoding) -> None:
    """The lab's failure: structure breaks at one place in the context, entropy rises, whatever is sampled."""
    verdict = judge(at_one_place(38, SymptomKind.STRUCTURE_BREAK, 0.3), decoding)
    assert verdict.plane is Plane.CONTEXT
    facts = " | ".join(e.fact for e in verdict.evidence if e.supports)
    assert "the failures lie close together" in facts
    assert "counted from the prompt's start" in facts
    assert "entropy rises in 38 of 38 (median +0.30 nats)" in facts
    assert (
        "All 38 answers of the sample degenerate (structure break); their median onset is at token "
        in verdict.sentence
    )
    assert "; with the prompt, their median onset is at position 775" in verdict.sentence


def test_a_default_that_nobody_knows_is_not_claimed_to_be_none() -> None:
    """vLLM applies generation_config.json where a request says nothing: a known penalty is weighed as one in
    force, an unknown one is said to be unknown and weighs as none."""
    generations = scattered(24, SymptomKind.LOOP)
    unknown = judge(generations, Decoding())
    [fact] = [e.fact for e in unknown.evidence if e.source == "detector:loop"]
    assert fact.endswith("no repetition_penalty sent; the server's own default is not known")
    assert "holds repetition back" not in fact
    penalised = replace(PROFILE, defaults={"repetition_penalty": 1.1})
    known = judge(generations, Decoding(), penalised)
    [against] = [e for e in known.evidence if e.source == "detector:loop"]
    assert not against.supports
    assert "repetition_penalty 1.1 (not sent: the model's generation_config.json)" in against.fact
    bare = judge(generations, Decoding(), replace(PROFILE, defaults={"temperature": 0.7}))
    assert any("none in the model's generation_config.json: nothing in" in e.fact for e in bare.evidence)
    sent = judge(generations, Decoding(repetition_penalty=1.0), penalised)
    assert any("with repetition_penalty 1: nothing in" in e.fact for e in sent.evidence)
    assert unknown.plane is bare.plane is sent.plane is Plane.DECODING


def test_turns_that_the_server_does_not_end_are_the_decodings() -> None:
    """No cap and no penalty is the remedy: the stop tokens are, and there is nothing to be tested."""
    verdict = judge(scattered(8, SymptomKind.EXTRA_TURNS), Decoding())
    assert verdict.plane is Plane.DECODING
    assert "does not stop where the model ends its turn" in verdict.evidence[0].fact
    (advice,) = verdict.advice
    assert "stop tokens" in advice
    assert "diagnose" in " ".join(judge(scattered(8, SymptomKind.LOOP), Decoding()).advice)


def test_evidence_against_is_kept() -> None:
    """Loops under a penalty, scattered: whatever wins, both sides are shown with numbers."""
    verdict = judge(scattered(20, SymptomKind.LOOP), Decoding(temperature=0.0))
    against = [e for e in verdict.evidence if not e.supports]
    assert any("spread out" in e.fact and "of the 20 answers" in e.fact for e in against)
    penalised = judge(scattered(20, SymptomKind.LOOP), Decoding(repetition_penalty=1.1))
    assert any("although penalties are in force" in e.fact for e in penalised.evidence if not e.supports)


def test_onset_near_the_window_is_context() -> None:
    """Loops that begin where the context window ends are a matter of position."""
    small = replace(PROFILE, max_model_len=800)
    verdict = judge(at_one_place(12, SymptomKind.LOOP), Decoding(), small)
    assert verdict.plane is Plane.CONTEXT
    assert any("of the context window (800 tokens)" in e.fact and e.supports for e in verdict.evidence)


def test_system_comes_first() -> None:
    """Half the onsets with system evidence before them: the other planes are masked, not guessed."""
    generations = scattered(10, SymptomKind.LOOP)
    shaken = [replace(g, plane=Plane.SYSTEM, evidence=(SYSTEM,)) for g in generations[:6]]
    verdict = judge([*shaken, *generations[6:]], Decoding())
    assert (verdict.plane, verdict.basis) == (Plane.SYSTEM, Basis.OBSERVED)
    assert "6 of 10 onsets" in verdict.sentence
    assert "4 more degenerated without" in verdict.sentence
    assert verdict.advice == ("To test the cause: stresstest diagnose latest",)


def test_a_few_system_facts_do_not_hide_the_rest() -> None:
    """Two of twenty: the verdict is of the eighteen, and says so of the two."""
    generations = scattered(20, SymptomKind.LOOP)
    shaken = [replace(g, evidence=(SYSTEM,)) for g in generations[:2]]
    verdict = judge([*shaken, *generations[2:]], Decoding())
    assert verdict.plane is Plane.DECODING
    assert any("2 onsets with system evidence, against 18" in e.fact for e in verdict.evidence)


def test_service_failures_alone_are_system() -> None:
    """Nothing degenerated, three were lost: system, by fact."""
    lost = annotate_planes([make(make_job(index=i), 100, lost=True) for i in range(3)], [], PROFILE)
    verdict = judge([*lost, make(make_job(index=9), 500)], Decoding())
    assert verdict.plane is Plane.SYSTEM
    assert verdict.sentence == ("Cause: the system. 3 of 4 answers were lost to service failures (cut 3).")


def test_nothing_failing_has_no_plane() -> None:
    """None, not a plane of convenience; and nothing measured is not health."""
    verdict = judge([make(make_job(index=i), 600) for i in range(5)], Decoding())
    assert (verdict.plane, verdict.basis) == (None, None)
    assert verdict.sentence == "No degeneration seen up to 600 tokens in 5 answers."
    assert judge([], Decoding()).sentence == "Nothing was measured."


def test_annotating_with_decoding_gives_every_failing_generation_a_plane() -> None:
    """The counts by plane need one each: system by its own evidence, the rest by what they show together."""
    generations = [*at_one_place(12, SymptomKind.STRUCTURE_BREAK), make(make_job(index=50), 100, lost=True)]
    healthy = make(make_job(index=60), 500)
    found = annotate_planes([*generations, healthy], [], PROFILE, Decoding())
    assert [g.plane for g in found] == [Plane.CONTEXT] * 12 + [Plane.SYSTEM, None]
    assert judge(found, Decoding()).plane is Plane.CONTEXT
    again = [record.with_tokens(()) for record in found]
    assert annotate_planes(again, [], PROFILE, Decoding()) == found


def test_single_failure_is_weakly_suspected() -> None:
    """One generation places no onset distribution: the sentence admits it."""
    verdict = judge([*scattered(1, SymptomKind.LOOP), make(make_job(index=9), 500)], Decoding())
    assert verdict.plane is Plane.DECODING
    assert verdict.sentence.startswith("Weakly suspected cause: decoding (not tested yet).")
    assert "1 of the sample's 2 answers loops; its onset is at token " in verdict.sentence


@pytest.mark.parametrize(("penalty", "speaks"), [(1.3, True), (1.1, False)])
def test_sustained_surprisal_is_decoding_under_a_high_penalty(penalty: float, speaks: bool) -> None:
    """A penalty pushes likely tokens out; without one, surprise alone does not say who chose the words."""
    detail = {"direction": "up", "mean_surprisal": 5.0, "mean_entropy": 2.0}
    generations = [
        make(
            make_job(index=i),
            900,
            300 + 40 * i,
            symptom=SymptomKind.ENTROPY_SHIFT,
            symptoms=(Symptom(SymptomKind.ENTROPY_SHIFT, 300 + 40 * i, 400 + 40 * i, detail=detail),),
        )
        for i in range(12)
    ]
    verdict = judge(generations, Decoding(temperature=0.7, repetition_penalty=penalty))
    assert any("median surprisal 5.00 nats" in evidence.fact for evidence in verdict.evidence) is speaks


def test_what_the_server_did_not_show_is_one_line() -> None:
    """The highest KV cache is rounded up, so that the line is true; a queue that was there is not denied."""
    facts = (
        Evidence(Plane.SYSTEM, False, "vllm /metrics", "0 preemptions before the onset", 0.0),
        Evidence(Plane.SYSTEM, False, "vllm /metrics", "KV cache ≤ 3 % before the onset", 0.032),
        Evidence(Plane.SYSTEM, False, "vllm /metrics", "at most 2 requests waiting before the onset", 2.0),
        Evidence(Plane.SYSTEM, False, "nvml", "GPU 0: no throttling in the 3.0 s before the onset", 60.0),
    )
    verdict = judge([replace(g, evidence=facts) for g in scattered(4, SymptomKind.LOOP)], Decoding())
    [line] = [e for e in verdict.evidence if e.plane is Plane.SYSTEM]
    assert line.source == "nvml, vllm /metrics"
    assert line.fact == (
        "no preemption, at most 2 requests waiting, KV cache at most 3.2 % full before any of the 4 onsets; "
        "GPU 0: no throttling in the 3.0 s before the onset"
    )


def test_what_was_not_measured_speaks_neither_for_nor_against() -> None:
    """ "against: the system is not excluded" stood under the evidence of a run on a real vLLM."""
    calm = (Evidence(Plane.SYSTEM, False, "vllm /metrics", "0 preemptions before the onset", 0.0),)
    seen, unseen = scattered(4, SymptomKind.LOOP)[:3], scattered(4, SymptomKind.LOOP)[3:]
    verdict = judge([*(replace(g, evidence=calm) for g in seen), *unseen], Decoding())
    found = [(e.stance, e.fact) for e in verdict.evidence if e.plane is Plane.SYSTEM]
    assert [stance for stance, _ in found] == ["against", "not measured"]
    assert found[1][1].startswith("for 1 of 4 onsets the server's queue and KV cache were not measured")


def test_no_diagnosis_is_advised_that_lacks_prompts() -> None:
    """The box of a run with two prompts sent its user to a diagnosis that could not decide."""
    failing = scattered(6, SymptomKind.LOOP)
    why = "a diagnosis needs 14 failing prompts"
    [advice] = plane_verdict(failing, Decoding(), PROFILE, "r1", untestable=why).advice
    assert advice == "To test the cause, a diagnosis needs 14 failing prompts."
    [usual] = plane_verdict(failing, Decoding(), PROFILE, "r1").advice
    assert usual.endswith("stresstest diagnose r1")


def test_the_climb_does_not_count_beside_the_sample() -> None:
    """One denominator on the last screen: the sentence on the cause counts what the cap's sentence counts."""
    sample = [*scattered(6, SymptomKind.LOOP), failure(7, 900, 60, SymptomKind.LANGUAGE_DRIFT, None)]
    healthy = make(make_job(index=8), 2000)
    climb = [replace(g, job=replace(g.job, phase=Phase.CLIMB)) for g in scattered(3, SymptomKind.LOOP)]
    sentence = judge([*climb, *sample, healthy], Decoding()).sentence
    assert (
        "7 of the sample's 8 answers degenerate (6 loop, 1 language drift); their median onset is at token "
        in sentence
    )
    assert "3 answers of the run loop" in judge(climb, Decoding()).sentence
