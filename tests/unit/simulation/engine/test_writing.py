"""The simulated model's text: healthy where it says so, degenerate from the onset that it names."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from math import exp
from statistics import fmean

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import detect_tokens
from stresstest.model import GenerationVerdict, SymptomKind, Token
from stresstest.model.tokens import entropy_bound
from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.answer import TextAnswer
from stresstest.simulation.engine.grammar import GRAMMAR_LANGUAGES, load_grammar
from stresstest.simulation.engine.writing import AnswerBrief, AnswerGenerator, EmittedToken, alternatives
from stresstest.simulation.engine.writing.composer import SentenceComposer
from stresstest.simulation.engine.writing.failure_types import text_symptoms
from stresstest.simulation.engine.writing.token_emitter import SHAPE_COUNT, distribution_shapes
from stresstest.tasks import load_task

SHIPPED = [
    (task, language) for task in ("narrative", "qa", "technical") for language in load_task(task).languages
]
"""The tasks whose units the simulator writes; the others it answers in prose."""
ONSET = 520


def brief(
    task: str = "narrative", language: str = "it", structure: str = "rigid", **more: object
) -> AnswerBrief:
    """A brief as the engine makes it from a prompt of a shipped task."""
    known = load_task(task).language(language)
    values: dict[str, object] = {"tokens_per_unit": known.tokens_per_unit, "topic": known.topics[0], **more}
    return AnswerBrief(task=task, language=language, structure=structure, **values)  # type: ignore[arg-type]


def written(voice: AnswerGenerator | TextAnswer, most: int) -> list[EmittedToken]:
    """Up to so many tokens of a voice."""
    found: list[EmittedToken] = []
    while len(found) < most and (token := voice.next_token()) is not None:
        found.append(token)
    return found


def text_of(tokens: Sequence[EmittedToken]) -> str:
    return vocabulary.decode([token.id for token in tokens])


def judged(
    tokens: Sequence[EmittedToken], about: AnswerBrief, finish_reason: str = "length"
) -> GenerationVerdict:
    """The real panel's verdict, told what the tool would know."""
    pattern = None
    if about.task is not None and about.structure == "rigid":
        pattern = load_task(about.task).language(about.language).unit_pattern
    stream = [
        Token(vocabulary.token_bytes(t.id).decode("utf-8", "replace"), t.id, t.logprob, t.entropy)
        for t in tokens
    ]
    return detect_tokens(stream, DetectorSpec(about.language, pattern, about.units), finish_reason)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "language"), SHIPPED)
def test_healthy_text_has_no_symptom(task: str, language: str) -> None:
    """Not even a warning in 4,000 tokens, numbered or in free prose, in any shipped task."""
    for structure in ("rigid", "open"):
        about = brief(task, language, structure)
        verdict = judged(written(AnswerGenerator(about, 5), 4000), about)
        assert verdict.symptoms == ()


@pytest.mark.parametrize("language", ["de", "es", "pt"])
def test_plain_prose_is_healthy_in_the_other_languages(language: str) -> None:
    """What a drift drifts into, and what an unknown prompt is answered with."""
    about = AnswerBrief(task=None, language=language, structure="open")
    assert judged(written(AnswerGenerator(about, 2), 3000), about).symptoms == ()


@pytest.mark.parametrize(("task", "language"), SHIPPED)
def test_units_are_numbered_as_the_instruction_asks(task: str, language: str) -> None:
    """Every number once and in order, an answer to every question, and a proper end after the last unit."""
    about = brief(task, language, units=6)
    tokens = written(AnswerGenerator(about, 9), 5000)
    text = text_of(tokens)
    regex = load_task(task).language(language).unit_regex
    assert regex is not None
    assert [int(number) for number in regex.findall(text)] == [1, 2, 3, 4, 5, 6]
    assert text.endswith((".", "?"))
    assert len(text.split("\n\n")) == 6
    if task == "qa":
        assert text.count("\n" + load_grammar(language).labels["answer"] + " ") == 6
    assert judged(tokens, about, "stop").onset is None


def test_units_have_the_wanted_mean_length() -> None:
    """Tokens a unit set where "paragraph 66" lies in tokens; units vary around it."""
    for wanted in (55.0, 80.0, 120.0):
        about = brief(tokens_per_unit=wanted, units=80)
        tokens = written(AnswerGenerator(about, 4), 20_000)
        assert len(tokens) / 80 == pytest.approx(wanted, rel=0.1)


