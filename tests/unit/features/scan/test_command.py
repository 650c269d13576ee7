"""`stresstest scan` from the outside: stdout, stderr and exit codes as the contract has them."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import commands
from tests.support.commands import stresstest
from tests.support.scanned_files import LOOPING, corpus, write
from tests.support.snapshots import Snapshot, flat
from tests.support.stories import LOOP, story

Called = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Called:
    """`stresstest` in this process, where the language models are loaded once; it reads in no time."""
    monkeypatch.setattr("stresstest.scanning.scan.time", SimpleNamespace(monotonic=lambda: 0.0))
    return functools.partial(commands.called, tmp_path=tmp_path)


@pytest.mark.slow
def test_json_has_the_contracts_keys_and_nothing_else_on_stdout(tmp_path: Path) -> None:
    """One document; every promised key is there; absent is null."""
    path = write(tmp_path / "a.jsonl", corpus(80))
    done = stresstest("scan", path, "--group-by", "model", "--json", tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["requests"], document["damaged"]) == (80, 0)
    first, second = document["groups"]
    promised = ["key", "requests", "degenerate", "rate", "rate_ci", "dharma_rate", "symptoms", "threshold"]
    assert list(second)[: len(promised)] == promised
    assert (first["key"], second["key"]) == ({"model": "a"}, {"model": "b"})
    assert (second["degenerate"], second["rate"], second["symptoms"]) == (10, 0.25, {"loop": 10})
    assert second["rate_ci"] == pytest.approx([0.1269, 0.4120], abs=1e-3)
    tails = [row["response"] for row in corpus(80) if row["model"] == "b"]
    assert second["dharma_rate"] == sum(text.count(text[-15:]) >= 4 for text in tails) / 40
    threshold = second["threshold"]
    assert (threshold["tokens"], threshold["unit"], threshold["certified"]) == (None, "words", False)
    assert threshold["lacking"]
    assert first["languages"] == {"en": 40}
    assert first["language_sources"] == {"group": 40}


@pytest.mark.slow
def test_the_table_fits_eighty_columns_and_shows_the_worst(
    tmp_path: Path, called: Called, snapshot: Snapshot
) -> None:
    """A table people paste: no line is broken by the terminal, hostile text stays text."""
    rows = corpus(80)
    evil = f"{story(1)}\x1b[31m[bold]\u202e {LOOPING}\x1b]0;owned\x07"
    rows[0] = {"id": "\x1b[2Jevil", "model": "x/[red]y", "response": evil, "finish_reason": "length"}
    path = write(tmp_path / "a.jsonl", rows)
    command = ("scan", path, "--group-by", "model", "--show", "2")
    done = called(*command, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    snapshot(done.stdout)
    assert "x/[red]y" in done.stdout
    assert f"▶ {LOOP}" in flat(done.stdout)
    assert not any(sign in done.stdout for sign in ("\x1b", "\u202e", "\x07"))


def test_damaged_lines_are_named_on_stderr(tmp_path: Path, called: Called) -> None:
    """Named where progress goes; the answers beside them are judged."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Good."}\nnonsense\n', encoding="utf-8")
    done = called("scan", str(path), "--json")
    assert (done.returncode, json.loads(done.stdout)["damaged"]) == (0, 1)
    assert f"{path}:2:" in done.stderr


def test_how_many_damaged_lines_are_named_is_stated(tmp_path: Path, called: Called) -> None:
    """ "7 lines are damaged; see above" stood below five."""
    path = tmp_path / "a.jsonl"
    path.write_text("nonsense\n" * 7, encoding="utf-8")
    said = called("scan", str(path)).stderr
    assert said.count("not JSON") == 5
    assert "7 lines are damaged; the first 5 are named above." in said


