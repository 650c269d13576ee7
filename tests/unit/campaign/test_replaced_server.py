"""A server that is replaced while it is measured: half of each is a sample of neither."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from stresstest.campaign import served_model
from stresstest.campaign.served_model import (
    ReplacedServerError,
    describe_server_changes,
    find_replacement,
    same_server,
)
from stresstest.endpoint.client import Endpoint
from stresstest.errors import EndpointError, ExitCode
from stresstest.model import EndpointProfile, RunStatus
from stresstest.store import open_store
from tests.support.campaign_commands import document, here, run
from tests.support.fake_campaign import Behaviour, campaign_server
from tests.support.fake_vllm import FakeVllm, Page, page
from tests.support.stored_data import make_run


def name_root(fake: FakeVllm, root: str) -> None:
    card = {"id": "lab", "max_model_len": 4096, "root": root}
    fake.pages["/v1/models"] = page({"data": [card]})


@pytest.mark.slow
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
            assert "root was models/old, is models/new" in again.stderr


@pytest.mark.slow
@pytest.mark.parametrize("after", [1_700_000_000, 1_760_000_000])
def test_a_model_that_is_replaced_under_its_name_is_known_by_its_date(tmp_path: Path, after: int) -> None:
    """`ollama pull` in the midst of a run: the server tells neither a root nor a version. One that writes the
    time of its reply, as llama.cpp does, is no other."""

    def name_date(fake: FakeVllm, created: int) -> None:
        fake.pages["/v1/models"] = page({"data": [{"id": "lab", "created": created}]})

    with campaign_server(Behaviour(onset=60)) as (fake, script):
        fake.pages["/version"] = Page(b"", 404)
        name_date(fake, 1_700_000_000)

        def pull_at_ten(number: int) -> None:
            if number == 10:
                name_date(fake, after)

        script.behaviour = Behaviour(onset=60, fault=pull_at_ten)
        done = run(tmp_path / "s.sqlite3", fake.url, "--horizon", "120")
        swapped = "the model's date in the server's list was 2023-11-14" in done.stderr
        assert swapped == (after != 1_700_000_000)
        assert (done.returncode == ExitCode.ENDPOINT) == swapped


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("cards", "changed"),
    [
        ([{"id": "lab", "root": "models/lab"}], None),
        ([{"id": "lab", "root": "models/new"}], "root was models/lab, is models/new"),
        ([{"id": "other", "root": "models/lab"}], "model was lab, is other"),
        ([], None),
    ],
)
def test_whether_a_stored_run_is_of_the_server_that_answers_now(
    tmp_path: Path, cards: list[dict[str, str]], changed: str | None
) -> None:
    """A project check takes the finished cells of an unfinished one: it passed for weights that nobody had
    asked. A server that is gone tells nothing."""
    with campaign_server(Behaviour(onset=60)) as (fake, _):
        fake.pages["/v1/models"] = page({"data": cards})
        run = make_run()
        run = replace(run, profile=replace(run.profile, base_url=fake.url, root="models/lab", version=None))
        assert asyncio.run(find_replacement(run, fake.url, api_key=None)) == changed
    assert asyncio.run(find_replacement(run, "http://127.0.0.1:9/v1", api_key=None)) is None


def name_length(fake: FakeVllm, length: int) -> None:
    card = {"id": "lab", "max_model_len": length, "root": "models/lab"}
    fake.pages["/v1/models"] = page({"data": [card]})


@pytest.mark.slow
def test_a_refused_run_stays_refused_when_the_first_server_is_back(tmp_path: Path) -> None:
    """A restart with another --max-model-len, undone: no resume, and no sweep that takes stored runs, makes
    a limit of the mixture."""
    store = tmp_path / "s.sqlite3"
    sizes = ("--horizon", "120")
    with campaign_server(Behaviour(onset=60)) as (fake, script):
        name_length(fake, 4096)

        def restart_at_ten(number: int) -> None:
            if number == 10:
                name_length(fake, 2048)

        script.behaviour = Behaviour(onset=60, fault=restart_at_ten)
        found = document(run(store, fake.url, *sizes), ExitCode.ENDPOINT)
        name_length(fake, 4096)
        script.behaviour = Behaviour(onset=60)
        again = run(store, None, "--resume", found["run_id"])
        assert again.returncode == ExitCode.USAGE
        assert "maximum length was 4096, is 2048. A mixed sample certifies neither" in again.stderr
        with open_store(str(store)) as opened:
            mixed = opened.run(found["run_id"])
        back = replace(mixed.profile, replaced=None)
        assert "replaced in the midst of it" in str(describe_server_changes(mixed, back))


@pytest.mark.parametrize("how", ["stopped", "failed"])
async def test_a_measurement_that_is_stopped_asks_too(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A cancelled job or a dying server: the answers of the last minutes may be those of another."""
    replaced(monkeypatch)
    stop = asyncio.Event()
    profile = EndpointProfile("http://gpu-7:8000/v1", "lab", version="0.11")
    async with Endpoint("http://gpu-7:8000/v1") as endpoint:
        with pytest.raises(ReplacedServerError, match=r"vLLM version was 0\.11, is 0\.99"):
            async with same_server(endpoint, profile, stop):
                if how == "failed":
                    raise EndpointError("it died")
                stop.set()


