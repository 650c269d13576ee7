"""`recommend --format`: what is printed is read by a shell, a YAML parser, an SDK; names are hostile."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from stresstest.cli.main import app
from stresstest.cli.recommend import _refuse_several
from stresstest.errors import UsageError
from stresstest.model import Basis, Decoding, EndpointProfile, Plane, PlaneVerdict, Subject, Threshold
from stresstest.report import formats
from stresstest.report.limits import Row, limits_of
from stresstest.report.recommended_console import print_recommendations
from stresstest.simulation.engine.scenariofile import load_scenario
from stresstest.store import StoredThreshold, open_store
from stresstest.workflows.served import changes
from tests.simulated import served
from tests.unit.store_data import make_run

VERDICT = PlaneVerdict(Plane.DECODING, Basis.CONFIRMED, "It loops.")
PENALTY = Decoding(temperature=0.7, top_k=20, repetition_penalty=1.2, system_prompt="Sii 'breve'.\n$(id)")
# No NUL, which no shell or argument can hold, and no surrogates, which the store replaces.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40)


def row(
    model: str = "m",
    task: str = "narrative",
    lang: str = "it",
    tokens: int | None = 2000,
    decoding: Decoding | None = None,
    **more: Any,
) -> StoredThreshold:
    """A stored result; tokens None: nothing certified."""
    certified = tokens is not None
    threshold = Threshold(0.05, 0.95, tokens, 124, 3, 0.049, certified)
    safe = None if tokens is None else tokens * 9 // 10
    fields: dict[str, Any] = {
        "run_id": "r1", "subject": Subject(model, task, lang), "decoding": decoding or Decoding(),
        "rigor": "standard", "margin": 0.1, "threshold": threshold, "safe_max_tokens": safe,
        "verdict": VERDICT, "created": 1.79e9, "saved": 1.79e9, "tool_version": "0.1.0",
        "server_version": "0.32.0", "base_url": "http://localhost:8000/v1", "simulated": False,
        "distinct_prompts": 120, "latest": True,
    }  # fmt: skip
    return StoredThreshold(**(fields | more))


def code_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


@settings(deadline=None)
@given(model=TEXT, prompt=TEXT, task=TEXT)
def test_whatever_a_model_is_called_the_text_parses_back_to_it(model: str, prompt: str, task: str) -> None:
    """A name with quotes, newlines or `$(…)` neither breaks out of its place nor changes on the way."""
    decoding = Decoding(repetition_penalty=1.2, system_prompt=prompt)
    rows = [row(model, task, "it", decoding=decoding), row(model, task + "2", "it", 900, decoding)]
    (limits,) = limits_of(rows)

    loaded = yaml.safe_load(formats.litellm_yaml([limits]))
    entries = loaded["model_list"]
    assert entries[0]["model_name"] == model
    assert entries[0]["litellm_params"]["model"] == f"hosted_vllm/{model}"
    assert [e["litellm_params"]["max_tokens"] for e in entries] == [810, 1800, 810]
    assert entries[0]["litellm_params"]["extra_body"] == {"repetition_penalty": 1.2}

    words = shlex.split(formats.shell_variables(limits), comments=True, posix=True)
    values = dict(word.partition("=")[::2] for word in words)
    assert (values["MODEL"], values["STRESSTEST_MODEL"]) == (model, model)
    assert values["SYSTEM_PROMPT"] == values["STRESSTEST_SYSTEM_PROMPT"] == prompt
    assert values["MAX_TOKENS"] == "810"
    assert sorted(v for k, v in values.items() if k.startswith("MAX_TOKENS_")) == ["1800", "810"]

    flag, config = shlex.split(formats.vllm_flags(limits), comments=True, posix=True)
    assert flag == "--override-generation-config"
    assert json.loads(config) == {"max_new_tokens": 810, "repetition_penalty": 1.2}


def test_a_shell_reads_the_variables_and_runs_nothing(tmp_path: Path) -> None:
    """A real shell sources the file: the values arrive whole, and a command in a name is not run."""
    hostile = f"m'\"`touch {tmp_path}/owned`$(touch {tmp_path}/owned)\n; touch {tmp_path}/owned #"
    (limits,) = limits_of([row(hostile, decoding=PENALTY)])
    file = tmp_path / "limits.env"
    file.write_text(formats.shell_variables(limits), encoding="utf-8")
    shown = 'set -a; . "$0"; printf "%s|%s|%s" "$MODEL" "$MAX_TOKENS" "$SYSTEM_PROMPT"'
    done = subprocess.run(["sh", "-c", shown, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{hostile}|1800|{PENALTY.system_prompt}"
    assert not (tmp_path / "owned").exists()


def test_every_format_says_what_the_limit_stands_on() -> None:
    """Subject, n, confidence, date and versions are beside the number, as comments or keys."""
    (limits,) = limits_of([row(decoding=PENALTY), row(task="qa", tokens=None, decoding=PENALTY)])
    for text in (formats.vllm_flags(limits), formats.litellm_yaml([limits]), formats.shell_variables(limits)):
        said = "\n".join(line for line in text.splitlines() if line.startswith("#"))
        for fact in (
            "m · narrative · it",
            "n = 124",
            "95 %",
            "2026-09-21",
            "vLLM 0.32.0",
            "stresstest 0.1.0",
        ):
            assert fact in said
        assert "NOT CERTIFIED" in said
        assert "qa" in said
    (model,) = formats.openai_document([limits])["models"]
    (entry,) = model["requests"]
    assert entry["measured"].items() >= {"n": 124, "confidence": 0.95, "server_version": "0.32.0"}.items()
    assert entry["request"] == {
        "model": "m",
        "max_tokens": 1800,
        "temperature": 0.7,
        "messages": [{"role": "system", "content": PENALTY.system_prompt}],
        "extra_body": {"top_k": 20, "repetition_penalty": 1.2},
    }
    assert model["not_certified"] == [{"model": "m", "task": "qa", "language": "it"}]


def test_the_smallest_limit_is_the_one_that_is_applied() -> None:
    """Of several tasks, and of several measurements of one task, the smallest; uncertified ones are named."""
    rows = [row(tokens=2000), row(tokens=3000, rigor="quick"), row(task="qa", tokens=1000)]
    (limits,) = limits_of([*rows, row(lang="en", tokens=None)])
    assert [(r.subject.task, r.safe_max_tokens) for r in limits.rows] == [("narrative", 1800), ("qa", 900)]
    assert limits.smallest.subject.task == "qa"
    assert [r.subject.language for r in limits.uncovered] == ["en"]
    assert limits_of([row(tokens=None)]) == []


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_tells_decodings_apart_at_every_width(width: int) -> None:
    """Two decodings of one subject are told apart, on narrow terminals too, and no line is cut."""
    console = Console(width=width, record=True, file=io.StringIO())
    print_recommendations(console, [row(decoding=PENALTY, tokens=2345), row(tokens=1234)])
    text = console.export_text()
    assert {"server's", "repetition_penalty", "2,110", "1,110"} <= set(text.split())
    assert all(len(line) <= width for line in text.splitlines())


@settings(deadline=None)
@given(value=st.floats(min_value=1e-30, max_value=1e30) | st.integers(-1, 10**6))
def test_a_number_stays_a_number_in_yaml(value: float) -> None:
    """1e-05 is a string to YAML 1.1: a temperature that LiteLLM would send as text, or refuse."""
    loaded = yaml.safe_load(f"x: {formats.yaml_number(value)}")["x"]
    assert type(loaded) is type(value)
    assert loaded == value


def test_small_and_large_sampling_values_reach_litellm() -> None:
    """In both places that hold them: the parameters OpenAI knows, and vLLM's own."""
    decoding = Decoding(temperature=1e-05, min_p=1e-06, repetition_penalty=1e22)
    loaded = yaml.safe_load(formats.litellm_yaml(limits_of([row(decoding=decoding)])))
    params = loaded["model_list"][0]["litellm_params"]
    assert params["temperature"] == 1e-05
    assert params["extra_body"] == {"min_p": 1e-06, "repetition_penalty": 1e22}