TOOL_CALL = {"role": "assistant", "tool_calls": [{}]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "args", "code", "named"),
    [
        pytest.param(None, (), 2, "a.jsonl", id="no file"),
        pytest.param("", (), 4, "", id="an empty file"),
        pytest.param("nonsense\n", (), 2, "must be a whole JSON object", id="damaged"),
        pytest.param("nonsense\n", ("--strict",), 2, "a.jsonl:1:", id="damaged and strict"),
        pytest.param('{"text": "x"}\n', ("--field", "respons=a"), 2, "'response'", id="misspelt field"),
        pytest.param('{"answer": "x"}\n', (), 2, " answer\n", id="unknown layout"),
        pytest.param('{"text": "x"}\n', ("--field", "foo=bar"), 2, "'foo'", id="unknown field"),
        pytest.param('{"text": "x"}\n', ("--out", "-"), 2, "--out -", id="out on stdout"),
        pytest.param(json.dumps({"messages": [TOOL_CALL]}) + "\n", (), 4, "", id="tool calls alone"),
        pytest.param('{"text": "x"}\n', ("--lang", "klingon"), 2, "'klingon'", id="lang"),
        pytest.param('{"text": "x"}\n', ("--rigor", "fast"), 2, "quick, standard, strict", id="rigor"),
        pytest.param('{"text": "x"}\n', ("--margin", "150%"), 2, "150%", id="margin"),
        pytest.param('{"text": "x"}\n', ("--out", "absent/out.jsonl"), 2, "absent/out.jsonl", id="out"),
        pytest.param('{"text": "x"}\n', ("--tokenizer", "absent.json"), 2, "--tokenizer", id="tokenizer"),
        pytest.param('{"text": "x"}\n', ("-", "-"), 2, "", id="stdin twice"),
    ],
)
def test_empty_states_and_mistakes(
    tmp_path: Path,
    called: Called,
    snapshot: Snapshot,
    content: str | None,
    args: tuple[str, ...],
    code: int,
    named: str,
) -> None:
    """Usage and unreadable 2, nothing to judge 4; one sentence that names the mistake; never a traceback."""
    path = tmp_path / "a.jsonl"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    done = called("scan", str(path), *args)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert named in done.stderr
    snapshot(done.stderr)


@pytest.mark.slow
def test_a_full_disk_costs_the_verdicts_and_not_the_table(
    tmp_path: Path, called: Called, snapshot: Snapshot
) -> None:
    """What was judged is told as without --out; the file that is lost is named at once, and by exit 2."""
    path = write(tmp_path / "a.jsonl", corpus(80))
    whole = json.loads(called("scan", path, "--lang", "en", "--json").stdout)
    done = called("scan", path, "--lang", "en", "--json", "--out", "/dev/full")
    assert done.returncode == 2
    assert json.loads(done.stdout) | {"seconds": 0} == whole | {"seconds": 0}
    snapshot(done.stderr, "stderr")
    table = called("scan", path, "--lang", "en", "--out", "/dev/full")
    assert table.returncode == 2
    snapshot(table.stdout.splitlines()[0], "the table's header")


def test_empty_answers_and_answers_in_another_language_are_told(
    tmp_path: Path, called: Called, snapshot: Snapshot
) -> None:
    """Both could pass for health or failure of the group: they are counted beside its rate."""
    italian = " ".join(
        f"Il mare era {word} e la barca tornava piano verso il porto, mentre le donne aspettavano."
        for word in ("calmo", "freddo", "grigio", "mosso", "vuoto")
    )
    texts = [*(story(5, seed=n) for n in range(12)), italian, "", ""]
    records = [{"id": str(n), "text": text, "finish_reason": "stop"} for n, text in enumerate(texts)]
    path = write(tmp_path / "a.jsonl", records)
    (group,) = json.loads(called("scan", path, "--json").stdout)["groups"]
    assert (group["empty"], group["degenerate"]) == (2, 0)
    assert group["language_sources"]["other language than the group's"] == 1
    snapshot(called("scan", path).stdout)


