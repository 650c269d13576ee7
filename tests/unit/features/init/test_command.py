"""`stresstest init`: what it finds out, what it asks, and what it never does to a file."""

from __future__ import annotations

import io
import json
import os
import tomllib
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest

from stresstest.config import settings as config
from stresstest.simulation.engine.scenario.spec import Scenario
from tests.support.commands import called
from tests.support.fake_campaign import Behaviour, campaign_server
from tests.support.fake_vllm import page
from tests.support.simulated_servers import served

NOBODY = "http://127.0.0.1:9/v1"


class Terminal(io.StringIO):
    """Somebody who types these answers."""

    def isatty(self) -> bool:
        return True


def init(folder: Path, *words: str, typed: str | None = None, port: int = 9) -> tuple[int, str, str]:
    """`stresstest init` in this folder; a server of this machine is looked for at this port only."""
    stdin = io.StringIO() if typed is None else Terminal(typed)
    with patch("sys.stdin", stdin), patch("stresstest.endpoint.discovery.LOCAL_PORTS", (port,)):
        done = called("init", *words, tmp_path=folder, LANG="fr_FR.UTF-8", LC_ALL="")
    return done.returncode, done.stdout, done.stderr


def written(folder: Path) -> dict[str, Any]:
    """The settings in the file, which the program itself accepts."""
    path = folder / "stresstest.toml"
    config.resolve({}, config_file=path)
    return tomllib.loads(path.read_text("utf-8"))


def test_without_a_server_the_file_is_written_and_the_simulator_named(tmp_path: Path) -> None:
    """Nobody needs a server to begin; without a terminal nothing is asked."""
    code, out, _ = init(tmp_path, "--lang", "it")
    assert code == 0
    assert written(tmp_path) == {"base_url": config.DEFAULT_BASE_URL, "lang": "it", "task": "narrative"}
    assert "stresstest sim --scenario" in out
    assert "refused the connection" in out
    assert "stresstest run" in out


def test_a_server_on_this_machine_is_found_with_its_model(tmp_path: Path) -> None:
    """The usual ports are asked for their models, and the language of the machine is the suggestion."""
    with served(Scenario(name="quiet", summary="nothing happens")) as running:
        port = urlsplit(running.base_url).port or 0
        code, out, err = init(tmp_path, "--yes", port=port)
    assert code == 0
    assert "Language of the answers (it, en, fr, es, pt, de): fr (suggested)" in err
    assert written(tmp_path) == {
        "base_url": f"http://localhost:{port}/v1",
        "model": "quiet",
        "lang": "fr",
        "task": "narrative",
    }
    assert "SIMULATED" in out


def test_every_option_of_a_run_goes_into_the_file(tmp_path: Path) -> None:
    """Sampling options and margins are settings like any other; the key is not written."""
    words = ("--base-url", NOBODY, "--model", "m", "--lang", "it", "--temperature", "0.7", "--margin", "5%")
    code, _, _ = init(tmp_path, *words, "--api-key", "geheim", "--tighten")
    assert code == 0
    found = written(tmp_path)
    assert found == {
        "base_url": NOBODY,
        "model": "m",
        "lang": "it",
        "task": "narrative",
        "temperature": 0.7,
        "margin": 0.05,
        "tighten": True,
    }
    assert list(found)[:4] == ["base_url", "model", "lang", "task"]


def test_questions_are_answered_at_a_terminal(tmp_path: Path) -> None:
    """Server, model, prompts, language, in this order; an answer that cannot be used is asked again."""
    with campaign_server(Behaviour()) as (fake, _):
        fake.pages["/v1/models"] = page({"data": [{"id": "first"}, {"id": "second"}]})
        typed = f"{fake.url}\nthird\nsecond\n\nnl\nit\n"
        code, _, err = init(tmp_path, typed=typed)
    assert code == 0, err
    assert "'third' is not one of: first, second" in err
    assert "[languages.nl]" in err
    assert written(tmp_path) == {"base_url": fake.url, "model": "second", "lang": "it", "task": "narrative"}


def test_a_question_that_nobody_answers_ends_as_an_interruption(tmp_path: Path) -> None:
    """Ctrl-C and Ctrl-D at a question leave no file."""
    assert init(tmp_path, typed="")[0] == 130
    assert not (tmp_path / "stresstest.toml").exists()


