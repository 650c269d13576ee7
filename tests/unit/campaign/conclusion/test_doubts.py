"""What a service does to answers, so that a sample is not the model's: drawn anew, or replaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stresstest.campaign.conclusion.withheld import withhold_cap
from stresstest.campaign.provenance.doubts import doubts
from stresstest.errors import ExitCode
from stresstest.model import (
    FailureKind,
    Generation,
    GenerationVerdict,
    Phase,
    ServerSample,
    ServiceFailure,
    Threshold,
    Token,
)
from stresstest.statistics import observations
from tests.faults.playing import campaign
from tests.support.fake_campaign import Behaviour, campaign_server
from tests.support.fake_vllm import Page
from tests.support.stored_data import make_generation, make_run


def test_a_sample_that_was_chosen_by_retries_is_noted() -> None:
    """A gateway answered 504 to each loop: asked again, 20 of 37 were healthy, and a loop was certified."""
    asked_once = [make_generation(n) for n in range(5)]
    assert not any("asked again" in note for note in doubts(make_run(), asked_once, []))
    again = [replace(make_generation(n), attempts=2) for n in range(5, 8)]
    climb = [replace(make_generation(9, phase=Phase.CLIMB), attempts=3)]
    [note] = [each for each in doubts(make_run(), [*asked_once, *again, *climb], []) if "asked again" in each]
    assert note.startswith("3 of the sample's 8 answers came only when asked again")


def test_of_a_service_that_holds_answers_back_they_are_possible_failures() -> None:
    """The note has the number, and says where to measure."""
    made = [make_generation(n) for n in range(8)]
    held = [replace(g, first_token=g.ended) for g in made]
    again = [replace(g, attempts=2, unanswered_s=g.ended - g.started) for g in held[:3]]
    [note] = [each for each in doubts(make_run(), [*again, *held[3:]], []) if "asked again" in each]
    assert "3 of them count as possible failures" in note


@pytest.mark.parametrize(
    ("alike", "length", "told"),
    [(4, 5, True), (2, 5, False), (4, 40, False), (18, 5, True), (20, 5, False), (4, 30, False)],
)
def test_one_short_text_in_place_of_answers_is_told(alike: int, length: int, told: bool) -> None:
    """A gateway that puts an apology in place of each loop left "none of 23 failed", without a word. Copies
    of 32 tokens or more count once, and have a note of their own."""
    apology = make_generation(99, tokens=length)
    sorry = replace(apology, verdict=GenerationVerdict(length, length), finish_reason="stop")
    made = [make_generation(n) for n in range(20)]
    made[:alike] = [replace(sorry, job=g.job, prompt_id=g.prompt_id) for g in made[:alike]]
    notes = [each for each in doubts(make_run(), made, []) if "one text" in each]
    assert len(notes) == told
    assert all(f"{alike} of the sample's 20 answers are one text of {length} tokens" in n for n in notes)


def test_answers_that_never_arrived_are_told() -> None:
    """What the server did not answer counts against the limit, and so does what it refused after as long as
    an answer takes: a guardrail refused each loop, and `check` passed with "0 of 27"."""
    made = [make_generation(n) for n in range(30)]
    seconds = made[0].ended - made[0].started

    def lost(generation: Generation, kind: FailureKind, said: str, took: float) -> Generation:
        failure, nothing = ServiceFailure(kind, said), GenerationVerdict(0, 0)
        ended = generation.started + took
        return replace(generation, failure=failure, verdict=nothing, tokens=(), ended=ended)

    sample = [
        *(lost(g, FailureKind.HTTP_ERROR, "504", 60.0) for g in made[:2]),
        lost(made[2], FailureKind.BAD_REQUEST, "violated guardrail policy", seconds),
        lost(made[3], FailureKind.BAD_REQUEST, "prompt too long", 0.01),
        *made[4:],
    ]
    said = doubts(make_run(), sample, [])
    expected = (
        "3 of the sample's 30 answers never arrived (504). Whether",
        "1 of the sample's 30 requests were refused (prompt too long)",
    )
    assert all(any(note.startswith(words) for note in said) for words in expected)
    found = observations(sample)
    assert [o.unresolved for o in found[:5]] == [True, True, True, False, False]


def test_answers_that_broke_off_are_told() -> None:
    """A gateway ended each stream once 70 characters repeat, before any alarm: "T ≥ 1,459, none of 22"."""
    healthy = GenerationVerdict(50, 50)
    made = [replace(make_generation(n), verdict=healthy, finish_reason="stop") for n in range(40)]
    cut = ServiceFailure(FailureKind.CUT, "The server closed the stream.", at_token=50)
    for lost in (0, 2, 3):
        broken = [replace(g, failure=cut, finish_reason=None) for g in made[:lost]]
        notes = [n for n in doubts(make_run(), [*broken, *made[lost:]], []) if "broke off" in n]
        assert len(notes) == (lost >= 3)
        assert all(
            n.startswith("3 of the sample's 40 answers broke off after their first token") for n in notes
        )


def test_repetitions_that_broke_off_are_told() -> None:
    """One in a hundred is as many as a strict certificate allows."""
    made = [replace(make_generation(n), verdict=GenerationVerdict(50, 50)) for n in range(100)]
    cut = ServiceFailure(FailureKind.CUT, "The server closed the stream.", at_token=50)
    repeating = replace(made[0], failure=cut, tokens=(Token(" the"),) * 31)
    [note] = [n for n in doubts(make_run(), [repeating, *made[1:]], []) if "broke off" in n]
    assert note.startswith("1 of the sample's 100 answers broke off in the midst of repetitions")


@pytest.mark.parametrize(
    ("began", "root", "noted"),
    [
        ([5.0, 5.0], "m", 0),
        ([5.0, None], "m", 1),
        ([], "m", 1),
        ([5.0, 5.0], "lora/a on m", 1),
        ([], "lora/a on m", 1),
    ],
)
def test_a_continuation_that_nothing_vouches_for_is_told(
    began: list[float | None], root: str, noted: int
) -> None:
    """A check was killed, `ollama create` replaced the model, and the same command passed it. vLLM says
    when its counters began; that they are higher than before shows nothing, for others use the server too.
    An adapter is reloaded without a restart."""
    run = make_run()
    run = replace(
        run,
        settings=replace(run.settings, continued_after=36),
        profile=replace(run.profile, root=root),
    )
    samples = [ServerSample(n, prompt_tokens=n, generation_tokens=n, began=at) for n, at in enumerate(began)]
    notes = [n for n in doubts(run, [make_generation(1)], samples) if "continued after 36 answers" in n]
    assert len(notes) == noted


def test_answers_that_are_others_after_a_kill_are_told() -> None:
    """They count as possible failures."""
    made = [make_generation(n) for n in range(6)]
    drawn = [replace(g, redrawn=True) for g in made[:2]]
    [note] = [n for n in doubts(make_run(), [*drawn, *made[2:]], []) if n.startswith("When the run was")]
    assert "2 of the sample's 6 answers had failed" in note


def test_answers_that_the_service_ended_are_told() -> None:
    """With its words for it."""
    healthy = GenerationVerdict(50, 50)
    made = [replace(make_generation(n), verdict=healthy, finish_reason="stop") for n in range(6)]
    assert not any("ended by the service" in each for each in doubts(make_run(), made, []))
    cut = [replace(g, finish_reason=r) for g, r in zip(made, ("content_filter", "weird"), strict=False)]
    [note] = [each for each in doubts(make_run(), [*cut, *made[2:]], []) if "ended by the service" in each]
    assert note.startswith("2 of the sample's 6 answers were ended by the service (finish reason ")
    assert "content_filter, weird" in note


@pytest.mark.simulated
@pytest.mark.parametrize("held", [0.0, 0.2], ids=["streamed", "held back"])
def test_a_gateway_that_fails_on_loops_certifies_nothing(held: float, tmp_path: Path) -> None:
    """Every third answer looped into the gateway's time limit, was asked for again, and "none of 37" failed.
    Where answers are streamed, a loop would have been seen: the same time-outs are no answers there."""
    timeout = Page(b"upstream timed out", 504, delay=0.6)
    behaviour = Behaviour(
        fault=lambda number: timeout if number % 3 == 0 else None, one_each=True, held=held, pause=0.4
    )
    with campaign_server(behaviour) as (fake, _):
        played = campaign(tmp_path, fake.url)
    assert played.lost == []
    assert len(played.retries) >= 12
    assert played.document["threshold"]["certified"] is (not held)
    assert played.code == (ExitCode.INCONCLUSIVE if held else ExitCode.DONE)
    [note] = [each for each in played.document["notes"] if "asked again" in each]
    assert ("count as possible failures" in note) is bool(held)


def test_a_message_with_the_number_of_its_request_is_one_text() -> None:
    """ "(ref 1f0e3dad)" made each apology another text: no note, and T = 327 where 40 % loop."""
    made = [make_generation(n) for n in range(20)]
    words = "I'm sorry, but I cannot help with this request right now."
    for n in range(4):
        tokens = tuple(Token(f" {word}") for word in f"{words} (ref 1f0e3da{n})".split())
        verdict = GenerationVerdict(len(tokens), len(tokens))
        made[n] = replace(made[n], tokens=tokens, verdict=verdict, finish_reason="stop")
    [note] = [each for each in doubts(make_run(), made, []) if "one text" in each]
    assert note.startswith("4 of the sample's 20 answers are one text of 13 tokens")


def test_answers_that_count_up_to_a_preemption_are_told() -> None:
    """A gate and a recommendation have to know it, not the run alone."""
    made = [make_generation(n) for n in range(5)]
    assert not any("preemption" in note for note in doubts(make_run(), made, []))
    limited = [replace(g, invalid_from=9) for g in made[:2]]
    [note] = [each for each in doubts(make_run(), [*limited, *made[2:]], []) if "preemption" in each]
    assert note.startswith("2 of 5 certifying answers count only up to their first preemption")


def test_empty_answers_are_told_of() -> None:
    """They fail no length, so that a limit beside them looks like a clean bill: a guardrail emptied loops,
    and `recommend` printed 1,323, where T is 234."""
    made = [make_generation(n) for n in range(38)]
    empty = GenerationVerdict(0, 0)
    some = [
        replace(g, verdict=empty, tokens=(), finish_reason="stop", unseen_tokens=0) if n < 9 else g
        for n, g in enumerate(made)
    ]
    assert any(n.startswith("9 of the sample's 38 answers are empty") for n in doubts(make_run(), some, []))


@pytest.mark.parametrize(
    ("finish", "begin"),
    [
        ("stop", "8 of the sample's 8 answers are nothing but"),
        ("length", "8 of the sample's 8 answers were cut within their reasoning"),
    ],
)
def test_answers_that_are_nothing_but_reasoning_are_told(finish: str, begin: str) -> None:
    """And no cap is recommended where all were cut there."""
    made = [
        replace(make_generation(n), finish_reason=finish, verdict=GenerationVerdict(90, 90, reasoning=90))
        for n in range(8)
    ]
    assert sum(each.startswith(begin) for each in doubts(make_run(), made, [])) == 1
    threshold = Threshold(0.1, 0.9, 80, 60, 0, 0.05, certified=True)
    withheld = withhold_cap(threshold, [], made, make_run().settings).withheld or ""
    assert ("cut within their reasoning" in withheld) == (finish == "length")
    answered = [replace(each, verdict=GenerationVerdict(90, 90, reasoning=40)) for each in made]
    assert not any("their reasoning" in each for each in doubts(make_run(), answered, []))
    one = [made[0], *answered[1:]]
    told = any("1 of the sample's 8 answers was cut" in each for each in doubts(make_run(), one, []))
    assert told == (finish == "length")