@pytest.mark.slow
def test_copies_of_a_record_are_counted_and_widen_the_interval(tmp_path: Path, called: Called) -> None:
    """The same line many times in a log is no evidence from many requests: with ids of its own it is."""
    looping = "and then it was all the same again, " * 40
    copies = [{"text": looping, "finish_reason": "length"}] * 60
    others = [{"text": story(5, seed=n), "finish_reason": "stop"} for n in range(60)]
    shown = called("scan", write(tmp_path / "a.jsonl", copies + others)).stdout
    assert "Identical answers: 59 repeat another record" in " ".join(shown.split())
    numbered = [{"id": str(n), **record} for n, record in enumerate(copies + others)]
    groups = []
    for records in (copies + others, numbered):
        path = write(tmp_path / "a.jsonl", records)
        groups += json.loads(called("scan", path, "--json").stdout)["groups"]
    copied, apart = groups
    assert (copied["copies"], apart["copies"]) == (59, 0)
    assert copied["rate"] == apart["rate"] == 0.5
    assert copied["rate_ci"][0] < 0.1 < 0.4 < apart["rate_ci"][0]


@pytest.mark.parametrize(("filters", "copies"), [(["strict-match"], 0), (["strict-match", "flexible"], 100)])
def test_an_answer_that_two_filters_scored_counts_once(
    tmp_path: Path, called: Called, filters: list[str], copies: int
) -> None:
    """lm-evaluation-harness writes a line for each filter: 100 healthy answers passed a gate as 200."""
    rows = [
        {
            "doc_id": n,
            "resps": [[story(3, seed=n)]],
            "filter": name,
            "filtered_resps": [name],
            "exact_match": 0,
        }
        for n in range(100)
        for name in filters
    ]
    path = write(tmp_path / "a.jsonl", rows)
    words = ("scan", path, "--field", "response=resps[0][0]", "--lang", "en", "--fail-above", "2%", "--json")
    done = called(*words)
    assert done.returncode == 4, done.stdout + done.stderr
    [group] = json.loads(done.stdout)["groups"]
    assert (group["requests"], group["copies"]) == (100 + copies, copies)


def test_what_was_asked_for_and_cannot_be_told_is_said(
    tmp_path: Path, called: Called, snapshot: Snapshot
) -> None:
    """A key without lengths must not look like an answer to --by-length."""
    path = write(tmp_path / "a.jsonl", corpus(8))
    shown = called("scan", path, "--by-length", "model").stdout
    assert "--by-length model" in shown
    snapshot(shown)


def test_a_length_key_that_no_record_has_is_said_at_once(tmp_path: Path, called: Called) -> None:
    """As for --group-by: which keys there are, before anything is judged."""
    path = write(tmp_path / "a.jsonl", corpus(8))
    done = called("scan", path, "--by-length", "nope")
    assert done.returncode == 0
    assert "'nope'" in done.stderr
    assert "--by-length" in done.stderr
    assert "finish_reason" in done.stderr


def test_tool_calls_are_no_damage(tmp_path: Path, called: Called, snapshot: Snapshot) -> None:
    """An agent's log is full of them: --strict goes through, and they are counted apart."""
    call = {"choices": [{"message": {"content": None, "tool_calls": [{}]}, "finish_reason": "tool_calls"}]}
    path = write(tmp_path / "a.jsonl", [{"text": "Good."}, call, call])
    done = called("scan", path, "--strict", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["requests"], document["damaged"], document["textless"]) == (1, 0, 2)
    snapshot(called("scan", path).stdout)


@pytest.mark.parametrize("limit", [(), ("--fail-above", "2%")])
def test_a_layout_that_nobody_can_read_is_no_undecided_gate(
    tmp_path: Path, called: Called, limit: tuple[str, ...]
) -> None:
    """A logger renames a key; a gate that takes 4 for a pass was off from then on, and nobody knew."""
    path = write(tmp_path / "a.jsonl", [{"id": n, "my_text": story(2, seed=n)} for n in range(3)])
    done = called("scan", path, *limit)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "--field response=path.to.text" in flat(done.stderr)


