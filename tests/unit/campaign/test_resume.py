"""What a resume may and may not do, own prompts, interruptions, and names that try to be markup."""

from __future__ import annotations

import json
import re
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stresstest import __version__
from stresstest.campaign.served_model import refuse_changed_server
from stresstest.errors import ExitCode, UsageError
from stresstest.model import GenerationRecord, Phase, RunStatus
from stresstest.store import open_store
from tests.faults.playing import prompts_file
from tests.support.campaign_commands import document, here, run, stopped_in_the_middle, words
from tests.support.fake_campaign import LOOP, Behaviour, campaign_server, stream
from tests.support.fake_vllm import Events, Hang, Page, page
from tests.support.forking import start
from tests.support.stored_data import make_run

TASK = """
name = "{name}"
summary = "s"
units = "paragraphs"
[languages.it]
instruction = "Scrivi {{units}} paragrafi numerati. Tema: {{topic}}."
unit_pattern = '^Paragrafo (\\d+)'
topics = [{topics}]
tokens_per_unit = {tokens}
"""


def out_of_budget(store: Path, url: str, *args: str) -> str:
    """A run that ended in its middle, in this process; its id."""
    stopped = run(store, url, *args, "--horizon", "120", "--budget-tokens", "2k")
    run_id: str = document(stopped, ExitCode.INCONCLUSIVE)["run_id"]
    return run_id


def theme(number: int) -> str:
    """A theme without a figure: prompts that differ only in numbers are one."""
    return "abcdefghij"[number // 10] + "klmnopqrst"[number % 10]


def task_file(path: Path, *, name: str = "mine", tokens: int = 40) -> Path:
    topics = ", ".join(f'"tema {theme(i)}"' for i in range(60))
    path.write_text(TASK.format(name=name, topics=topics, tokens=tokens))
    return path


@pytest.mark.slow
def test_repeated_own_prompts_are_asked_once(tmp_path: Path) -> None:
    """n distinct prompts means n distinct contents: a log's repeats are dropped, and that is said."""
    prompts = tmp_path / "p.jsonl"
    same = [{"id": f"a{i}", "messages": [{"role": "user", "content": "Tema: uno 40"}]} for i in range(50)]
    many = [
        {"id": f"b{i}", "messages": [{"role": "user", "content": f"Tema: {theme(i)} 40"}]} for i in range(50)
    ]
    prompts.write_text("\n".join(json.dumps(p) for p in same + many))
    with campaign_server(Behaviour(onset=60)) as (fake, script):
        done = run(tmp_path / "s.sqlite3", fake.url, "--prompts", str(prompts), "--horizon", "120")
    assert document(done)["distinct_prompts"] >= 38
    assert "49 of 100 prompts repeat an earlier one" in done.stderr
    asked = [content for content, _ in script.served]
    assert asked.count("Tema: uno 40") <= 2


@pytest.mark.slow
def test_an_own_prompt_that_fills_the_context_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    """One bad prompt must not stop a campaign in its middle, for ever."""
    prompts = tmp_path / "p.jsonl"
    prompts.write_text(json.dumps({"id": "long one", "messages": [{"role": "user", "content": "x"}]}))
    with campaign_server(Behaviour()) as (fake, script):
        fake.pages["/tokenize"] = page({"count": 4090, "max_model_len": 4096, "tokens": []})
        done = run(tmp_path / "s.sqlite3", fake.url, "--prompts", str(prompts))
        assert script.served == []
    assert done.returncode == ExitCode.USAGE
    assert "'long one'" in done.stderr
    with open_store(str(tmp_path / "s.sqlite3")) as store:
        assert store.runs() == []


@pytest.mark.slow
def test_a_changed_task_file_is_not_resumed(tmp_path: Path) -> None:
    """Two versions of a task in one sample certify neither."""
    store, task = tmp_path / "s.sqlite3", task_file(tmp_path / "mine.toml")
    with campaign_server(Behaviour(onset=60)) as (fake, _):
        run_id = out_of_budget(store, fake.url, "--task", str(task))
        text = task.read_text()
        for before, after in (("= 40", "= 400"), ("^Para", "^ *Para")):
            assert before in text
            task.write_text(text.replace(before, after))
            done = run(store, None, "--resume", run_id)
            assert done.returncode == ExitCode.USAGE
            assert "have changed since it began" in done.stderr


@pytest.mark.simulated
def test_a_run_that_is_being_measured_is_neither_resumed_nor_diagnosed(tmp_path: Path) -> None:
    """Two processes on one run would ask everything twice; the second is told so and sends nothing."""
    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=300, pause=0.01)) as (fake, script):
        process = start(*words(store, "run", "--lang", "it", "--rigor", "quick", "--base-url", fake.url))
        while not script.served and process.poll() is None:
            time.sleep(0.02)
        script.behaviour = Behaviour(fault=lambda _: Hang())
        asked = len(script.served)
        resumed = run(store, None, "--resume", "latest")
        diagnosed = here(store, "diagnose", "latest")
        assert len(script.served) <= asked + 8  # what the first process had under way
        process.kill()
        process.communicate()
    for done in (resumed, diagnosed):
        assert done.returncode == ExitCode.USAGE
        assert "is being measured by another process" in done.stderr


