"""`stresstest check` over stored runs and recorded outputs: verdicts, exit codes, refusals, documents."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stresstest.errors import ExitCode
from stresstest.model import Decoding, DocumentKind, Generation, RunStatus, SymptomKind, Token
from stresstest.store import open_store
from tests.support.checked_runs import N, T, check, sample, stored
from tests.support.commands import command
from tests.support.generations import make, make_job
from tests.support.snapshots import Snapshot, flat
from tests.support.stories import LOOP, story

CONTRACT = ["baseline", "candidate", "at_tokens", "p_baseline", "p_candidate", "difference", "interval"]
CONTRACT += ["max_increase", "verdict", "lacking", "evidence"]


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written once; every test gets a copy."""
    path = tmp_path_factory.mktemp("certified") / "s.sqlite3"
    stored(str(path), "base", sample(0))
    return path


@pytest.fixture
def store(certified: Path, tmp_path: Path) -> str:
    """A store with a certified baseline: all healthy up to token 800."""
    return str(shutil.copy(certified, tmp_path / "s.sqlite3"))


@pytest.mark.parametrize(
    ("failing", "verdict", "code"),
    [
        (1, "pass", ExitCode.DONE),
        (8, "regression", ExitCode.REGRESSION),
        (3, "inconclusive", ExitCode.INCONCLUSIVE),
    ],
)
def test_verdicts_and_exit_codes(store: str, failing: int, verdict: str, code: ExitCode) -> None:
    """The three answers, each with its exit code, one document with the contract's keys, and a record."""
    stored(store, "next", sample(failing), created=2000.0)
    found, document, _ = check(store, "--baseline", "base", "--candidate", "next")
    assert (found, document["verdict"]) == (code, verdict)
    assert list(document)[: len(CONTRACT)] == CONTRACT
    assert document["at_tokens"] == T
    assert document["p_candidate"] == pytest.approx(failing / N)
    assert document["p_baseline"] is None
    assert document["max_increase"] == 0.10
    assert (document["lacking"] is not None) == (verdict == "inconclusive")
    with open_store(store) as opened:
        (kept,) = opened.documents(DocumentKind.CHECK)
        assert kept.body["verdict"] == verdict
        assert set(kept.runs) == {"base", "next"}
        assert not kept.simulated


def test_the_increase_that_is_tolerated_decides(store: str) -> None:
    """The same candidate passes at 40 points and regresses at none: --max-increase is the user's Δ."""
    stored(store, "next", sample(6), created=2000.0)
    allowed, _, _ = check(store, "--baseline", "base", "--candidate", "next", "--max-increase", "40%")
    strict, document, _ = check(store, "--baseline", "base", "--candidate", "next", "--max-increase", "0")
    assert (allowed, strict) == (ExitCode.DONE, ExitCode.REGRESSION)
    assert document["max_increase"] == 0.0
    assert document["interval"][0] > 0.10


def test_models_stand_for_their_latest_fitting_run(store: str) -> None:
    """A model's name: the newest finished run of the baseline's task and decoding, unfinished ones not."""
    stored(store, "old", sample(0), model="other", created=1500.0)
    stored(store, "new", sample(12), model="other", created=2500.0)
    stored(store, "half", sample(0), model="other", created=2600.0, status=RunStatus.INTERRUPTED)
    stored(store, "hot", sample(0), model="other", created=2700.0, decoding=Decoding(temperature=2.0))
    code, document, _ = check(store, "--baseline", "lab", "--candidate", "other")
    assert code == ExitCode.REGRESSION
    assert document["baseline"]["run_ids"] == ["base"]
    assert document["candidate"]["run_ids"] == ["new"]
    assert {"name": "model", "before": "lab", "after": "other", "allowed": False} in document["changed"]


@pytest.mark.slow
def test_a_refused_run_is_no_baseline(store: str) -> None:
    """A regression is stored too: by its model's name it must not become what the next check is held to."""
    stored(store, "worse", [make(make_job(index=i), 400, finish="length") for i in range(N)], created=2000.0)
    stored(store, "bad", sample(8), created=1500.0)
    assert check(store, "--baseline", "base", "--candidate", "bad")[0] == ExitCode.REGRESSION
    _, document, _ = check(store, "--baseline", "base", "--candidate", "worse", "--error-on", "max-drop")
    assert document["verdict"] == "inconclusive"
    stored(store, "next", sample(0), created=3000.0)
    code, document, _ = check(store, "--baseline", "lab", "--candidate", "next")
    assert (code, document["baseline"]["run_ids"]) == (ExitCode.DONE, ["base"])


