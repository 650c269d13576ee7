"""What a seed changes of the way through the server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.campaign.provenance.doubts import seed_notes
from stresstest.model import Decoding
from tests.support.stored_data import make_run


@pytest.mark.parametrize(
    ("decoding", "told"),
    [
        (Decoding(temperature=0.7, top_p=0.9), True),
        (Decoding(), True),
        (Decoding(temperature=0.0, top_p=0.9), False),
        (Decoding(temperature=0.7, top_p=1.0, top_k=0), False),
    ],
)
def test_another_kernel_for_requests_with_a_seed_is_told(decoding: Decoding, told: bool) -> None:
    """vLLM's fused sampler takes no seeds: a limit was twice the truth of traffic without them."""
    run = make_run()
    run = replace(run, settings=replace(run.settings, decoding=decoding))
    assert bool(seed_notes(run)) == told
    assert seed_notes(replace(run, settings=replace(run.settings, send_seed=False))) == []
    assert seed_notes(replace(run, profile=replace(run.profile, on_cpu=True))) == []
    assert seed_notes(replace(run, profile=replace(run.profile, simulated=True))) == []
