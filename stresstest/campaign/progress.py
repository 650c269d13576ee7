"""What a running campaign reports while it runs.

Progress goes to stderr; results go to stdout. The live view is in :mod:`stresstest.render.live.view`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stresstest.campaign.execution.events import GenerationEvent
from stresstest.campaign.ladder import CertifyStep, ClimbStep, PlanSummary
from stresstest.model import (
    EndpointProfile,
    GenerationLoader,
    GenerationRecord,
    GpuSample,
    RunSettings,
    ServerSample,
)


class Progress:
    """Listener of a campaign, which ignores what it does not override; by itself `--display none`.

    Calls come in the order of events and must return quickly.
    """

    def started(self, run_id: str, settings: RunSettings, profile: EndpointProfile) -> None:
        pass

    def planned(self, plan: PlanSummary) -> None:
        pass

    def resumed(self, finished: Sequence[GenerationRecord], load: GenerationLoader, /) -> None:
        """finished: what earlier sessions measured. load: for the text of those that are shown."""

    def gpus(self, readings: Sequence[GpuSample]) -> None:
        """readings: of the endpoint's GPUs; grows while the campaign runs."""

    def stage(self, step: ClimbStep | CertifyStep) -> None:
        pass

    def measuring(self, what: str, total: int, cuts: Mapping[str, int] | None = None) -> None:
        """A stage that is not a rung begins.

        cuts: by key, where a generation continues an answer, the tokens of the answer that were kept.
        """

    def event(self, event: GenerationEvent) -> None:
        pass

    def sample(self, sample: ServerSample) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass
