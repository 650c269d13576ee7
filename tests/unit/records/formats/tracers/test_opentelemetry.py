"""OpenTelemetry's GenAI spans and logs that keep times but no text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, Record, UnreadableError, parse_line

TIMES = {"startTimeUnixNano": "1795291200000000000", "endTimeUnixNano": "1795291203500000000"}


def attribute(key: str, kind: str, value: Any) -> dict[str, Any]:
    return {"key": key, "value": {kind: value}}


def export(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


def read(row: Any, *, textless: bool = True) -> list[Record]:
    return parse_line(json.dumps(row).encode(), "spans.jsonl", 1, FieldMapping(textless=textless))


def test_a_collectors_export_gives_one_record_a_generation() -> None:
    """OTLP JSON holds many spans a line: generations are read whole, others are left out."""
    messages = [
        {"role": "assistant", "parts": [{"type": "text", "content": "Hello."}], "finish_reason": "stop"}
    ]
    chat = {
        "spanId": "s1",
        **TIMES,
        "attributes": [
            attribute("gen_ai.operation.name", "stringValue", "chat"),
            attribute("gen_ai.request.model", "stringValue", "m"),
            attribute("gen_ai.request.max_tokens", "intValue", "512"),
            attribute("gen_ai.usage.input_tokens", "intValue", "9"),
            attribute("gen_ai.usage.output_tokens", "intValue", "12"),
            attribute(
                "gen_ai.response.finish_reasons", "arrayValue", {"values": [{"stringValue": "length"}]}
            ),
            attribute("gen_ai.output.messages", "stringValue", json.dumps(messages)),
        ],
    }
    database = {"spanId": "s2", **TIMES, "attributes": [attribute("db.system", "stringValue", "sqlite")]}
    [record] = read(export(chat, database), textless=False)
    assert (record.id, record.model, record.text, record.finish_reason) == ("s1", "m", "Hello.", "length")
    assert (record.prompt_tokens, record.completion_tokens, record.max_tokens) == (9, 12, 512)
    assert (record.start, record.end) == (1795291200.0, 1795291203.5)


def test_vllms_own_spans_have_no_text_and_their_first_token_is_placed() -> None:
    """vLLM's spans tell times and counts only: taken where no text is needed, else refused with a reason."""
    span = {
        "spanId": "s1",
        **TIMES,
        "attributes": [
            attribute("gen_ai.request.id", "stringValue", "cmpl-1"),
            attribute("gen_ai.usage.prompt_tokens", "intValue", "7"),
            attribute("gen_ai.usage.completion_tokens", "intValue", "30"),
            attribute("gen_ai.latency.time_to_first_token", "doubleValue", 0.25),
        ],
    }
    [record] = read(export(span))
    assert (record.id, record.has_text, record.first_token) == ("cmpl-1", False, 1795291200.25)
    [unseen] = read(export(span), textless=False)
    assert not unseen.has_text
    for textless in (False, True):
        assert read(export({"spanId": "x", **TIMES, "attributes": []}), textless=textless) == []


@pytest.mark.parametrize(
    "output",
    [
        {"gen_ai.output.messages": [{"role": "assistant", "content": "Hi."}]},
        {"gen_ai.completion": "Hi."},
        {"gen_ai.completion.0.content": "Hi.", "gen_ai.completion.0.role": "assistant"},
    ],
)
def test_a_span_as_the_sdks_print_it(output: dict[str, Any]) -> None:
    """A single span with plain attributes: the old, the new and OpenLLMetry's place of the text."""
    row = {
        "name": "chat m",
        "context": {"trace_id": "0x1", "span_id": "0x2"},
        "start_time": "2026-11-21T20:00:00.000000Z",
        "end_time": "2026-11-21T20:00:02.000000Z",
        "attributes": {"gen_ai.usage.output_tokens": 3, "gen_ai.response.finish_reasons": ["stop"], **output},
    }
    [record] = read(row, textless=False)
    assert (record.id, record.text, record.finish_reason) == ("0x2", "Hi.", "stop")
    assert (record.start, record.end) == (1795291200.0, 1795291202.0)


MESSAGES = [
    {"role": "assistant", "parts": [{"type": "text", "content": "Yes."}], "finish_reason": "stop"},
    {"role": "assistant", "content": "No, since", "finish_reason": "length"},
]
NUMBERED = {
    f"gen_ai.completion.{n}.{name}": value
    for n, choice in enumerate(
        ({"content": "Yes.", "finish_reason": "stop"}, {"content": "No, since", "finish_reason": "length"})
    )
    for name, value in choice.items()
}