async def test_a_silent_server_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends the run within seconds, whatever the server does."""

    async def silent(_endpoint: Endpoint, _profile: EndpointProfile) -> EndpointProfile:
        await asyncio.sleep(3600)
        raise AssertionError

    monkeypatch.setattr(served_model, "fetch_identity", silent)
    monkeypatch.setattr(served_model, "_LAST_WAIT", 0.01)
    stop = asyncio.Event()
    stop.set()
    profile = EndpointProfile("http://gpu-7:8000/v1", "lab", version="0.11")
    async with Endpoint("http://gpu-7:8000/v1") as endpoint, same_server(endpoint, profile, stop):
        pass


def replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on every server names another version than when it was profiled."""

    async def other(endpoint: Endpoint, profile: EndpointProfile) -> EndpointProfile:
        return replace(profile, version="0.99")

    monkeypatch.setattr(served_model, "fetch_identity", other)


@pytest.mark.slow
def test_the_base_below_an_adapter_is_part_of_what_is_served(tmp_path: Path) -> None:
    """The adapter's own card stays the same when its base is replaced by a quantised one."""
    with campaign_server(Behaviour(onset=60)) as (fake, script):

        def name_base(root: str) -> None:
            base = {"id": "base", "max_model_len": 4096, "root": root}
            adapter = {"id": "lab", "root": "loras/lab", "parent": "base"}
            fake.pages["/v1/models"] = page({"data": [base, adapter]})

        def update_at_ten(number: int) -> None:
            if number == 10:
                name_base("models/awq")

        name_base("models/plain")
        script.behaviour = Behaviour(onset=60, fault=update_at_ten)
        done = run(tmp_path / "s.sqlite3", fake.url, "--model", "lab", "--horizon", "120")
    assert done.returncode == ExitCode.ENDPOINT
    assert "root was loras/lab on models/plain, is loras/lab on models/awq" in done.stderr


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_repeated_diagnosis_asks_again_what_the_other_server_answered(tmp_path: Path) -> None:
    """Answers of a healthy replacement would have confirmed that a penalty cures."""
    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=60)) as (fake, script):
        name_root(fake, "models/old")
        run_id = document(run(store, fake.url, "--horizon", "120"))["run_id"]
        begun = len(script.served)

        def update(number: int) -> None:
            if number == begun + 30:
                name_root(fake, "models/new")

        script.behaviour = Behaviour(onset=60, fault=update)
        done = here(store, "diagnose", "latest", "--no-unmask")
        assert done.returncode == ExitCode.ENDPOINT
        assert "root was models/old, is models/new" in done.stderr
        with open_store(str(store)) as opened:
            kept = opened.arm_records(run_id)
    assert len(script.served) - begun > 30 > len(kept)


def test_a_cost_on_two_servers_is_not_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its two arms would differ by the server, not by the loops."""
    store = tmp_path / "s.sqlite3"
    sizes = ("--horizon", "120", "--requests", "4", "--pairs", "2", "--gpus", "none")
    with campaign_server(Behaviour(onset=60)) as (fake, _):
        replaced(monkeypatch)
        done = here(store, "cost", "--lang", "it", "--base-url", fake.url, *sizes)
    assert done.returncode == ExitCode.ENDPOINT
    assert "is 0.99. A mixed sample certifies neither" in done.stderr


@pytest.mark.slow
def test_the_pair_in_which_the_server_was_replaced_enters_no_number(tmp_path: Path) -> None:
    """What is kept of the cost is the first server's, and the stored document says why it ends there."""
    store, path = tmp_path / "s.sqlite3", tmp_path / "cost.json"
    sizes = ("--horizon", "120", "--requests", "4", "--pairs", "4", "--gpus", "none")
    with campaign_server(Behaviour(onset=60)) as (fake, script):
        name_root(fake, "models/old")

        def update(number: int) -> None:
            if number == 22:
                name_root(fake, "models/new")

        script.behaviour = replace(script.behaviour, fault=update)
        done = here(store, "cost", "--lang", "it", "--base-url", fake.url, *sizes, "-o", str(path))
    assert done.returncode == ExitCode.ENDPOINT
    found = json.loads(path.read_text(encoding="utf-8"))
    [note] = [note for note in found["notes"] if "root was models/old, is models/new" in note]
    assert f"Pair {found['pairs'] + 1}, in which that happened, is in no number" in note
    assert {row["batch"].split("/")[0] for row in found["timeline"]} == {
        str(n) for n in range(found["pairs"])
    }
