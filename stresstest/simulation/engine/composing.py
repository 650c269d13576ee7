"""From a request to the answer that will be written to it: reading, drawing, arming."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stresstest.simulation.engine.answer import Answer, JsonAnswer, SilentAnswer, TextAnswer
from stresstest.simulation.engine.conditions import Value
from stresstest.simulation.engine.draws import digest, mixed, uniform
from stresstest.simulation.engine.hazards import Armed, Latent, armed, continued, draw
from stresstest.simulation.engine.memory import Memory
from stresstest.simulation.engine.reading import read
from stresstest.simulation.engine.request import SimRequest
from stresstest.simulation.engine.scenario import Scenario
from stresstest.simulation.engine.situation import Situation
from stresstest.simulation.engine.writing import Brief
from stresstest.simulation.engine.writing.grammar import LANGUAGES

_ABSORBING = ("loop", "near_loop", "flooding")
"""A text that is stuck in one of these does not fall into another symptom."""

Gates = Callable[[Armed], Callable[[], bool] | None]


@dataclass(frozen=True, slots=True)
class Composed:
    """An answer about to be written.

    key: of the request (prompt and seed), for draws. given: what `requires` can ask. latent: None when there
    is nothing to remember. answer_tokens: of the same answer, written before this request.
    """

    answer: Answer
    key: int
    given: Mapping[str, Value | None]
    latent: Latent | None = None
    answer_tokens: int = 0


class Composer:
    """Makes answers for one scenario, and remembers what they carried."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._memory = Memory()
        model = scenario.model
        self._languages = model.languages or LANGUAGES
        self._defaults = {
            "repetition_penalty": model.repetition_penalty,
            "temperature": model.temperature,
            "top_p": model.top_p,
        }

    def compose(self, request: SimRequest, seed: int, gates: Gates) -> Composed:
        """The answer to a request. Nothing but the request and its seed enters, load gates excepted."""
        sampling = request.sampling(self._defaults)
        if request.silent is not None:
            return Composed(SilentAnswer(request.silent), mixed(seed, request.silent), sampling)
        if sampling["temperature"] == 0:
            seed = 0  # greedy decoding: the seed changes nothing
        key = mixed(digest(request.prompt_ids), seed)
        situation = read(request.prompt_ids, self._languages)
        given = situation.conditions() | sampling
        if request.json_text is not None:
            temperature = float(sampling["temperature"] or 0.0)
            return Composed(JsonAnswer(request.json_text, situation.language, temperature, key), key, given)
        per_unit = self._scenario.tokens_per_unit(given, situation.tokens_per_unit)
        latent, before = self._latent(situation, request, key, per_unit)
        brief = self._brief(situation, latent, given, per_unit, request.ignore_eos)
        end = self._end(situation, latent, before, brief)
        answer = TextAnswer(brief, key, situation.answer, end, request.min_tokens, request.ignore_eos)
        _plan(answer, armed(self._scenario, latent, given, before, len(request.prompt_ids)), gates)
        return Composed(answer, key, given, latent, before)

    def remember(self, composed: Composed, ids: Sequence[int]) -> None:
        if composed.latent is not None and ids:
            self._memory.remember(composed.latent, composed.answer_tokens, ids)

    def _latent(
        self, situation: Situation, request: SimRequest, key: int, per_unit: float
    ) -> tuple[Latent, int]:
        """What the answer carries, and how many of its tokens were written before this request."""
        if not situation.answer:
            return draw(self._scenario, key), 0
        known = self._memory.recall(situation.answer_text)
        if known is not None:
            latent, before = known.latent, known.tokens
        else:
            prompt = request.prompt_ids[: len(request.prompt_ids) - len(situation.answer)]
            latent = draw(self._scenario, mixed(digest(prompt), "continued"))
            before = len(situation.answer) + round((situation.first_unit - 1) * per_unit)
        return continued(self._scenario, latent, key, before, len(request.prompt_ids)), before

    def _brief(
        self,
        situation: Situation,
        latent: Latent,
        given: Mapping[str, Value | None],
        per_unit: float,
        ignore_eos: bool,
    ) -> Brief:
        units = None if ignore_eos else situation.units
        if units is not None and latent.end is not None:
            units = min(units, max(1, math.ceil(latent.end / per_unit)))
        return Brief(
            task=situation.task,
            language=situation.language,
            structure=situation.structure,
            topic=situation.topic,
            units=units,
            first_unit=situation.next_unit,
            inside_unit=situation.inside_unit,
            tokens_per_unit=per_unit,
            repetition_penalty=_number(given, "repetition_penalty"),
            temperature=_number(given, "temperature"),
        )

    def _end(self, situation: Situation, latent: Latent, before: int, brief: Brief) -> int | None:
        """Tokens still to be written after which an answer without a number of units ends by itself."""
        if brief.units is not None:
            return None
        end = latent.end
        if end is None and situation.task is None:
            end = self._scenario.model.answer_tokens.quantile(uniform(latent.seed, "answer"))
        return None if end is None else max(1, round(end) - before)


def _number(given: Mapping[str, Value | None], key: str) -> float:
    value = given[key]
    assert isinstance(value, int | float)
    return float(value)


def _plan(answer: TextAnswer, strikes: Sequence[Armed], gates: Gates) -> None:
    """Hand the hazards to the voice, first onset first, up to the one that the text never leaves again."""
    perhaps_stuck = False
    for each in strikes:
        hazard, gate = each.hazard, gates(each)
        if perhaps_stuck:
            gate = _unless_stuck(answer, gate)
        answer.plan(hazard.symptom, each.at, gate=gate, ends=hazard.ends)
        if hazard.symptom in _ABSORBING and not hazard.ends:
            if gate is None:
                return
            perhaps_stuck = True


def _unless_stuck(answer: TextAnswer, gate: Callable[[], bool] | None) -> Callable[[], bool]:
    return lambda: answer.symptom not in _ABSORBING and (gate is None or gate())
