"""`recommend --format`: what is printed is read by a shell, a YAML parser, an SDK; names are hostile."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import event, given, settings
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from stresstest.campaign.served_model import profile_changes
from stresstest.cli.app import app
from stresstest.errors import UsageError
from stresstest.features.recommend import formats
from stresstest.features.recommend.command import _refuse_several
from stresstest.features.recommend.console import print_recommendations
from stresstest.model import (
    Basis,
    Decoding,
    EndpointProfile,
    Plane,
    PlaneVerdict,
    ServerSample,
    Subject,
    ThinkingBudget,
    Threshold,
)
from stresstest.render.limits import LimitRow, group_limits
from stresstest.simulation.engine.scenario.file import load_scenario
from stresstest.store import StoredThreshold, open_store
from tests.support.simulated_servers import served
from tests.support.stored_data import make_run

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
        "server_version": "0.32.0", "base_url": "http://localhost:8000/v1", "concurrency": 8,
        "simulated": False, "distinct_prompts": 120, "latest": True,
    }  # fmt: skip
    return StoredThreshold(**(fields | more))


def code_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.slow
@settings(deadline=None)
@given(model=TEXT, prompt=TEXT, task=TEXT)
def test_whatever_a_model_is_called_the_text_parses_back_to_it(model: str, prompt: str, task: str) -> None:
    """A name with quotes, newlines or `$(…)` neither breaks out of its place nor changes on the way."""
    decoding = Decoding(repetition_penalty=1.2, system_prompt=prompt)
    rows = [row(model, task, "it", decoding=decoding), row(model, task + "2", "it", 900, decoding)]
    (limits,) = group_limits(rows)

    loaded = yaml.safe_load(formats.litellm_yaml([limits]))
    entries = loaded["model_list"]
    assert entries[0]["model_name"] == model
    assert entries[0]["litellm_params"]["model"] == f"hosted_vllm/{model}"
    assert [e["litellm_params"]["max_tokens"] for e in entries] == [810, 1800, 810]
    assert entries[0]["litellm_params"]["extra_body"] == {"repetition_penalty": 1.2}

    flag, config = shlex.split(formats.vllm_flags(limits), comments=True, posix=True)
    assert flag == "--override-generation-config"
    assert json.loads(config) == {"max_new_tokens": 810, "repetition_penalty": 1.2}

    try:
        written = formats.shell_variables(limits)
    except UsageError:
        lines = [line.strip() for line in f"{model}\n{prompt}".splitlines()]
        steers = [c for c in model + prompt if unicodedata.category(c)[0] == "C" or c in "\u2028\u2029"]
        event(f"refused: {steers}")
        assert steers or any(line.startswith("::") or "##[" in line for line in lines)
        return
    words = shlex.split(written, comments=True, posix=True)
    values = dict(word.partition("=")[::2] for word in words)
    assert (values["MODEL"], values["STRESSTEST_MODEL"]) == (model, model)
    assert values["SYSTEM_PROMPT"] == values["STRESSTEST_SYSTEM_PROMPT"] == prompt
    assert values["MAX_TOKENS"] == "810"
    assert sorted(v for k, v in values.items() if k.startswith("MAX_TOKENS_")) == ["1800", "810"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["m\x1b[2J", "m\x9b31m", "m\u202e", "m\n  ::error::x", "##[error]"])
def test_what_steers_a_terminal_is_no_shell_variable(tmp_path: Path, name: str) -> None:
    """It cannot be quoted so that every shell reads it, and printing it would obey it."""
    store = tmp_path / "s.db"
    fill(store, [row(name)])
    code, out, err = recommend(store, "--format", "env")
    assert (code, out) == (2, "")
    assert "cannot be written as a shell variable" in err
    for output in ("vllm", "litellm", "openai", "json", "table", "openmetrics"):
        _, out, _ = recommend(store, "--format", output)
        assert not {unicodedata.category(c) for c in out if c != "\n"} & {"Cc", "Cf", "Zl", "Zp"}


def test_a_shell_reads_the_variables_and_runs_nothing(tmp_path: Path) -> None:
    """A real shell sources the file: the values arrive whole, and a command in a name is not run."""
    hostile = f"m'\"`touch {tmp_path}/owned`$(touch {tmp_path}/owned)\n; touch {tmp_path}/owned #"
    (limits,) = group_limits([row(hostile, decoding=PENALTY)])
    file = tmp_path / "limits.env"
    file.write_text(formats.shell_variables(limits), encoding="utf-8")
    shown = 'set -a; . "$0"; printf "%s|%s|%s" "$MODEL" "$MAX_TOKENS" "$SYSTEM_PROMPT"'
    done = subprocess.run(["sh", "-c", shown, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{hostile}|1800|{PENALTY.system_prompt}"
    assert not (tmp_path / "owned").exists()


def test_every_format_says_what_the_limit_stands_on() -> None:
    """Subject, n, confidence, date and versions are beside the number, as comments or keys."""
    (limits,) = group_limits([row(decoding=PENALTY), row(task="qa", tokens=None, decoding=PENALTY)])
    for text in (formats.vllm_flags(limits), formats.litellm_yaml([limits]), formats.shell_variables(limits)):
        said = "\n".join(line for line in text.splitlines() if line.startswith("#"))
        for fact in (
            "m · narrative · Italian",
            "of 124 in the sample",
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
    (limits,) = group_limits([*rows, row(lang="en", tokens=None)])
    assert [(r.subject.task, r.safe_max_tokens) for r in limits.rows] == [("narrative", 1800), ("qa", 900)]
    assert limits.smallest.subject.task == "qa"
    assert [r.subject.language for r in limits.uncovered] == ["en"]
    assert group_limits([row(tokens=None)]) == []


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_tells_decodings_apart_at_every_width(width: int) -> None:
    """Two decodings of one subject are told apart, on narrow terminals too, and no line is cut."""
    console = Console(width=width, record=True, file=io.StringIO())
    print_recommendations(console, [row(decoding=PENALTY, tokens=2345), row(tokens=1234)])
    text = console.export_text()
    assert {"server's", "repetition_penalty", "2,110", "1,110"} <= set(text.split())
    assert all(len(line) <= width for line in text.splitlines())


@pytest.mark.parametrize(("version", "taken"), [("0.16.0", False), (None, False), ("0.32.0", True)])
def test_a_penalty_that_the_server_would_drop_is_not_among_its_defaults(
    version: str | None, taken: bool
) -> None:
    """vLLM before 0.32 ignores these two there without a word: the limit would be enforced without the
    decoding that it was measured with."""
    decoding = Decoding(temperature=0.7, presence_penalty=1.5, repetition_penalty=1.1)
    (limits,) = group_limits([row(decoding=decoding, server_version=version)])
    text = formats.vllm_flags(limits)
    flags = json.loads(shlex.split(text.splitlines()[-1])[1])
    assert flags.get("presence_penalty") == (1.5 if taken else None)
    assert flags["repetition_penalty"] == 1.1
    assert ("presence_penalty 1.5" in " ".join(text.split()) and "send it with them" in text) is not taken


@pytest.mark.slow
@settings(deadline=None)
@given(temperature=st.floats(min_value=1e-30, max_value=1e30), top_k=st.integers(-1, 10**6))
def test_a_number_stays_a_number_in_yaml(temperature: float, top_k: int) -> None:
    """1e-05 is a string to YAML 1.1: a temperature that LiteLLM would send as text, or refuse."""
    found = group_limits([row(decoding=Decoding(temperature=temperature, top_k=top_k))])
    [entry] = yaml.safe_load(formats.litellm_yaml(found))["model_list"]
    loaded = (entry["litellm_params"]["temperature"], entry["litellm_params"]["extra_body"]["top_k"])
    assert [type(value) for value in loaded] == [float, int]
    assert loaded == (temperature, top_k)


def test_small_and_large_sampling_values_reach_litellm() -> None:
    """In both places that hold them: the parameters OpenAI knows, and vLLM's own."""
    decoding = Decoding(temperature=1e-05, min_p=1e-06, repetition_penalty=1e22)
    loaded = yaml.safe_load(formats.litellm_yaml(group_limits([row(decoding=decoding)])))
    params = loaded["model_list"][0]["litellm_params"]
    assert params["temperature"] == 1e-05
    assert params["extra_body"] == {"min_p": 1e-06, "repetition_penalty": 1e22}