def test_the_same_seed_gives_the_same_tokens() -> None:
    """A request with a seed is answered alike, logprobs included; another seed gives another text."""

    def take(seed: int) -> list[EmittedToken]:
        voice = AnswerGenerator(brief(), seed)
        voice.plan_failure("loop", 300)
        return written(voice, 700)

    assert take(1) == take(1)
    assert take(1) != take(2)


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_logprobs_are_a_models(temperature: float) -> None:
    """Raw entropy near a nat; the emitted token is mostly the likeliest, at temperature 0 always."""
    tokens = written(AnswerGenerator(brief(temperature=temperature), 3), 3000)
    assert 0.65 < fmean(token.entropy for token in tokens) < 1.15
    first = [token for token in tokens if alternatives(token, 1)[0][0] == token.id]
    share = len(first) / len(tokens)
    assert share == 1.0 if temperature == 0.0 else 0.6 < share < 0.97
    assert sum(token.logprob > -0.1 for token in tokens) > 0.25 * len(tokens)


def test_alternatives_agree_with_the_token() -> None:
    """Descending, no token twice, a mass of at most 1, the emitted token at its rank, the bound of the
    entropy from the top 20 close to the entropy."""
    for token in written(AnswerGenerator(brief("technical", "en"), 8), 1500):
        top = alternatives(token, 20)
        logprobs = [logprob for _, logprob in top]
        assert len(top) == 20
        assert len({each for each, _ in top}) == 20
        assert logprobs == sorted(logprobs, reverse=True)
        assert sum(map(exp, logprobs)) <= 1.0 + 1e-9
        assert dict(top).get(token.id, token.logprob) == token.logprob
        assert entropy_bound(logprobs) <= token.entropy + 1e-6
        assert token.entropy > 3.0 or entropy_bound(logprobs) > token.entropy - 0.25
        assert alternatives(token, 5) == top[:5]


def test_shapes_rise_from_certain_to_flat() -> None:
    """The ladder of distributions: proper, ordered, and wide enough for loops and for gibberish."""
    entropies = [shape.entropy for shape in distribution_shapes()]
    assert len(entropies) == SHAPE_COUNT
    assert entropies == sorted(entropies)
    assert entropies[0] < 1e-4
    assert entropies[-1] > 6.0
    for shape in distribution_shapes()[::13]:
        assert sum(map(exp, shape.logprobs)) == pytest.approx(1.0)


@pytest.mark.parametrize("language", GRAMMAR_LANGUAGES)
def test_every_slot_exists_and_is_used(language: str) -> None:
    """A misspelt slot would stop an answer in the middle of a run."""
    grammar = load_grammar(language)
    used = {slot for frames in grammar.registers.values() for parts in frames for slot, _ in parts if slot}
    used |= {slot for entries in grammar.slots.values() for parts in entries for slot, _ in parts if slot}
    assert used == set(grammar.slots)


@pytest.mark.parametrize("language", GRAMMAR_LANGUAGES)
def test_sentences_are_fresh_and_well_formed(language: str) -> None:
    """No sentence twice in 400, none with a stray blank, every one capitalised and closed."""
    composer = SentenceComposer(language, random.Random(11))
    sentences = [composer.sentence("narrative") for _ in range(400)]
    assert max(Counter(sentences).values()) == 1
    for sentence in sentences:
        assert "  " not in sentence
        assert " ," not in sentence
        assert sentence[0].isupper()
        assert sentence.endswith(".")
        assert "{" not in sentence


def test_a_penalty_costs_technical_text_its_terms() -> None:
    """A high repetition penalty makes a document call one thing by many names."""

    def favourite(penalty: float) -> int:
        text = text_of(
            written(AnswerGenerator(brief("technical", "it", repetition_penalty=penalty), 6), 4000)
        )
        terms = [parts[0][1] for parts in load_grammar("it").slots["term_comp"]]
        return max(text.lower().count(term) for term in terms)

    assert favourite(1.0) > 2 * favourite(1.2)


def test_a_topic_is_taken_up_and_never_interpreted() -> None:
    """The topic is text: braces in it are braces."""
    text = text_of(written(AnswerGenerator(brief(topic="un {name} che {who}"), 1), 60))
    assert "un {name} che {who}" in text


def onset_of(
    kind: str, seed: int, about: AnswerBrief, more: int = 600
) -> tuple[AnswerGenerator, list[EmittedToken], str]:
    voice = AnswerGenerator(about, seed)
    voice.plan_failure(kind, ONSET)
    tokens = written(voice, ONSET + more)
    return voice, tokens, "length" if len(tokens) == ONSET + more else "stop"


