"""`stresstest scan` from the outside: stdout, stderr and exit codes as the contract has them."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import commands
from tests.commands import stresstest
from tests.unit.test_panel import story
from tests.unit.test_scan import LOOPING, corpus, write

Called = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def called(tmp_path: Path) -> Called:
    """`stresstest` in this process, where the language models are loaded once."""
    return functools.partial(commands.called, tmp_path=tmp_path)


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
    assert "59 requests at risk are needed" in threshold["lacking"]
    assert first["languages"] == {"en": 40}
    assert first["language_sources"] == {"group": 40}


def test_the_table_fits_eighty_columns_and_shows_the_worst(tmp_path: Path, called: Called) -> None:
    """A table people paste: no line is broken by the terminal, hostile text stays text."""
    rows = corpus(80)
    evil = f"{story(1)}\x1b[31m[bold]\u202e {LOOPING}\x1b]0;owned\x07"
    rows[0] = {"id": "\x1b[2Jevil", "model": "x/[red]y", "response": evil, "finish_reason": "length"}
    path = write(tmp_path / "a.jsonl", rows)
    command = ("scan", path, "--group-by", "model", "--show", "2")
    done = called(*command, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "requests degenerate 95 % interval" in done.stdout.splitlines()[0]
    assert "x/[red]y" in done.stdout
    assert "▶ the end of the road and" in done.stdout.replace("\n", " ")
    assert not any(sign in done.stdout for sign in ("\x1b", "\u202e", "\x07"))


def test_damaged_lines_are_named_on_stderr(tmp_path: Path, called: Called) -> None:
    """Named where progress goes; the answers beside them are judged."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Good."}\nnonsense\n', encoding="utf-8")
    done = called("scan", str(path), "--json")
    assert (done.returncode, json.loads(done.stdout)["damaged"]) == (0, 1)
    assert f"damaged: {path}:2: not JSON" in done.stderr


@pytest.mark.parametrize(
    ("content", "args", "code", "said"),
    [
        (None, (), 2, "cannot be read"),
        ("", (), 4, "no answer to judge"),
        ("nonsense\n", (), 4, "1 line is damaged; see above. Map your own layout with --field response="),
        ("nonsense\n", ("--strict",), 2, "a.jsonl:1: not JSON"),
        ('{"text": "x"}\n', ("--field", "respons=a"), 2, "Did you mean 'response'"),
        ('{"answer": "x"}\n', (), 4, "it has answer\n"),
        ('{"answer": "x"}\n', (), 4, "is looked for under response, output, text, completion,"),
        ('{"text": "x"}\n', ("--field", "foo=bar"), 2, "'foo' is not known"),
        ('{"text": "x"}\n', ("--out", "-"), 2, "--out - would mix the verdicts with what is told on stdout"),
        ('{"messages": [{"role": "assistant", "tool_calls": [{}]}]}\n', (), 4, "1 answer is only tool calls"),
        ('{"text": "x"}\n', ("--lang", "klingon"), 2, "--lang 'klingon'"),
        ('{"text": "x"}\n', ("--rigor", "fast"), 2, "quick, standard, strict"),
        ('{"text": "x"}\n', ("--margin", "150%"), 2, "share"),
        ('{"text": "x"}\n', ("--out", "absent/out.jsonl"), 2, "cannot be written"),
        ('{"text": "x"}\n', ("--tokenizer", "absent.json"), 2, "--tokenizer"),
        ('{"text": "x"}\n', ("-", "-"), 2, "only once"),
    ],
)
def test_empty_states_and_mistakes(
    tmp_path: Path, called: Called, content: str | None, args: tuple[str, ...], code: int, said: str
) -> None:
    """Usage 2, nothing to judge 4; one sentence that names what was wrong; never a traceback."""
    path = tmp_path / "a.jsonl"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    done = called("scan", str(path), *args)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_costs_the_verdicts_and_not_the_table(tmp_path: Path, called: Called) -> None:
    """What was judged is told as without --out; the file that is lost is named at once, and by exit 2."""
    path = write(tmp_path / "a.jsonl", corpus(80))
    whole = json.loads(called("scan", path, "--lang", "en", "--json").stdout)
    done = called("scan", path, "--lang", "en", "--json", "--out", "/dev/full")
    assert done.returncode == 2
    assert json.loads(done.stdout) | {"seconds": 0} == whole | {"seconds": 0}
    lost = "--out /dev/full cannot be written: No space left on device."
    warning, error, hint = done.stderr.splitlines()
    assert warning == f"warning: {lost} The scan goes on without it."
    assert (error, "on stdout" in hint) == (f"stresstest: {lost}", True)
    table = called("scan", path, "--lang", "en", "--out", "/dev/full")
    assert (table.returncode, "requests degenerate 95 % interval" in table.stdout) == (2, True)


