"""Settings: precedence, unknown keys, and values that a user may write in several ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from stresstest.config import settings as config
from stresstest.errors import UsageError


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in config.option_names():
        monkeypatch.delenv(config.ENV_PREFIX + name.upper(), raising=False)
    monkeypatch.delenv("STRESSTEST_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.chdir(tmp_path)


def test_precedence_is_cli_then_environment_then_file_then_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Protects the contract CLI > env > file > default, each level seen to win over the next."""
    assert config.resolve({})["concurrency"] == 8
    (tmp_path / "stresstest.toml").write_text('concurrency = 3\nrigor = "quick"\n')
    assert config.resolve({})["concurrency"] == 3
    monkeypatch.setenv("STRESSTEST_CONCURRENCY", "5")
    assert config.resolve({})["concurrency"] == 5
    assert config.resolve({"concurrency": 7})["concurrency"] == 7
    assert config.resolve({"concurrency": None})["rigor"] == "quick"


def test_a_folder_is_no_settings_file(tmp_path: Path) -> None:
    """A bind mount whose source is missing makes a folder: its options must not be lost in silence."""
    (tmp_path / "stresstest.toml").mkdir()
    for named in (None, tmp_path / "stresstest.toml"):
        with pytest.raises(UsageError, match=r"stresstest\.toml is a folder"):
            config.resolve({}, config_file=named)


def test_a_byte_order_mark_begins_a_settings_file(tmp_path: Path) -> None:
    """Editors on Windows write one, which TOML calls an invalid statement."""
    (tmp_path / "stresstest.toml").write_bytes(b"\xef\xbb\xbfconcurrency = 3\n")
    assert config.resolve({})["concurrency"] == 3


def test_unknown_key_in_a_file_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    """A typo in a file must not silently leave the default in force."""
    path = tmp_path / "mine.toml"
    path.write_text("concurency = 3\n")
    with pytest.raises(UsageError, match=r"unknown key 'concurency'.*'concurrency'"):
        config.resolve({}, config_file=path)


