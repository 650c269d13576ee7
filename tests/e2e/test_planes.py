"""`diagnose` on real vLLM: the lab model's limit, which is known, is found to lie in the context."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commands import stresstest

pytestmark = pytest.mark.vllm


def test_the_models_own_limit_is_context_by_intervention(
    narrative: tuple[Path, dict[str, Any]], lab_url: str
) -> None:
    """The stored campaign, diagnosed: no decoding heals it, a short context does; at a place that is known.

    The interventions may take no more than three times the tokens of the campaign.
    """
    store, campaign = narrative
    done = stresstest(
        "diagnose", campaign["run_id"], "--base-url", lab_url, "--no-why", "--json", store=store
    )
    print(done.stderr[-3000:])
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    [link] = document["chain"]
    assert (link["plane"], link["basis"], link["symptom"]) == ("context", "confirmed", "structure_break")
    # Trained on 768 positions; the sentence in which they end may have begun earlier.
    assert 740 <= link["position_in_context"] <= 800
    arms = {arm["name"]: arm for arm in link["arms"]}
    assert arms["unchanged"]["failed"] >= 15
    assert arms["last-units"]["clears"] is True
    assert arms["last-units"]["failed"] <= 1
    assert arms["alone"]["failed"] == arms["alone"]["n"] > 0
    decoding = [arm for arm in link["arms"] if arm["plane"] == "decoding"]
    assert len(decoding) == 7
    assert not any(arm["clears"] for arm in decoding)
    assert document["verdict"]["plane"] == "context"
    assert document["diagnosis_tokens"]["arms"] <= 3 * document["diagnosis_tokens"]["run"]
