"""Answers that vLLM's log does not hold count as answers without text: none is passed over in silence."""

from __future__ import annotations

from datetime import date

import pytest

from stresstest.records.formats.fields import TEXTLESS
from stresstest.records.formats.registry import parse_line
from stresstest.records.formats.vllm_log import waiting
from stresstest.records.formats.vllm_log.clock import LogClock
from stresstest.records.formats.vllm_log.reader import RequestLog
from stresstest.records.record import FieldMapping, Record, UnreadableError

PREFIX = "INFO 11-21 20:00:01 [logger.py:99] "


def _asked(name: str, params: str = "SamplingParams(n=1, max_tokens=64)") -> str:
    return f"Received request {name}: prompt: 'Why?', params: {params}, lora_request: None."


def _said(name: str, text: str, reason: str = "stop", stream: str = "") -> str:
    return f"Generated response {name}{stream}: output: {text!r}, finish_reason: {reason}"


def _records(*lines: str) -> list[Record]:
    reader = RequestLog()
    rows = [row for line in lines for row in reader.add_line((PREFIX + line).encode())]
    return [
        found for row in (*rows, *reader.unanswered()) for found in parse_line(row, "f", 1, FieldMapping())
    ]


LATER = "Received request b: params: SamplingParams(n=1, max_tokens=64), lora_request: None."
"""As vLLM writes it from 0.15 on, whose prompts stand in a line of their own."""


@pytest.mark.parametrize(
    ("lines", "without"),
    [
        ([_asked("a"), _asked("b"), _said("a", "Yes.")], ["b"]),
        ([_asked("r_0"), _asked("r_1"), _said("r", "Yes.")], []),  # the Responses API's turns
        ([_asked("e", "PoolingParams(task='embed')"), _asked("t", "None"), _said("a", "Yes.")], []),
        ([_asked("a", "SamplingParams(n=2)"), _said("a", "Yes."), _said("a", "No.")], []),
        ([_asked("a", "SamplingParams(n=3)"), _said("a", "Yes."), _said("a", "No.")], ["a"]),
        ([_asked("a", "SamplingParams(n=1024)"), _said("b", "Yes.")], ["a"] * 16),
        ([_asked("a"), _said("a", "Yes."), _asked("a")], ["a"]),  # a client's own id, in all its calls
        ([_asked("a"), _asked("a"), _said("a", "Yes."), _asked("a")], ["a", "a"]),
        ([_asked("a"), LATER, _said("a", "Yes.")], ["b"]),
        ([_asked("x"), _asked("x_0"), _said("x", "Yes.")], ["x_0"]),
        ([f"Request d details: prompt: '{_asked('q')}'", _asked("d"), _said("d", "Yes.")], []),
        ([_asked("svc:17"), _asked("my id"), _said("my id", "Yes.")], ["svc:17"]),
    ],
)
def test_a_request_without_an_answer_counts(lines: list[str], without: list[str]) -> None:
    """vLLM writes no line for an answer that is nothing but reasoning; what generates no text needs none."""
    assert [found.id for found in _records(*lines) if not found.has_text] == without


def test_a_count_beside_the_answer_is_taken() -> None:
    """With `--log-level DEBUG` vLLM writes the token ids on a line of their own, which was damaged."""
    counted = "Generated response a details: output_token_ids: [1, 2, 3]"
    piece = "Generated response a (streaming delta) details: output_token_ids: [1]"
    (found,) = _records(_asked("a"), piece, counted, _said("a", "Yes."))
    assert (found.text, found.completion_tokens, found.max_tokens) == ("Yes.", 3, 64)


@pytest.mark.parametrize("stop", ["max_tokens=7", f"max_tokens={'9' * 5000}"], ids=["short", "long"])
def test_a_clients_stop_is_no_cap(stop: str) -> None:
    """It stands before the cap, as the client wrote it: one of 5,000 digits ended `scan` of the whole log."""
    params = f"SamplingParams(n=1, stop=[{stop!r}], max_tokens=64, min_tokens=0)"
    (found,) = _records(_asked("a", params), _said("a", "Yes."))
    assert found.max_tokens == 64


