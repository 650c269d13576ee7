"""From a request to the answer that will be written to it: reading, drawing, arming."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from stresstest.detectors.registry import is_repetition
from stresstest.model import AnswerPart
from stresstest.simulation.engine.answer import AnswerStream, GivenAnswer, TextAnswer, json_answer
from stresstest.simulation.engine.grammar import GRAMMAR_LANGUAGES
from stresstest.simulation.engine.hazards import (
    ArmedHazard,
    LatentAnswer,
    armed_hazards,
    continue_answer,
    draw_answer,
    hash_token_ids,
    stable_hash,
    stable_uniform,
)
from stresstest.simulation.engine.memory import AnswerMemory
from stresstest.simulation.engine.prompts import ParsedPrompt, read_prompt
from stresstest.simulation.engine.reasoning import ReasonedAnswer
from stresstest.simulation.engine.request import SimRequest
from stresstest.simulation.engine.scenario.spec import ConditionValue, Scenario
from stresstest.simulation.engine.writing import AnswerBrief

GateFactory = Callable[[ArmedHazard], Callable[[], bool] | None]


@dataclass(frozen=True, slots=True)
class ComposedAnswer:
    """An answer about to be written.

    key: of the request (prompt and seed), for draws. given: what `requires` can ask. latent: None when there
    is nothing to remember. answer_tokens: of the same answer, written before this request.
    """

    answer: AnswerStream
    key: int
    conditions: Mapping[str, ConditionValue | None]
    latent: LatentAnswer | None = None
    answer_tokens: int = 0


class AnswerComposer:
    """Makes answers for one scenario, and remembers what they carried."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._memory = AnswerMemory()
        model = scenario.model
        self._languages = model.languages or GRAMMAR_LANGUAGES
        self._defaults = {
            "repetition_penalty": model.repetition_penalty,
            "temperature": model.temperature,
            "top_p": model.top_p,
        }

    def compose(self, request: SimRequest, seed: int, gates: GateFactory) -> ComposedAnswer:
        """The answer to a request. Nothing but the request and its seed enters, load gates excepted."""
        sampling = request.effective_sampling(self._defaults)
        if request.silent is not None:
            return ComposedAnswer(GivenAnswer(), stable_hash(seed, request.silent), sampling)
        if sampling["temperature"] == 0:
            seed = 0  # greedy decoding: the seed changes nothing
        key = stable_hash(hash_token_ids(request.prompt_ids), seed)
        situation = read_prompt(request.prompt_ids, self._languages)
        given = situation.conditions() | sampling
        if request.json_text is not None:
            temperature = float(sampling["temperature"] or 0.0)
            answer = json_answer(request.json_text, situation.language, temperature, key)
            return ComposedAnswer(answer, key, given)
        per_unit = self._scenario.tokens_per_unit(given, situation.tokens_per_unit)
        latent, before = self._latent(situation, request, key, per_unit)
        brief = self._create_brief(situation, latent, given, per_unit, request.ignore_eos)
        end = self._natural_end(situation, latent, before, brief)
        text = TextAnswer(brief, key, situation.answer, end, request.min_tokens, request.ignore_eos)
        armed = armed_hazards(self._scenario, latent, given, before, len(request.prompt_ids))
        _plan_failures(text, [each for each in armed if each.hazard.part is AnswerPart.ANSWER], gates)
        written = text if situation.answer else self._after_reasoning(text, brief, key, armed, gates)
        return ComposedAnswer(written, key, given, latent, before)

    def _after_reasoning(
        self,
        answer: TextAnswer,
        brief: AnswerBrief,
        key: int,
        armed: Sequence[ArmedHazard],
        gates: GateFactory,
    ) -> AnswerStream:
        """The answer after its reasoning, where the model reasons."""
        model = self._scenario.model
        if model.reasoning_tokens is None:
            return answer
        length = max(1, round(model.reasoning_tokens.quantile(stable_uniform(key, "reasoning"))))
        prose = replace(brief, task=None, structure="open", topic="", units=None)
        thought = TextAnswer(prose, stable_hash(key, "reasoning"), (), length, 0, endless=False)
        _plan_failures(thought, [each for each in armed if each.hazard.part is AnswerPart.REASONING], gates)
        return ReasonedAnswer(thought, answer, brief.language, key, parsed=model.reasoning_parser)

    def remember(self, composed: ComposedAnswer, ids: Sequence[int]) -> None:
        if composed.latent is not None and ids:
            self._memory.remember(composed.latent, composed.answer_tokens, ids)

    def _latent(
        self, situation: ParsedPrompt, request: SimRequest, key: int, per_unit: float
    ) -> tuple[LatentAnswer, int]:
        """What the answer carries, and how many of its tokens were written before this request."""
        if not situation.answer:
            return draw_answer(self._scenario, key), 0
        known = self._memory.find_answer(situation.answer_text)
        if known is not None:
            latent, before = known.latent, known.tokens
        else:
            prompt = request.prompt_ids[: len(request.prompt_ids) - len(situation.answer)]
            latent = draw_answer(self._scenario, stable_hash(hash_token_ids(prompt), "continued"))
            before = len(situation.answer) + round((situation.first_unit - 1) * per_unit)
        return continue_answer(self._scenario, latent, key, before, len(request.prompt_ids)), before

    def _create_brief(
        self,
        situation: ParsedPrompt,
        latent: LatentAnswer,
        given: Mapping[str, ConditionValue | None],
        per_unit: float,
        ignore_eos: bool,
    ) -> AnswerBrief:
        units = None if ignore_eos else situation.units
        if units is not None and latent.end is not None:
            units = min(units, max(1, math.ceil(latent.end / per_unit)))
        return AnswerBrief(
            task=situation.task,
            language=situation.language,
            structure=situation.structure,
            topic=situation.topic,
            units=units,
            first_unit=situation.next_unit,
            inside_unit=situation.inside_unit,
            tokens_per_unit=per_unit,
            repetition_penalty=_numeric_condition(given, "repetition_penalty"),
            temperature=_numeric_condition(given, "temperature"),
        )

    def _natural_end(
        self, situation: ParsedPrompt, latent: LatentAnswer, before: int, brief: AnswerBrief
    ) -> int | None:
        """Tokens still to be written after which an answer without a number of units ends by itself."""
        if brief.units is not None:
            return None
        end = latent.end
        if end is None and situation.task is None:
            end = self._scenario.model.answer_tokens.quantile(stable_uniform(latent.seed, "answer"))
        return None if end is None else max(1, round(end) - before)


def _numeric_condition(given: Mapping[str, ConditionValue | None], key: str) -> float:
    value = given[key]
    assert isinstance(value, int | float)
    return float(value)


def _plan_failures(answer: TextAnswer, strikes: Sequence[ArmedHazard], gates: GateFactory) -> None:
    """Plan the hazards in order of onset, up to the first from which the text does not recover."""
    perhaps_stuck = False
    for each in strikes:
        hazard, gate = each.hazard, gates(each)
        if perhaps_stuck:
            gate = _unless_stuck(answer, gate)
        answer.plan_failure(hazard.symptom, each.at, gate=gate, ends=hazard.ends, form=hazard.form)
        if is_repetition(hazard.symptom) and not hazard.ends:
            if gate is None:
                return
            perhaps_stuck = True


def _unless_stuck(answer: TextAnswer, gate: Callable[[], bool] | None) -> Callable[[], bool]:
    """A text that is stuck in repetition does not fall into another symptom."""
    return lambda: not is_repetition(answer.symptom) and (gate is None or gate())
