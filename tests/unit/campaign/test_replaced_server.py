"""A server that is replaced while it is measured: half of each is a sample of neither."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stresstest.campaign import served_model
from stresstest.endpoint.client import Endpoint
from stresstest.errors import ExitCode
from stresstest.model import EndpointProfile, RunStatus
from stresstest.store import open_store
from tests.support.campaign_commands import document, here, run
from tests.support.fake_campaign import Behaviour, campaign_server
from tests.support.fake_vllm import FakeVllm, Page, page


def name_root(fake: FakeVllm, root: str) -> None:
    card = {"id": "lab", "max_model_len": 4096, "root": root}
    fake.pages["/v1/models"] = page({"data": [card]})


def test_a_run_on_two_servers_certifies_nothing(tmp_path: Path) -> None:
    """A rolling update in its middle: its answers are those of two models. It says so, is no baseline and no
    limit, and is not continued either, when the first server has come back."""
    store = tmp_path / "s.sqlite3"
    behaviour = Behaviour(onset=60)
    with campaign_server(behaviour) as (fake, script):
        name_root(fake, "models/old")

        def update_at_ten(number: int) -> None:
            if number == 10:
                name_root(fake, "models/new")

        script.behaviour = Behaviour(onset=60, fault=update_at_ten)
        done = run(store, fake.url, "--horizon", "120")
        found = document(done, ExitCode.ENDPOINT)
        assert (
            "The server was replaced during the measurement: root was models/old, is models/new"
            in done.stderr
        )
        assert "--resume" not in done.stderr
        with open_store(str(store)) as opened:
            [row] = opened.runs()
            assert row.status is RunStatus.FAILED
        assert here(store, "recommend").returncode != ExitCode.DONE
        for root in ("models/old", "models/new"):
            name_root(fake, root)
            again = run(store, None, "--resume", found["run_id"])
            assert again.returncode == ExitCode.USAGE
            assert "root was models/old, then models/new" in again.stderr


@pytest.mark.parametrize("reply", [Page(b"busy", 503), Page(b"<html>"), page({"data": []})])
def test_a_server_that_does_not_say_what_it_is_counts_as_the_same(tmp_path: Path, reply: Page) -> None:
    """A proxy's error on the model list, or a busy server, is no other model."""
    with campaign_server(Behaviour(onset=60)) as (fake, script):
        name_root(fake, "models/old")

        def stop_telling(number: int) -> None:
            if number == 10:
                fake.pages["/v1/models"] = reply

        script.behaviour = Behaviour(onset=60, fault=stop_telling)
        assert document(run(tmp_path / "s.sqlite3", fake.url, "--horizon", "120"))["threshold"]


def replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on every server names another version than when it was profiled."""

    async def other(endpoint: Endpoint, profile: EndpointProfile) -> EndpointProfile:
        return replace(profile, version="0.99")

    monkeypatch.setattr(served_model, "fetch_identity", other)


def test_a_diagnosis_on_two_servers_confirms_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arms are compared with one another: what only the second server clears is no decoding setting."""
    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=60)) as (fake, _):
        document(run(store, fake.url, "--horizon", "120"))
        replaced(monkeypatch)
        done = here(store, "diagnose", "latest", "--no-unmask")
    assert done.returncode == ExitCode.ENDPOINT
    assert "is 0.99. A mixed sample certifies neither" in done.stderr
    assert "confirmed" not in done.stdout


def test_a_cost_on_two_servers_is_not_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its two arms would differ by the server, not by the loops."""
    store = tmp_path / "s.sqlite3"
    sizes = ("--horizon", "120", "--requests", "4", "--pairs", "2", "--gpus", "none")
    with campaign_server(Behaviour(onset=60)) as (fake, _):
        replaced(monkeypatch)
        done = here(store, "cost", "--lang", "it", "--base-url", fake.url, *sizes)
    assert done.returncode == ExitCode.ENDPOINT
    assert "is 0.99. A mixed sample certifies neither" in done.stderr
