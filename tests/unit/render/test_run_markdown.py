"""Reports: harmless text, contract keys, "not measured" as –, sentences that hold their numbers."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from stresstest.diagnosis import plane_verdict
from stresstest.diagnosis.intervention.enough import too_few_prompts
from stresstest.model import (
    Decoding,
    EndpointProfile,
    Evidence,
    Generation,
    GenerationVerdict,
    Job,
    Phase,
    Plane,
    PlaneVerdict,
    Run,
    RunResult,
    RunSettings,
    RunStatus,
    Subject,
    SymptomKind,
    Threshold,
    Token,
)
from stresstest.model.percent import percent, percent_at_most
from stresstest.model.server import MissingCapability, ServerClock, ServerSummary
from stresstest.render.html.verdict import describe_verdict
from stresstest.render.json_text import dumps
from stresstest.render.markdown import run_markdown
from stresstest.render.run_document import full_document, run_document
from stresstest.render.run_summary import larger_budget, print_run
from stresstest.render.sentences import headline, reproduce_command
from stresstest.render.text import duration, excerpt, format_count, sanitize
from tests.support.generations import whole
from tests.support.snapshots import Snapshot

HOSTILE = "\x1b]0;owned\x07\x1b[2J<script>alert(1)</script>|`x`**b**\u202e[link](http://x)\n# head\x9b31m"


def generation(index: int, text: str, onset: int | None = None) -> Generation:
    tokens = tuple(Token(piece + " ", id=i) for i, piece in enumerate(text.split(" ")))
    symptom = SymptomKind.LOOP if onset else None
    verdict = GenerationVerdict(len(tokens), (onset or len(tokens) + 1) - 1, onset=onset, symptom=symptom)
    job = Job(Phase.CERTIFY, 1, index, 4, index, index, 64)
    return Generation(job, f"p{index}", "ask", verdict, "stop", output_tokens=len(tokens), tokens=tokens)


def result(text: str = "a b c d e f", model: str = "m") -> RunResult:
    settings = RunSettings(
        Subject(model, "narrative", "it"), "http://h/v1", "narrative", decoding=Decoding(0.7)
    )
    run = Run("r1", settings, EndpointProfile("http://h/v1", model), RunStatus.DONE, 0.0, tool_version="0")
    threshold = Threshold(0.05, 0.95, 1234, 130, 2, 0.048, certified=True)
    verdict = PlaneVerdict(None, None, "Nothing fails.", advice=(text,))
    made = (generation(0, text, 3), generation(1, text))
    return RunResult(
        run, threshold, 1110, verdict, made, distinct_prompts=130, tokens_spent=12, representative=made[0]
    )


@pytest.mark.parametrize(
    "steering",
    [
        "\x1b[31m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x9b2J", "\x07", "\x08", "\r", "\u202e",
        "\u2066", "\x1bP1$r\x1b\\", "\x90q\x9c", "\x7f", "\u2028", "\ufeff",
    ],
)  # fmt: skip
def test_control_sequences_are_neutralised(steering: str) -> None:
    """Model output can neither colour, move, retitle nor reorder the terminal."""
    assert sanitize(f"before{steering}after") == "beforeafter"


@given(st.text())
def test_clean_keeps_no_control_character_of_any_text(text: str) -> None:
    """Whatever comes, nothing but printable characters, newlines and tabs leaves."""
    cleaned = sanitize(text)
    assert all(c in "\n\t" or c.isprintable() or c.isspace() or ord(c) > 0x9F for c in cleaned)
    assert "\x1b" not in cleaned
    assert sanitize(cleaned) == cleaned


def test_hostile_text_stays_text_in_markdown_and_terminal() -> None:
    """Neither a model's name nor its text, nor a finish reason, opens a tag, a link, a heading, a table cell
    or an escape."""
    hostile = result(HOSTILE, model=HOSTILE)
    ended = tuple(replace(each, finish_reason=HOSTILE) for each in hostile.generations)
    hostile = replace(hostile, generations=ended)
    markdown = run_markdown(hostile)
    prose, command, rest = markdown.split("\n```\n")
    assert "stresstest run" in command
    assert rest == ""
    assert "<script>" not in prose
    # Inside <pre> nothing is Markdown (CommonMark: an HTML block up to </pre>), so only tags matter there.
    assert prose.count("</pre>") == 1
    prose = re.sub("<pre>.*</pre>", "", prose, flags=re.DOTALL)
    assert "\n# head" not in prose
    assert "](http" not in prose.replace("\\](http", "")
    assert "\x1b" not in markdown
    out = io.StringIO()
    print_run(Console(file=out, force_terminal=False, width=80), hostile)
    assert "\x1b" not in out.getvalue()
    assert "\u202e" not in out.getvalue()
    json.loads(dumps(full_document(hostile, whole)))


def test_the_page_of_a_run(snapshot: Snapshot) -> None:
    """The whole of a certified run's Markdown, and of one that certifies nothing."""
    lacking = Threshold(0.05, 0.95, lacking="22 answers at risk are needed, but there were only 14")
    snapshot(run_markdown(result()), "certified")
    snapshot(run_markdown(replace(result(), threshold=lacking, safe_max_tokens=None)), "not certified")