@pytest.mark.slow
def test_a_resume_may_go_to_another_address_but_changes_nothing_else(tmp_path: Path) -> None:
    """The server may have moved, which the result says; the decoding may not."""
    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=60)) as (fake, _):
        first, run_id = fake.url, out_of_budget(store, fake.url)
    refused = run(store, None, "--resume", run_id, "--temperature", "0.3", "--rigor", "strict")
    assert refused.returncode == ExitCode.USAGE
    assert "--rigor, --temperature cannot be changed" in refused.stderr
    assert run(store, None, "--resume", "").returncode == ExitCode.USAGE
    with campaign_server(Behaviour(onset=60)) as (fake, _):
        more = ("--base-url", fake.url, "--budget-tokens", "1M")
        resumed = document(run(store, None, "--resume", run_id, *more))
    assert resumed["threshold"]["certified"] is True
    (note,) = (note for note in resumed["notes"] if "continued at another address" in note)
    assert f"its answers come from {first} and {fake.url}." in note


def test_a_server_that_samples_otherwise_by_default_does_not_continue_a_run() -> None:
    """What a request does not say is the server's choice: one sample at two temperatures is none."""
    run = make_run("r1")
    run = replace(run, tool_version=__version__, profile=replace(run.profile, defaults={"temperature": 0.6}))
    refuse_changed_server(run, run.profile)
    refuse_changed_server(run, replace(run.profile, defaults={}))
    with pytest.raises(UsageError, match="sampling defaults"):
        refuse_changed_server(run, replace(run.profile, defaults={"temperature": 1.0}))


def test_what_a_busy_server_does_not_tell_is_no_change() -> None:
    """/version timed out under load, and a run at the same address was refused: "was 0.32.0, is None"."""
    run = replace(make_run("r1"), tool_version=__version__)
    begun = replace(run, profile=replace(run.profile, version="0.32.0", root="/models/m", max_model_len=4096))
    refuse_changed_server(begun, replace(begun.profile, version=None))
    refuse_changed_server(begun, replace(begun.profile, max_model_len=None))
    for other in ({"version": "0.33.0"}, {"root": "/models/n"}, {"max_model_len": 8192}):
        with pytest.raises(UsageError, match="Different from when run r1 began"):
            refuse_changed_server(begun, replace(begun.profile, **other))


def test_another_address_continues_a_run_only_where_the_servers_say_what_they_serve() -> None:
    """Two gateways may serve two models by one name: half a sample of each would certify neither."""
    run = replace(make_run("r1"), tool_version=__version__)
    told = replace(run.profile, root="/models/m", version="0.32.0")
    for profile, is_told in (
        (told, True),
        (replace(told, root=None), False),
        (replace(told, version=None), False),
    ):
        begun = replace(run, profile=profile)
        refuse_changed_server(begun, profile)
        moved = replace(profile, base_url="http://elsewhere:8000/v1")
        if is_told:
            refuse_changed_server(begun, moved)
            continue
        with pytest.raises(UsageError, match="do not tell whether they serve the same model"):
            refuse_changed_server(begun, moved)