def test_close_but_unknown_variable_is_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typo in a variable is pointed out; what an orchestrator injects is left alone."""
    monkeypatch.setenv("STRESSTEST_BASEURL", "http://x")
    monkeypatch.setenv("STRESSTEST_SERVICE_PORT_HTTP", "80")
    warnings = config.unknown_variables()
    assert len(warnings) == 1
    assert "STRESSTEST_BASE_URL" in warnings[0]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("margin", "12q", "'12q' is not a share"),
        ("margin", "100%", "below 1"),
        ("rigor", "fast", "quick, standard, strict"),
        ("temperature", -1, "--temperature"),
        ("budget_time", "soon", "90s, 30m"),
        ("budget_tokens", "-4", "above 0"),
        ("horizon", 1_000_001, "--horizon"),  # the store reads no longer answers
        ("concurrency", 0, "--concurrency"),
    ],
)
def test_bad_values_name_the_option_and_the_remedy(key: str, value: object, said: str) -> None:
    """A user must see which option is wrong and what to write."""
    with pytest.raises(UsageError) as caught:
        config.resolve({key: value})
    assert said in str(caught.value)


def test_a_key_in_the_path_of_an_exporters_address_is_refused() -> None:
    """It was stored and shown in every report, as that of a base URL was."""
    with pytest.raises(UsageError, match="--gpu-exporter holds a key in its path") as refused:
        config.resolve({"gpu_exporter": "http://box:9400/sk-proj-abcdef1abcdef1abcdef1/metrics"})
    assert "abcdef1" not in f"{refused.value} {refused.value.hint}"


def test_an_api_key_that_fails_validation_is_not_echoed(tmp_path: Path) -> None:
    """Keys never reach an error message."""
    path = tmp_path / "mine.toml"
    path.write_text("api_key = 424242\n")
    with pytest.raises(UsageError) as caught:
        config.resolve({}, config_file=path)
    assert "424242" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("45", 45), ("1.5h", 5400)]
)
def test_durations(text: str, seconds: float) -> None:
    """30m is minutes, a bare number seconds."""
    assert config.parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "n"),
    [("200k", 200_000), ("2M", 2_000_000), ("1G", 1_000_000_000), ("1_000", 1000), ("1,500", 1500)],
)
def test_counts(text: str, n: int) -> None:
    """Token budgets as people write them."""
    assert config.parse_count(text) == n


@pytest.mark.parametrize(
    "query", ["", "?sslmode=require&sslkeylogfile=/home/u/.bashrc", "?passfile=/home/u/x"]
)
def test_a_project_file_names_no_database_server(tmp_path: Path, query: str) -> None:
    """libpq sends PGPASSWORD and what ~/.pgpass holds to any server that is named, and reads and writes files
    that the address names: a cloned repository must not be what names it."""
    project = tmp_path / "stresstest.toml"
    address = f"postgresql://evil.example/x{query}"
    project.write_text(f'store = "{address}"\n')
    with pytest.raises(UsageError, match="names a database server as the store"):
        config.resolve({})
    assert config.resolve({}, config_file=project)["store"] == address
    assert config.resolve({"store": "mine.sqlite3"})["store"] == "mine.sqlite3"
    project.write_text('store = "sqlite:///mine.sqlite3"\n')
    assert config.resolve({})["store"] == "sqlite:///mine.sqlite3"


@pytest.mark.parametrize(
    "store",
    [
        *("~/.profile", "/etc/x", "../x", "sub/../../x", "link/x"),
        *("sqlite:////etc/x", "sqlite:///~/.profile", "sqlite:///file:/etc/x?uri=true"),
        "sqlite:///~/.profile?/../../../../../../../../proc/self/cwd/in",
    ],
)
def test_a_project_file_names_no_store_elsewhere(tmp_path: Path, store: str) -> None:
    """A shell runs what a system prompt holds in a file of that name: a cloned repository must not be what
    has it written. In its own folder, and where the user names the file, it may."""
    (tmp_path / "link").symlink_to(tmp_path.parent)
    project = tmp_path / "stresstest.toml"
    project.write_text(f'store = "{store}"\n')
    with pytest.raises(UsageError, match="names a store outside of this folder"):
        config.resolve({})
    assert config.resolve({}, config_file=project)["store"] == store
    project.write_text('store = "runs/mine.sqlite3"\n')
    assert config.resolve({})["store"] == "runs/mine.sqlite3"


@pytest.mark.parametrize(
    "line",
    [
        *('prompts = "~/private/prompts.jsonl"', 'task = "/home/u/secret.toml"', 'prompts = "../p.jsonl"'),
        '[check]\ntasks = ["narrative", "../secret.toml"]',
        'task = "link.toml:open"',
    ],
)
def test_a_project_file_sends_no_texts_from_elsewhere_to_its_own_address(tmp_path: Path, line: str) -> None:
    """A cloned repository must not be what sends a file of the user's to a stranger's server. To a server
    that the user names it may go, and so may what lies beside the project file."""
    project = tmp_path / "stresstest.toml"
    (tmp_path / "link.toml").symlink_to(tmp_path.parent / "secret.toml")
    project.write_text(f'base_url = "http://stranger.example/v1"\n{line}\n')
    with pytest.raises(UsageError, match="outside of this folder, to an address"):
        config.resolve({})
    config.resolve({"base_url": "http://mine:8000/v1"})
    config.resolve({}, config_file=project)
    project.write_text('base_url = "http://stranger.example/v1"\nprompts = "data/p.jsonl"\ntask = "story"\n')
    assert config.resolve({})["prompts"] == "data/p.jsonl"


def test_a_project_file_sends_none_to_the_address_of_a_model_of_its_own(tmp_path: Path) -> None:
    """A table of the gate may name one for each model."""
    project = tmp_path / "stresstest.toml"
    project.write_text(
        'prompts = "~/private.jsonl"\n[[check.models]]\nmodel = "m"\nbase_url = "http://stranger.example/v1"\n'
    )
    with pytest.raises(UsageError, match="outside of this folder, to an address"):
        config.resolve({"base_url": "http://mine:8000/v1"})


def test_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    """Broken TOML names the file, with no traceback."""
    path = tmp_path / "mine.toml"
    path.write_text("a = [")
    with pytest.raises(UsageError, match=r"mine\.toml is not valid TOML"):
        config.resolve({}, config_file=path)


@pytest.mark.parametrize("key", ["base_url", "store", "model"])
def test_a_value_of_a_wrong_type_is_not_quoted(tmp_path: Path, key: str) -> None:
    """An address, and a table, may hold a key."""
    path = tmp_path / "stresstest.toml"
    path.write_text(f'{key} = {{ url = "http://u:sk-secret@h" }}\n', encoding="utf-8")
    with pytest.raises(UsageError, match="is not valid") as caught:
        config.resolve({}, config_file=path)
    assert "sk-secret" not in str(caught.value)