def test_two_open_requests_of_one_id_share_nothing() -> None:
    """Whose an answer is nobody knows, so that it has no prompt and no cap."""
    first, second = _records(_asked("a"), _asked("a"), _said("a", "Yes."), _said("a", "No."))
    assert [(each.prompt_text, each.max_tokens) for each in (first, second)] == [("", None)] * 2


def test_an_answer_of_token_ids_alone_has_no_text() -> None:
    """vLLM's endpoint of token ids logs an empty text for each; of a chat it logs none that is empty."""
    (found,) = _records(_asked("a"), _said("a", ""))
    assert not found.has_text


def test_requests_that_are_no_longer_waited_for_count_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded, and none is lost."""
    monkeypatch.setattr(waiting, "_REMEMBERED", 3)
    names = [f"n{i}" for i in range(10)]
    found = _records(*(_asked(name) for name in names), _said("n9", "Yes."))
    assert sorted(r.id for r in found if not r.has_text) == names[:-1]


def test_a_stream_that_its_client_left_is_read_from_its_pieces() -> None:
    """Whoever loops is left: the loop stands in the deltas, and no complete line follows."""
    delta = " (streaming delta)"
    pieces = ("[reasoning: Let ]", "[reasoning: me see.]", "Yes, ", "yes.")
    lines = [_said("a", piece, "None", delta) for piece in pieces]
    (found,) = _records(_asked("a"), *lines)
    assert (found.reasoning, found.text, found.finish_reason) == ("Let me see.", "Yes, yes.", "abort")
    (whole,) = _records(_asked("a"), *lines, _said("a", "Yes, yes.", "streaming_complete"))
    assert (whole.reasoning, whole.text, whole.finish_reason) == ("", "Yes, yes.", None)
    mixed = _records(_asked("a", "SamplingParams(n=2, max_tokens=64)"), *lines)
    assert [each.has_text for each in mixed] == [False, False]


def test_prompts_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of answered requests are let go, and of the others the oldest are forgotten, not the requests."""
    monkeypatch.setattr(waiting, "_MAX_PROMPTS", 10)
    answered, old, new = _records(*map(_asked, "abc"), _said("a", "Yes."))
    assert (answered.prompt_text, old.prompt_text, new.prompt_text) == ("", "Why?", "Why?")
    first, second, third = _records(*map(_asked, "abc"))
    assert [each.prompt_text for each in (first, second, third)] == ["", "Why?", "Why?"]
    (whole,) = _records(*(line for name in "abcdef" for line in (_asked(name), _said(name, "Yes."))))[-1:]
    assert whole.prompt_text == "Why?"


def test_calls_of_tools_are_known_as_such() -> None:
    """vLLM writes them as a text; `export` must not take their arguments for one."""
    (found,) = _records(_asked("a"), _said("a", '[tool_calls: now({"zone": "UTC"})]'))
    assert found.calls


def test_pieces_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten, and their answers count as unseen."""
    monkeypatch.setattr(waiting, "_MAX_PIECES", 200)
    asked = [_asked(name) for name in "abc"]
    found = _records(*asked, *(_said(name, "x" * 30, "None", " (streaming delta)") for name in "abc"))
    found += _records(*asked, *(_said(name, "x" * 30, "None", " (streaming delta)") for name in "abca"))
    assert [each.has_text for each in found] == [False, True, True, False, True, True]


@pytest.mark.parametrize(
    "start", ["non-default args: {'max_log_len': 20}", "args: Namespace(max_log_len=20)"]
)
def test_a_text_that_was_cut_is_known_to_be(start: str) -> None:
    """What `--max-log-len` cut is judged as far as it goes, and is no truncation of the model's."""
    whole, cut = _records(start, _said("a", "It ends here."), _said("b", "It goes on for ever"[:19] + " "))
    assert (whole.has_text, whole.finish_reason) == (True, "stop")
    assert (cut.has_text, cut.finish_reason, cut.text[:7]) == (False, None, "It goes")


