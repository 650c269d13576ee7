"""`export` end to end on the simulator: runs and forks whose truth is known, judged again after the cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stresstest import __version__
from stresstest.campaign.campaign_setup import prepare_campaign
from stresstest.campaign.execution.driver import drive
from stresstest.campaign.progress import Progress
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import detect_text, detect_tokens
from stresstest.features.diagnose.workflow import DiagnoseOptions, diagnose
from stresstest.features.export.answers import AskedPrompt, ExportedAnswer
from stresstest.features.export.pairing import with_known_prompts
from stresstest.features.export.rows import prompt_rows
from stresstest.features.export.wording import next_commands
from stresstest.features.export.workflow import ExportedSet, ExportOptions
from stresstest.model import Decoding, Job, Message, Phase, Plane, Run, RunSettings, RunStatus, Subject
from stresstest.simulation.engine.scenario.file import load_scenario
from stresstest.store import open_store
from stresstest.store.repository import Store
from stresstest.tasks import load_prompts
from tests.support.commands import command
from tests.support.simulated_servers import LOOPS_BELOW_1_1, served
from tests.support.snapshots import Snapshot, flat
from tests.support.stories import LOOP, story
from tests.unit.features.export.trl_schema import PREFERENCE, UNPAIRED, check

PROMPTS, UNITS, CAP = 15, 4, 420


def measure(store: Store, url: str, run_id: str, decoding: Decoding, *, units: int = UNITS) -> None:
    """A finished run of a few certifying answers, without a whole campaign."""

    async def make() -> None:
        subject = Subject("sim", "narrative", "it")
        settings = RunSettings(
            subject, url, "narrative", "quick", decoding=decoding, horizon=CAP, gpus="none"
        )
        async with prepare_campaign(settings) as prepared:
            profile, digest = prepared.profile, prepared.prompts.digest()
            done = Run(run_id, settings, profile, RunStatus.DONE, 1.0, 2.0, __version__, digest)
            store.create_run(done)
            jobs = [Job(Phase.CERTIFY, 1, i, units, i, i, CAP) for i in range(PROMPTS)]
            tasks = await prepared.task_factory().create_tasks(jobs)
            async for generation in drive(prepared.endpoint, tasks, concurrency=8, abort=True):
                store.add_generation(run_id, generation)

    asyncio.run(make())


@dataclass(frozen=True)
class World:
    """looping: every answer loops near token 80, diagnosed. healthy: the same prompts at penalty 1.15."""

    store: str

    def export(self, folder: Path, *words: str, code: int = 0) -> dict[str, Any]:
        given = ("--store", self.store, "--display", "none", "export", *words)
        found, out, err = command(*given, "-o", str(folder / "pairs.jsonl"), "--json")
        assert found == code, err
        document: dict[str, Any] = json.loads(out)
        return document


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    (folder / "loops.toml").write_text(LOOPS_BELOW_1_1, encoding="utf-8")
    path = str(folder / "s.sqlite3")
    with served(load_scenario(str(folder / "loops.toml")), speed=0) as server, open_store(path) as store:
        measure(store, server.base_url, "looping", Decoding(temperature=0.2))
        measure(store, server.base_url, "healthy", Decoding(repetition_penalty=1.15))
        options = DiagnoseOptions(planes=(Plane.DECODING,), unmask=False, why=False)
        asyncio.run(diagnose("looping", store, Progress(), options=options))
    return World(path)


def rows(folder: Path, name: str = "pairs.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def assert_loops_to_the_cut(world: World, row: dict[str, Any]) -> None:
    """What is rejected is the stored answer up to a token, and the detectors know by then that it loops."""
    [message], kept = row["rejected"], row["metadata"]
    with open_store(world.store) as store:
        generation = store.generation(kept["run"], kept["key"])
    tokens = generation.tokens[: kept["tokens"]]
    assert message["content"] == "".join(token.text for token in tokens)
    verdict = detect_tokens(tokens, DetectorSpec("it", prompt_text=generation.prompt_text))
    assert verdict.onset == kept["onset"]
    assert len("".join(t.text for t in tokens[: kept["onset"] - 1])) == kept["onset_char"]


def assert_healthy(row: dict[str, Any]) -> None:
    [message] = row["chosen"]
    spec = DetectorSpec("it", prompt_text=row["prompt"][-1]["content"])
    assert not detect_text(message["content"], spec).degenerate


@pytest.mark.slow
def test_loops_are_paired_with_healthy_answers_of_another_decoding(world: World, tmp_path: Path) -> None:
    """Rejected still loops after the cut and holds its onset, chosen does not loop; both decodings are named;
    every prompt is in one of the two parts; the held-out part is a --prompts file."""
    told = world.export(tmp_path, "dpo", "looping", "--chosen-from", "healthy")
    found = rows(tmp_path)
    check(found, PREFERENCE)
    assert told["pairs"] == told["other_decoding"] == len(found)
    assert told["train_prompts"] + told["held_out_prompts"] == PROMPTS
    for row in found:
        kept = row["metadata"]
        assert_loops_to_the_cut(world, row)
        assert_healthy(row)
        assert kept["symptom"] == "loop"
        assert 1 < kept["onset"] < kept["tokens"]
        assert kept["decoding"] == "temperature 0.2"
        assert kept["chosen_decoding"] == "repetition_penalty 1.15"
    held = load_prompts(tmp_path / "pairs.held-out.jsonl").prompts
    assert len(held) == told["held_out_prompts"] > 0
    trained = {row["prompt"][-1]["content"] for row in found}
    assert not trained & {prompt.messages[-1].content for prompt in held}
    assert told["training"]["loss_type"] == ["sigmoid", "sft"]
    assert told["training"]["max_length"] >= 1024
    assert told["simulated"]


@pytest.mark.slow
def test_more_copies_are_more_of_the_same_loop(world: World, tmp_path: Path) -> None:
    """--copies is what stands behind the onset; the onset itself does not move."""
    lengths = []
    for copies in ("1", "6"):
        world.export(tmp_path, "dpo", "looping", "--chosen-from", "healthy", "--copies", copies)
        lengths.append({r["metadata"]["key"]: r["metadata"] for r in rows(tmp_path)})
    few, many = lengths
    assert few.keys() == many.keys()
    assert all(many[key]["tokens"] >= few[key]["tokens"] for key in few)
    assert any(many[key]["tokens"] > few[key]["tokens"] for key in few)
    assert all(many[key]["onset"] == few[key]["onset"] for key in few)


@pytest.mark.slow
def test_a_run_alone_has_no_pair_and_says_what_would_give_some(
    world: World, tmp_path: Path, snapshot: Snapshot
) -> None:
    """Each prompt was asked once: exit 4, the prompts to ask again, and what cleared the loops. Those held
    out are counted: a failing answer to one was missing from the sum, without a word."""
    told = world.export(tmp_path, "dpo", "looping", code=4)
    assert told["pairs"] == 0
    assert told["files"]["output"] is None
    assert not (tmp_path / "pairs.jsonl").exists()
    unpaired = load_prompts(tmp_path / "pairs.unpaired.jsonl").prompts
    assert len(unpaired) == told["unpaired_prompts"] > 0
    ask, again = told["commands"]
    assert "--prompts" in ask
    assert "--repetition-penalty 1.1 " in f"{ask} "
    assert again.startswith("stresstest export dpo looping --chosen-from latest")
    snapshot(told["nothing"])


def test_what_to_do_next_holds_no_password_and_no_signature() -> None:
    """The command to repeat stood in a CI log with the address as it was given."""
    log = "https://usr:pw@host/log.jsonl?X-Amz-Signature=sig&token=tok"
    for options in (ExportOptions((log,), (log,)), ExportOptions((log,), at_onset=True)):
        told = next_commands(ExportedSet(without_forks=("r1",)), options, "pairs.jsonl", "unpaired.jsonl")
        assert "host/log.jsonl" in told[-1]
        assert not any(secret in " ".join(told) for secret in ("pw@", "=sig", "tok"))


def test_the_next_export_replaces_nothing() -> None:
    """Where no pair was found, only the prompts were written: the second command printed was refused."""
    options = ExportOptions(sources=("log.jsonl",), language="it")
    run, export = next_commands(ExportedSet(), options, "pairs.jsonl", "pairs.unpaired.jsonl")
    assert "--prompts pairs.unpaired.jsonl" in run
    assert export.endswith("-o pairs-2.jsonl")
    # Without it, nobody looks for drift among the answers that are to be chosen.
    assert "--lang it" in run
    assert "--lang it" in export


def test_forks_differ_from_the_cut_on(world: World, tmp_path: Path) -> None:
    """Both sides begin with the same healthy text; then the one loops and the other does not."""
    told = world.export(tmp_path, "dpo", "looping", "--at-onset")
    found = rows(tmp_path)
    check(found, PREFERENCE)
    assert told["pairs"] == len(found) > 5
    for row in found:
        [chosen], [rejected] = row["chosen"], row["rejected"]
        shared = row["metadata"]["shared_chars"]
        assert chosen["content"][:shared] == rejected["content"][:shared]
        assert chosen["content"] != rejected["content"]
        assert row["metadata"]["onset_char"] >= shared
        assert_loops_to_the_cut(world, row)
        assert_healthy(row)
        assert row["metadata"]["chosen_decoding"] == "repetition_penalty 1.1"
        assert chosen["content"].rstrip()[-1] in '.!?…»"'
    assert told["training"]["loss_type"] == ["sigmoid"]


def test_without_a_diagnosis_there_are_no_forks(world: World, tmp_path: Path) -> None:
    """The command that makes them is named."""
    told = world.export(tmp_path, "dpo", "healthy", "--at-onset", code=4)
    assert told["commands"][0] == "stresstest diagnose healthy"


def test_labels_for_kto_come_from_both_runs(world: World, tmp_path: Path) -> None:
    """Every usable answer once, with its label; an answer alone needs no partner."""
    told = world.export(tmp_path, "kto", "looping", "healthy", "--held-out", "0")
    found = rows(tmp_path)
    check(found, UNPAIRED)
    assert told["answers"] == len(found)
    assert {row["label"] for row in found} == {True, False}
    assert not (tmp_path / "pairs.held-out.jsonl").exists()
    assert world.export(tmp_path, "kto", "healthy", code=4)["answers"] == 0


def test_the_split_is_that_of_the_hash(world: World, tmp_path: Path) -> None:
    """Two exports at different shares agree on everything held out at the smaller one."""
    few, many = (
        {p.id for p in load_prompts(_held_out(world, tmp_path, share)).prompts} for share in ("20%", "50%")
    )
    assert few < many


def _held_out(world: World, folder: Path, share: str) -> Path:
    world.export(folder, "kto", "looping", "healthy", "--held-out", share)
    return folder / "pairs.held-out.jsonl"


def test_what_is_told_on_a_terminal(world: World, tmp_path: Path, snapshot: Snapshot) -> None:
    """Pairs, files, lengths of both sides, balance, warnings, and the configuration to train with."""
    output = str(tmp_path / "pairs.jsonl")
    words = ("export", "dpo", "looping", "--chosen-from", "healthy", "-o", output)
    code, out, err = command("--store", world.store, "--display", "none", *words)
    assert code == 0, err
    snapshot(out)


def story_rows() -> list[dict[str, Any]]:
    """Two prompts, each answered well and badly at one temperature, and an answer that lost its prompt."""
    found: list[dict[str, Any]] = []
    for n, asked in enumerate(("Tell me of the sea.", "Tell me of the road.")):
        common = {"messages": [{"role": "user", "content": asked}], "finish_reason": "stop", "model": "m"}
        given = {**common, "request": {"temperature": 0.2, "max_tokens": 900}}
        found.append({**given, "id": f"good{n}", "response": story(3, seed=n)})
        looping = story(1, seed=n + 10) + f" {LOOP}" * 40
        found.append({**given, "id": f"bad{n}", "response": looping, "finish_reason": "length"})
    return [*found, {"id": "lost", "response": story(2, seed=9), "finish_reason": "stop"}]


@pytest.mark.parametrize("strings", [False, True])
def test_logs_with_prompts_are_paired_as_well(tmp_path: Path, strings: bool) -> None:
    """Same prompt, same temperature in the log; messages keep their roles, plain prompts may be strings."""
    given = story_rows()
    if strings:
        for row in given:
            row["prompt"] = row.pop("messages", [{"content": None}])[0]["content"]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
    output = str(tmp_path / "pairs.jsonl")
    words = ["export", "dpo", str(log), "--lang", "en", "--held-out", "0", "-o", output, "--json"]
    code, out, err = command("--display", "none", *words, *(["--strings"] if strings else []))
    assert code == 0, err
    told, found = json.loads(out), rows(tmp_path)
    check(found, PREFERENCE)
    assert told["pairs"] == 2
    assert told["other_decoding"] == 0
    assert told["left_out"] == {"without their prompt": 1}
    for row in found:
        assert row["metadata"]["decoding"] == "temperature 0.2"
        assert isinstance(row["prompt"], str) is strings
        rejected = row["rejected"] if strings else row["rejected"][0]["content"]
        assert 4 <= rejected.count("the end of the road") < 20
    if not strings:
        code, _, err = command("--display", "none", *words, "--strings")
        assert code == 2
        assert "roles would be lost" in flat(err)


def test_a_log_without_sampling_parameters_is_not_said_to_have_had_the_servers_defaults(
    tmp_path: Path,
) -> None:
    """Metadata must not name a decoding that nobody recorded: a log may leave out what was sent."""
    log = tmp_path / "log.jsonl"
    silent = [{key: row[key] for key in row if key != "request"} for row in story_rows()]
    log.write_text("".join(json.dumps(row) + "\n" for row in silent), encoding="utf-8")
    output = str(tmp_path / "pairs.jsonl")
    words = ["export", "dpo", str(log), "--lang", "en", "--held-out", "0", "-o", output, "--json"]
    code, _, err = command("--display", "none", *words)
    assert code == 0, err
    found = rows(tmp_path)
    assert found
    for row in found:
        assert row["metadata"]["decoding"] == row["metadata"]["chosen_decoding"] == "not stated"


HOSTILE = "##[1.0] ::error::x \x1b[2J \x9b31m \u202e\u200d \u2028 \x7f"


def test_training_data_holds_the_text_as_it_was(tmp_path: Path) -> None:
    """A model must not learn from another text than the log's; escapes keep a terminal and a CI server from
    being steered by the file."""
    log, labels = tmp_path / "log.jsonl", tmp_path / "labels.jsonl"
    given = [
        {"prompt": f"Tell a story. {HOSTILE}", "response": f"{HOSTILE} {story(2)}", "finish_reason": "stop"}
    ]
    given += [{"prompt": "Tell a story.", "response": story(2) + LOOP * 30, "finish_reason": "length"}]
    log.write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
    words = ("export", "kto", str(log), "--lang", "en", "--held-out", "0", "-o", str(labels))
    code, _, err = command("--display", "none", *words)
    assert code == 0, err
    raw = labels.read_text(encoding="utf-8")
    found = [json.loads(line) for line in raw.split("\n")[:-1]]
    assert found[0]["prompt"][0]["content"] == given[0]["prompt"]
    assert found[0]["completion"][0]["content"] == given[0]["response"]
    assert "##[" not in raw
    assert raw.replace("\n", "").isprintable()


def test_answers_to_one_prompt_share_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt of 200 kB that a log repeats for each answer is in memory once."""
    read: list[ExportedAnswer] = []

    def known(answers: Sequence[ExportedAnswer]) -> list[ExportedAnswer]:
        read.extend(answers)
        return with_known_prompts(answers)

    monkeypatch.setattr("stresstest.features.export.workflow.with_known_prompts", known)
    log = tmp_path / "log.jsonl"
    given = [{"id": n, "prompt": "Tell a story.", "response": story(2, seed=n)} for n in range(9)]
    log.write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
    command("--display", "none", "export", "kto", str(log), "-o", str(tmp_path / "labels.jsonl"))
    assert len(read) == 9
    assert len({id(answer.prompt) for answer in read}) == 1


