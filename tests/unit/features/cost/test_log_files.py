"""`cost FILES…`: the modelled account of a log, against the truth of the engine that wrote it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from stresstest.economics.account import Prices
from stresstest.economics.fit import MIN_REQUESTS
from stresstest.economics.logged import split_into_batches
from stresstest.economics.optimum import attempts_from_spans, find_cheapest_cap
from stresstest.economics.replay import (
    ReplayRequest,
    busy_periods,
    count_clients,
    replay_request,
    replay_workload,
)
from stresstest.errors import InconclusiveError, UsageError
from stresstest.features.cost import log_files
from stresstest.features.cost.document import cost_document, cost_pieces
from stresstest.features.cost.log_files import LogCostSettings, cost_from_files, read_spans
from stresstest.features.cost.wording import cost_rows
from stresstest.features.recommend.cheapest import attempts_from_document
from stresstest.model.cost import Provenance, RequestSpan
from stresstest.records import parse_fields
from stresstest.render.json_text import dumps
from stresstest.render.scan_progress import SilentScanProgress
from stresstest.scanning.job import ScanJob
from stresstest.simulation.engine import EngineSpec
from tests.support.commands import command
from tests.support.cost_logs import CAP, rows, spans
from tests.support.stories import story


def written(folder: Path, lines: Any) -> str:
    path = folder / "log.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return str(path)


def test_a_log_of_text_is_judged_and_priced(tmp_path: Path) -> None:
    """Every loop that the engine planted is found, and both modelled counterfactuals agree with its truth."""
    log = rows()
    settings = LogCostSettings((written(tmp_path, log),), prices=Prices(gpus=2, gpu_hour_price=3.6))
    cost = cost_from_files(settings, SilentScanProgress())
    looping = {row["id"] for row in log if row["onset"] is not None}
    assert {span.id for span in cost.spans if span.degenerate} == looping
    assert len(looping) >= 2
    assert cost.wall_clock == pytest.approx(max(r["end"] for r in log) - min(r["start"] for r in log))
    assert cost.labels["counterfactual_s"] == Provenance.MODELLED
    source, again = cost.modelled
    assert source.counterfactual == pytest.approx(again.counterfactual, rel=0.08)
    assert again.wall_clock == pytest.approx(cost.wall_clock or 0.0, rel=0.03)
    assert cost.gpu_seconds is not None
    assert cost.money == pytest.approx(cost.gpu_seconds / 1000.0)
    assert cost.share_of_time == pytest.approx(1.0 - (cost.counterfactual or 0.0) / (cost.wall_clock or 1.0))


def test_of_a_long_log_the_first_requests_are_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """381,000 requests took 1.4 GB. The first ones by their times are kept, in whatever order they are
    logged, and the account says that it is theirs."""
    log = sorted(rows(), key=lambda row: row["start"])
    monkeypatch.setattr(log_files, "MAX_REQUESTS", 20)
    lines = [*log[10:], *log[:10], *log[:5]]
    found = read_spans(LogCostSettings((written(tmp_path, lines),)), SilentScanProgress())
    assert [span.id for span in found.spans] == [row["id"] for row in log[:20]]
    assert (found.later, found.copies) == (len(log) - 20, 5)
    cost = cost_from_files(LogCostSettings((written(tmp_path, lines),)), SilentScanProgress())
    assert cost.requests == 20
    assert (
        f"These are the 20 earliest requests of the log. {len(log) - 20} lines with later ones are left out; "
        "to include them, split the log by time."
    ) in cost.notes


@pytest.mark.slow
def test_what_stderr_says_is_not_in_the_middle_of_the_document(tmp_path: Path) -> None:
    """`--json -o FILE > both.txt 2>&1`: "Wrote FILE." stood inside the JSON, which is printed in pieces."""
    target = tmp_path / "c.json"
    words = ("cost", written(tmp_path, rows()), "--lang", "en", "--json", "-o", str(target))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    found = subprocess.run(
        [sys.executable, "-m", "stresstest", *words, "--display", "none"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        check=True,
    )
    text = found.stdout.decode()
    document, end = json.JSONDecoder().raw_decode(text)
    assert text[end:] == f"\nWrote {target}.\n"
    assert target.read_text(encoding="utf-8") == text[:end] + "\n"
    assert len(document["timeline"]) == document["requests"] == len(rows())


@pytest.mark.parametrize("end", ["abort", "error"])
def test_loops_that_were_given_up_are_loops(tmp_path: Path, end: str) -> None:
    """A client's timeout ends exactly the loops. They were counted as degenerate and left out of the rate,
    and out of the time that loops took: "0.0 %", "loops cost less than 1 %"."""
    log = rows()
    given_up = [{**row, "finish_reason": end} if row["onset"] is not None else row for row in log]
    loops = sum(row["onset"] is not None for row in log)
    whole = cost_from_files(LogCostSettings((written(tmp_path, log),)), SilentScanProgress())
    found = cost_from_files(LogCostSettings((written(tmp_path, given_up),)), SilentScanProgress())
    assert (found.degenerate, found.failed) == (loops, loops)
    assert found.rate == whole.rate
    assert found.modelled[0].counterfactual == whole.modelled[0].counterfactual
    assert found.share_of_time == pytest.approx(whole.share_of_time)
    lines = {name: words for name, words, _ in cost_rows(found)}
    assert lines["lost"] == f"{loops} requests, {loops} of them degenerate by then"
    assert find_cheapest_cap(attempts_from_spans(found.spans)) == find_cheapest_cap(
        attempts_from_spans(whole.spans)
    )


def test_a_loop_costs_what_it_costs_whatever_failed_before_it(tmp_path: Path) -> None:
    """Answers that slipped into Italian and then looped to their cap cost nothing: the first symptom was not
    repetition."""
    log = rows()
    walk = "Il fiume numero {} passava lento sotto il vecchio ponte, e la gente del paese lo guardava."
    before = f"{story(4, seed=7)} {' '.join(map(walk.format, range(2, 8)))} "
    lines = [
        {**row, "response": before + row["response"]} if row["onset"] is not None else row for row in log
    ]
    found = cost_from_files(
        LogCostSettings((written(tmp_path, lines),), ScanJob(language="en")), SilentScanProgress()
    )
    mixed = [span for span in found.spans if span.loops]
    assert len(mixed) == sum(row["onset"] is not None for row in log)
    assert found.gpu_seconds_after_onset
    assert found.gpu_seconds_used
    assert found.gpu_seconds_after_onset > 0.1 * found.gpu_seconds_used


def test_what_was_given_up_before_it_failed_is_in_no_rate(tmp_path: Path) -> None:
    """It may have failed later: it is neither healthy nor degenerate."""
    log = rows()
    healthy = [row for row in log if row["onset"] is None]
    lines = [{**row, "finish_reason": "abort"} if row in healthy[:5] else row for row in log]
    found = cost_from_files(LogCostSettings((written(tmp_path, lines),)), SilentScanProgress())
    assert found.rate is not None
    assert found.rate.n == len(log) - 5


def test_a_log_of_several_models_is_said_to_be_taken_for_one_server(tmp_path: Path) -> None:
    """A gateway's log holds models on GPUs of their own: the loops of one were 8.5 times too cheap."""
    log = rows()
    one = [{**row, "model": "qwen"} for row in log]
    for lines, named in ((one, False), ([*one, *({**row, "model": "mistral"} for row in log)], True)):
        found = read_spans(LogCostSettings((written(tmp_path, lines),)), SilentScanProgress())
        words = "The log names several models (mistral, qwen), and all requests are taken for those of one"
        assert any(note.startswith(words) for note in found.notes) == named