@pytest.mark.parametrize("kept", [{"gen_ai.output.messages": json.dumps(MESSAGES)}, NUMBERED])
def test_several_choices_are_several_answers(kept: dict[str, Any]) -> None:
    """Five alike answers to one prompt are no text that says the same five times. The count of tokens is of
    them all together."""
    turns = {"gen_ai.prompt.0.role": "assistant", "gen_ai.prompt.0.content": "Ready."}
    asked = {"gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "Is it so?"}
    usage = {"gen_ai.usage.output_tokens": 9, "gen_ai.response.finish_reasons": ["stop", "length"]}
    row = {"context": {"span_id": "0x2"}, "attributes": {**usage, **turns, **asked, **kept}}
    found = read(row, textless=False)
    assert [(r.id, r.text, r.finish_reason) for r in found] == [
        ("0x2#0", "Yes.", "stop"),
        ("0x2#1", "No, since", "length"),
    ]
    assert {r.completion_tokens for r in found} == {None}
    assert {(r.prompt_text, r.requested_text) for r in found} == {("Ready.\nIs it so?", "Is it so?")}


def test_the_text_of_an_event_counts_and_an_embedding_does_not() -> None:
    """Older instrumentations put the text into events; an embeddings span is no generation."""
    events = [{"name": "gen_ai.content.completion", "attributes": {"gen_ai.completion": "From an event."}}]
    span = {"spanId": "a", **TIMES, "attributes": [attribute("gen_ai.usage.output_tokens", "intValue", "4")]}
    embedding = {
        "spanId": "b",
        **TIMES,
        "attributes": [attribute("gen_ai.operation.name", "stringValue", "embeddings")],
    }
    [record] = read(export({**span, "events": events}, embedding), textless=False)
    assert record.text == "From an event."


@pytest.mark.parametrize(
    "value",
    [
        {"intValue": "many"},
        {"arrayValue": None},
        {"kvlistValue": {"values": [1]}},
        {},
        None,
        [],
        {"stringValue": 3},
    ],
)
def test_odd_values_never_break_the_reading(value: Any) -> None:
    """Attributes come from anywhere: a value of an unexpected shape is absent or named, never a crash."""
    attributes = [{"key": "gen_ai.usage.output_tokens", "value": value}, {"key": "gen_ai.completion"}, 7]
    try:
        found = read(export({"spanId": "s", **TIMES, "attributes": attributes}))
    except UnreadableError:
        return
    assert [record.has_text for record in found] == [False]


def test_a_line_of_times_without_text_is_taken_only_where_asked_for() -> None:
    """scan judges texts and goes on refusing such a line; cost takes it, and says that it has no text."""
    row = {"id": "a", "start": 1.0, "end": 2.0, "completion_tokens": 5}
    [record] = read(row)
    assert (record.has_text, record.start, record.completion_tokens) == (False, 1.0, 5)
    with pytest.raises(UnreadableError, match="no text"):
        read(row, textless=False)
    with pytest.raises(UnreadableError, match="no text"):
        read({"id": "a"})


def test_vllms_text_log_has_times_to_the_second() -> None:
    """The prefix of vLLM's log lines tells when a request came and when its answer was over."""
    from stresstest.records.formats.vllm_log.reader import RequestLog

    log = RequestLog()
    asked = b"INFO 02-29 23:59:58 [logger.py:40] Received request cmpl-1: prompt: 'Hi', params: max_tokens=9"
    answered = (
        b"INFO 03-01 00:00:03 [logger.py:60] Generated response cmpl-1: output: 'Hello', "
        b"output_token_ids: [1, 2], finish_reason: stop"
    )
    assert list(log.add_line(asked)) == []
    (row,) = log.add_line(answered)
    assert row["end"] - row["start"] == 5.0
    assert row["completion_tokens"] == 2


CHAT = attribute("gen_ai.operation.name", "stringValue", "chat")


@pytest.mark.parametrize(
    "span",
    [
        {
            "attributes": [
                attribute("openinference.span.kind", "stringValue", "LLM"),
                attribute("llm.model_name", "stringValue", "m"),
                attribute("llm.input_messages.0.message.content", "stringValue", "Hello?"),
                attribute("llm.input_messages.0.message.role", "stringValue", "user"),
                attribute("llm.output_messages.0.message.content", "stringValue", "Hi."),
                attribute("llm.token_count.completion", "intValue", "2"),
            ]
        },
        {"attributes": [CHAT, attribute(
            "llm.output_messages.0.message.contents.0.message_content.text", "stringValue", "Hi."
        )]},
        {"attributes": [CHAT], "events": [{"name": "gen_ai.choice", "attributes": [
            attribute("message", "stringValue", '{"content": "Hi."}'),
        ]}]},
        {"attributes": [CHAT], "events": [{"name": "gen_ai.choice", "attributes": [
            attribute("gen_ai.event.content", "stringValue", '{"message": {"content": "Hi."}}'),
        ]}]},
        {"attributes": [CHAT, attribute("events", "stringValue", json.dumps([
            {"event.name": "gen_ai.user.message", "content": "Hello?"},
            {"event.name": "gen_ai.choice", "message": {"role": "assistant", "content": "Hi."}},
        ]))]},
    ],
    ids=["OpenInference", "its parts", "message of an event", "content of one", "events as an attribute"],
)  # fmt: skip
def test_other_conventions(span: dict[str, Any]) -> None:
    """OpenInference (Phoenix), and answers that instrumentations keep as events."""
    [record] = read(export({"spanId": "s1", **TIMES, **span}), textless=False)
    assert record.text == "Hi."


def test_a_generation_without_text_beside_others_is_not_forgotten() -> None:
    """A collector batches spans: of one whose text nobody captured nothing is known, and it was an answer.
    vLLM's own span is the same generation as its client's; what wraps others, by its kind or as their parent,
    is none."""
    said = attribute("gen_ai.completion.0.content", "stringValue", "Hi.")
    counted = attribute("gen_ai.usage.output_tokens", "intValue", "4096")
    agent = attribute("gen_ai.agent.name", "stringValue", "a")
    chain = attribute("openinference.span.kind", "stringValue", "CHAIN")
    spans: tuple[dict[str, Any], ...] = (
        {"attributes": [CHAT, said]},
        {"attributes": [CHAT, counted]},
        {"attributes": [agent, counted]},
        {"attributes": [chain, counted]},
        {"attributes": [counted], "name": "llm_request"},
        {"attributes": [attribute("gen_ai.operation.name", "stringValue", "responses"), counted]},
        {"attributes": [attribute("gen_ai.operation.name", "stringValue", "workflow"), counted]},
        {"attributes": [CHAT, said], "parentSpanId": "6"},
    )
    found = read(
        export(*({"spanId": str(n), **TIMES, **span} for n, span in enumerate(spans))), textless=False
    )
    assert [(record.id, record.has_text, record.completion_tokens) for record in found] == [
        ("0", True, None),
        ("1", False, 4096),
        ("5", False, 4096),
        ("7", True, None),
    ]


def _read_spans(*spans: dict[str, Any]) -> list[tuple[str, bool]]:
    found = read(
        export(*({"spanId": str(n), **TIMES, **each} for n, each in enumerate(spans))), textless=False
    )
    return [(record.id, record.has_text) for record in found]


def test_a_remote_agents_span_is_an_answer() -> None:
    """Of a client's kind, with a text or without; inside a process it only wraps generations."""
    agent = attribute("gen_ai.operation.name", "stringValue", "invoke_agent")
    counted = attribute("gen_ai.usage.output_tokens", "intValue", "4096")
    said = attribute("gen_ai.completion.0.content", "stringValue", "Hi.")
    remote, silent, wrapper, inside, around, below = (
        {"traceId": "a", "kind": 3, "attributes": [agent, said]},
        {"traceId": "a", "kind": "SPAN_KIND_CLIENT", "attributes": [agent, counted]},
        {"traceId": "b", "kind": 1, "attributes": [agent, said]},
        {"traceId": "b", "kind": 3, "attributes": [CHAT, said]},
        {"traceId": "c", "kind": 3, "attributes": [agent, said]},
        {"traceId": "c", "kind": 3, "attributes": [CHAT, said], "parentSpanId": "4"},
    )
    found = _read_spans(remote, silent, wrapper, inside, around, below)
    assert found == [("0", True), ("1", False), ("3", True), ("5", True)]


@pytest.mark.parametrize("operation", ["execute_event_loop_cycle", "an operation of tomorrow"])
def test_a_span_that_repeats_the_answer_within_it_is_no_second_one(operation: str) -> None:
    """A cycle of Strands Agents tells what the call within it said, where that called a tool: healthy calls
    counted twice, the loops at the end once, and half the rate passed a gate."""
    said = attribute("gen_ai.completion.0.content", "stringValue", "Hi.")
    cycle = attribute("gen_ai.operation.name", "stringValue", operation)
    around, within = (
        {"traceId": "a", "attributes": [cycle, said]},
        {"traceId": "a", "attributes": [CHAT, said], "parentSpanId": "0"},
    )
    assert _read_spans(around, within) == [("1", True)]


def test_vllms_own_span_counts_where_no_client_has_one() -> None:
    """A client that is not instrumented: the server's span, without text, is all there is of its answer."""
    counted = attribute("gen_ai.usage.completion_tokens", "intValue", "4096")
    said = attribute("gen_ai.completion.0.content", "stringValue", "Hi.")
    client, same, other, of_another_line = (
        {"traceId": "a", "attributes": [CHAT, said]},
        {"traceId": "a", "name": "llm_request", "attributes": [counted], "parentSpanId": "0"},
        {"traceId": "b", "name": "llm_request", "attributes": [counted]},
        {"traceId": "c", "name": "llm_request", "attributes": [counted], "parentSpanId": "f"},
    )
    assert _read_spans(client, same, other, of_another_line) == [("0", True), ("2", False)]


def sdk_span(attributes: dict[str, Any]) -> dict[str, Any]:
    """A span as an SDK prints it."""
    return {"context": {"span_id": "0x2"}, "attributes": attributes}


BODY = {"choices": [{"message": {"role": "assistant", "content": None, "reasoning_content": "Hm, hm, hm."}}]}


@pytest.mark.parametrize(
    ("kept", "text", "reasoning"),
    [
        ({"output.value": json.dumps(BODY)}, "", "Hm, hm, hm."),
        ({"output.value": '{"choices": 3}', "llm.choices.0.completion.text": "Hi."}, "Hi.", ""),
        ({"output.value": "Hi.", "llm.output_messages.0.message.content": "Hi."}, "Hi.", ""),
    ],
)
def test_openinference_keeps_the_body(kept: dict[str, Any], text: str, reasoning: str) -> None:
    """Its numbered attributes leave reasoning and cut calls out; the body beside them has all."""
    asked = {"llm.invocation_parameters": '{"max_tokens": 512}', "llm.prompts.0.prompt.text": "Well?"}
    told = {"openinference.span.kind": "LLM", "llm.finish_reason": "length", **asked, **kept}
    [record] = read(sdk_span(attributes=told), textless=False)
    assert (record.text, record.reasoning, record.finish_reason) == (text, reasoning, "length")
    assert (record.max_tokens, record.prompt_text) == (512, "Well?")


def test_a_model_call_without_an_answer_counts() -> None:
    """OpenInference writes no output of a streamed response that its cap ended. A chain is no answer."""
    told = {"openinference.span.kind": "LLM", "llm.invocation_parameters": '{"max_output_tokens": 512}'}
    [record] = read(sdk_span(attributes=told), textless=False)
    assert (record.has_text, record.max_tokens) == (False, 512)
    assert read(sdk_span(attributes={**told, "openinference.span.kind": "CHAIN"}), textless=False) == []


@pytest.mark.parametrize(
    ("output", "texts"),
    [
        ("Hi.", ["Hi."]),
        (json.dumps({"role": "assistant", "content": "Hi."}), ["Hi."]),
        (json.dumps([{"role": "assistant", "content": each} for each in ("Hi.", "No.")]), ["Hi.", "No."]),
        (json.dumps({"role": "assistant"}), [None]),
        (None, [None]),
    ],
)
def test_langfuses_own_spans(output: str | None, texts: list[str | None]) -> None:
    """Its SDK writes an observation's fields, as JSON; a generation without an output has no text."""
    kept = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.model.name": "m",
        "langfuse.observation.input": json.dumps([{"role": "user", "content": "Well?"}]),
        "langfuse.observation.model.parameters": '{"max_tokens": 512}',
        "langfuse.observation.metadata.finish_reason": '"length"',
        "langfuse.observation.output": output,
    }
    found = read(sdk_span(attributes=kept), textless=False)
    assert [each.text if each.has_text else None for each in found] == texts
    assert {(each.model, each.max_tokens, each.prompt_text) for each in found} == {("m", 512, "Well?")}
    assert read(sdk_span(attributes={**kept, "langfuse.observation.type": "span"}), textless=False) == []