def test_logs_without_prompts_are_told_so(tmp_path: Path) -> None:
    """Loops are there; what is missing is what was asked, and the sentence must not deny the loops."""
    log = tmp_path / "log.jsonl"
    given = [{"id": row["id"], "response": row["response"]} for row in story_rows()]
    log.write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
    words = ["export", "dpo", str(log), "--lang", "en", "-o", str(tmp_path / "pairs.jsonl")]
    code, out, err = command("--display", "none", *words)
    assert code == 4
    assert "needs the prompt of each answer" in flat(out + err)
    assert "none of these answers is degenerate" not in flat(out + err)


def test_what_pairs_have_no_place_for_is_left_out(tmp_path: Path) -> None:
    """A prompt with a picture is more than its text; arguments of a call are no text to learn from."""
    rows = []
    for n, row in enumerate(story_rows()):
        picture = {"type": "image_url", "image_url": {"url": f"https://host/{n}.png"}}
        content = [{"type": "text", "text": "Tell me of the picture."}, picture]
        seen = {**row, "messages": [{"role": "user", "content": content}]}
        call = {"type": "function", "function": {"name": "save", "arguments": '{"text": "done"}'}}
        rows += [seen, {**row, "id": f"{row['id']}-c", "tool_calls": [call]}]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = ["export", "dpo", str(log), "--lang", "en", "-o", str(tmp_path / "pairs.jsonl")]
    code, out, err = command("--display", "none", *words)
    assert code == 4
    said = flat(out + err)
    assert f"{len(rows) // 2} with pictures, calls of tools or other parts in their prompt" in said
    assert f"{len(rows) // 2} with calls of tools" in said


