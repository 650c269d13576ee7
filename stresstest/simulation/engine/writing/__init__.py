"""Text of the simulated model, healthy and degenerate, token by token with its distributions."""

from stresstest.simulation.engine.writing.answer_generator import AnswerGenerator
from stresstest.simulation.engine.writing.layout import AnswerBrief
from stresstest.simulation.engine.writing.token_emitter import EmittedToken, alternatives

__all__ = ["AnswerBrief", "AnswerGenerator", "EmittedToken", "alternatives"]