def test_turns_of_others_are_left_out_aloud(tmp_path: Path, called: Called, snapshot: Snapshot) -> None:
    """A client's file of a conversation, a turn a line: nothing is skipped in silence."""
    turns = [("user", "Well?"), ("assistant", "Good."), ("tool", "12"), ("assistant", "Better.")]
    rows = [{"role": role, "content": said} for role, said in turns]
    path = write(tmp_path / "a.jsonl", rows)
    document = json.loads(called("scan", path, "--strict", "--json").stdout)
    assert (document["requests"], document["damaged"], document["left_out"]) == (2, 0, 2)
    snapshot(called("scan", path).stdout)
    done = called("scan", write(tmp_path / "b.jsonl", rows[:1]))
    assert done.returncode == 4
    assert "1 line holds no answer of a model" in done.stderr


def test_clusters_are_told_only_where_there_are_some(
    tmp_path: Path, called: Called, snapshot: Snapshot
) -> None:
    """A record without its prompt is no further output of another's."""
    rows = [row | {"finish_reason": "stop"} for row in corpus(8)]
    half = [row | ({"prompt": f"Topic {n}"} if n % 2 else {}) for n, row in enumerate(rows)]
    several = [row | {"prompt": "One topic"} for row in rows]
    for name, made in (("a prompt each", half), ("one prompt", several)):
        path = write(tmp_path / f"{name}.jsonl", made)
        snapshot(called("scan", path, "--lang", "en").stdout, name)


def test_no_cap_is_recommended_that_cuts_most_healthy_answers(
    tmp_path: Path, called: Called, snapshot: Snapshot
) -> None:
    """Answers that end early certify a T below their own length: a cap there would cut them all."""
    rows = [
        {"id": str(n), "response": story(6, seed=n), "finish_reason": "stop", "output_tokens": 90 + n % 7}
        for n in range(30)
    ]
    path = write(tmp_path / "a.jsonl", rows)
    words = ("scan", path, "--lang", "en", "--rigor", "quick")
    (found,) = json.loads(called(*words, "--json").stdout)["groups"]
    assert found["threshold"]["certified"]
    assert found["healthy_cut"] > 0.5
    assert (found["safe_max_tokens"], found["cap_withheld"]) == (None, True)
    snapshot(called(*words).stdout)


def test_a_narrow_terminal_says_which_columns_it_leaves_out(
    tmp_path: Path, called: Called, snapshot: Snapshot
) -> None:
    """And explains none that is not there; no header is broken in its middle."""
    rows = [row | {"metadata": {"team": "red"}} for row in corpus(8)]
    path = write(tmp_path / "a.jsonl", rows)
    narrow, wide = (
        called("scan", path, "--lang", "en", "--group-by", "model,metadata.team", COLUMNS=columns).stdout
        for columns in ("60", "80")
    )
    snapshot(narrow, "60 columns")
    snapshot(wide, "80 columns")
    assert max(map(len, narrow.splitlines())) <= 60


def test_the_worst_outputs_are_told_in_words(tmp_path: Path, called: Called, snapshot: Snapshot) -> None:
    """A recorded text is read in words: its evidence calls them so, as the lines beside it do."""
    shown = called("scan", write(tmp_path / "a.jsonl", corpus(8)), "--lang", "en", "--show", "1").stdout
    snapshot(shown)


def test_the_table_is_ready_to_paste(tmp_path: Path, called: Called, snapshot: Snapshot) -> None:
    """No blanks at the ends of its lines; all groups together, and how much was read, stand below."""
    path = write(tmp_path / "a.jsonl", corpus(40))
    shown = called("scan", path, "--group-by", "model").stdout
    assert [line for line in shown.splitlines()[:3] if line != line.rstrip()] == []
    snapshot(shown)


