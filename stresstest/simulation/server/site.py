"""What every handler needs to know of the simulated server."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from stresstest.simulation.server.metrics import Page
from stresstest.simulation.server.refusal import Refusal
from stresstest.simulation.server.runner import Runner


@dataclass(frozen=True, slots=True)
class Site:
    """One simulated server. model: the name it lists; strict: it answers to no other. created: epoch s."""

    runner: Runner
    page: Page
    model: str
    strict: bool
    context: int
    fingerprint: str
    created: int

    def known(self, name: str | None) -> None:
        """Raises Refusal (404) for a model that is not served."""
        if self.strict and name and name != self.model:
            message = f"The model `{name}` does not exist. Valid aliases: {self.model}."
            raise Refusal(404, message, "model")


SITE = web.AppKey("site", Site)