@pytest.mark.parametrize("kind", text_symptoms())
def test_the_truth_is_near_the_plan(kind: str) -> None:
    """The onset is drawn from a known distribution: where it has to wait for a sentence's end, sentences
    are chosen so that it need not wait long."""
    for seed in range(5):
        voice, tokens, _ = onset_of(kind, seed, brief(), 40)
        assert voice.symptom == kind
        assert voice.onset is not None
        assert -3 <= voice.onset - ONSET <= 30
        assert len(tokens) >= voice.onset


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "within"),
    [("loop", 0), ("flooding", 12), ("language_drift", 4), ("truncation", 4)],
)
@pytest.mark.parametrize("language", ["it", "en", "fr"])
def test_the_detectors_find_the_true_onset(kind: str, language: str, within: int) -> None:
    """What the panel dates is what the voice calls the truth, for several seeds."""
    for seed in (1, 3):
        about = brief("narrative", language)
        voice, tokens, reason = onset_of(kind, seed, about)
        verdict = judged(tokens, about, reason)
        assert verdict.onset is not None
        assert voice.onset is not None
        assert abs(verdict.onset - voice.onset) <= within


def test_broken_structure_is_found() -> None:
    """Numbers stick or skip and sentences shrink; the panel may date it a sentence or two off."""
    for seed in (1, 2, 3):
        about = brief("technical", "it")
        voice, tokens, reason = onset_of("structure_break", seed, about, 900)
        verdict = judged(tokens, about, reason)
        assert verdict.symptom is SymptomKind.STRUCTURE_BREAK
        assert verdict.onset is not None
        assert voice.onset is not None
        assert abs(verdict.onset - voice.onset) <= 80


def test_a_loop_is_exact_and_ever_surer() -> None:
    """From the onset every token repeats at one period; entropy falls before, and tends to nothing."""
    before: list[float] = []
    closing: list[float] = []
    for seed in range(8):
        voice, tokens, _ = onset_of("loop", seed, brief())
        assert voice.onset is not None
        ids = [token.id for token in tokens]
        at = voice.onset - 1
        periods = [p for p in range(1, 200) if p <= at and ids[at:] == ids[at - p : -p]]
        assert periods
        assert 6 <= periods[0] <= 160
        assert ids[at - 1] != ids[at - 1 - periods[0]]
        entropies = [token.entropy for token in tokens]
        before += entropies[at - 400 : at - 160]
        closing += entropies[at - 30 : at]
        assert fmean(entropies[-100:]) < 0.01
        assert max(-token.logprob for token in tokens[-100:]) < 0.1
    assert fmean(closing) < 0.75 * fmean(before)


def test_a_near_loop_counts_on_over_one_body() -> None:
    """Copies differ in their number or in a word; exact repetition would be another symptom."""
    for seed in range(6):
        voice, tokens, _ = onset_of("near_loop", seed, brief(), 900)
        assert voice.onset is not None
        body = text_of(tokens[voice.onset - 1 :])
        units = [unit.partition(". ")[2] for unit in body.split("\n\n")[1:-1]]
        if units:
            words = [set(unit.split()) for unit in units]
            assert all(len(words[0] ^ each) <= 8 for each in words)


def test_drift_keeps_the_numbers_going() -> None:
    """The other language's sentences stand under the headings that were asked for, number after number."""
    voice, tokens, _ = onset_of("language_drift", 2, brief(), 700)
    regex = load_task("narrative").language("it").unit_regex
    assert regex is not None
    assert voice.onset is not None
    numbers = [int(number) for number in regex.findall(text_of(tokens))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_gibberish_is_open_everywhere() -> None:
    """High entropy from the onset on; some of it in other scripts."""
    scripts = 0
    for seed in range(8):
        voice, tokens, _ = onset_of("gibberish", seed, brief(), 200)
        assert voice.onset is not None
        assert fmean(token.entropy for token in tokens[voice.onset - 1 :]) > 3.0
        scripts += any(ch > "\u0400" for ch in text_of(tokens[voice.onset - 1 :]))
    assert scripts >= 2


def test_truncation_ends_in_mid_sentence() -> None:
    """The model stops by itself within a sentence's length of the onset."""
    voice, tokens, reason = onset_of("truncation", 4, brief())
    assert reason == "stop"
    assert voice.onset is not None
    assert voice.onset <= len(tokens) < voice.onset + 60
    assert text_of(tokens)[-1] not in ".?!"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["loop", "near_loop", "flooding", "language_drift", "structure_break"])
def test_a_failure_that_ends_gives_way(kind: str) -> None:
    """`ends`: the answer ends, or goes on in good order, within a bounded number of tokens."""
    for seed in range(3):
        voice = AnswerGenerator(brief(), seed)
        voice.plan_failure(kind, 200, ends=True)
        tokens = written(voice, 4500)
        assert voice.onset is not None
        tail = tokens[-300:]
        assert len(tokens) < 4500 or len({token.id for token in tail}) > 100


def test_a_closed_gate_keeps_the_text_healthy() -> None:
    """A hazard that load arms is asked at its onset and again at each sentence; until then all is well."""
    answers = iter([False] * 5 + [True] * 50)
    asked: list[int] = []
    voice = TextAnswer(brief(), 7, (), None, 0, False)

    def gate() -> bool:
        asked.append(len(asked))
        return next(answers)

    voice.plan_failure("language_drift", 300, gate=gate, ends=False)
    written(voice, 900)
    assert len(asked) == 6
    assert voice.onset is not None
    assert voice.onset > 380
    never = TextAnswer(brief(), 7, (), None, 0, False)
    never.plan_failure("loop", 300, gate=lambda: False, ends=False)
    about = brief()
    assert judged(written(never, 2500), about).symptoms == ()
    assert never.onset is None


def test_a_later_plan_takes_over() -> None:
    """The masked chain of the source case: drift first, then collapse into a flood."""
    voice = AnswerGenerator(brief(), 3)
    voice.plan_failure("flooding", 900)
    voice.plan_failure("language_drift", 500)
    tokens = written(voice, 1200)
    assert voice.symptom == "language_drift"
    assert len({token.id for token in tokens[905:]}) <= 5
    assert len({token.id for token in tokens[600:890]}) > 80


def test_a_closed_gate_holds_back_no_other_plan() -> None:
    """A hazard that load never arms must not mask one that is due."""
    voice = TextAnswer(brief(), 3, (), None, 0, False)
    voice.plan_failure("gibberish", 200, gate=lambda: False, ends=False)
    voice.plan_failure("flooding", 400, gate=None, ends=False)
    tokens = written(voice, 600)
    assert voice.symptom == "flooding"
    assert voice.onset == 400
    assert len({token.id for token in tokens[400:]}) <= 5


def test_a_continued_answer_goes_on() -> None:
    """With a history the numbers go on, inside a unit the unit goes on, and the topic is not opened anew."""
    past = vocabulary.encode("Paragrafo 4. Il vento scuoteva i tetti delle case.")
    text = text_of(written(AnswerGenerator(brief(first_unit=5), 3, past), 400))
    assert text.startswith("\n\nParagrafo 5.")
    inside = text_of(written(AnswerGenerator(brief(first_unit=5, inside_unit=True), 3, past), 400))
    assert inside.startswith(" ")
    assert inside.index("Paragrafo 5.") > 0
    assert "Questa è la storia" not in text + inside


def test_a_question_cut_from_its_answer_is_answered() -> None:
    """A fork just after a question goes on with the answer's label, one within an answer does not."""
    about = brief("qa", "it", first_unit=3, inside_unit=True)
    question = vocabulary.encode("Domanda 2. Che cosa distingue la misura dal metodo sperimentale?")
    assert text_of(written(AnswerGenerator(about, 3, question), 60)).startswith("\nRisposta: ")
    answered = [*question, *vocabulary.encode("\nRisposta: La misura cambia.")]
    assert not text_of(written(AnswerGenerator(about, 3, answered), 60)).startswith("\n")


def test_a_loop_may_repeat_the_history() -> None:
    """A forked continuation whose onset comes at once loops on what was written before the cut."""
    about = brief()
    past = [token.id for token in written(AnswerGenerator(about, 2), 400)]
    voice = AnswerGenerator(brief(first_unit=20, inside_unit=True), 5, past)
    voice.plan_failure("loop", 10)
    tokens = [token.id for token in written(voice, 300)]
    assert voice.onset is not None
    assert voice.onset < 40
    whole = past + tokens
    at = len(past) + voice.onset - 1
    assert any(whole[at:] == whole[at - p : -p] for p in range(6, 160))


def test_an_unknown_symptom_is_refused() -> None:
    """A misspelt symptom must not be a healthy run."""
    with pytest.raises(ValueError, match="lop"):
        AnswerGenerator(brief(), 1).plan_failure("lop", 100)