def test_logfires_streams_are_one_answer_each() -> None:
    """It writes a span of the request and a log of the answer; a request that failed has no other."""
    told = {"gen_ai.operation.name": "chat", "logfire.span_type": "span", "request_data": '{"model": "m"}'}
    messages = [{"role": "assistant", "parts": [{"type": "text", "content": "Hi."}]}]
    answered = {**told, "logfire.span_type": "log", "gen_ai.output.messages": messages}
    request, answer = sdk_span(attributes=told), sdk_span(attributes=answered)
    assert [each.text for row in (request, answer) for each in read(row, textless=False)] == ["Hi."]
    others = sdk_span(attributes={key: value for key, value in told.items() if key != "request_data"})
    for row in ({**request, "status": {"status_code": "ERROR"}}, others):
        [unanswered] = read(row, textless=False)
        assert not unanswered.has_text


CHOICE = {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": "Hi."}}


def otlp_value(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": otlp_value(v)} for key, v in value.items()]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


@pytest.mark.parametrize(
    "row",
    [
        {"body": CHOICE, "attributes": {"gen_ai.system": "openai"}, "event_name": "gen_ai.choice"},
        {
            "resourceLogs": [
                {
                    "scopeLogs": [
                        {
                            "logRecords": [
                                {
                                    "body": otlp_value(CHOICE),
                                    "attributes": [attribute("gen_ai.system", "stringValue", "openai")],
                                    "eventName": "gen_ai.choice",
                                    "spanId": "s1",
                                }
                            ]
                        }
                    ]
                }
            ]
        },
    ],
)
def test_answers_in_log_records(row: dict[str, Any]) -> None:
    """Events are log records; a collector writes them apart from the spans."""
    [record] = read(row, textless=False)
    assert (record.text, record.finish_reason) == ("Hi.", "length")


def test_an_event_without_its_text_is_an_answer() -> None:
    """Where contents are not captured; the events of a prompt are none."""
    told = {"gen_ai.system": "openai"}
    kept = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant"}}
    [record] = read({"body": kept, "attributes": told, "event_name": "gen_ai.choice"}, textless=False)
    assert (record.has_text, record.finish_reason) == (False, "stop")
    asked = {"body": {"content": "Well?"}, "attributes": told, "event_name": "gen_ai.user.message"}
    assert read(asked, textless=False) == []


@pytest.mark.parametrize(
    "told",
    [
        {"gen_ai.response.finish_reasons": ["stop", "length"]},
        {"gen_ai.request.choice.count": 2},
    ],
)
def test_answers_without_text_are_counted(told: dict[str, Any]) -> None:
    """Two answers to one request are two, of which the count of tokens is of both."""
    told = {"gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": 900, **told}
    found = read(sdk_span(attributes=told), textless=False)
    assert [(each.has_text, each.completion_tokens) for each in found] == [(False, None)] * 2


@pytest.mark.parametrize(
    ("parts", "text", "reasoning"),
    [
        ([{"type": "reasoning", "content": "Hm."}], "", "Hm."),
        ([{"type": "thinking", "content": "Hm."}, {"type": "text", "content": "Hi."}], "Hi.", "Hm."),
        ([{"type": "refusal", "content": "I cannot."}], "I cannot.", ""),
    ],
)
def test_parts_of_messages(parts: list[dict[str, Any]], text: str, reasoning: str) -> None:
    """An answer that is nothing but thought was one without text: its loops were not seen."""
    told = {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}])}
    [record] = read(sdk_span(attributes={"gen_ai.operation.name": "chat", **told}), textless=False)
    assert (record.text, record.reasoning, record.has_text) == (text, reasoning, True)