def test_empty_answers_and_answers_in_another_language_are_told(tmp_path: Path, called: Called) -> None:
    """Both could pass for health or failure of the group: they are counted beside its rate."""
    italian = " ".join(
        f"Il mare era {word} e la barca tornava piano verso il porto, mentre le donne aspettavano."
        for word in ("calmo", "freddo", "grigio", "mosso", "vuoto")
    )
    texts = [*(story(5, seed=n) for n in range(12)), italian, "", ""]
    path = write(tmp_path / "a.jsonl", [{"text": text, "finish_reason": "stop"} for text in texts])
    (group,) = json.loads(called("scan", path, "--json").stdout)["groups"]
    assert (group["empty"], group["degenerate"]) == (2, 0)
    assert group["language_sources"]["other language than the group's"] == 1
    shown = " ".join(called("scan", path).stdout.split())
    assert "Empty answers: 2." in shown
    assert "nothing degenerates; 1 answer in another language than the group's" in shown


def test_what_was_asked_for_and_cannot_be_told_is_said(tmp_path: Path, called: Called) -> None:
    """A key without lengths must not look like an answer to --by-length."""
    path = write(tmp_path / "a.jsonl", corpus(8))
    shown = " ".join(called("scan", path, "--by-length", "model").stdout.split())
    assert "--by-length model: no group has answers of two requested lengths" in shown


def test_a_length_key_that_no_record_has_is_said_at_once(tmp_path: Path, called: Called) -> None:
    """As for --group-by: which keys there are, before anything is judged."""
    path = write(tmp_path / "a.jsonl", corpus(8))
    done = called("scan", path, "--by-length", "nope")
    assert done.returncode == 0
    assert (
        "warning: none of the first 8 records has the key 'nope' of --by-length. They have: " in done.stderr
    )


def test_tool_calls_are_no_damage(tmp_path: Path, called: Called) -> None:
    """An agent's log is full of them: --strict goes through, and they are counted apart."""
    call = {"choices": [{"message": {"content": None, "tool_calls": [{}]}, "finish_reason": "tool_calls"}]}
    path = write(tmp_path / "a.jsonl", [{"text": "Good."}, call, call])
    done = called("scan", path, "--strict", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["requests"], document["damaged"], document["textless"]) == (1, 0, 2)
    assert "2 answers are only tool calls, with no text to judge" in called("scan", path).stdout


def test_clusters_are_told_only_where_there_are_some(tmp_path: Path, called: Called) -> None:
    """A record without its prompt is no further output of another's."""
    rows = [row | {"finish_reason": "stop"} for row in corpus(8)]
    half = [row | ({"prompt": f"Topic {n}"} if n % 2 else {}) for n, row in enumerate(rows)]
    several = [row | {"prompt": "One topic"} for row in rows]
    shown = [
        " ".join(called("scan", write(tmp_path / f"{n}.jsonl", made), "--lang", "en").stdout.split())
        for n, made in enumerate((half, several))
    ]
    assert ["Prompts with several outputs" in each for each in shown] == [False, True]
    assert "1 was; at least 58 more generations from other prompts, of ≥" in shown[1]


