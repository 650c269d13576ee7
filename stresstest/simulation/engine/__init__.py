"""The simulated engine: hazards, text, and a scheduler in virtual time."""

from stresstest.simulation.engine.engine import Engine, faster
from stresstest.simulation.engine.request import RepetitionDetection, SimRefused, SimRequest
from stresstest.simulation.engine.scenario import EngineSpec, Hazard, ModelSpec, Scenario, StepTime
from stresstest.simulation.engine.scenariofile import load_scenario, shipped_scenarios
from stresstest.simulation.engine.sequence import Fault, Sequence
from stresstest.simulation.engine.stats import Stats, Step
from stresstest.simulation.engine.truth import Setting, Truth, true_onsets, true_quantile
from stresstest.simulation.engine.virtual import VirtualRun, run_virtual

__all__ = [
    "Engine",
    "EngineSpec",
    "Fault",
    "Hazard",
    "ModelSpec",
    "RepetitionDetection",
    "Scenario",
    "Sequence",
    "Setting",
    "SimRefused",
    "SimRequest",
    "Stats",
    "Step",
    "StepTime",
    "Truth",
    "VirtualRun",
    "faster",
    "load_scenario",
    "run_virtual",
    "shipped_scenarios",
    "true_onsets",
    "true_quantile",
]