def test_no_messages_are_no_text() -> None:
    """An empty list was read as the text "[]"."""
    told = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": "[]"}
    [record] = read(sdk_span(attributes=told), textless=False)
    assert not record.has_text


_WHOLE = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "It ends. " * 20}]}])
_BODY_OF_TEXT = json.dumps({"choices": [{"message": {"role": "assistant", "content": "It ends. " * 20}}]})


@pytest.mark.parametrize(
    "cut",
    [
        {"gen_ai.operation.name": "chat", "gen_ai.output.messages": _WHOLE[:90]},
        {
            "openinference.span.kind": "LLM",
            "output.value": _BODY_OF_TEXT[:90],
            "llm.output_messages.0.message.content": ("It ends. " * 20)[:90],
        },
        *(
            {"langfuse.observation.type": "generation", "langfuse.observation.output": begun}
            for begun in (
                '{"role": "assistant", "content": "It',
                '{"arguments": "{\\"q\\": \\"the',
                '[{"type": "function',
            )
        ),
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": '[{"role": "user", "content": "Well? Well? Well?"}]'[:40],
            "langfuse.observation.output": ("It ends. " * 20)[:40],
        },
    ],
)
def test_an_attribute_that_was_cut_is_not_whole(cut: dict[str, Any]) -> None:
    """`OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT` cuts JSON in the middle of a text: its beginning was judged as the
    answer, and a gate passed over loops that come later."""
    [record] = read(sdk_span(attributes=cut), textless=False)
    assert not record.has_text