@pytest.mark.slow
def test_a_run_that_is_done_has_its_recommendation_even_if_killed_while_saving(tmp_path: Path) -> None:
    """DONE without a threshold (killed between two writes, by an older version) is mended by a resume."""
    store = tmp_path / "s.sqlite3"
    with campaign_server(Behaviour(onset=60)) as (fake, _):
        first = document(run(store, fake.url, "--horizon", "120"))
    with open_store(str(store)) as opened:
        stored = opened.run(first["run_id"])
        opened.delete_run(stored.id)
        opened.create_run(stored)
        assert opened.thresholds() == []
    run(store, None, "--resume", first["run_id"])
    with open_store(str(store)) as opened:
        assert len(opened.thresholds()) == 1
        assert opened.run(first["run_id"]).status is RunStatus.DONE


@pytest.mark.slow
def test_lost_climb_generations_do_not_change_the_sample_on_resume(tmp_path: Path) -> None:
    """The climb is read from the same results before and after: one rung, one sample, n as planned."""
    store = tmp_path / "s.sqlite3"
    down = page({"error": {"message": "overloaded"}}, 503)
    lose_one = Behaviour(onset=60, pause=0.02, fault=lambda n: down if n in {1, 3, 4, 5} else None)
    with campaign_server(lose_one) as (fake, script):
        run_id = stopped_in_the_middle(store, fake.url, "--horizon", "120", finished=12)
        script.behaviour = replace(lose_one, pause=0.0)
        result = document(run(store, None, "--resume", run_id))
    with open_store(str(store)) as opened:
        certifying = [g.job for g in opened.generations(run_id) if g.job.phase is Phase.CERTIFY]
    assert len({job.rung for job in certifying}) == 1
    assert result["threshold"]["n"] <= len(certifying)
    assert sorted(job.index for job in certifying) == list(range(len(certifying)))


@pytest.mark.slow
def test_a_second_ctrl_c_waits_for_nothing_and_still_tells_what_was_measured(tmp_path: Path) -> None:
    """One JSON document, the resume command and exit 130, also when the user is in a hurry."""
    store = tmp_path / "s.sqlite3"
    options = ("run", "--lang", "it", "--rigor", "quick", "--horizon", "900", "--json")
    never_done = Behaviour(onset=300, fault=lambda n: Hang() if n >= 20 else None)
    with campaign_server(never_done) as (fake, _):
        process = start(*words(store, *options, "--base-url", fake.url))
        assert process.stderr is not None
        for line in process.stderr:
            if "1/2" in line:
                break
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED
    assert "Traceback" not in err
    assert f"--resume {json.loads(out)['run_id']}" in err


@pytest.mark.slow
def test_ctrl_c_while_the_server_does_not_answer_the_first_question(tmp_path: Path) -> None:
    """A hung server is the commonest reason for Ctrl-C: it must work before there is a run."""
    options = ("run", "--lang", "it", "--json")
    with campaign_server(Behaviour(fault=lambda _: Hang())) as (fake, _):
        fake.script = lambda _: Hang()
        process = start(*words(tmp_path / "s.sqlite3", *options, "--base-url", fake.url))
        deadline = time.monotonic() + 60
        while not fake.generations and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED
    assert json.loads(out)["run_id"] is None
    assert "Traceback" not in err


@pytest.mark.slow
def test_names_that_look_like_markup_are_only_names(tmp_path: Path) -> None:
    """A task called "x [/b]" must not make the tables of runs and limits fail."""
    store, task = tmp_path / "s.sqlite3", task_file(tmp_path / "m.toml", name="x [/b] [red]")
    with campaign_server(Behaviour(onset=60)) as (fake, _):
        document(run(store, fake.url, "--task", str(task), "--horizon", "120"))
    for shown in (("runs", "list"), ("recommend",)):
        done = here(store, *shown)
        assert done.returncode == 0, done.stderr
        assert "x [/b] [red]" in done.stdout.replace("\n", " ").replace("  ", " ")


def _kept(store: Path, attempts: int) -> int:
    """How many answers a kill would leave that have failed, or were held back for a second after so many
    attempts that came to nothing."""
    with open_store(str(store)) as opened:
        run_id = opened.runs()[0].id
        failed = sum(g.verdict.degenerate for g in opened.records(run_id))
        left = opened.interrupted(run_id).values()
        held = sum(
            each.verdict.degenerate or (each.unanswered_s > 1 and each.attempts >= attempts) for each in left
        )
        return failed + held