def test_a_document_that_is_written_in_pieces_is_the_same(tmp_path: Path) -> None:
    """Its timeline is made as it is written; whoever reads it must not notice."""
    cost = cost_from_files(LogCostSettings((written(tmp_path, rows()),)), SilentScanProgress())
    whole = dumps(cost_document(cost) | {"optimum": None})
    assert "".join(cost_pieces(cost, {"optimum": None})) == whole


def test_a_stored_cost_keeps_what_belongs_to_one_prompt(tmp_path: Path) -> None:
    """`recommend` computes the cheapest cap from it: without the prompts, repeats were independent."""
    log = [{**row, "prompt": f"question {n % 6}"} for n, row in enumerate(rows())]
    cost = cost_from_files(LogCostSettings((written(tmp_path, log),)), SilentScanProgress())
    attempts = attempts_from_document(cost_document(cost))
    assert attempts == attempts_from_spans(cost.spans)
    assert len({each.cluster for each in attempts}) == 6


def test_copies_of_a_request_are_counted_once(tmp_path: Path) -> None:
    """Rotated logs overlap, and a file may be named twice: the account was of twice the requests, at twice
    the load."""
    log = rows()
    whole = cost_from_files(LogCostSettings((written(tmp_path, log),)), SilentScanProgress())
    again = cost_from_files(LogCostSettings((written(tmp_path, [*log, *log[:20]]),)), SilentScanProgress())
    assert again.spans == whole.spans
    assert again.money == whole.money
    assert "20 lines are copies of a request that was read before, and are left out." in again.notes
    choices = [{**row, "response": f"{row['response']} {n}"} for row in log for n in range(2)]
    both = cost_from_files(LogCostSettings((written(tmp_path, choices),)), SilentScanProgress())
    assert len(both.spans) == 2 * len(log), "two choices of one request are two answers"