def test_ctrl_c_before_anything_was_judged_promises_nothing(
    tmp_path: Path, called: Called, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 130 and a sentence that says that there is nothing."""

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stresstest.scanning.pool.detect_chunk", stopped)
    done = called("scan", write(tmp_path / "a.jsonl", corpus(2)))
    assert (done.returncode, done.stdout) == (130, "")
    snapshot(done.stderr)


def test_units_are_told_of_the_groups_that_have_them(
    tmp_path: Path, called: Called, snapshot: Snapshot
) -> None:
    """One group in tokens and one in words: each note names its group, and neither speaks of all."""
    counted = [{"text": story(2, seed=n), "completion_tokens": 90, "model": "with"} for n in range(3)]
    words = [{"text": story(2, seed=n), "model": "without"} for n in range(3)]
    path = write(tmp_path / "a.jsonl", counted + words)
    snapshot(called("scan", path, "--group-by", "model").stdout, "two groups")
    snapshot(called("scan", path).stdout, "one group")
    both = json.loads(called("scan", path, "--json").stdout)["groups"]
    assert [group["uncounted"] for group in both] == [3]


@pytest.mark.slow
def test_ctrl_c_prints_what_was_judged(tmp_path: Path) -> None:
    """Exit 130 with one JSON document of the answers that were judged until then, from a pipe that is open.

    They are judged while it says nothing more: whoever writes it may be slow.
    """
    small_chunks = (
        "from stresstest.cli.app import main\n"
        "from stresstest.records import source\n"
        "if __name__ == '__main__':\n    source.CHUNK_BYTES = 4000\n    main()\n"
    )
    command = [sys.executable, "-c", small_chunks]
    command += ["scan", "-", "--lang", "en", "--json", "--workers", "2"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("STRESSTEST_")}
    out = tmp_path / "verdicts.jsonl"
    process = subprocess.Popen(
        [*command, "--out", str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        start_new_session=True,
    )
    assert process.stdin is not None
    lines = "".join(json.dumps(row) + "\n" for row in corpus(40)).encode()
    process.stdin.write(lines * 5)
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (out.exists() and out.stat().st_size):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    document = json.loads(stdout)
    assert document["interrupted"]
    assert not any(group["threshold"]["certified"] for group in document["groups"]), "not representative"
    assert 0 < document["requests"] <= 200
    assert b"Traceback" not in stderr


@pytest.mark.simulated
@pytest.mark.parametrize("pause", [0.1, 0.5])
def test_ctrl_c_twice_ends_it_at_once(tmp_path: Path, pause: float) -> None:
    """The second one came while the process waited for its workers on its way out, and made it wait for ever,
    below a traceback."""
    path = write(tmp_path / "a.jsonl", corpus(40) * 80)
    process = subprocess.Popen(
        [sys.executable, "-m", "stresstest", "--display", "plain", "scan", path, "--workers", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(children.read_text().split()) < 3:
        time.sleep(0.02)
    time.sleep(1.5)  # until the workers have loaded their models and judge
    for _ in range(2):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        time.sleep(pause)
    try:
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode in (130, -signal.SIGINT), stderr
    assert b"Traceback" not in stderr


@pytest.mark.simulated
def test_ctrl_c_at_the_worst_moment_ends_the_scan() -> None:
    """It arrives while the scan holds the lock of a result that a worker is about to deliver: a lock kept for
    ever would keep the process for ever, too."""
    interrupted_inside_wait = (
        "import os, signal\n"
        "from concurrent.futures import _base\n"
        "from stresstest.cli.app import main\n"
        "from stresstest.records import source\n"
        "enter = _base._AcquireFutures.__enter__\n"
        "def interrupted(self):\n"
        "    enter(self)\n"
        "    if len(self.futures) > 1:\n"
        "        _base._AcquireFutures.__enter__ = enter\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "if __name__ == '__main__':\n"
        "    source.CHUNK_BYTES = 4000\n"
        "    _base._AcquireFutures.__enter__ = interrupted\n"
        "    main()\n"
    )
    command = [sys.executable, "-c", interrupted_inside_wait, "scan", "-", "--lang", "en", "--json"]
    process = subprocess.Popen(
        [*command, "--workers", "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        process.stdin.write("".join(json.dumps(row) + "\n" for row in corpus(20)).encode())
        process.stdin.flush()
        try:
            assert process.wait(timeout=60) == 130
        finally:
            process.kill()
        assert json.loads(process.stdout.read())["interrupted"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for the workers in /proc")
def test_ctrl_c_ends_other_commands_on_files_in_good_order(tmp_path: Path) -> None:
    """Without a word, and with Python's warning of semaphores that nobody had given back, `cost` ended."""
    path = write(tmp_path / "log.jsonl", corpus(60) * 60)
    command = [sys.executable, "-m", "stresstest", "--display", "none", "cost", str(path), "--lang", "en"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    with process:
        try:
            while process.poll() is None and len(children.read_text("utf-8").split()) < 2:
                time.sleep(0.05)
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, said) == (130, "\nInterrupted.\n")


def test_what_litellm_calls_an_end_is_looked_at(tmp_path: Path, called: Called) -> None:
    """vLLM cut the second answer at its third copy, before a detector could know: that is no ordinary end."""
    texts = [story(3, seed=1), story(2, seed=2) + f" {LOOP}" * 3]
    choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in texts]
    rows = [{"call_type": "completion", "startTime": 1.0, "response": {"choices": [c]}} for c in choices]
    path = write(tmp_path / "litellm.jsonl", rows)
    [group] = json.loads(called("scan", path, "--lang", "en", "--json").stdout)["groups"]
    assert (group["unsure_stops"], group["repetitions"], group["undecided"]) == (2, 1, 1)
    shown = flat(called("scan", path, "--lang", "en").stdout)
    assert "Of 2 answers with `stop`, 1 end in copies" in shown
    plain = write(tmp_path / "plain.jsonl", [{"response": text, "finish_reason": "stop"} for text in texts])
    assert "LiteLLM" not in called("scan", plain, "--lang", "en").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "limit", "code", "told"),
    [
        pytest.param(80, "2%", 99, "Failed: above the limit of 2 %", id="above"),
        pytest.param(80, "20%", 4, "Undecided:", id="undecided"),
        pytest.param(80, "50%", 0, "Passed: Every group is within the limit of 50 %", id="within"),
        pytest.param(4, "0", 2, "above 0", id="zero"),
        pytest.param(4, "2", 2, "below 1", id="no share"),
    ],
)
def test_a_gate_decides_by_bounds(
    tmp_path: Path, called: Called, rows: int, limit: str, code: int, told: str
) -> None:
    """99 above, 0 within, 4 where the answers do not tell; the last sentence says which groups."""
    path = write(tmp_path / "a.jsonl", corpus(rows))
    words = ("scan", path, "--group-by", "model", "--lang", "en", "--fail-above", limit)
    done = called(*words)
    assert done.returncode == code, done.stderr
    assert told in flat(done.stdout + done.stderr)
    if code in (0, 4, 99):
        document = json.loads(
            called(
                "scan", path, "--group-by", "model", "--lang", "en", "--fail-above", limit, "--json"
            ).stdout
        )
        outcomes = {99: "breach", 4: "inconclusive", 0: "pass"}
        assert document["fail_above"]["outcome"] == outcomes[code]


