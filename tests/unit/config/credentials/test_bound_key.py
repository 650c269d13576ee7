"""A key in the environment goes to servers that its owner chose, and to no address from a foreign file."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stresstest.campaign.provenance.restart import was_restarted
from stresstest.config.credentials.bound_key import BoundKey
from stresstest.endpoint.client import Endpoint
from stresstest.errors import UsageError
from stresstest.model import Decoding, GenerationRequest, ServerSample
from stresstest.store import open_store
from tests.support.commands import called
from tests.support.fake_vllm import FakeVllm, Page, fake_vllm
from tests.support.stored_data import make_run

KEY = "sk-env-secret-4242"


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_a_chosen_server_gets_the_key_and_is_remembered() -> None:
    """Named once on the command line, it may come from a stored run later."""
    Endpoint("http://gpu-7:8000/v1", api_key=BoundKey(KEY, chosen=["http://gpu-7:8000/v1"]))
    Endpoint("http://gpu-7:8000/other", api_key=BoundKey(KEY, chosen=[]))


@pytest.mark.parametrize(
    "url",
    ["http://gpu-7:8001/v1", "https://gpu-7:8000/v1", "http://gpu-7.evil:8000/v1", "http://u:p@evil/v1"],
)
def test_another_server_does_not_get_it(url: str) -> None:
    """Another port, scheme or host is another server."""
    Endpoint("http://gpu-7:8000/v1", api_key=BoundKey(KEY, chosen=["http://gpu-7:8000/v1"]))
    with pytest.raises(UsageError) as refused:
        Endpoint(url, api_key=BoundKey(KEY, chosen=["http://gpu-7:8000/v1"]))
    assert KEY not in str(refused.value)
    assert "u:p" not in str(refused.value)


def test_the_official_address_and_a_key_given_by_hand_need_no_confirmation() -> None:
    """--api-key is given together with the address; OPENAI_API_KEY was made for one."""
    Endpoint("https://api.openai.com/v1", api_key=BoundKey(KEY, chosen=[]))
    Endpoint("http://anywhere/v1", api_key=KEY)


def test_a_folder_that_cannot_be_written_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the server is only not remembered."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    Endpoint("http://gpu-7:8000/v1", api_key=BoundKey(KEY, chosen=["http://gpu-7:8000/v1"]))


def test_other_headers_of_the_environment_are_sent_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK adds an organization, a project and any header by itself, and lets one replace the key."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-4242")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-4242")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "admin-4242")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: gate-4242\nAuthorization: Bearer other-4242")

    async def steps(key: str | None) -> list[dict[str, str]]:
        async with fake_vllm(Page(status=404)) as server, Endpoint(server.url, api_key=key) as endpoint:
            await endpoint.query("/models")
            await endpoint.generate(GenerationRequest("m", 1, Decoding(), prompt="Hi"), lambda tokens: False)
            return [dict(asked.headers) for asked in server.asked]

    for key in (KEY, None):
        found = asyncio.run(steps(key))
        assert len(found) >= 2
        assert all(headers["authorization"] == f"Bearer {key or 'EMPTY'}" for headers in found)
        assert "4242" not in str(found).replace(KEY, "")


def doctor(server: FakeVllm, folder: Path, *words: str, **env: str) -> tuple[int, str]:
    """(exit code, stderr) of `stresstest doctor` in this folder, with a key in the environment."""
    done = called("--store", "s.sqlite3", "doctor", *words, tmp_path=folder, OPENAI_API_KEY=KEY, **env)
    return done.returncode, done.stdout + done.stderr


def was_sent(server: FakeVllm) -> bool:
    return any(KEY in asked.headers.get("authorization", "") for asked in server.asked)


def test_a_project_file_cannot_redirect_the_key(tmp_path: Path) -> None:
    """The address of a found stresstest.toml gets no key until its user has named it once."""

    async def steps() -> None:
        async with fake_vllm(Page(status=404)) as server:
            (tmp_path / "stresstest.toml").write_text(f'base_url = "{server.url}"\n')
            code, said = await asyncio.to_thread(doctor, server, tmp_path)
            assert code == 2, said
            assert "nobody has confirmed this address" in said
            assert not was_sent(server)
            await asyncio.to_thread(doctor, server, tmp_path, "--base-url", server.url)
            assert was_sent(server)
            server.asked.clear()
            await asyncio.to_thread(doctor, server, tmp_path)
            assert was_sent(server)

    asyncio.run(steps())


@pytest.mark.parametrize("how", ["--config", "STRESSTEST_CONFIG", "STRESSTEST_BASE_URL"])
def test_what_the_user_names_is_the_users_own(tmp_path: Path, how: str) -> None:
    """A settings file or an address named by hand or by the environment needs no confirmation."""

    async def steps() -> None:
        async with fake_vllm(Page(status=404)) as server:
            (tmp_path / "stresstest.toml").write_text(f'base_url = "{server.url}"\n')
            words = ("--config", "stresstest.toml") if how == "--config" else ()
            values = {"STRESSTEST_CONFIG": "stresstest.toml", "STRESSTEST_BASE_URL": server.url}
            env = {how: values[how]} if how in values else {}
            await asyncio.to_thread(doctor, server, tmp_path, *words, **env)
            assert was_sent(server)

    asyncio.run(steps())


@pytest.mark.slow
def test_a_key_given_beside_an_address_goes_to_no_other(tmp_path: Path) -> None:
    """A project file may name further servers; the key was given for the one of the command line."""

    async def steps() -> None:
        async with fake_vllm(Page(status=404)) as named, fake_vllm(Page(status=404)) as other:
            (tmp_path / "stresstest.toml").write_text(
                f'[check]\nmodels = [{{ name = "m", base_url = "{other.url}" }}]\n'
                'tasks = ["narrative"]\nlanguages = ["it"]\n'
            )
            words = ("--store", "s.sqlite3", "--api-key", KEY, "check", "--base-url", named.url)
            done = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "stresstest", *words, cwd=tmp_path,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            said, _ = await done.communicate()
            assert b"nobody has confirmed this address" in said, said
            assert not was_sent(other)

    asyncio.run(steps())


async def test_a_look_at_the_counters_takes_no_key_elsewhere(tmp_path: Path) -> None:
    """A check asks first whether the server of a stored run was restarted: with a cloned folder's store, its
    server got the key before the address was refused."""
    async with fake_vllm(Page(b"")) as server:
        run = make_run()
        run = replace(
            run,
            settings=replace(run.settings, base_url=server.url),
            profile=replace(run.profile, metrics=True),
        )
        with open_store(str(tmp_path / "s.sqlite3")) as store:
            store.create_run(run)
            store.add_samples(run.id, [ServerSample(1.0, prompt_tokens=1, generation_tokens=1)])
            with pytest.raises(UsageError, match="is not sent to"):
                await was_restarted(store, run, server.url, api_key=BoundKey(KEY, chosen=[]))
            assert server.asked == []
            await was_restarted(store, run, server.url, api_key=BoundKey(KEY, chosen=[server.url]))
            assert [asked.path for asked in server.asked] == ["/metrics"]