def test_prompts_in_the_folder_are_suggested_with_their_language(tmp_path: Path) -> None:
    """A file of prompts is what its owner wants measured; a log beside it is none."""
    text = "Scrivi una lunga storia su un faro in mezzo al mare e sul guardiano che lo abita da molti anni"
    (tmp_path / "log-prompts.jsonl").write_text('{"prompt": "a", "response": "b"}\n')
    (tmp_path / "my-prompts.jsonl").write_text(
        "".join(json.dumps({"id": f"p{i}", "prompt": f"{text}, parte {i}."}) + "\n" for i in range(12))
    )
    assert init(tmp_path)[0] == 0
    found = written(tmp_path)
    assert (found["prompts"], found["lang"], "task" in found) == ("my-prompts.jsonl", "it", False)


def test_a_file_that_is_there_is_kept_unless_forced(tmp_path: Path) -> None:
    """It may hold budgets that somebody wrote by hand."""
    path = tmp_path / "stresstest.toml"
    path.write_text('lang = "en"\n')
    code, _, err = init(tmp_path, "--lang", "it")
    assert (code, path.read_text()) == (2, 'lang = "en"\n')
    assert "--force" in err
    assert init(tmp_path, "--lang", "it", "--force")[0] == 0
    assert written(tmp_path)["lang"] == "it"


@pytest.mark.parametrize("there", [False, True], ids=["dangling", "to a file"])
@pytest.mark.parametrize("force", [(), ("--force",)], ids=["plain", "forced"])
def test_a_link_is_not_written_through(tmp_path: Path, force: tuple[str, ...], there: bool) -> None:
    """A cloned repository may hold a link to a file that the user's shell runs."""
    repository, profile = tmp_path / "repository", tmp_path / ".bash_profile"
    repository.mkdir()
    if there:
        profile.write_text('lang = "en"\n')
    (repository / "stresstest.toml").symlink_to("../.bash_profile")
    code, _, err = init(repository, "--lang", "it", *force)
    assert code == 2
    assert "stresstest.toml is a symbolic link" in err
    assert (profile.read_text() if profile.exists() else None) == ('lang = "en"\n' if there else None)


def test_a_file_is_replaced_whole_and_stays_as_readable_as_it_was(tmp_path: Path) -> None:
    """What its owner kept from others stays so, and nothing is left beside it."""
    path = tmp_path / "stresstest.toml"
    path.write_text('lang = "en"\n')
    path.chmod(0o600)
    assert init(tmp_path, "--lang", "it", "--force")[0] == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["stresstest.toml"]


def test_a_name_that_is_not_utf8_leaves_the_old_file_whole(tmp_path: Path) -> None:
    """TOML cannot hold the name, and an empty file would have taken the place of the settings."""
    path = tmp_path / "stresstest.toml"
    path.write_text('lang = "en"\n')
    (tmp_path / os.fsdecode(b"prompts-\xe9.jsonl")).write_text(
        '{"prompt": "Racconta una storia sul mare."}\n'
    )
    code, _, err = init(tmp_path, "--lang", "it", "--force")
    assert code == 2
    assert "is not UTF-8" in err
    assert path.read_text() == 'lang = "en"\n'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--lang", "nl"), "Write a task file with a table [languages.nl]"),
        (("--lang", "it", "--base-url", "http://me:secret@gpu:8000/v1"), "STRESSTEST_BASE_URL"),
        (("--lang", "it", "--gpu-exporter", "http://gpu:9400/metrics?token=s"), "STRESSTEST_GPU_EXPORTER"),
        (("--lang", "it", "--prompts", "nowhere.jsonl"), "nowhere.jsonl does not exist"),
        (("--lang", "it", "--task", "narativ"), "did you mean 'narrative'"),
        (("--lang", "it", "--gpus", "some"), "--gpus"),
    ],
    ids=["language", "password", "token", "prompts", "task", "gpus"],
)
def test_what_a_run_would_refuse_is_refused_with_what_to_do(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """A settings file that no command accepts helps nobody, and one with a password is read by others."""
    code, _, err = init(tmp_path, *words)
    assert code == 2
    assert said in err
    assert "secret" not in err
    assert not (tmp_path / "stresstest.toml").exists()


def test_several_models_or_an_unknown_one_are_named(tmp_path: Path) -> None:
    """Without a terminal no model is chosen for the user."""
    with campaign_server(Behaviour()) as (fake, _):
        fake.pages["/v1/models"] = page({"data": [{"id": "a"}, {"id": "b"}, {"id": "lora", "parent": "a"}]})
        code, _, err = init(tmp_path, "--base-url", fake.url, "--lang", "it")
        assert (code, "a, b." in err, "--model" in err) == (2, True, True)
        code, _, err = init(tmp_path, "--base-url", fake.url, "--lang", "it", "--model", "c")
        assert (code, "'c' is not one of: a, b" in err) == (2, True)