def test_the_onset_of_a_loop_is_placed_in_time(tmp_path: Path) -> None:
    """Wasted time begins at the onset: between start and end, in proportion to the tokens."""
    cost = cost_from_files(LogCostSettings((written(tmp_path, rows()),)), SilentScanProgress())
    for span in cost.spans:
        if span.onset_at is not None:
            assert span.submitted < span.onset_at < span.end
            assert (span.onset_at - span.submitted) / span.duration == pytest.approx(
                (span.onset or 0) / span.output_tokens, abs=0.01
            )


def test_a_first_token_at_the_end_is_none(tmp_path: Path) -> None:
    """LiteLLM writes the end as the time of the first token of what was not streamed: loops then used 0 GPU
    seconds, "measured", where they used 28 %."""
    plain = [{**row, "first_token": None} for row in rows()]
    at_once = [{**row, "first_token": row["end"]} for row in rows()]
    one, other = (
        read_spans(LogCostSettings((written(tmp_path, each),)), SilentScanProgress()).spans
        for each in (plain, at_once)
    )
    assert one == other
    assert all(span.first_token is None for span in other)


@pytest.mark.parametrize(("given", "unit"), [(0.25, "seconds"), (250, "milliseconds")])
def test_a_first_token_that_is_a_latency_is_put_after_the_start(
    tmp_path: Path, given: float, unit: str
) -> None:
    """A time to first token was taken for a time in 1970: loops used 150,961,225 GPU seconds for 104,800,
    not 0.58, and then came an internal error (IndexError). A request that is longer than 250 seconds does not
    make milliseconds seconds."""
    late = {**rows()[0], "id": "late", "response": rows()[0]["response"] + " again"}
    late["end"] = late["start"] + 400.0
    log = [*rows(), late]
    clocked, latent = (
        read_spans(LogCostSettings((written(tmp_path, each),)), SilentScanProgress())
        for each in (
            [{**row, "first_token": row["start"] + 0.25} for row in log],
            [{**row, "first_token": given} for row in log],
        )
    )
    assert [span.first_token for span in latent.spans] == [span.first_token for span in clocked.spans]
    onsets = [span.onset_at for span in clocked.spans]
    assert [span.onset_at for span in latent.spans] == pytest.approx(onsets, abs=1e-5)
    assert latent.notes == (
        f"The first tokens of {len(log)} requests are not times on the log's clock. They are taken for "
        f"{unit} after the start.",
    )


@pytest.mark.parametrize(
    "given", [-3, 0, 1e-9, 50_000_000, 9e9, 1_795_291_199.5, 9e18, "1970-01-01", "2099-01-01"]
)
def test_a_first_token_outside_of_its_request_is_left_out(tmp_path: Path, given: float | str) -> None:
    """No latency, and no time between start and end: the account is the one without first tokens."""
    log = [{**row, "first_token": given} for row in rows()]
    with_them, without = (
        read_spans(LogCostSettings((written(tmp_path, each),)), SilentScanProgress())
        for each in (log, [{**row, "first_token": None} for row in log])
    )
    assert with_them.spans == without.spans
    assert any("come before the start or after the end" in note for note in with_them.notes)


@pytest.mark.parametrize("mark", [True, "True", None])
def test_answers_out_of_a_cache_are_left_out(tmp_path: Path, mark: object) -> None:
    """They took no time of the GPU, and made the mean healthy answer so short that loops cost 15 %, not 6."""
    copy = {**rows()[3], "id": "again", "start": 1_795_291_300.25, "cache_hit": mark}
    again = {**copy, "end": copy["start"] + (5.0 if mark else 0.004)}
    found = read_spans(
        LogCostSettings((written(tmp_path, [*rows(), {**again, "first_token": None}]),)), SilentScanProgress()
    )
    assert (len(found.spans), found.cached) == (len(rows()), 1)
    cost = cost_from_files(LogCostSettings((str(next(tmp_path.iterdir())),)), SilentScanProgress())
    assert any("1 answers came out of a cache" in note for note in cost.notes)