def test_a_floor_is_called_a_floor() -> None:
    """Where no onset was seen the limit is where the sample thins out: a longer sample may raise it, and the
    smallest of several limits may come from there."""
    seen = row(tokens=2000)
    floor = row(task="qa", tokens=900)
    floor = replace(floor, threshold=replace(floor.threshold, onsets=0, censored_at=900))
    words = "a floor: no onset was seen, the sample thins out there"
    (limits,) = limits_of([seen, floor])
    for text in (formats.vllm_flags(limits), formats.litellm_yaml([limits]), formats.shell_variables(limits)):
        said = [line for line in text.splitlines() if line.startswith("#")]
        assert f"# m: the smallest of 2 limits is 810 (qa, it); it is {words}." in said
        assert f"#   {words}; a sample that runs longer may certify more" in said
    (alone,) = limits_of([seen])
    assert "floor" not in formats.vllm_flags(alone)


def fill(path: Path, rows: list[Row]) -> None:
    """A store with these results."""
    with open_store(str(path)) as store:
        for each in rows:
            run = make_run(each.run_id, created=each.created, subject=each.subject, simulated=each.simulated)
            run = replace(run, settings=replace(run.settings, decoding=each.decoding, rigor=each.rigor))
            store.create_run(run)
            store.save_threshold(
                each.run_id, each.threshold, each.safe_max_tokens, each.verdict, distinct_prompts=120
            )


