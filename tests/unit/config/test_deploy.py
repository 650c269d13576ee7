"""deploy/ is checked as text: pinned images, flags that vLLM knows, variables that stresstest reads."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from stresstest import __version__
from stresstest.config import settings as config
from stresstest.store.location import locate
from tests.support.paths import ROOT

DEPLOY = ROOT / "deploy"
FLAGS = frozenset((ROOT / "tests" / "data" / "vllm_0_32_flags.txt").read_text("utf-8").split())


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    return loaded


def test_the_parts_refer_to_each_other(compose: dict[str, Any]) -> None:
    """Two services; every volume, dependency and file that one names is there."""
    services = compose["services"]
    assert set(services) == {"vllm", "stresstest"}
    for service in services.values():
        for volume in service["volumes"]:
            assert volume.partition(":")[0] in compose["volumes"]
        assert set(service.get("depends_on", {})) <= set(services)
    build = services["stresstest"]["build"]
    context = (DEPLOY / build["context"]).resolve()
    assert context == ROOT
    assert (context / build["dockerfile"]).is_file()
    assert services["stresstest"]["depends_on"]["vllm"]["condition"] == "service_healthy"
    assert "healthcheck" in services["vllm"]


def test_images_are_pinned(compose: dict[str, Any]) -> None:
    """A version that moves would move the measurement: no `latest`, no tag left out."""
    images = [service["image"] for service in compose["services"].values()]
    images += re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    for image in images:
        assert re.search(r":v?\d+\.\d+\.\d+", image), image
    assert f"stresstest:{__version__}" in images


def test_every_flag_is_one_that_vllm_knows(compose: dict[str, Any]) -> None:
    """The flags of vLLM 0.32, read off its parser; those that the README says to set are set."""
    given = dict(word.partition("=")[::2] for word in compose["services"]["vllm"]["command"])
    assert set(given) <= FLAGS
    assert given["--generation-config"] == "vllm"
    assert given["--max-logprobs"] == "20"
    assert given["--port"] == "8000"
    readme = (DEPLOY / "README.md").read_text("utf-8")
    wanted, unwanted = readme.split("## Do not set")
    assert set(re.findall(r"^\| `(--[\w-]+)", wanted, re.MULTILINE)) <= set(given)
    named = set(re.findall(r"`(--[\w-]+)", unwanted))
    assert named <= FLAGS
    assert not (named - {"--generation-config", "--max-logprobs"}) & set(given)


def test_every_variable_is_one_that_stresstest_reads(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt STRESSTEST_ variable would be passed over in silence by Docker."""
    service = compose["services"]["stresstest"]
    values = {k: re.sub(r"\$\{\w+:-(.*)\}", r"\1", v) for k, v in service["environment"].items()}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert config.unknown_variables() == []
    found = config.resolve({})
    assert (found["base_url"], found["gpus"]) == ("http://vllm:8000/v1", "all")
    assert str(locate(found["store"]).path).startswith(service["volumes"][0].partition(":")[2])


def test_the_image_holds_what_the_wheel_needs() -> None:
    """Every file that the wheel is built from is copied before the build."""
    docker = (DEPLOY / "Dockerfile").read_text("utf-8")
    copied = {word for line in re.findall(r"^COPY (.*)$", docker, re.MULTILINE) for word in line.split()[:-1]}
    assert {"pyproject.toml", "README.md", "LICENSE", "stresstest", "prompts", "alembic"} <= copied
    assert all((ROOT / name).exists() for name in copied)
    sent = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert {line.removeprefix("!") for line in sent if line.startswith("!")} == copied


def test_the_image_runs_as_nobody_special_and_keeps_its_store_where_it_may_write() -> None:
    """A numeric user, which a cluster can tell from root; and the store lies in that user's own folder."""
    steps = re.findall(r"^([A-Z]+) (.*)$", (DEPLOY / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert [rest for name, rest in steps if name == "USER"] == ["1000"]
    names = [name for name, _ in steps]
    assert "RUN" not in names[names.index("USER") :]
    assert ("ENV", "STRESSTEST_STORE=/data/stresstest.sqlite3") in steps
    assert any("--uid 1000" in rest and "chown 1000 /data" in rest for name, rest in steps if name == "RUN")
