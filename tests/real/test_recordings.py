"""What is kept of the real model's answers, and the small tools that it was made with."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from stresstest.model import Token
from tests.real.cells import MAX_TOKENS, UNITS, constrained_plan, mild_plan, plan, structured_plan
from tests.real.loopwatch import PAST_ALARM, tail_loop
from tests.real.reading import numbered
from tests.real.recordings import RECORDED, Recording, files, read, write

MOST_BYTES = 8_000_000


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    return list(read())


def _recording(texts: list[str]) -> Recording:
    return Recording(
        key="qa/en/t0.0/p1.0/0",
        model="m",
        task="qa",
        language="en",
        temperature=0.0,
        top_p=0.9,
        repetition_penalty=1.0,
        max_tokens=9,
        replicate=0,
        half="held",
        units=4,
        seed=1,
        prompt_id="p",
        prompt="Ask.",
        prompt_tokens=3,
        finish_reason="stop",
        aborted=False,
        loop_at_abort=None,
        first_token_s=0.5,
        seconds=1.5,
        tokens=tuple(Token(text, n, -0.5, 1.25) for n, text in enumerate(texts)),
    )


class TestThePlan:
    def test_has_three_answers_a_cell_in_each_length(self) -> None:
        cells = Counter(planned.cell for planned in plan())
        assert len(cells) == 144
        assert set(cells.values()) == {3}
        assert set(Counter((planned.cell, planned.units) for planned in plan()).values()) == {1}

    def test_asks_the_same_prompts_at_every_penalty(self) -> None:
        asked = Counter(planned.prompt.id for planned in plan())
        assert len(asked) == 108
        assert set(asked.values()) == {4}

    def test_halves_share_no_topic(self) -> None:
        held = {(p.cell.task, p.cell.language, p.prompt.topic) for p in plan() if p.half == "held"}
        tuning = {(p.cell.task, p.cell.language, p.prompt.topic) for p in plan() if p.half == "tuning"}
        assert not held & tuning

    def test_every_pass_goes_over_every_cell(self) -> None:
        first = list(plan())[:144]
        assert len({planned.cell for planned in first}) == 144
        assert set(Counter(planned.units for planned in first).values()) == {48}
        assert {planned.units for planned in first} == set(UNITS)

    def test_mild_answers_have_prompts_of_their_own(self) -> None:
        assert not {p.prompt.id for p in mild_plan()} & {p.prompt.id for p in plan()}
        assert not {p.key for p in mild_plan()} & {p.key for p in plan()}
        held = {p.prompt.topic for p in mild_plan() if p.half == "held"}
        assert not held & {p.prompt.topic for p in mild_plan() if p.half == "tuning"}

    def test_constrained_answers_have_a_plain_twin(self) -> None:
        """Same prompt, decoding and half: only the system prompt differs, and the seed."""
        plain = {p.key: p for p in plan()}
        for demanded in constrained_plan():
            twin = plain[demanded.key.removesuffix("/constrained")]
            assert (twin.cell, twin.prompt, twin.half) == (demanded.cell, demanded.prompt, demanded.half)
            assert [m.role for m in demanded.messages] == ["system", "user"]

    def test_answers_held_to_a_schema_have_a_free_twin(self) -> None:
        """Same prompt and decoding: what differs is the field that names the schema, and the seed."""
        planned = {p.key: p for p in structured_plan()}
        held = [p for p in planned.values() if p.schema]
        assert len(held) == 20
        for each in held:
            twin = planned[each.key.removesuffix("/schema")]
            assert (twin.cell, twin.prompt, twin.half) == (each.cell, each.prompt, each.half)
            assert twin.body is None
            assert f'"minItems": {each.units}' in (each.body or "")


class TestTheLoopWatch:
    @pytest.mark.parametrize("period", [1, 3, 40])
    def test_tells_period_and_repeated_tokens_beyond_the_alarm(self, period: int) -> None:
        ids = [*range(1000, 1100), *list(range(period)) * 900][:900]
        alarm = max(2 * period, 48)
        assert tail_loop(ids) == (period, 800 - period - alarm)

    def test_only_from_so_many_tokens_beyond_the_alarm_on(self) -> None:
        ids = [7] * (1 + 48 + PAST_ALARM)
        assert tail_loop(ids, PAST_ALARM) == (1, PAST_ALARM)
        assert tail_loop(ids[1:], PAST_ALARM) is None

    def test_a_loop_that_broke_off_is_none(self) -> None:
        assert tail_loop([1, 2, 3] * 100 + [9]) is None

    def test_nothing_is_no_loop(self) -> None:
        assert tail_loop([]) is None


class TestAFile:
    def test_gives_back_what_was_written(self, tmp_path: Path) -> None:
        ours = _recording(["One", " two", "", " \U0001f600"])
        cut = replace(_recording(["a"]), key="a", aborted=True, finish_reason=None, loop_at_abort=(1, 400))
        write(tmp_path / "x.jsonl.gz", [ours, cut])
        assert list(read(tmp_path / "x.jsonl.gz")) == [cut, ours]

    def test_has_the_same_bytes_each_time(self, tmp_path: Path) -> None:
        for name in ("a.jsonl.gz", "b.jsonl.gz"):
            write(tmp_path / name, [_recording(["One"])])
        assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


class TestWords:
    TEXTS: tuple[str, ...] = ("One", " two", "-half", "\n", " three", ".")

    def test_token_to_word(self) -> None:
        recording = _recording(list(self.TEXTS))
        assert [recording.word_of(token) for token in range(1, 7)] == [1, 2, 2, 3, 3, 3]

    def test_word_to_token(self) -> None:
        recording = _recording(list(self.TEXTS))
        assert [recording.token_of(word) for word in (1, 2, 3)] == [1, 2, 5]
        with pytest.raises(IndexError):
            recording.token_of(4)

    def test_marks_every_tenth(self) -> None:
        assert numbered("a " * 11) == "‹1› " + "a " * 10 + "‹11› a\n\n[11 words]"


class TestWhatIsKept:
    def test_is_small(self) -> None:
        assert sum(path.stat().st_size for path in files(RECORDED)) <= MOST_BYTES

    @pytest.mark.slow
    def test_is_of_the_plan(self, recordings: list[Recording]) -> None:
        planned = {
            each.key: each for each in (*plan(), *constrained_plan(), *mild_plan(), *structured_plan())
        }
        for recording in recordings:
            ours = planned[recording.key]
            assert recording.prompt == ours.prompt.messages[-1].content
            assert (recording.units, recording.seed, recording.half) == (ours.units, ours.seed, ours.half)

    @pytest.mark.slow
    def test_has_every_number(self, recordings: list[Recording]) -> None:
        for recording in recordings:
            assert 0 < len(recording.tokens) <= MAX_TOKENS
            assert all(token.id is not None and token.entropy is not None for token in recording.tokens)

    def test_is_cut_in_loops_alone(self, recordings: list[Recording]) -> None:
        for recording in recordings:
            assert recording.aborted == (recording.finish_reason is None) == bool(recording.loop_at_abort)
            if recording.aborted:
                assert tail_loop([token.id or 0 for token in recording.tokens], PAST_ALARM)