@pytest.mark.parametrize(
    ("model", "named", "before", "code"),
    [
        ("new", "lab", "lab", ExitCode.INCONCLUSIVE),
        ("new", "new", "lab", ExitCode.DONE),
        ("lab", "other", "lab", ExitCode.INCONCLUSIVE),
        ("lab", "lab-2026", "lab", ExitCode.DONE),
        ("new", "mistral-v2", "mistral-v1", ExitCode.DONE),
        ("new", "mistral-v1", "mistral-v1", ExitCode.INCONCLUSIVE),
        ("new", "/mnt/models", "/mnt/models", ExitCode.DONE),
        ("new", "new+lab", "lab", ExitCode.INCONCLUSIVE),
        ("new", None, "lab", ExitCode.DONE),
    ],
)
def test_a_gateway_that_answers_with_another_model_passes_none(
    tmp_path: Path, model: str, named: str | None, before: str, code: ExitCode
) -> None:
    """The new model's server was down, and the gateway fell back to the old one for every request: "pass". An
    alias for each side says nothing against it."""
    store = str(tmp_path / "s.sqlite3")
    for name, subject, answered in (("base", "lab", before), ("new", model, named)):
        names = (answered or "").split("+") if answered else [None]
        answers = [replace(each, answered_by=names[i % len(names)]) for i, each in enumerate(sample(0))]
        stored(store, name, answers, created=2000.0, model=subject)
    found, document, err = check(store, "--baseline", "base", "--candidate", "new")
    assert found == code, err
    if code is ExitCode.INCONCLUSIVE:
        other = (named or "").rpartition("+")[2]
        assert f"streams name the model {other}, not {model}: a gateway" in document["lacking"]


def test_findings_warn_or_fail(store: str, snapshot: Snapshot) -> None:
    """A smaller limit and new symptoms are told; --error-on makes them fail a check that its test passes."""
    generations = sample(0, reach=T)
    generations[0] = make(make_job(index=0), 900, 850, symptom=SymptomKind.GIBBERISH, finish="length")
    stored(store, "next", generations, created=2000.0)
    code, document, _ = check(store, "--baseline", "base", "--candidate", "next")
    assert code == ExitCode.DONE
    assert [f["kind"] for f in document["findings"]] == ["new_symptoms"]
    words = ("--baseline", "base", "--candidate", "next", "--error-on", "new-symptoms")
    code, document, _ = check(store, *words)
    assert (code, document["verdict"], document["tested"]) == (ExitCode.REGRESSION, "regression", "pass")
    code, out, _ = command("--store", store, "--display", "none", "check", *words)
    assert code == ExitCode.REGRESSION
    snapshot(out)


def test_apples_and_pears_are_refused_unless_told(store: str, snapshot: Snapshot) -> None:
    """Another decoding or task is no comparison; allowed, it is made and the output says so."""
    stored(store, "next", sample(0), created=2000.0, decoding=Decoding(temperature=0.2, top_k=20))
    words = ("--baseline", "base", "--candidate", "next")
    code, document, err = check(store, *words)
    assert (code, document) == (ExitCode.USAGE, {})
    assert "--allow-different decoding" in err
    snapshot(err, "decoding")
    code, document, _ = check(store, *words, "--allow-different", "decoding")
    assert code == ExitCode.DONE
    assert document["changed"][0] == {
        "name": "decoding",
        "before": "temperature 0.7",
        "after": "temperature 0.2",
        "allowed": True,
    }
    code, _, err = check(store, "--baseline", "base", "--top-p", "0.5", "--base-url", "http://127.0.0.1:9/v1")
    assert code == ExitCode.USAGE
    snapshot(err, "top_p")
    stored(store, "qa", sample(0), task="qa")
    code, _, err = check(store, "--baseline", "base", "--candidate", "qa")
    assert code == ExitCode.USAGE
    snapshot(err, "task")


def test_another_tokenizer_is_seen_by_its_pieces(store: str, snapshot: Snapshot) -> None:
    """Positions of two tokenizers are not on one scale; the same ids with other texts give it away."""

    def spoken(shift: int) -> list[Generation]:
        words = [f"parola{i}" for i in range(60)]
        tokens = [Token(word, (i + shift) % 60) for i, word in enumerate(words)]
        return [replace(each, tokens=(*tokens, Token(f"fine{n}", 99))) for n, each in enumerate(sample(0))]

    stored(store, "one", spoken(0), created=1500.0)
    stored(store, "same", spoken(0), created=1600.0)
    stored(store, "two", spoken(7), created=1700.0, model="other")
    code, document, _ = check(store, "--baseline", "one", "--candidate", "same")
    assert code == ExitCode.DONE
    snapshot("\n".join(document["notes"]))
    code, _, err = check(store, "--baseline", "one", "--candidate", "two")
    assert code == ExitCode.USAGE
    assert "'parola0'" in err
    snapshot(err, "refused")