def recommend(store: Path, *args: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of the command in this process."""
    done = CliRunner().invoke(app, ["--store", str(store), "recommend", *args])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return int(getattr(done.exception, "exit_code", 1)), done.stdout, str(done.exception)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("output", ["vllm", "litellm", "env"])
def test_nothing_certified_prints_no_limit(tmp_path: Path, output: str) -> None:
    """A deployment script must not find a number, or an empty file that looks like success."""
    store = tmp_path / "s.db"
    fill(store, [row(tokens=None)])
    code, out, err = recommend(store, "--format", output)
    assert (code, out) == (4, "")
    assert "Nothing is certified" in err


def test_two_decodings_are_not_mixed_into_one_setting(tmp_path: Path) -> None:
    """Which decoding is deployed is the user's choice: the sentence names the runs to choose from."""
    store = tmp_path / "s.db"
    fill(store, [row(run_id="aaa-1"), row(run_id="bbb-2", decoding=PENALTY, tokens=1000)])
    code, out, err = recommend(store, "--format", "vllm")
    assert (code, out) == (2, "")
    assert "--like aaa-1" in err
    assert "--like bbb-2" in err
    _, _, hint = recommend(store, "--format", "vllm", "--model", "m")
    assert hint == err
    with pytest.raises(UsageError) as refused:
        _refuse_several("vllm", limits_of([row(run_id="aaa-1"), row(run_id="bbb-2", decoding=PENALTY)]))
    assert "--like RUN" in (refused.value.hint or "")
    assert "--model" not in (refused.value.hint or "")
    code, out, _ = recommend(store, "--format", "vllm", "--like", "bbb-2")
    assert code == 0
    assert code_of(out) == [
        "--override-generation-config '" + json.dumps({"max_new_tokens": 900, **PENALTY.sent()}) + "'"
    ]


def test_json_names_the_smallest_limit_of_a_model(tmp_path: Path) -> None:
    """Several tasks and languages: each one's limit, the smallest, and what it does not cover."""
    store = tmp_path / "s.db"
    rows = [row(run_id="a"), row(run_id="b", task="qa", tokens=500), row(run_id="c", lang="en", tokens=None)]
    fill(store, rows)
    code, out, _ = recommend(store, "--format", "json")
    (smallest,) = json.loads(out)["smallest"]
    assert code == 0
    assert (smallest["safe_max_tokens"], smallest["subject"]["task"], smallest["subjects"]) == (450, "qa", 2)
    assert [subject["language"] for subject in smallest["not_certified"]] == ["en"]
    assert "the smallest of 2 limits is 450 (qa, it); 1 more are not" in " ".join(recommend(store)[1].split())


def test_a_simulators_limit_never_stands_in_for_a_measured_one(tmp_path: Path) -> None:
    """With both in the store only the measured one is printed; alone, the simulator's is marked."""
    store = tmp_path / "s.db"
    fill(store, [row(run_id="sim-1", simulated=True, tokens=9000)])
    assert "# SIMULATED" in recommend(store, "--format", "vllm")[1]
    fill(store, [row(run_id="real-1", tokens=1000)])
    code, out, _ = recommend(store, "--format", "vllm")
    assert (code, '"max_new_tokens": 900' in out, "SIMULATED" in out) == (0, True, False)


def test_what_a_limit_stands_on_is_compared_with_what_is_served() -> None:
    """Version, weights and length that differ are named; what one side does not know is no difference."""
    before = EndpointProfile("http://a/v1", "m", version="0.32.0", root="/models/a", max_model_len=4096)
    after = replace(before, base_url="http://b/v1", version="0.33.0", root="/models/b", max_model_len=None)
    found = {change.name: (change.before, change.after) for change in changes(before, after)}
    assert found == {"vLLM version": ("0.32.0", "0.33.0"), "root": ("/models/a", "/models/b")}
    assert changes(before, before) == []


def test_a_server_that_serves_something_else_is_warned_about(tmp_path: Path) -> None:
    """`--base-url`: the limit is still printed, the warning is on stderr and names what changed."""
    store = tmp_path / "s.db"
    fill(store, [row("lab", run_id="r1")])
    with served(load_scenario("healthy")) as running:
        code, out, err = recommend(store, "--format", "vllm", "--base-url", running.base_url)
    assert code == 0
    assert "max_new_tokens" in out
    assert "the limit was measured on a real server, the simulator answers now" in err
    assert recommend(store, "--base-url", "http://127.0.0.1:9/v1")[0] == 3