@pytest.mark.parametrize(
    "kept",
    [
        {
            "gen_ai.input.messages": json.dumps([{"role": "user", "content": "Well? " * 40}])[:90],
            "gen_ai.completion": '{"a": "b',
        },
        {"gen_ai.prompt": '{"id": 7}\n\nSummarise it.', "gen_ai.completion": '{"a": "b'},
        {
            "openinference.span.kind": "LLM",
            "output.value": _BODY_OF_TEXT[:90],
            "llm.output_messages.0.message.content": '{"a": "b',
        },
    ],
)
def test_what_is_not_as_long_as_the_limit_is_whole(kept: dict[str, Any]) -> None:
    """Long prompts are cut beside short answers, and a record with a question behind it is no cut JSON."""
    [record] = read(sdk_span(attributes={"gen_ai.operation.name": "chat", **kept}), textless=False)
    assert (record.text, record.has_text) == ('{"a": "b', True)


def test_the_fullest_of_several_places_is_read() -> None:
    """LiteLLM's logger for Langfuse writes an answer in three of them, and cut arguments in one as `{}`."""
    kept = {
        "openinference.span.kind": "LLM",
        "output.value": json.dumps({"tool_calls": [{"function": {"arguments": '{"q": "the gulls'}}]}),
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"q": "the gulls',
        "langfuse.observation.type": "generation",
        "langfuse.observation.output": '[{"type": "function_call", "arguments": {}}]',
    }
    [record] = read(sdk_span(attributes=kept), textless=False)
    assert (record.text, record.calls) == ('{"q": "the gulls', True)