@pytest.mark.parametrize("count", [100_000_000, 1_760_000_000, 900_000_000_000])
def test_the_length_of_a_prompt_that_no_context_holds_is_unknown(tmp_path: Path, count: int) -> None:
    """One such count in 200 records took 24 GB, or was an internal error (MemoryError)."""
    log = [dict(row) for row in rows()]
    log[5]["prompt_tokens"] = count
    cost = cost_from_files(LogCostSettings((written(tmp_path, log),)), SilentScanProgress())
    assert [span.id for span in cost.spans if span.prompt_tokens is None] == [log[5]["id"]]
    assert cost.requests == len(log)
    note = "1 prompts have more than 10,000,000 tokens by the log, which no model reads: their lengths count"
    assert any(each.startswith(note) for each in cost.notes)


def test_an_answer_that_no_context_holds_is_left_out(tmp_path: Path) -> None:
    """900,000,000,000 tokens of one answer were an internal error: residuals are not finite."""
    log = [dict(row) for row in rows()]
    log[5]["completion_tokens"] = 900_000_000_000
    cost = cost_from_files(LogCostSettings((written(tmp_path, log),)), SilentScanProgress())
    assert cost.requests == len(log) - 1
    left_out = (
        "1 answers have more than 10,000,000 tokens by the log, which no model writes, and are left out."
    )
    assert left_out in cost.notes
    with pytest.raises(InconclusiveError, match=r"^No answer in \S+ can be used\. 1 answers have more than"):
        cost_from_files(LogCostSettings((written(tmp_path, log[5:6]),)), SilentScanProgress())


def test_in_whole_seconds_too_no_answer_is_faster_than_a_server_writes(tmp_path: Path) -> None:
    """9,000,000 tokens in 30 seconds were taken: the replay was off by 19,726,577 % in the wall clock."""
    log = [{**row, "start": int(row["start"]), "end": int(row["end"]), "first_token": None} for row in rows()]
    log[5]["completion_tokens"] = 9_000_000
    found = read_spans(LogCostSettings((written(tmp_path, log),)), SilentScanProgress())
    assert (len(found.spans), found.cached) == (len(log) - 1, 1)


def test_without_text_degeneration_is_not_measured(tmp_path: Path) -> None:
    """Spans of times and counts have no rate, no wasted tokens and no counterfactual: None, never 0."""
    bare = [{k: v for k, v in row.items() if k not in ("response", "onset")} for row in rows()]
    cost = cost_from_files(LogCostSettings((written(tmp_path, bare),)), SilentScanProgress())
    assert cost.requests == len(bare)
    absent = (cost.rate, cost.degenerate, cost.wasted_tokens, cost.counterfactual, cost.gpu_seconds)
    assert absent == (None,) * 5
    assert cost.wall_clock is not None
    assert any("no text" in note for note in cost.notes)


def test_lines_without_times_are_left_out_and_counted(tmp_path: Path) -> None:
    """Nothing is made up for an answer without start or end; a log of only such answers is an error."""
    log = [dict(row) for row in rows()]
    for row in log[:5]:
        del row["start"]
    found = read_spans(LogCostSettings((written(tmp_path, log),)), SilentScanProgress())
    assert (len(found.spans), found.timeless) == (len(log) - 5, 5)
    assert found.lacking == {"no start time": 5}
    with pytest.raises(UsageError) as error:
        cost_from_files(LogCostSettings((written(tmp_path, log[:5]),)), SilentScanProgress())
    assert str(error.value).startswith(
        "None of the 5 answers in these files can be used: 5 have no start time."
    )


def test_what_a_log_lacks_is_named(tmp_path: Path) -> None:
    """A log in OpenAI's format without times was told that it had no token counts either, though it had."""
    log = [dict(row) for row in rows()[:3]]
    for row in log:
        del row["start"], row["end"]
    log[0]["start"] = 1.0
    with pytest.raises(UsageError) as error:
        cost_from_files(LogCostSettings((written(tmp_path, log),)), SilentScanProgress())
    assert ": 2 have no start time, 3 have no end time." in str(error.value)
    assert "--field start=path --field end=path." in (error.value.hint or "")
    assert "completion_tokens" not in (error.value.hint or "")


def test_a_layout_of_ones_own(tmp_path: Path) -> None:
    """--field names where times and counts lie; scan's targets hold for cost."""
    nested = [
        {"text": r["response"], "t": {"a": r["start"], "b": r["end"]}, "n": r["completion_tokens"]}
        for r in rows()
    ]
    fields = parse_fields(["response=text", "start=t.a", "end=t.b", "completion_tokens=n"])
    settings = LogCostSettings((written(tmp_path, nested),), ScanJob(mapped=fields))
    assert cost_from_files(settings, SilentScanProgress()).requests == len(nested)