def test_an_answer_that_the_log_does_not_hold_whole_is_left_out(tmp_path: Path) -> None:
    """Nine hundred counted tokens and a sentence: the rest was reasoning, or was cut."""
    hidden = [
        {**row, "response": f"It ends well, in place {n}.", "finish_reason": "stop", "completion_tokens": 900}
        for n, row in enumerate(story_rows())
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in hidden), encoding="utf-8")
    words = ["export", "kto", str(log), "--lang", "en", "-o", str(tmp_path / "pairs.jsonl")]
    code, out, err = command("--display", "none", *words)
    assert code == 4
    assert f"{len(hidden)} whose text the log did not keep, or not all of it" in flat(out + err)


def test_the_fields_of_a_prompt_stay_with_it() -> None:
    """Prompts that are held out are measured again: without their tools they would be other requests."""
    messages = (Message("user", "Plan a trip."),)
    asked = [AskedPrompt("p", messages, body=json.dumps({"tools": [{"n": n}]})) for n in (1, 2)]
    assert asked[0].key != asked[1].key
    assert [row["tools"] for row in prompt_rows(asked)] == [[{"n": 1}], [{"n": 2}]]


def test_a_file_that_nobody_named_is_not_replaced(tmp_path: Path) -> None:
    """The held-out part is written beside the pairs: what already stands there and is of no earlier export
    stays."""
    (tmp_path / "log.jsonl").write_text('{"prompt": "p", "output": "Good."}\n', encoding="utf-8")
    kept = tmp_path / "pairs.held-out.jsonl"
    kept.write_text("mine", encoding="utf-8")
    words = (str(tmp_path / "log.jsonl"), "--lang", "en", "-o", str(tmp_path / "pairs.jsonl"))
    code, _, err = command("--store", str(tmp_path / "s.sqlite3"), "export", "dpo", *words)
    assert code == 2
    assert "and this export would replace it" in " ".join(err.split())
    assert kept.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("output", [".", "/", ""])
def test_a_folder_is_no_file_to_write(tmp_path: Path, output: str) -> None:
    """It was an internal error: a folder has no name beside which others are written."""
    (tmp_path / "log.jsonl").write_text('{"prompt": "p", "output": "Good."}\n', encoding="utf-8")
    code, _, err = command("export", "kto", str(tmp_path / "log.jsonl"), "--lang", "en", "-o", output)
    assert code == 2
    assert "is no file" in err