IN_A_COMMON_YEAR, IN_A_LEAP_YEAR = date(2027, 2, 1), date(2028, 6, 1)
"""Days on which a log is read: the last February had 28 days, and 29."""


def _between(first: str, then: str, today: date, seen: str = "") -> float:
    clock = LogClock(today)
    begun = clock.read(f"INFO {first} [logger.py:40] Received request a")
    clock.see(seen.encode())
    ended = clock.read(f"INFO {then} [logger.py:40] Generated response a")
    assert begun is not None
    assert ended is not None
    return ended - begun


@pytest.mark.parametrize("today", [IN_A_COMMON_YEAR, IN_A_LEAP_YEAR])
def test_the_night_after_28_february_is_no_longer_than_others(today: date) -> None:
    """Every year counted as a leap year: "25 h 00 min" for a log of one hour, 90,034 GPU seconds, money 12.44
    instead of 0.41."""
    assert _between("02-28 23:59:59", "03-01 00:00:09", today) == 10
    assert _between("02-29 23:59:59", "03-01 00:00:09", IN_A_LEAP_YEAR) == 10
    assert _between("02-28 23:59:59", "02-29 00:00:09", IN_A_LEAP_YEAR) == 10


def test_a_line_of_29_february_is_of_a_leap_year() -> None:
    """Whatever it tells of, but not where a prompt quotes one: a quiet day stays a day, in an old log too."""
    night = ("02-28 23:59:59", "03-01 00:00:09")
    line = "INFO 02-29 12:00:00 [loggers.py:80] Engine 000: Avg prompt throughput: 0.0 tokens/s"
    assert _between(*night, IN_A_COMMON_YEAR, line) == 86_410
    assert _between(*night, IN_A_COMMON_YEAR, f"INFO 02-28 23:59:59 {line}") == 10


def test_logs_that_were_rotated_in_that_night_are_of_the_last_year() -> None:
    """Neither file has both days, and all of them must have the same calendar."""
    for today, hours in ((IN_A_COMMON_YEAR, 2), (IN_A_LEAP_YEAR, 26)):
        begun, ended = (LogClock(today).read(f"INFO {at}:00:00 [") for at in ("02-28 23", "03-01 01"))
        assert begun is not None
        assert ended is not None
        assert ended - begun == hours * 3_600


IMITATED = "1a: output: 'So it ends.' #: prompt: 'q', params: SamplingParams(n=0)"


def test_an_id_of_the_clients_own_cannot_imitate_its_line() -> None:
    """vLLM writes the header X-Request-Id as it is: a quarter of the answers looped, and none was counted."""
    said = f"Generated response {IMITATED}: output: 'on and on', output_token_ids: None, finish_reason: stop"
    reader = RequestLog()
    assert (
        list(reader.add_line(f"{PREFIX}Received request {IMITATED}: prompt: 'q', params: x".encode())) == []
    )
    with pytest.raises(UnreadableError):
        list(reader.add_line((PREFIX + said).encode()))


def test_a_text_is_one_literal() -> None:
    """A comment behind it would be the answer."""
    line = "Generated response a: output: 'So.' # 'on and on', output_token_ids: None, finish_reason: stop"
    with pytest.raises(UnreadableError, match="cut"):
        list(RequestLog().add_line((PREFIX + line).encode()))


def test_the_length_of_the_log_is_no_clients_word() -> None:
    """A path in the access log made 300 answers whole of which vLLM had kept a hundred characters each."""
    reader = RequestLog()
    access = 'INFO:     10.0.0.7:5 - "GET /v1/models?args:{max_log_len=999 HTTP/1.1" 200 OK'
    for line in ("INFO args: Namespace(max_log_len=20)", access, _asked("a")):
        assert list(reader.add_line(line.encode())) == []
    (row,) = reader.add_line((PREFIX + _said("a", "x" * 20)).encode())
    assert row[TEXTLESS]