def test_every_field_of_a_profile_is_json() -> None:
    """A field that was new and no number made `run --json` and each report fail."""
    profile = EndpointProfile(
        "http://x/v1",
        "m",
        defaults={"temperature": 0.7},
        missing=(MissingCapability("logprobs", "no entropy"),),
        clock=ServerClock(1_790_000_000, -0.4),
    )
    found = result()
    document = json.loads(
        dumps(full_document(replace(found, run=replace(found.run, profile=profile)), whole))
    )
    assert document["endpoint"]["clock"] == {"created": 1_790_000_000, "ahead": -0.4}


def test_run_document_has_exactly_the_contracts_keys() -> None:
    """`run --json`: scripts rely on every key being there, null when not measured."""
    document = run_document(result())
    assert set(document) == {
        "run_id", "subject", "simulated", "decoding", "generations", "onsets", "short", "without_units",
        "distinct_prompts", "threshold", "safe_max_tokens", "cap_withheld",
        "overruled_by", "holds_up_to", "unfit", "unit_tokens", "planes",
        "symptoms", "verdict", "notes", "tokens_spent", "seconds",
    }  # fmt: skip
    assert set(document["threshold"]) == {
        "tokens", "alpha", "confidence", "n", "onsets", "certified", "censored_at", "lacking", "withheld",
    }  # fmt: skip
    assert set(document["planes"]) == {"system", "decoding", "context"}
    assert document["verdict"]["plane"] is None
    assert document["verdict"]["basis"] is None
    assert document["threshold"]["censored_at"] is None


def test_headline_carries_number_confidence_and_n() -> None:
    """The sentence that is pasted into a design review holds everything the number stands on."""
    sentence = headline(result())
    assert "this 1 prompt" not in sentence
    assert ", for this 1 prompt. Certified" in headline(replace(result(), distinct_prompts=1))
    assert ", for these 10 prompts. Certified" in headline(replace(result(), distinct_prompts=10))
    for part in ("1,234", "1,110", "95 %", "5 %", "2 of 130 in the sample"):
        assert part in sentence
    censored = replace(result(), threshold=replace(result().threshold, censored_at=1234, onsets=0))
    assert "Certified up to T ≥ 1,234 tokens" in headline(censored)
    assert "none of 130 in the sample" in headline(censored)
    lacking = Threshold(0.05, 0.95, lacking="22 answers at risk are needed, but there were only 14")
    none = replace(result(), threshold=lacking, safe_max_tokens=None)
    assert lacking.lacking is not None
    assert lacking.lacking in headline(none)