def test_the_closed_loop_is_told_from_arrivals() -> None:
    """Clients that wait for answers are counted; requests that come when they like are not."""
    closed, _ = spans([(20, 60 + 7 * (n % 9)) for n in range(60)], 6, EngineSpec())
    assert count_clients(closed) == 6
    apart = [RequestSpan(str(n), 3.0 * n, 3.0 * n + 1.0 + n % 5, 50) for n in range(40)]
    assert count_clients(apart) is None


def test_a_pause_begins_a_new_batch() -> None:
    """Two batches with a pause between them are two busy periods, in order."""
    one, seconds = spans([(20, 60)] * 20, 4, EngineSpec())
    later = [
        RequestSpan(f"b{s.id}", s.submitted + 10 * seconds, s.end + 10 * seconds, s.output_tokens)
        for s in one
    ]
    first, second = busy_periods([*later, *one])
    assert [s.id for s in first] == [s.id for s in one]
    assert len(second) == len(later)


def test_a_lonely_request_does_not_join_the_bursts_of_a_day() -> None:
    """One health probe between hourly bursts made one batch of all: what loops add fell by 30 %."""

    def asked(at: float) -> RequestSpan:
        return RequestSpan(f"at {at}", at, at + 5.0, 100)

    n = MIN_REQUESTS
    day = [asked(hour * 3_600.0 + 0.5 * each) for hour in range(3) for each in range(n)]
    assert [len(each) for each in split_into_batches(day)] == [n, n, n]
    assert [len(each) for each in split_into_batches([*day, asked(1_800.0)])] == [n + 1, n, n]
    assert [len(each) for each in split_into_batches([*day, asked(-1_800.0)])] == [n + 1, n, n]
    assert [len(each) for each in split_into_batches([asked(3_600.0 * hour) for hour in range(9)])] == [9]


def test_a_request_that_lasts_longer_than_a_day_has_no_times(tmp_path: Path) -> None:
    """One start of 0 among 96 made a batch of 57 years, and a cost of minus 1.7 million."""
    log = [dict(row) for row in rows()]
    log[5]["start"] = 0
    log[7]["start"] -= 90_000.0
    found = read_spans(LogCostSettings((written(tmp_path, log),)), SilentScanProgress())
    assert (len(found.spans), found.timeless) == (len(log) - 2, 2)


def test_a_replay_on_the_true_engine_is_exact() -> None:
    """The replay is the scheduler itself: with the true step time it gives the true durations."""
    spec = EngineSpec(prefix_caching=False)
    known, seconds = spans([(30 + n, 40 + 11 * (n % 13)) for n in range(50)], 8, spec)
    again = replay_workload(spec, [replay_request(span) for span in known], 8)
    assert again.seconds == pytest.approx(seconds)
    assert again.durations == pytest.approx([span.duration for span in known])


def test_a_replay_takes_no_memory_for_the_length_of_a_prompt() -> None:
    """Every token of every prompt took 8 bytes: a log of 12 MB (8,000 tokens a prompt) took 1.4 GB."""
    spec = EngineSpec(prefix_caching=False, kv_cache_tokens=100_000_000, max_num_batched_tokens=8_192)
    tracemalloc.start()
    again = replay_workload(spec, [ReplayRequest(500_000, 20)] * 20, 8)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(again.durations) == 20
    assert peak < 2_000_000, "80 MB before"


@pytest.mark.slow
def test_the_command_line_prices_a_log(tmp_path: Path) -> None:
    """End to end: one JSON document with the account and the cheapest cap; exit 0."""
    log = written(tmp_path, rows(96, 8, 0.06))
    code, out, err = command("--display", "none", "cost", log, "--json", "--gpu-hour-price", "2")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["labels"]["money"] == "modelled"
    assert document["optimum"]["max_tokens"] < CAP


@pytest.mark.slow
def test_a_language_from_a_settings_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An English log beside a stresstest.toml that says Italian: "degenerate 400 of 400", without a word."""
    (tmp_path / "stresstest.toml").write_text('lang = "it"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, rows())
    _, out, _ = command("cost", path)
    assert '"it" is from a settings file (stresstest.toml)' in " ".join(out.split())
    _, out, _ = command("cost", path, "--lang", "en")
    assert "settings file" not in out
