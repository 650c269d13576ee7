"""The source case's chain: `stresstest diagnose` without a stored run, on the scenario made after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stresstest.features.demo.command import simulator
from stresstest.store import open_store
from tests.support.commands import command

pytestmark = pytest.mark.simulated


def test_the_source_cases_chain_in_order_unaided_in_one_command(tmp_path: Path) -> None:
    """A loop at 900 that a penalty clears hides a context limit at 5,200: both are found by intervention, the
    second one by climbing on under the first one's cure; why and remedy are measured; and what it took is
    stated: three times the tokens of the run, beside the campaign that climbed on."""
    store = tmp_path / "s.sqlite3"
    with simulator("qwen2.5-7b-awq-it") as base_url:
        code, out, err = command(
            "--store", str(store), "--display", "plain", "diagnose", "--base-url", base_url,
            "--lang", "it", "--rigor", "quick", "--json",
        )  # fmt: skip
    assert code == 0, err
    document = json.loads(out)
    loop, drift = document["chain"]
    assert (loop["plane"], loop["basis"], loop["symptom"]) == ("decoding", "confirmed", "loop")
    assert loop["cleared_by"] == "repetition_penalty 1.15"
    assert 850 <= loop["median_onset"] <= 950
    assert [arm["name"] for arm in loop["arms"]][-2:] == ["penalty-1.1", "penalty-1.15"]
    assert (drift["plane"], drift["basis"], drift["symptom"]) == ("context", "confirmed", "language_drift")
    assert 5_000 <= drift["median_onset"] <= 5_500
    assert (
        "Asking for the language in the system prompt does not help: the answers then fail by structure "
        "break, at about the same token" in drift["sentence"]
    )
    assert {a["name"]: a["independent"] for a in drift["ablations"]}["twice the length"] is True
    assert drift["remedy"]["failed"] == 0
    assert document["recommended_decoding"] == {"repetition_penalty": 1.15}
    with open_store(str(store)) as opened:
        unmasking = opened.run(drift["run_id"])
    assert unmasking.settings.parent == document["run_id"]
    assert unmasking.settings.decoding.repetition_penalty == 1.15
    assert 4_400 <= document["recommended_max_tokens"] <= 4_800
    spent = document["diagnosis_tokens"]
    print(spent)
    # 2.99 where the client is quick; what a stream brings between its alarm and its abort is the machine's.
    assert spent["arms"] <= 3.1 * spent["run"]
    assert spent["unmasking"] > 0