def test_spans_of_vercels_ai_sdk_are_read() -> None:
    """Its text, calls and finish reason have names of their own beside the conventions' counts."""
    told = {
        "ai.prompt.messages": json.dumps([{"role": "user", "content": [{"type": "text", "text": "Why?"}]}]),
        "ai.response.text": "So. ",
        "ai.response.toolCalls": json.dumps([{"toolName": "f", "args": {"day": 2}}]),
        "ai.response.reasoning": "Hm.",
        "ai.response.finishReason": "length",
        "gen_ai.usage.output_tokens": 7,
    }
    row = {"name": "ai.generateText.doGenerate", "attributes": told}
    (record,) = parse_line(json.dumps(row).encode(), "f", 1, FieldMapping())
    assert (record.text, record.finish_reason, record.completion_tokens) == ('So. {"day": 2}', "length", 7)
    assert (record.prompt_text, record.reasoning) == ("Why?", "Hm.")


def test_client_and_gateway_are_told_apart_by_service_and_library() -> None:
    """Both name their span `chat m`, as the conventions ask: the price of a loop was halved by the second."""
    span = {
        "spanId": "s",
        "traceId": "t",
        "name": "chat m",
        **TIMES,
        "attributes": [attribute("gen_ai.completion.0.content", "stringValue", "So.")],
    }
    told = [
        {
            "resource": {"attributes": [attribute("service.name", "stringValue", service)]},
            "scopeSpans": [{"scope": {"name": library}, "spans": [span]}],
        }
        for service, library in (("shop", "openai"), ("gateway", "openai"), ("shop", "langchain"))
    ]
    printed = {
        **sdk_span(attributes={"gen_ai.completion.0.content": "So."}),
        "name": "chat m",
        "resource": {"attributes": {"service.name": "shop"}},
    }
    found = [*read({"resourceSpans": told}), *read(printed)]
    assert [each.writer for each in found] == [
        "shop openai chat m",
        "gateway openai chat m",
        "shop langchain chat m",
        "shop chat m",
    ]