def test_a_narrow_terminal_says_which_columns_it_leaves_out(tmp_path: Path, called: Called) -> None:
    """And explains none that is not there; no header is broken in its middle."""
    rows = [row | {"metadata": {"team": "red"}} for row in corpus(8)]
    path = write(tmp_path / "a.jsonl", rows)
    narrow, wide = (
        called("scan", path, "--lang", "en", "--group-by", "model,metadata.team", COLUMNS=columns).stdout
        for columns in ("60", "80")
    )
    assert "Too narrow here for 95 % interval and Dharma: --json has them." in " ".join(narrow.split())
    assert "DharmaOCR" not in narrow
    assert "DharmaOCR" in wide
    assert "Too narrow" not in wide
    assert all(each.startswith("model metadata.team requests") for each in (narrow, wide))
    assert max(map(len, narrow.splitlines())) <= 60


def test_the_worst_outputs_are_told_in_words(tmp_path: Path, called: Called) -> None:
    """A recorded text is read in words: its evidence calls them so, as the lines beside it do."""
    shown = called("scan", write(tmp_path / "a.jsonl", corpus(8)), "--lang", "en", "--show", "1").stdout
    assert " words repeat " in shown
    assert "tokens repeat" not in shown


def test_the_table_is_ready_to_paste(tmp_path: Path, called: Called) -> None:
    """No blanks at the ends of its lines; all groups together, and how much was read, stand below."""
    path = write(tmp_path / "a.jsonl", corpus(40))
    shown = called("scan", path, "--group-by", "model").stdout
    assert [line for line in shown.splitlines()[:3] if line != line.rstrip()] == []
    assert "All 2 groups: 40 requests, 5 degenerate (12.50 %); 0." in shown


def test_ctrl_c_before_anything_was_judged_promises_nothing(
    tmp_path: Path, called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 130 and a sentence that says that there is nothing."""

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stresstest.workflows.scan_pool.judge_chunk", stopped)
    done = called("scan", write(tmp_path / "a.jsonl", corpus(2)))
    assert (done.returncode, done.stdout) == (130, "")
    assert "nothing was judged yet" in done.stderr


def test_units_are_told_of_the_groups_that_have_them(tmp_path: Path, called: Called) -> None:
    """One group in tokens and one in words: each note names its group, and neither speaks of all."""
    counted = [{"text": story(2, seed=n), "completion_tokens": 90, "model": "with"} for n in range(3)]
    words = [{"text": story(2, seed=n), "model": "without"} for n in range(3)]
    path = write(tmp_path / "a.jsonl", counted + words)
    shown = " ".join(called("scan", path, "--group-by", "model").stdout.split())
    assert "Lengths of without are in words" in shown
    assert "Token positions of with are estimates" in shown
    shown = " ".join(called("scan", path).stdout.split())
    assert "Lengths are in words (punctuation marks and line breaks count too): 3 of 6 answers have" in shown
    assert "are estimates" not in shown
    both = json.loads(called("scan", path, "--json").stdout)["groups"]
    assert [group["uncounted"] for group in both] == [3]


def test_ctrl_c_prints_what_was_judged(tmp_path: Path) -> None:
    """Exit 130 with one JSON document of the answers that were judged until then, from a pipe that is open.

    They are judged while it says nothing more: whoever writes it may be slow.
    """
    command = [sys.executable, "-m", "stresstest", "scan", "-", "--lang", "en", "--json", "--workers", "2"]
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
    process.stdin.write(lines * (3_500_000 // len(lines)))
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (out.exists() and out.stat().st_size):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    document = json.loads(stdout)
    assert document["interrupted"]
    assert not any(group["threshold"]["certified"] for group in document["groups"]), "no fair part of it"
    assert 0 < document["requests"] <= 4000
    assert b"Traceback" not in stderr
