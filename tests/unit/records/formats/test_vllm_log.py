"""Answers that vLLM's log does not hold count as answers without text: none is passed over in silence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stresstest.records.formats import vllm_log
from stresstest.records.formats.registry import parse_line
from stresstest.records.record import FieldMapping, Record

PREFIX = "INFO 11-21 20:00:01 [logger.py:99] "


def _asked(name: str, params: str = "SamplingParams(n=1, max_tokens=64)") -> str:
    return f"Received request {name}: prompt: 'Why?', params: {params}, lora_request: None."


def _said(name: str, text: str, reason: str = "stop", stream: str = "") -> str:
    return f"Generated response {name}{stream}: output: {text!r}, finish_reason: {reason}"


def _records(*lines: str) -> list[Record]:
    def rows() -> Iterator[dict[str, object] | None]:
        reader = vllm_log.RequestLog()
        for line in lines:
            yield reader.add_line((PREFIX + line).encode())
        yield from reader.unanswered()

    return [r for row in rows() if row is not None for r in parse_line(row, "f", 1, FieldMapping())]


@pytest.mark.parametrize(
    ("lines", "without"),
    [
        ([_asked("a"), _asked("b"), _said("a", "Yes.")], ["b"]),
        ([_asked("r_0"), _asked("r_1"), _said("r", "Yes.")], []),  # the Responses API's turns
        ([_asked("e", "PoolingParams(task='embed')"), _asked("t", "None"), _said("a", "Yes.")], []),
        ([_asked("a"), _said("a", "Yes."), _said("a", "No.")], []),  # n = 2
    ],
)
def test_a_request_without_an_answer_counts(lines: list[str], without: list[str]) -> None:
    """vLLM writes no line for an answer that is nothing but reasoning; what generates no text needs none."""
    assert [found.id for found in _records(*lines) if not found.has_text] == without


def test_requests_that_are_no_longer_waited_for_count_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded, and none is lost."""
    monkeypatch.setattr(vllm_log, "_REMEMBERED", 3)
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
    (mixed,) = _records(_asked("a", "SamplingParams(n=2, max_tokens=64)"), *lines)
    assert not mixed.has_text


def test_pieces_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten, and their answers count as unseen."""
    monkeypatch.setattr(vllm_log, "_MAX_PIECES", 200)
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