def test_answers_that_were_given_up_are_in_the_document(tmp_path: Path, called: Called) -> None:
    """The page described `lost`, and the table had a sentence on it; no group of `--json` had the number."""
    rows = [{"text": story(2, seed=n), "finish_reason": "abort" if n < 3 else "stop"} for n in range(8)]
    path = write(tmp_path / "a.jsonl", rows)
    [group] = json.loads(called("scan", path, "--lang", "en", "--json").stdout)["groups"]
    assert group["lost"] == 3


@pytest.mark.parametrize("content", ["", None])
def test_empty_answers_at_the_cap_do_not_pass_a_gate(
    tmp_path: Path, called: Called, content: str | None
) -> None:
    """A log without the reasoning shows a loop in it as an empty answer: a third of them is no pass, and no
    damage."""

    def row(n: int, text: str | None, finish: str) -> dict[str, Any]:
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
        return {"id": f"r{n}", "choices": [choice], "usage": {"completion_tokens": 400}}

    rows = [row(n, content, "length") if n % 3 == 0 else row(n, story(3, seed=n), "stop") for n in range(90)]
    path = write(tmp_path / "a.jsonl", rows)
    done = called("scan", path, "--lang", "en", "--fail-above", "10%")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "30 answers are not whole in the log: more may have failed than was seen." in flat(done.stdout)
    document = json.loads(called("scan", path, "--lang", "en", "--json").stdout)
    [group] = document["groups"]
    assert (document["damaged"], group["requests"], group["degenerate"], group["unseen"]) == (0, 90, 0, 30)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_verdicts_are_written_as_a_table(tmp_path: Path, called: Called, ending: str) -> None:
    """The same rows as JSON lines, in the format that the name asks for."""
    import csv

    import pyarrow.parquet

    path = write(tmp_path / "a.jsonl", corpus(40))
    lines, table = tmp_path / "v.jsonl", tmp_path / f"v.{ending}"
    for out in (lines, table):
        assert called("scan", path, "--lang", "en", "--out", str(out)).returncode == 0
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    if ending == "parquet":
        assert pyarrow.parquet.read_table(table).to_pylist() == rows
    else:
        with table.open(newline="") as file:
            found = list(csv.DictReader(file))
        assert [row["onset_char"] or None for row in found] == [
            None if row["onset_char"] is None else str(row["onset_char"]) for row in rows
        ]


