"""Records, functions and rows of the simulated model: valid while healthy, failing where it is said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import DetectorSuite
from stresstest.errors import UsageError
from stresstest.model import GenerationVerdict, Token
from stresstest.simulation.engine import Engine, Hazard, Scenario, SimRequest, load_scenario, vocabulary
from stresstest.simulation.engine import Sequence as Running
from stresstest.simulation.engine.scenario.distribution import FixedDistribution
from stresstest.simulation.engine.virtual import run_virtual
from stresstest.simulation.engine.writing.unit_failures import FORMS
from stresstest.tasks import load_task

TASKS = ("json", "code", "catalogue")
LANGUAGES = ("it", "en", "fr", "de", "es", "pt")
LATE_ENOUGH = FixedDistribution(400.0)


def ask(
    task: str, units: int, hazards: tuple[Hazard, ...] = (), *, language: str = "en", seed: int = 1, cap: int
) -> tuple[Running, DetectorSpec]:
    """The model's answer to a prompt of a shipped task, and how it is judged."""
    prompt = load_task(task).prompt(language, seed, units)
    said = tuple((m.role, m.content) for m in prompt.messages)
    request = SimRequest(tuple(vocabulary.encode_chat(said)), cap, messages=said, seed=seed)
    [answer] = run_virtual(Engine(Scenario("x", "", hazards=hazards)), [request], concurrency=1).sequences
    unit = load_task(task).language(language).unit
    return answer, DetectorSpec(None if task == "code" else language, units=units, unit=unit)


def ids(answer: Running) -> list[int]:
    return [each.id for each in answer.output if each.id != vocabulary.EOS]


def judged(answer: Running, spec: DetectorSpec) -> GenerationVerdict:
    suite = DetectorSuite(spec)
    for each in answer.output:
        text = "" if each.id == vocabulary.EOS else vocabulary.decode([each.id])
        suite.update(Token(text, each.id, each.logprob, each.entropy))
    return suite.finish(answer.finish_reason)


def numbers(task: str, text: str) -> Sequence[int]:
    """The numbers of the units in a whole answer, which must be valid."""
    if task == "json":
        return [record["id"] for record in json.loads(text)]
    if task == "catalogue":
        rows = text.strip().splitlines()
        assert {row.count("|") for row in rows} == {6}
        return [int(row.split("|")[1]) for row in rows[2:]]
    compile(text, "answer", "exec")
    return range(1, text.count("\ndef ") + 1)


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("task", TASKS)
def test_a_healthy_answer_is_valid_complete_and_without_symptom(task: str, language: str) -> None:
    """As many units as asked for, no two alike; text and tokens are the same thing."""
    answer, spec = ask(task, 15, language=language, cap=6000)
    text = vocabulary.decode(ids(answer))
    assert (answer.finish_reason, answer.onset) == ("stop", None)
    assert list(numbers(task, text)) == list(range(1, 16))
    assert vocabulary.encode(text) == ids(answer)
    found = judged(answer, spec)
    assert (found.onset, found.units) == (None, 15)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("symptom", "form"), [(kind.value, form) for kind, forms in FORMS.items() for form in forms]
)
def test_a_failure_is_found_where_it_begins(task: str, symptom: str, form: str) -> None:
    """Every form in every kind of answer, as a repetition or a break of structure: never later than a few
    tokens, and at most a unit before."""
    answer, spec = ask(task, 60, (Hazard(symptom, onset=LATE_ENOUGH, form=form),), seed=7, cap=5000)
    assert answer.symptom == symptom
    assert answer.onset is not None
    assert 400 <= answer.onset < 1200
    found = judged(answer, spec)
    if (task, form) == ("json", "renamed"):
        return  # records that differ in a name alone have constant columns: no symptom for long
    assert found.onset is not None
    assert -150 <= found.onset - answer.onset <= 3
    assert str(found.symptom) in ("loop", "near_loop", "structure_break", "flooding")


@pytest.mark.parametrize("task", TASKS)
def test_an_answer_that_is_continued_counts_on(task: str) -> None:
    """A fork from the tokens written so far goes on with the next unit."""
    whole, _ = ask(task, 6, cap=4000)
    text = vocabulary.decode(ids(whole))
    units = {"json": ',\n  {"id": 5', "code": "\n\n\ndef ", "catalogue": "\n| 5 |"}[task]
    if task == "json" and units not in text:
        units = ',\n  {\n    "id": 5'
    at = (
        text.rindex(units)
        if task != "code"
        else [n for n in range(len(text)) if text.startswith(units, n)][4]
    )
    prompt = load_task(task).prompt("en", 1, 6)
    said = tuple((m.role, m.content) for m in prompt.messages)
    asked = (*vocabulary.encode_chat(said), *vocabulary.encode(text[:at]))
    [rest] = run_virtual(
        Engine(Scenario("x", "")), [SimRequest(asked, 4000, seed=3)], concurrency=1
    ).sequences
    assert list(numbers(task, text[:at] + vocabulary.decode(ids(rest)))) == [1, 2, 3, 4, 5, 6]


def test_a_failure_that_ends_recovers_or_ends_the_answer() -> None:
    """`ends`: repeated units give way to new ones; an endless unit ends the answer."""
    cap = 9000
    repeats, _ = ask("catalogue", 60, (Hazard("near_loop", onset=LATE_ENOUGH, ends=True),), cap=cap)
    assert repeats.finish_reason == "stop"
    broken, _ = ask("json", 60, (Hazard("structure_break", onset=LATE_ENOUGH, ends=True),), cap=cap)
    assert broken.finish_reason == "stop"
    assert broken.written < 2500


def test_other_symptoms_strike_structured_answers_too() -> None:
    """A loop or a flood needs no form: it is what it is in prose."""
    for symptom in ("loop", "flooding", "gibberish"):
        answer, spec = ask("json", 60, (Hazard(symptom, onset=LATE_ENOUGH),), cap=2500)
        found = judged(answer, spec)
        assert answer.onset is not None
        assert found.onset == pytest.approx(answer.onset, abs=60)


def test_a_form_belongs_to_its_symptom(tmp_path: Path) -> None:
    """A slip in a scenario file is told, with what is allowed."""
    path = tmp_path / "mine.toml"
    for symptom, form, said in (
        ("loop", "blanks", "belongs to near_loop and structure_break only"),
        ("near_loop", "blanks", "must be one of counter, renamed, shuffled"),
        ("http_500", "blanks", "belongs to near_loop and structure_break only"),
    ):
        path.write_text(f'name = "mine"\n[[hazard]]\nsymptom = "{symptom}"\nform = "{form}"\n', "utf-8")
        with pytest.raises(UsageError, match=said):
            load_scenario(str(path))
