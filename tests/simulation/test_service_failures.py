"""Failures of the service are told as such: never as degeneration, and the threshold stands beside them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from stresstest.diagnosis.evidence.server import KV_FULL
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.outcome import Timeouts
from stresstest.model import FailureKind
from stresstest.simulation.engine.scenario.file import load_scenario
from stresstest.telemetry.prometheus import MetricsSampler
from tests.simulation.campaigns import Campaign, campaign, disagreements, truths
from tests.support.scenario_truth import TruthConditions, true_quantile

pytestmark = pytest.mark.simulated

STALL_S = 5.0
"""A stall is told after this silence; the product waits a minute, and no option sets it."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "stresstest.campaign.campaign_setup.Endpoint", partial(Endpoint, timeouts=Timeouts(stall=STALL_S))
    )


def lost_are_system(found: Campaign, kinds: set[FailureKind]) -> None:
    """Every lost generation is system by fact, and nothing that was lost is called degenerate."""
    lost = [g for g in found.generations if g.failure is not None]
    assert {g.failure.kind for g in lost if g.failure is not None} == kinds
    healthy = [g for g in lost if g.verdict.onset is None]
    assert found.document["planes"]["system"] == len(healthy) > 0


def test_a_fifth_of_the_requests_fails_and_the_threshold_stands(tmp_path: Path) -> None:
    """500s, cuts and stalls at random beside a loop: each onset is the loop's own, or where a near-loop
    led into it; what was lost is system; T is certified, and not above the truth."""
    found = campaign("flaky", tmp_path, "--lang", "it", "--horizon", "4096")
    assert found.code == 0, found.said
    lost_are_system(found, {FailureKind.CUT, FailureKind.STALL})
    assert found.document["symptoms"] == {"loop": len(found.failing)}
    known = truths(found)
    assert disagreements(found, known, within=12) == []
    threshold = found.document["threshold"]
    true = true_quantile(load_scenario("flaky"), TruthConditions(), threshold["alpha"])
    assert true is not None
    assert 0.6 * true <= threshold["tokens"] <= true
    assert "answered with an error (500)" in found.said
    assert found.document["verdict"]["plane"] == "decoding"
    assert any(e["plane"] == "system" and e["supports"] for e in found.document["verdict"]["evidence"])


def test_cut_streams_alone_are_the_system_and_no_onset(tmp_path: Path) -> None:
    """A model that is healthy behind a server that cuts a fifth of its streams: no symptom, plane system."""
    found = campaign("disconnects", tmp_path, "--lang", "it", "--horizon", "2048")
    assert found.code == 0, found.said
    lost_are_system(found, {FailureKind.CUT})
    assert found.onsets == []
    assert found.document["threshold"]["censored_at"] == found.document["threshold"]["tokens"]
    verdict = found.document["verdict"]
    assert (verdict["plane"], verdict["basis"]) == ("system", "observed")
    assert verdict["evidence"][0]["fact"].startswith("service failure after ")


def test_a_full_cache_is_evidence_before_the_onsets_and_spoils_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preemptions of a full KV cache come before what fails: plane system. What follows a preemption counts
    neither for nor against the model; whether enough is left to certify anything hangs on the moment, and so
    does whether a reading of the gauge comes before an onset or on its peak (the counter forgets nothing)."""
    # At full speed the simulator writes as much between two readings as vLLM in some ten seconds, or in any
    # time on a busy machine.
    monkeypatch.setattr("stresstest.campaign.session.MetricsSampler", partial(MetricsSampler, interval=0.05))
    found = campaign("kv-exhaustion", tmp_path, "--lang", "it", "--horizon", "4096", speed="20")
    verdict = found.document["verdict"]
    assert (verdict["plane"], verdict["basis"]) == ("system", "observed")
    assert found.document["planes"]["system"] >= 0.5 * len(found.failing) > 0
    facts = " ".join(e["fact"] for e in verdict["evidence"] if e["supports"])
    assert "preemptions before the onset" in facts
    assert (found.samples[-1].preemptions or 0) > 0
    assert found.kv_peak > 0.0
    told = [e for g in found.failing for e in g.evidence if e.fact.startswith("KV cache")]
    assert len(told) >= 0.5 * len(found.failing)  # of the others, no reading came in time
    assert ("KV cache reached" in facts) == any((e.value or 0.0) >= KV_FULL for e in told)
    threshold = found.document["threshold"]
    assert found.code == (0 if threshold["certified"] else 4)
    lacking = threshold["lacking"] or ""
    assert threshold["certified"] or "answers at risk are needed" in lacking or "Fix the server" in lacking
    spoilt = [g for g in found.failing if g.invalid_from is not None]
    assert len(spoilt) >= 0.5 * len(found.failing)
