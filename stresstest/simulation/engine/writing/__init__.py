"""Text of the simulated model, healthy and degenerate, token by token with its distributions."""

from stresstest.simulation.engine.writing.outline import Brief
from stresstest.simulation.engine.writing.shapes import Written, alternatives
from stresstest.simulation.engine.writing.voice import Voice

__all__ = ["Brief", "Voice", "Written", "alternatives"]