def test_excerpt_splits_exactly_at_the_onset() -> None:
    """The degenerate part begins with the onset's own token."""
    before, after = excerpt(generation(0, "one two three four", onset=3))
    assert (before, after) == ("one two ", "three four ")
    assert excerpt(generation(0, "one two")) == ("", "")


def test_not_measured_is_a_dash_and_never_zero() -> None:
    """Absent is never 0."""
    assert (format_count(None), percent(None), duration(None)) == ("–", "–", "–")
    assert (format_count(0), percent(0), duration(0)) == ("0", "0 %", "0 s")


def test_unmeasured_evidence_stands_below_the_evidence_for_and_against() -> None:
    """A state of the server that nobody saw was listed as evidence against the system."""
    found = result()
    unseen = Evidence(Plane.SYSTEM, False, "vllm /metrics", "the queue was not measured")
    loops = Evidence(Plane.DECODING, True, "detector:loop", "2 of 2 answers loop", 2.0)
    verdict = replace(found.verdict, evidence=(unseen, loops))
    page = run_markdown(replace(found, verdict=verdict))
    assert "| system | not measured | vllm /metrics | the queue was not measured |" in page
    assert "| decoding | for | detector:loop | 2 of 2 answers loop |" in page
    console = Console(file=io.StringIO(), width=120)
    print_run(console, replace(found, verdict=verdict))
    assert isinstance(console.file, io.StringIO)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    assert lines.index("– not measured the queue was not measured [vllm /metrics]") == (
        lines.index("for decoding 2 of 2 answers loop [detector:loop]") + 1
    )


def test_one_share_of_the_kv_cache_on_every_page() -> None:
    """The demo said "at most 3 % full", and its own report "2.1 %"."""
    found = replace(result(), server=ServerSummary(17, 4.0, kv_peak=0.0213))
    assert "| KV cache, at most | 2.2 % |" in run_markdown(found)
    assert (percent_at_most(0.0213), percent_at_most(0.07), percent_at_most(0.0)) == (
        "2.2 %",
        "7.0 %",
        "0.0 %",
    )


def test_the_clock_of_a_simulated_server_is_explained() -> None:
    """The demo's report gave a latency of 12 s in a run of 4 s, and counts that nothing else agreed with."""
    found = replace(result(), server=ServerSummary(17, 4.0, means={"e2e_request_latency_seconds": 12.6}))
    faked = replace(found, run=replace(found.run, profile=replace(found.run.profile, simulated=True)))
    assert "its own clock, which runs faster" in run_markdown(faked)
    assert "its own clock" not in run_markdown(found)


def test_a_simulated_server_must_run_to_be_measured_again() -> None:
    """The demo's report named a server that had ended with the demo."""
    found = result()
    faked = replace(found, run=replace(found.run, profile=replace(found.run.profile, simulated=True)))
    assert reproduce_command(faked).endswith("  # while the simulated server runs there: stresstest sim")
    assert "#" not in reproduce_command(found)


def test_reproduce_command_is_quoted_for_a_shell() -> None:
    """What is printed can be pasted, whatever the model is called."""
    command = reproduce_command(result(model="a b; rm -rf $HOME"))
    assert "--model 'a b; rm -rf $HOME'" in command
    assert "--temperature 0.7" in command


def test_every_page_says_why_no_cap_is_recommended() -> None:
    """T stands, and no surface shows a number that would be set as max_tokens."""
    why = "a cap of 180 would cut 38 of 38 healthy answers"
    kept = replace(
        result(),
        threshold=replace(result().threshold, withheld=why),
        safe_max_tokens=None,
        representative=None,
    )
    assert headline(kept).startswith(
        f"No cap is recommended for m · narrative · Italian: {why}. Certified up to T = 1,234 tokens"
    )
    assert (run_document(kept)["safe_max_tokens"], run_document(kept)["cap_withheld"]) == (None, True)
    assert run_document(kept)["threshold"]["withheld"] == why
    page = describe_verdict(kept, None)
    assert (page.number, page.unit) == ("No cap", "recommended, although a threshold is certified")
    assert page.sentence.startswith("A cap of 180 would cut")
    assert not any("max_tokens" in action for action in page.actions)
    out = io.StringIO()
    print_run(Console(file=out, force_terminal=False, width=100), kept)
    assert "certified, no cap recommended" in out.getvalue()
    assert f"| no cap is recommended | {why} |" in run_markdown(kept)


