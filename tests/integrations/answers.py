"""Answers that the integrations are tried on."""

from __future__ import annotations

HEALTHY = (
    "The keeper climbed the stairs and lit the lamp. Nobody on the pier had noticed the fog. Two boats were "
    "still out, and their owners had gone home hours ago to sleep through the storm."
)
LOOPING = HEALTHY + " And then the river rose again over the road." * 60