def _interrupt(
    tmp_path: Path,
    behaviour: Behaviour,
    *options: str,
    until: str,
    after: float,
    least: int,
    sign: signal.Signals = signal.SIGINT,
    attempts: int = 0,
) -> tuple[int, dict[str, GenerationRecord], dict[str, Any]]:
    """Interrupt a campaign so many seconds after a line; resume it where nothing fails. A kill waits until at
    least so many answers would be left: on a busy machine they are stored later. Returns the failures
    among its answers, what was kept of those that had not ended, and the result of the resume."""
    store = tmp_path / "s.sqlite3"
    given = ("run", "--prompts", str(prompts_file(tmp_path)), "--rigor", "quick", "--gpus", "none", "--json")
    load = ("--lang", "it", "--concurrency", "38")
    with campaign_server(behaviour) as (fake, script):
        process = start(*words(store, *given, *load, *options, "--base-url", fake.url))
        assert process.stderr is not None
        for line in process.stderr:
            if re.search(until, line):
                break
        time.sleep(after)
        if sign == signal.SIGKILL:
            deadline = time.monotonic() + 30
            while _kept(store, attempts) < least and time.monotonic() < deadline:
                time.sleep(0.1)
        process.send_signal(sign)
        process.communicate(timeout=60)
        with open_store(str(store)) as opened:
            run_id = opened.runs()[0].id
            failed = sum(g.verdict.degenerate for g in opened.records(run_id))
            kept = opened.interrupted(run_id)
        script.behaviour = Behaviour(held=behaviour.held)
        return failed, kept, json.loads(run(store, None, "--resume", run_id).stdout)


@pytest.mark.simulated
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_an_interruption_does_not_draw_failures_anew(tmp_path: Path, sign: signal.Signals) -> None:
    """Where seeds are ignored, each resume asked again for the loops that Ctrl-C or a kill had dropped, until
    none was left: "none of 22", where a third loops."""
    loops = Events(stream(LOOP * 150, "length"), pause=0.15)
    behaviour = Behaviour(fault=lambda number: loops if number % 3 == 0 else None)
    failed, kept, resumed = _interrupt(
        tmp_path, behaviour, "--horizon", "1000", "--no-abort", until=" 20/38 ", after=1.5, least=5, sign=sign
    )
    assert failed + len(kept) >= 5
    assert (resumed["threshold"]["tokens"] or 0) < 16
    told = [note for note in resumed["notes"] if note.startswith("When the run was killed")]
    assert len(told) == (sign == signal.SIGKILL)


@pytest.mark.simulated
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_an_interruption_does_not_forget_the_attempts_that_came_to_nothing(
    tmp_path: Path, sign: signal.Signals
) -> None:
    """nginx holds answers back and gives 504 to what takes too long, a loop: the operator who sees that
    presses Ctrl-C, and after the resume other draws came in their place, as first attempts."""
    slow = Page(b"", 504, delay=1.2)
    behaviour = Behaviour(fault=lambda number: slow if number % 4 == 0 else None, held=0.6)
    until = "certifying answer.*attempt 1 failed"
    _, kept, resumed = _interrupt(
        tmp_path, behaviour, "--horizon", "300", until=until, after=0.3, least=3, sign=sign, attempts=1
    )
    lost = [each for each in kept.values() if each.attempts]
    assert len(lost) >= 3
    assert all(each.unanswered_s > 1 for each in lost)
    [told] = [note for note in resumed["notes"] if "came only when asked again" in note]
    assert int(told.split()[0]) >= len(lost)


@pytest.mark.simulated
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_an_interruption_does_not_forget_what_a_service_held_back(
    tmp_path: Path, sign: signal.Signals
) -> None:
    """A guardrail collects a stream before it passes it on: the loops are what is in flight at a Ctrl-C or a
    kill, and other draws came in their place, about which nothing was said."""
    slow = Page(b"", 504, delay=15.0)
    behaviour = Behaviour(fault=lambda number: slow if number > 20 and number % 4 == 0 else None, held=0.6)
    _, kept, resumed = _interrupt(
        tmp_path, behaviour, "--horizon", "300", until=" 20/38 ", after=1.5, least=3, sign=sign
    )
    withheld = sum(each.unanswered_s > 1 for each in kept.values())  # a busy machine sends others later
    assert withheld >= 3
    [told] = [note for note in resumed["notes"] if note.startswith("When the run was interrupted")]
    said = re.search(r"nothing had arrived of (\d+) of", told)
    assert said is not None
    assert withheld <= int(said[1]) <= len(kept)