def test_commands_in_the_advice_name_the_store() -> None:
    """A command copied out of the box must find the run, so it names a store that is not the usual one."""
    found = result()
    advised = replace(found, verdict=replace(found.verdict, advice=("To test this: stresstest diagnose r1",)))
    out = io.StringIO()
    print_run(Console(file=out, width=100), advised, program="stresstest --store s.db")
    assert "stresstest --store s.db diagnose r1" in out.getvalue()
    assert "stresstest diagnose" not in out.getvalue()


def test_an_unfinished_run_is_continued_first() -> None:
    """What ended early is neither diagnosed nor turned into flags: the next command measures the rest."""
    found = result()
    cut = replace(
        found,
        run=replace(found.run, status=RunStatus.INTERRUPTED),
        verdict=replace(found.verdict, advice=("To test the cause: stresstest diagnose r1",)),
    )
    out = io.StringIO()
    print_run(Console(file=out, width=100), cut, program="stresstest", stored_in="/data/s.sqlite3")
    said = out.getvalue()
    assert "It is stored as r1 in /data/s.sqlite3." in said
    assert "Next: stresstest run --resume r1" in said
    assert "diagnose" not in said
    assert "recommend" not in said


def test_the_next_command_has_a_budget_that_is_enough() -> None:
    """493 tokens of a budget of 100 were used, and a budget of 200 was suggested: it ended at once."""
    found = result()
    settings = replace(found.run.settings, budget_tokens=100)
    run = replace(found.run, status=RunStatus.INTERRUPTED, settings=settings)
    assert larger_budget(replace(found, run=run, tokens_spent=493)) == " --budget-tokens 986"
    settings = replace(found.run.settings, budget_seconds=10.0)
    run = replace(run, settings=settings)
    assert larger_budget(replace(found, run=run, seconds=12.3)) == " --budget-time 26s"
    assert larger_budget(replace(found, run=run, seconds=2.0)) == ""


def test_flags_are_offered_only_where_there_is_a_limit() -> None:
    """The command led to the cap of another run of the same model, or to exit 4."""
    out = io.StringIO()
    print_run(Console(file=out, width=100), replace(result(), safe_max_tokens=None))
    assert "stresstest report" in out.getvalue()
    assert "recommend" not in out.getvalue()


@pytest.mark.parametrize(("prompts", "offered"), [(2, False), (38, True)])
def test_a_diagnosis_is_offered_only_where_the_prompts_are_enough(prompts: int, offered: bool) -> None:
    """The next command of a run with two prompts was a diagnosis that could not decide."""
    found = result()
    settings = replace(found.run.settings, prompts_file="own.jsonl")
    jobs = [Job(Phase.CERTIFY, 1, i, 4, i % prompts, i, 64) for i in range(38)]
    answers = [replace(generation(i, "a b c d", 3 if i < 2 else None), job=job) for i, job in enumerate(jobs)]
    lacking = too_few_prompts(settings, found.run.profile, answers)
    verdict = plane_verdict(answers, settings.decoding, found.run.profile, "r1", untestable=lacking)
    out = io.StringIO()
    print_run(Console(file=out, width=200), replace(found, verdict=verdict), program="stresstest")
    assert ("stresstest diagnose r1" in out.getvalue()) is offered
    assert ("the run has only 2 prompts in all" in out.getvalue()) is not offered