def test_both_sides_say_how_they_were_measured(
    store: str, tmp_path: Path, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`latest` takes a run's decoding with it: run, subject, decoding and server stand in every output, and
    what T stands for is told apart from what the check lets pass."""
    monkeypatch.setenv("COLUMNS", "160")
    hot = Decoding(temperature=0.2, top_k=20, system_prompt="Be brief.")
    stored(store, "next", sample(0), created=2000.0, decoding=hot)
    file = tmp_path / "comment.md"
    words = ("--baseline", "base", "--candidate", "next", "--allow-different", "decoding")
    _, document, _ = check(store, *words, "--markdown", str(file))
    before, after = document["baseline"], document["candidate"]
    assert before["decoding"]["temperature"] == 0.7
    assert after["decoding"] == {"temperature": 0.2, "top_k": 20, "system_prompt": "Be brief."}
    assert before["base_url"] == after["base_url"] == "http://localhost:8000/v1"
    _, out, _ = command("--store", store, "--display", "none", "check", *words)
    for shown in (out, file.read_text(encoding="utf-8").replace("\\", "")):
        said = " ".join(shown.replace("│", " ").split())
        assert "run next (lab · narrative · it)" in said
        assert "temperature 0.2, top_k 20, a system prompt" in said
        assert "http://localhost:8000/v1" in said
        assert "Be brief" not in said.partition("hanged:")[0]
        assert "20.0 % (--max-increase 10.0 %" in said
    snapshot(out, "terminal")
    snapshot(file.read_text(encoding="utf-8"), "markdown")
    _, out, _ = command("--store", store, "--display", "none", "check", *words, "--max-increase", "2%")
    assert "12.0 % (--max-increase 2.0 %)" in out


def test_what_else_changed_is_named(store: str) -> None:
    """From stored provenance: version, quantization by the files' name, sampling defaults, maximum length."""
    stored(
        store,
        "next",
        sample(0),
        created=2000.0,
        version="0.33.0",
        root="/models/lab-AWQ",
        max_model_len=4096,
        defaults={"temperature": 0.6},
    )
    _, document, _ = check(store, "--baseline", "base", "--candidate", "next")
    changed = {c["name"]: (c["before"], c["after"]) for c in document["changed"]}
    assert changed["vLLM version"] == ("0.32.0", "0.33.0")
    assert changed["quantization, by its name"] == (None, "awq")
    assert "temperature" in changed["server's sampling defaults"][1]


@pytest.mark.slow
def test_a_fresh_baseline_is_compared_on_common_prompts(store: str, snapshot: Snapshot) -> None:
    """Paired: p_A is measured, on a sample that did not choose T, and the difference has Tango's bounds."""
    stored(store, "fresh", sample(2), created=1500.0)
    stored(store, "next", sample(2), created=2000.0)
    stored(store, "bad", sample(12), created=2500.0)
    words = ("--baseline", "base", "--fresh-baseline", "fresh", "--candidate")
    code, document, _ = check(store, *words, "next", "--max-increase", "15%")
    assert (code, document["method"], document["pairs"]) == (ExitCode.DONE, "tango", N)
    assert document["p_baseline"] == pytest.approx(2 / N)
    assert document["difference"] == 0.0
    assert document["interval"][1] == pytest.approx(1.6449**2 / (N + 1.6449**2), abs=1e-4)
    code, document, _ = check(store, *words, "bad")
    assert (code, document["verdict"]) == (ExitCode.REGRESSION, "regression")
    assert document["difference"] == pytest.approx(10 / N)
    code, _, err = check(store, *words, "next", "--extend")
    assert code == ExitCode.USAGE
    snapshot(err, "extend")
    code, _, err = check(store, "--baseline", "base", "--fresh-baseline", "base", "--candidate", "next")
    assert code == ExitCode.USAGE
    snapshot(err, "the same run")


def test_without_a_threshold_nothing_is_compared(tmp_path: Path, snapshot: Snapshot) -> None:
    """A baseline that certified nothing, or a candidate that is not complete: exit 4 with what is lacking."""
    path = str(tmp_path / "s.sqlite3")
    stored(path, "thin", sample(0, n=15))
    stored(path, "base", sample(0), created=1500.0)
    stored(path, "half", sample(0), created=2000.0, status=RunStatus.INTERRUPTED)
    code, document, _ = check(path, "--baseline", "thin", "--candidate", "base")
    assert (code, document["verdict"], document["at_tokens"]) == (4, "inconclusive", None)
    snapshot(document["lacking"])
    code, document, _ = check(path, "--baseline", "base", "--candidate", "half")
    assert code == ExitCode.INCONCLUSIVE
    assert "run --resume half" in document["lacking"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--candidate", "next"), "--baseline"),
        (("--baseline", "nobody"), "nobody"),
        (("--baseline", "base", "--candidate", "base"), "base"),
        (("--baseline", "base", "--candidate", "gone.jsonl"), "gone.jsonl"),
        (("--baseline", "base", "--candidate", ""), ""),
        (("--baseline", "base", "--candidate", "a", "--candidate", "b"), "--candidate a"),
        (("--baseline", "base", "--candidate", "20990101-0000"), "20990101-0000"),
        (("--baseline", "base", "--max-increase", "5"), "--max-increase"),
        (("--baseline", "base", "--allow-different", "model"), "--allow-different: 'model'"),
        (("--baseline", "base", "--error-on", "drop"), "--error-on: 'drop'"),
        (("--baseline", "base", "--model", "m"), "--model"),
        (("--baseline", "base", "--candidate", "next", "--fresh-baseline", "none"), "none"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_bad_input_has_a_sentence(store: str, snapshot: Snapshot, words: tuple[str, ...], named: str) -> None:
    """Every wrong reference or option: exit 2, one sentence that names it, nothing on stdout."""
    stored(store, "next", sample(0), created=2000.0)
    code, document, err = check(store, *words)
    assert (code, document) == (ExitCode.USAGE, {})
    assert named in err
    snapshot(err)


def recorded(path: Path, n: int, looping: Callable[[int], bool], **more: Any) -> str:
    rows = [
        {
            "id": f"r{i}",
            "response": story(1, seed=i) + f" {LOOP}" * 30 if looping(i) else story(9, seed=i),
            "finish_reason": "length",
            **more,
        }
        for i in range(n)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.mark.slow
def test_recorded_outputs_are_compared(tmp_path: Path, snapshot: Snapshot) -> None:
    """Two files: the first chooses T, in words where there are no tokens; the second is judged there."""
    path = str(tmp_path / "s.sqlite3")
    before = recorded(tmp_path / "before.jsonl", 70, lambda i: False, model="a")
    after = recorded(tmp_path / "after.jsonl", 70, lambda i: i % 2 == 0, model="b")
    words = ("--baseline", before, "--candidate", after, "--lang", "en")
    code, document, _ = check(path, *words)
    assert (code, document["verdict"]) == (ExitCode.REGRESSION, "regression")
    assert (document["baseline"]["unit"], document["candidate"]["symptoms"]) == ("words", {"loop": 35})
    assert {"name": "model", "before": "a", "after": "b", "allowed": False} in document["changed"]
    stored(path, "base", sample(0))
    code, _, err = check(path, "--baseline", "base", "--candidate", after)
    assert code == ExitCode.USAGE
    assert "--tokenizer" in err
    code, _, err = check(path, "--baseline", before, "--lang", "en")
    assert code == ExitCode.USAGE
    assert "--candidate" in err
    code, _, err = check(path, *words, "--extend")
    assert code == ExitCode.USAGE
    snapshot(err)


def test_markdown_and_terminal_are_harmless_and_say_the_same(
    store: str, tmp_path: Path, snapshot: Snapshot
) -> None:
    """A hostile model name becomes neither markup nor a control sequence; the verdict stands in both."""
    stored(store, "next", sample(12), created=2000.0, model="evil|<b>\x1b[31m`x`")
    file = tmp_path / "comment.md"
    words = ("--baseline", "base", "--candidate", "next", "--markdown", str(file))
    code, out, _ = command("--store", store, "--display", "none", "check", *words)
    text = file.read_text(encoding="utf-8")
    assert code == ExitCode.REGRESSION
    assert "\x1b" not in out + text
    assert "<b>" not in text
    for shown in (out, text):
        assert "12 of 24 " in flat(shown)
    snapshot(text)
    code, _, err = command("--store", store, "check", *words[:4], "--markdown", str(tmp_path / "no" / "x.md"))
    assert code == ExitCode.USAGE
    assert "x.md" in err
