"""What a run says where its answers may not be of the model and the decoding that were asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stresstest.campaign.provenance.foreign_answers import ForeignAnswersError, refuse_foreign
from stresstest.campaign.provenance.notes import provenance_notes
from stresstest.model import GenerationRecord
from stresstest.model.server import PROVIDER
from tests.support.samples import sample
from tests.support.stored_data import make_run


def told(answers: Sequence[GenerationRecord], asked: str = "m") -> list[str]:
    run = make_run()
    return provenance_notes(replace(run, profile=replace(run.profile, model=asked)), answers)


def test_a_mixture_of_models_is_told() -> None:
    """A gateway that falls back to another model gives a limit of both: the streams' own names show it."""
    answers = [
        replace(g, answered_by="mistral-7b" if i < 20 else "fallback")
        for i, g in enumerate(sample([None] * 30, [9] * 30))
    ]
    assert told(answers[:20], "mistral-7b") == []
    [said] = told(answers, "mistral-7b")
    assert said.startswith("The streams name 2 models (mistral-7b 20, fallback 10)")


@pytest.mark.parametrize(
    ("asked", "answered", "is_other"),
    [
        ("new", "old", True),
        ("gpt-4o", "gpt-4o-2024-08-06", None),
        ("summariser", "summariser-v1", True),
        ("prod", "prod-preview", True),
        ("openai/gpt-4o", "gpt-4o", False),
        ("Qwen2.5", "qwen2.5", False),
        ("m", "fallback-m2", True),
        ("m", "mistral", True),
        ("gpt-4o", "gpt-4o-mini", True),
        ("mistral-v1", "mistral-v2", True),
        ("openai/gpt-4o", "gpt-4o-2024-08-06", None),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", None),
        ("hosted_vllm/m", "m", False),
        ("gpt-4", "gpt-4-32k", True),
        ("lab", "/mnt/models/lab", False),
        ("claude-3-5-sonnet", "us.anthropic.claude-3-5-sonnet", None),
        ("gemini-2.0-flash", "gemini-2.0-flash-001", None),
        ("new", None, False),
    ],
)
def test_another_model_than_was_asked_is_told(
    asked: str, answered: str | None, is_other: bool | None
) -> None:
    """While the new model's server was down, a gateway answered every request with the old one: "safe". None:
    a version by its name, which is told too."""
    answers = [replace(g, answered_by=answered) for g in sample([None] * 30, [9] * 30)]
    said = told(answers, asked)
    begin = f"The streams name the model {answered!r}{', not' if is_other else ' for'} {asked!r}, which was"
    assert [each.startswith(begin) for each in said] == ([] if is_other is False else [True])


def test_a_mixture_of_servers_is_told() -> None:
    """Behind one address, two versions of vLLM serve one model: half of the sample is of each."""
    answers = [
        replace(g, fingerprint=f"vllm-0.{24 + i % 2}.0") for i, g in enumerate(sample([None] * 30, [9] * 30))
    ]
    assert told(answers[::2]) == []
    [said] = told(answers)
    assert "2 different system_fingerprints or providers (vllm-0.24.0 15, vllm-0.25.0 15)" in said


def test_answers_of_another_server_are_not_compared() -> None:
    """A gateway sent requests with a penalty to another provider: the penalty was confirmed as the cure."""
    made = sample([None] * 30, [9] * 30)
    before = [replace(g, fingerprint=f"{PROVIDER}Alpha") for g in made]
    refuse_foreign(before[:1], before, None)
    with pytest.raises(
        ForeignAnswersError, match="the provider Beta, and those of the answers before the provider Alpha"
    ):
        refuse_foreign([replace(made[0], fingerprint=f"{PROVIDER}Beta")], before, None)
    unnamed = [replace(g, fingerprint=None) for g in made]
    own = [replace(g, fingerprint=f"0.19-{i}") for i, g in enumerate(made)]
    for earlier in (unnamed, own, []):
        refuse_foreign([replace(made[0], fingerprint="0.19-99")], earlier, None)
        refuse_foreign([replace(made[0], fingerprint=f"{PROVIDER}Beta")], earlier, None)


def test_a_fingerprint_of_each_answer_names_no_server() -> None:
    """MLX's server has drawn a new one for each request."""
    drawn = [replace(g, fingerprint=f"0.19-{i}") for i, g in enumerate(sample([None] * 30, [9] * 30))]
    assert told(drawn) == []


def test_a_pause_of_weeks_is_told() -> None:
    """A run that was resumed three weeks later may be half of the model that was served before."""
    answers = [replace(g, started=1_795_000_000.0 + i) for i, g in enumerate(sample([None] * 30, [9] * 30))]
    later = [replace(g, started=g.started + (21 * 86_400 if i > 19 else 0)) for i, g in enumerate(answers)]
    assert told(answers) == []
    [said] = told(later)
    assert "nothing was asked between 2026-11-18 11:06 and 2026-12-09 11:07 UTC" in said


def test_a_server_that_does_not_show_that_it_is_vllm_is_told() -> None:
    """Gateways clamp values, or answer with another server, in ways that nothing shows."""
    run = make_run()
    for profile, said in (
        (run.profile, False),
        (replace(run.profile, version=None), True),
        (replace(run.profile, metrics=False), True),
        (replace(run.profile, max_model_len=None), True),
        (replace(run.profile, version=None, simulated=True), False),
    ):
        notes = provenance_notes(replace(run, profile=profile), [])
        assert any("does not show that it is vLLM itself" in note for note in notes) == said