def test_a_floor_is_called_a_floor() -> None:
    """Where no onset was seen the limit is where the sample thins out: a longer sample may raise it, and the
    smallest of several limits may come from there."""
    seen = row(tokens=2000)
    floor = row(task="qa", tokens=900)
    floor = replace(floor, threshold=replace(floor.threshold, onsets=0, censored_at=900))
    words = "a lower bound: no onset was seen within the sample"
    (limits,) = group_limits([seen, floor])
    for text in (formats.vllm_flags(limits), formats.litellm_yaml([limits]), formats.shell_variables(limits)):
        comments = [line for line in text.splitlines() if line.startswith("#")]
        assert max(map(len, comments)) <= 80
        said = " ".join(word for line in comments for word in line.removeprefix("#").split())
        assert f"m: the smallest of 2 limits is 810 (qa, Italian); it is {words}." in said
        assert f"{words}; a sample with longer answers may certify more" in said
    (alone,) = group_limits([seen])
    assert "floor" not in formats.vllm_flags(alone)


def fill(path: Path, rows: list[LimitRow], *, prompts: int = 120) -> None:
    """A store with these results."""
    with open_store(str(path)) as store:
        for each in rows:
            run = make_run(each.run_id, created=each.created, subject=each.subject, simulated=each.simulated)
            settings = replace(
                run.settings, decoding=each.decoding, rigor=each.rigor, concurrency=each.concurrency
            )
            run = replace(run, settings=settings)
            store.create_run(run)
            store.save_threshold(
                each.run_id, each.threshold, each.safe_max_tokens, each.verdict, distinct_prompts=prompts
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


@pytest.mark.slow
@pytest.mark.parametrize("output", ["table", "json", "vllm", "litellm", "env"])
def test_a_withheld_cap_is_no_limit(tmp_path: Path, output: str) -> None:
    """T is certified, but no format prints a number for a deployment, and the reason is given."""
    threshold = replace(row(tokens=201).threshold, withheld="a cap of 180 would cut 38 of 38 healthy answers")
    store = tmp_path / "s.db"
    fill(store, [row(threshold=threshold, safe_max_tokens=None)])
    code, out, err = recommend(store, "--format", output)
    assert code == 4
    if output == "json":
        (found,) = json.loads(out)["recommendations"]
        assert (found["safe_max_tokens"], found["cap_withheld"]) == (None, True)
    elif output == "table":
        assert "no cap is recommended: a cap of 180 would cut" in " ".join(out.split())
    else:
        assert out == ""
        assert "No cap is recommended" in err


@pytest.mark.slow
@pytest.mark.parametrize("output", ["table", "json", "vllm", "litellm", "env"])
def test_an_unfit_model_has_no_limit_and_is_called_so(tmp_path: Path, output: str) -> None:
    """A cap of 7 tokens is no advice: no flags, a sentence, exit 4."""
    why = "the limit would be 7 tokens, and one unit takes about 70 (the task's estimate)"
    threshold = replace(row(tokens=8).threshold, withheld=why, unit_tokens=70, unfit=True)
    store = tmp_path / "s.db"
    fill(store, [row(threshold=threshold, safe_max_tokens=None)])
    code, out, err = recommend(store, "--format", output)
    assert code == 4
    if output == "json":
        (found,) = json.loads(out)["recommendations"]
        assert (found["safe_max_tokens"], found["unfit"]) == (None, True)
        assert found["threshold"]["unit_tokens"] == 70
    else:
        assert f"unfit for this task and language: {why}" in " ".join((out + err).split())
    assert output in {"table", "json"} or out == ""


@pytest.mark.slow
@pytest.mark.parametrize("output", ["table", "json", "vllm", "openai", "litellm", "env", "openmetrics"])
def test_a_limit_is_not_printed_beside_an_unfit_run_of_another_load(tmp_path: Path, output: str) -> None:
    """Unfit at 16 requests at a time, certified at 2 later: no limit, and why. The user may name the run."""
    why = "the limit would be 7 tokens, and one unit takes about 70 (the task's estimate)"
    unfit = replace(row(tokens=8).threshold, withheld=why, unit_tokens=70, unfit=True)
    store, fine = tmp_path / "s.db", row(run_id="bbb-2", created=200.0, concurrency=2)
    fill(
        store,
        [row(run_id="aaa-1", threshold=unfit, safe_max_tokens=None, created=100.0, concurrency=16), fine],
    )
    code, out, err = recommend(store, "--format", output)
    assert code == 4
    if output == "json":
        rows = json.loads(out)["recommendations"]
        assert {row["run_id"]: row["overruled_by"] for row in rows} == {"aaa-1": None, "bbb-2": "aaa-1"}
        assert [row["safe_max_tokens"] for row in rows] == [None, None]
    elif output == "openmetrics":
        assert "stresstest_safe_max_tokens" not in out
        assert "stresstest_certified{" in out
    else:
        assert "1,800 is not recommended: run aaa-1" in " ".join((out + err).split())
    code, out, err = recommend(store, "--format", output, "--like", "bbb-2")
    assert code == 0
    assert "warning: the run aaa-1" in err
    assert str(fine.safe_max_tokens) in out.replace(",", "")
    # What is pasted into a server's configuration has to carry the load that it holds for.
    words = " ".join(out.replace("#", " ").split())
    expected = {
        "json": '"holds_up_to": 2',
        "openai": '"holds_up_to": 2',
        "openmetrics": "stresstest_safe_max_tokens",
    }.get(output, "IT HOLDS ONLY WITH AT MOST 2 REQUESTS IN FLIGHT")
    assert expected in words
    assert ("--max-num-seqs 2" in out) is (output == "vllm")


@pytest.mark.slow
@pytest.mark.parametrize("output", ["table", "json", "vllm", "openai", "litellm", "env", "openmetrics"])
def test_a_limit_from_one_prompt_is_printed_on_request_only(tmp_path: Path, output: str) -> None:
    """It says nothing of other prompts, and flags in a deployment would claim that it does."""
    store = tmp_path / "s.db"
    fill(store, [row()], prompts=1)
    code, out, err = recommend(store, "--format", output)
    assert code == 4
    assert str(row().safe_max_tokens) not in out
    assert "measured a single prompt" in err
    code, out, err = recommend(store, "--format", output, "--allow-one-prompt")
    assert code == 0
    assert "measured a single prompt" not in err


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
        _refuse_several("vllm", group_limits([row(run_id="aaa-1"), row(run_id="bbb-2", decoding=PENALTY)]))
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
    assert "the smallest of 2 limits is 450 (qa, Italian); 1 more have no limit" in " ".join(
        recommend(store)[1].split()
    )


def test_a_simulators_limit_never_stands_in_for_a_measured_one(tmp_path: Path) -> None:
    """With both in the store only the measured one is printed; alone, the simulator's is marked."""
    store = tmp_path / "s.db"
    fill(store, [row(run_id="sim-1", simulated=True, tokens=9000)])
    assert "# SIMULATED" in recommend(store, "--format", "vllm")[1]
    fill(store, [row(run_id="real-1", tokens=1000)])
    code, out, _ = recommend(store, "--format", "vllm")
    assert (code, '"max_new_tokens": 900' in out, "SIMULATED" in out) == (0, True, False)


def test_a_limit_that_is_gone_is_said_and_no_longer_certified_on_a_dashboard(tmp_path: Path) -> None:
    """The line for node_exporter kept the old file when `recommend` ended with 4, and nothing was said."""
    store = tmp_path / "s.db"
    unfit = replace(row().threshold, tokens=25, unfit=True, withheld="one unit needs 300 tokens")
    fill(store, [replace(row(run_id="r2"), threshold=unfit, safe_max_tokens=None)])
    code, out, err = recommend(store, "--format", "openmetrics")
    assert code == 4
    assert re.search(r"stresstest_certified\{.*\} 0(\.0)?$", out, re.MULTILINE)
    assert "unfit for this task and language" in err
    assert "no limit is printed" in err


@pytest.mark.parametrize("output", ["vllm", "env", "litellm", "openai"])
def test_a_real_run_without_a_limit_is_not_hidden_by_a_simulated_one(tmp_path: Path, output: str) -> None:
    """The flags of a simulator were printed for a model that had been measured and is unfit."""
    store = tmp_path / "s.db"
    fill(store, [row(run_id="sim-1", simulated=True, tokens=9000), row(run_id="real-1", tokens=None)])
    code, out, err = recommend(store, "--format", output)
    assert code == 4
    assert "9000" not in out
    assert "8100" not in out
    assert "no limit is printed" in err


def test_what_a_limit_stands_on_is_compared_with_what_is_served() -> None:
    """Version, weights and length that differ are named; what one side does not know is no difference."""
    before = EndpointProfile("http://a/v1", "m", version="0.32.0", root="/models/a", max_model_len=4096)
    after = replace(before, base_url="http://b/v1", version="0.33.0", root="/models/b", max_model_len=None)
    found = {change.name: (change.before, change.after) for change in profile_changes(before, after)}
    assert found == {"vLLM version": ("0.32.0", "0.33.0"), "root": ("/models/a", "/models/b")}
    assert profile_changes(before, before) == []


def test_a_server_that_serves_something_else_is_warned_about(tmp_path: Path) -> None:
    """`--base-url`: the limit is still printed, the warning is on stderr and names what changed."""
    store = tmp_path / "s.db"
    fill(store, [row("lab", run_id="r1")])
    with served(load_scenario("healthy")) as running:
        code, out, err = recommend(store, "--format", "vllm", "--base-url", running.base_url)
    assert code == 0
    assert "max_new_tokens" in out
    assert "the limit was measured on a real server, but the simulator answers now" in err
    assert recommend(store, "--base-url", "http://127.0.0.1:9/v1")[0] == 3


def thinking(safe: int | None, *, supported: bool = True) -> ThinkingBudget:
    """A thinking budget, certified at 1,000 tokens with `safe`, else not at all."""
    tokens = None if safe is None else 1000
    threshold = Threshold(0.05, 0.95, tokens, 124, 3, 0.049, safe is not None)
    return ThinkingBudget(threshold, safe, 124, 120, supported=supported)


def test_the_thinking_budget_goes_with_every_request(tmp_path: Path) -> None:
    """Each task has its own, the entry for all tasks the smallest; it survives the store."""
    rows = [
        row("m", "narrative", thinking=thinking(900)),
        row("m", "technical", tokens=3000, thinking=thinking(700)),
    ]
    (limits,) = group_limits(rows)
    requests = formats.openai_document([limits])["models"][0]["requests"]
    assert [r["request"]["extra_body"] for r in requests] == [
        {"thinking_token_budget": 900},
        {"thinking_token_budget": 700},
    ]
    entries = yaml.safe_load(formats.litellm_yaml([limits]))["model_list"]
    budgets = [entry["litellm_params"]["extra_body"]["thinking_token_budget"] for entry in entries]
    assert budgets == [700, 900, 700]
    assert "THINKING_TOKEN_BUDGET=700" in code_of(formats.shell_variables(limits))
    said = " ".join(line.lstrip("# ") for line in formats.vllm_flags(limits).splitlines())
    assert "goes with each request: thinking_token_budget 700" in said
    assert "thinking_token_budget" not in code_of(formats.vllm_flags(limits))[0]
    with open_store(str(tmp_path / "s.sqlite3")) as store:
        store.create_run(make_run("r1"))
        store.save_threshold("r1", rows[0].threshold, 1800, VERDICT, thinking=rows[0].thinking)
        (stored,) = store.thresholds()
        assert stored.thinking == rows[0].thinking


def test_a_smaller_budget_holds_wherever_it_was_measured() -> None:
    """What stands for all tasks must be safe for the one that was measured on an older server, too."""
    rows = [
        row("m", "narrative", thinking=thinking(900)),
        row("m", "technical", thinking=thinking(300, supported=False)),
    ]
    (limits,) = group_limits(rows)
    assert "THINKING_TOKEN_BUDGET=300" in code_of(formats.shell_variables(limits))


@pytest.mark.parametrize("budget", [thinking(None), thinking(900, supported=False), None])
def test_a_budget_that_the_server_would_refuse_is_not_sent(budget: ThinkingBudget | None) -> None:
    """Without a certified budget, or on a server without the parameter, requests are as they were."""
    (limits,) = group_limits([row(thinking=budget)])
    for text in (json.dumps(formats.openai_document([limits])), formats.litellm_yaml([limits])):
        assert '"thinking_token_budget"' not in text
        assert "thinking_token_budget:" not in text
    assert "THINKING_TOKEN_BUDGET" not in formats.shell_variables(limits)


@pytest.mark.slow
def test_a_limit_is_printed_with_what_speaks_against_its_answers(tmp_path: Path) -> None:
    """Killed at 34 of 38 answers, resumed at a server that was restarted with a worse model: `run` noted it,
    and `recommend` printed the limit without a word."""
    store = tmp_path / "s.db"
    fill(store, [row(run_id="aaa-1")])
    with open_store(str(store)) as opened:
        opened.add_samples(
            "aaa-1",
            [
                ServerSample(at=float(at), prompt_tokens=10.0, generation_tokens=tokens)
                for at, tokens in enumerate((900.0, 5.0))
            ],
        )
    code, out, err = recommend(store, "--format", "vllm")
    assert code == 0
    assert "max_new_tokens" in out
    assert "warning: " in err
    assert "run aaa-1: The server's counters began again 1 time: it was restarted" in err