def test_a_language_from_a_settings_file_is_said_to_be(tmp_path: Path, called: Called) -> None:
    """It was called given on the command line, and turned a gate red; that nearly all drift is no chance.
    Below the table it came too late: a hundred per cent were read before the reason."""
    (tmp_path / "stresstest.toml").write_text('lang = "it"\n')
    path = write(tmp_path / "a.jsonl", [{"text": story(4, seed=n)} for n in range(8)])
    said = " ".join(called("scan", path).stdout.split())
    assert said.startswith(
        'The language "it" is from a settings file (stresstest.toml), not from the command'
    )
    assert "Nearly all answers drift from the language that was given" in said
    assert "settings file" not in called("scan", path, "--lang", "en").stdout


def test_tables_of_text_are_refused(tmp_path: Path, called: Called) -> None:
    """Five damaged lines and a hint on --field helped nobody with a CSV."""
    (tmp_path / "a.csv").write_text("id,text\n1,Good.\n")
    done = called("scan", "a.csv")
    assert done.returncode == 2
    assert "a.csv is a table of text, which is not read." in done.stderr


def test_answers_that_were_given_up_are_told(tmp_path: Path, called: Called) -> None:
    """By the service or the client, before they could fail: in the notes and in the gate's sentence."""
    rows = [{"response": story(3, seed=n), "finish_reason": "error" if n % 2 else "stop"} for n in range(100)]
    path = write(tmp_path / "a.jsonl", rows)
    done = called("scan", path, "--lang", "en", "--fail-above", "5%")
    said = flat(done.stdout)
    assert done.returncode == 4
    assert "Given up by the service or the client: 50 answers were healthy so far" in said
    assert "50 answers were given up before they could fail" in said


@pytest.mark.slow
def test_failed_requests_without_a_text_do_not_thin_out_a_rate(tmp_path: Path, called: Called) -> None:
    """8 loops of 60 answers failed the gate, and the same log with 1,500 overloaded requests passed it."""
    good = [{"response": story(3, seed=n), "finish_reason": "stop"} for n in range(52)]
    loops = [{"response": LOOPING, "finish_reason": "length", "prompt": f"p{n}"} for n in range(8)]
    failed = [{"response": "", "error": "HTTP 503 overloaded", "prompt": f"q{n}"} for n in range(1500)]
    path = write(tmp_path / "a.jsonl", [*good, *loops, *failed])
    done = called("scan", path, "--lang", "en", "--fail-above", "2%")
    assert done.returncode == 4, done.stdout
    assert "1,500 answers were given up before they could fail" in flat(done.stdout)
