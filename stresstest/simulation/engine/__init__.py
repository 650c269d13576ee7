"""The simulated engine: hazards, text, and a scheduler in virtual time."""

from stresstest.simulation.engine.engine import Engine, with_speed
from stresstest.simulation.engine.request import RepetitionDetection, SimRequest, SimRequestError
from stresstest.simulation.engine.scenario.file import load_scenario, shipped_scenarios
from stresstest.simulation.engine.scenario.spec import EngineSpec, Hazard, ModelSpec, Scenario, StepTime
from stresstest.simulation.engine.scheduling.sequence import EngineStats, EngineStep, Sequence, ServiceFault
from stresstest.simulation.engine.virtual import VirtualRunResult, run_virtual

__all__ = [
    "Engine",
    "EngineSpec",
    "EngineStats",
    "EngineStep",
    "Hazard",
    "ModelSpec",
    "RepetitionDetection",
    "Scenario",
    "Sequence",
    "ServiceFault",
    "SimRequest",
    "SimRequestError",
    "StepTime",
    "VirtualRunResult",
    "load_scenario",
    "run_virtual",
    "shipped_scenarios",
    "with_speed",
]
