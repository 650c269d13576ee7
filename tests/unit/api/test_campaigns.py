"""`measure` and `load_run`: the campaign of `run`, from Python."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import stresstest
from stresstest.model import RunStatus
from stresstest.render.run_document import run_document
from tests.support.campaign_commands import document, here
from tests.support.fake_campaign import Behaviour, campaign_server, cut_after
from tests.support.fake_vllm import Hang


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of the machine, and a folder without a project file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("OPENAI_API_KEY", "STRESSTEST_STORE", "STRESSTEST_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[str]:
    with campaign_server(Behaviour(onset=60)) as (fake, _):
        yield fake.url


@pytest.mark.slow
def test_a_measurement_is_the_run_that_the_commands_read(server: str, tmp_path: Path) -> None:
    """One store, one answer: what `measure` returns, `load_run` and `runs show` say too. An event loop that
    runs already, as in a notebook, is no obstacle."""
    store = str(tmp_path / "s.sqlite3")

    async def notebook() -> stresstest.RunResult:
        return stresstest.measure(
            language="it", rigor="quick", base_url=server, horizon=120, store=store, gpus="none"
        )

    found = asyncio.run(notebook())
    assert found.threshold.certified
    again = stresstest.load_run(found.run.id[:15], store=store)
    assert run_document(again) == run_document(found)
    assert document(here(Path(store), "runs", "show", "latest", "--json"))["run_id"] == found.run.id
    assert len(stresstest.to_rows(found)) == len(found.generations)


@pytest.mark.slow
def test_the_environment_counts_as_on_the_command_line(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program and a command in one folder measure the same server into one store."""
    monkeypatch.setenv("STRESSTEST_STORE", str(tmp_path / "env.sqlite3"))
    monkeypatch.setenv("STRESSTEST_BASE_URL", server)
    found = stresstest.measure(language="it", rigor="quick", horizon=120, gpus="none", budget_tokens=300)
    assert not found.threshold.certified
    resumed = stresstest.measure(resume=found.run.id, budget_tokens="2M")
    assert resumed.run.id == found.run.id == stresstest.load_run().run.id
    assert resumed.threshold.certified


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"repetition_penality": 1.2}, "no option 'repetition_penality'"),
        ({"tighten": "no"}, "tighten must be True or False, not str"),
        ({"temperature": "0.7"}, "temperature must be a number, not str"),
        ({"seed": True}, "seed must be a whole number, not bool"),
        ({"margin": []}, "margin must be a text or a number, not list"),
        ({"api_key": 5}, "api_key must be a text, not int"),
        ({"language": 5}, "language must be a text, not int"),
        ({"resume": 5}, "resume must be a text, not int"),
    ],
)
def test_an_option_that_is_misspelt_or_of_another_type_is_refused(options: dict[str, Any], said: str) -> None:
    """It was ignored, and hours were measured with another decoding; "no" counted as a wish."""
    with pytest.raises(stresstest.UsageError, match=re.escape(said)) as caught:
        stresstest.measure(**{"language": "it", "base_url": "http://127.0.0.1:9/v1", **options})
    if "repetition_penality" in options:
        assert caught.value.hint == "Did you mean 'repetition_penalty'?"


@pytest.mark.parametrize("name", [None, 5, "", "a\0b", "a\ud800"])
def test_what_names_no_run_is_a_sentence(name: Any) -> None:
    """A program may pass on whatever it was given."""
    for given in ({"run": name}, {"store": name or 5}):
        with pytest.raises(stresstest.UsageError):
            stresstest.load_run(**given)


def test_errors_are_exceptions_with_a_sentence(server: str, tmp_path: Path) -> None:
    """What the command would print and exit with."""
    store = str(tmp_path / "s.sqlite3")
    with pytest.raises(stresstest.UsageError, match="--lang is missing"):
        stresstest.measure(base_url=server, store=store)
    with pytest.raises(stresstest.UsageError, match="No runs are stored yet"):
        stresstest.load_run(store=store)
    with pytest.raises(stresstest.UsageError, match="cannot be changed when a run is resumed"):
        stresstest.measure("other", resume="latest", store=store)
    with pytest.raises(stresstest.EndpointError):
        stresstest.measure(language="it", base_url="http://127.0.0.1:9/v1", store=store)


@pytest.mark.parametrize("name", ["lang", "langage"])
def test_a_misspelt_option_is_answered_with_the_right_one(name: str) -> None:
    """In the traceback, where a program's user sees it: `lang` is the name on the command line."""
    with pytest.raises(stresstest.UsageError, match=f"There is no option '{name}'") as caught:
        stresstest.measure(**{name: "it"})  # type: ignore[arg-type]
    assert caught.value.__notes__ == ["Did you mean 'language'?"]


def test_an_endpoint_that_dies_names_the_run_to_go_on_with(tmp_path: Path) -> None:
    """What was measured is stored: the exception's note says under which id."""
    store = str(tmp_path / "s.sqlite3")
    with (
        campaign_server(Behaviour(fault=lambda _: cut_after(3))) as (fake, _),
        pytest.raises(stresstest.EndpointError) as caught,
    ):
        stresstest.measure(language="it", rigor="quick", base_url=fake.url, horizon=120, store=store)
    assert "resume=" in caught.value.__notes__[-1]


@pytest.mark.slow
@pytest.mark.parametrize("finished", [0, 12])
def test_an_interrupted_notebook_keeps_what_was_measured(tmp_path: Path, finished: int) -> None:
    """The kernel's interrupt ends the measurement, which runs in another thread there, and names the run."""
    store = str(tmp_path / "s.sqlite3")
    stuck = Behaviour(onset=60, fault=lambda n: Hang() if n >= finished else None)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with campaign_server(stuck) as (fake, script):

        def interrupt() -> None:
            while len(script.served) <= finished:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        async def notebook() -> stresstest.RunResult:
            threading.Thread(target=interrupt, daemon=True).start()
            return stresstest.measure(
                language="it", rigor="quick", base_url=fake.url, horizon=120, store=store, gpus="none"
            )

        try:
            # A loop that handles no signals, as a kernel's.
            kept = pytest.raises(KeyboardInterrupt, match="is kept: resume=")
            with closing(asyncio.new_event_loop()) as kernel, kept:
                kernel.run_until_complete(notebook())
        finally:
            signal.signal(signal.SIGINT, before)
    assert stresstest.load_run(store=store).run.status is RunStatus.INTERRUPTED
