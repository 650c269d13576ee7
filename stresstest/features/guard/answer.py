"""Answers as the guard reads them: tokens of each choice, out of streams and out of whole bodies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import msgspec

from stresstest.campaign.execution.unseen import ShownTokens, count_unseen, most_tokens, unseen_beside
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.registry import is_repetition
from stresstest.detectors.suite import DetectorSuite
from stresstest.detectors.text.tokens import text_tokens
from stresstest.detectors.verdict import PositionMap
from stresstest.endpoint.assembly import TokenAssembler
from stresstest.endpoint.wire import StreamChunk, decode_chunk, sane_count
from stresstest.features.guard.asked import Route
from stresstest.model import GenerationVerdict, Token
from stresstest.model.finish_reason import usual_reason
from stresstest.model.texts.lax_json import decode_lax
from stresstest.records.formats.bodies.calls import is_tool_call, message_arguments, parts_arguments
from stresstest.records.formats.bodies.content import join_content
from stresstest.records.formats.bodies.reasoning import find_reasoning, join_reasoning

MAX_JUDGED_TOKENS = 262_144
"""Tokens of an answer that the detectors are given, of all its choices together. They keep 100 to 400 bytes
of each."""
MAX_CHOICES = 128
MAX_JUDGED_CHARS = 4 * 1024 * 1024
"""Characters of an answer that the detectors are given, likewise: a server may send its answer in few large
events."""
MAX_ITEMS = 2_000_000
"""Commas of a whole answer beyond which it is not decoded: it would hold the guard up."""
MAX_DECODED = 16 * 1024 * 1024
"""Bytes of its messages, likewise: one emoji makes Python take four bytes for each character of a text, and
taking the message apart copies it. Far more are never judged."""
MAX_NESTED = 200_000
"""Lists and objects of its messages, beside logprobs: each takes about two hundred bytes."""
_LONG_EVENT = 2048
_LONG_TEXT = 512
"""Bytes of an event and characters of a token beyond which it is judged in several steps."""
_MOST_OF_CALL = 64
"""Tokens of a call beside its arguments: its name, and the signs around it."""
_CALL_ENDS = "_call_arguments.done"
_WINDOW = 64 * 1024
_MAX_HEAD = 1024 * 1024
"""Bytes of a field of the first event that are decoded."""


class UnreadableAnswerError(Exception):
    """An answer that is none of this API's: it is passed on, and not judged."""


class JudgedTokens:
    """How many tokens of an answer, and characters of them, may still be judged; below 0 once there were
    more."""

    __slots__ = ("chars", "left")

    def __init__(self) -> None:
        self.left = MAX_JUDGED_TOKENS
        self.chars = MAX_JUDGED_CHARS

    def take(self, tokens: Sequence[Token]) -> bool:
        """Count some tokens; whether they may be judged."""
        self.left -= len(tokens)
        for token in tokens:
            self.chars -= len(token.text)
        return self.exceeded is None

    @property
    def exceeded(self) -> str | None:
        """What there was too much of."""
        if self.left < 0:
            return f"more than {MAX_JUDGED_TOKENS} tokens"
        return f"more than {MAX_JUDGED_CHARS} characters" if self.chars < 0 else None


class ChoiceWatch:
    """One choice of an answer while it arrives.

    allowed: shared by all choices of the answer. assembler: makes tokens of its chunks. texts: (reasoning,
    text) of its tokens, kept only where asked for. answering: its answer has begun, after any reasoning.
    cut_off: it has tokens that were not judged, since the answer has too many. calls: of tools, beside those
    that the assembler knows. alarm: output token at which it was known to fail.
    """

    def __init__(self, index: int, spec: DetectorSpec, allowed: JudgedTokens, *, keep_text: bool) -> None:
        self.index = index
        self.assembler = TokenAssembler(index, longest_split=_LONG_EVENT)
        self.tokens = 0
        self.answering = False
        self.cut_off = False
        self.texts: list[Token] | None = [] if keep_text else None
        self.finish_reason: str | None = None
        self._allowed = allowed
        self._suite = DetectorSuite(spec)
        self.calls = 0
        self._shown = ShownTokens()
        self._most_of_body = 0

    def add(self, tokens: Sequence[Token]) -> None:
        """Pass on some tokens."""
        self.tokens += len(tokens)
        for token in tokens:
            self._shown.add(token.text)
        if not self.answering:
            self.answering = any(token.text and not token.reasoning for token in tokens)
        if not self._allowed.take(tokens):
            self.cut_off = self.cut_off or bool(tokens)
            return
        if self.texts is not None:
            self.texts.extend(tokens)
        update = self._suite.update
        for token in tokens:
            update(token)

    def add_of_body(self, words: Sequence[Token]) -> None:
        """Pass on some words of a whole answer."""
        self._most_of_body += sum(most_tokens(word.text) for word in words)
        self.add(words)

    @property
    def written(self) -> int:
        """Output tokens as far as events tell: at least one in each."""
        events = self.assembler.event_scale()
        return self.tokens if events is None else events.length

    def count_unseen(self, counted: int) -> int:
        """How many of the tokens that the server counted are surely not in what it sent."""
        counted = max(0, counted - _MOST_OF_CALL * (self.calls + self.assembler.calls))
        if self.event_scale() is not None:
            words = [Token(text) for text in self.assembler.uncounted_texts]
            return count_unseen(words, counted, self.assembler.event_ends)
        return unseen_beside(self._shown.most if self.assembler.produced else self._most_of_body, counted)

    def event_scale(self) -> PositionMap | None:
        """From the words that were judged to the events that brought them; None where tokens were judged."""
        return self.assembler.event_scale() if self.assembler.produced == self.tokens else None

    @property
    def alarm(self) -> int | None:
        return self._suite.alarm

    def acting_symptom(self, acting: Sequence[str]) -> GenerationVerdict | None:
        """The verdict so far, once a symptom that acts is certain. acting: empty for any of repetition."""
        if self._suite.alarm is None:
            return None
        verdict = self._suite.verdict()
        kinds = {symptom.kind for symptom in verdict.symptoms if symptom.confirmed}
        acts = any(kind in acting if acting else is_repetition(kind) for kind in kinds)
        if not acts:
            return None
        # In output tokens, as the log has it: what was judged so far may be words.
        events = self.event_scale()
        return verdict if events is None else events.verdict(verdict)

    def finish(self, reason: str | None) -> GenerationVerdict:
        """The verdict on the whole choice. What was judged of one that is cut off has no end of its own."""
        self.add(self.assembler.flush(0.0))
        return self._suite.finish(None if self.cut_off else reason)


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    delta: Any = None
    response: Any = None
    code: Any = None
    message: Any = None


_deltas = msgspec.json.Decoder(_Delta)
_NO_TEXT = "response.audio.delta"
_ENDS = ("response.completed", "response.incomplete", "response.failed")


def _words(text: str, *, reasoning: bool) -> Iterator[Token]:
    """A text as tokens, cut a window at a time. Of what may not be judged there is a window, so that it is
    missed."""
    for at in range(0, min(len(text), MAX_JUDGED_CHARS + 1), _WINDOW):
        for word in text_tokens(text[at : at + _WINDOW]):
            yield Token(word.text, reasoning=True) if reasoning else word


class _Head(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw(b"")
    object: msgspec.Raw = msgspec.Raw(b"")
    created: msgspec.Raw = msgspec.Raw(b"")
    model: msgspec.Raw = msgspec.Raw(b"")
    response: msgspec.Raw = msgspec.Raw(b"")


_heads = msgspec.json.Decoder(_Head)


def _read_head(payload: bytes) -> dict[str, Any]:
    """What an event of the guard's own repeats of the first. Other fields might take 27 times their size."""
    found = _heads.decode(payload)
    return _decoded({name: raw for name, raw in _raw_fields(found).items() if len(raw) <= _MAX_HEAD})


def _raw_fields(holder: msgspec.Struct) -> dict[str, msgspec.Raw]:
    """The fields that are there and are not decoded yet."""
    fields = ((name, getattr(holder, name)) for name in holder.__struct_fields__)
    return {name: raw for name, raw in fields if isinstance(raw, msgspec.Raw) and raw}


def _decoded(fields: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    return {name: msgspec.json.decode(raw) for name, raw in fields.items()}


class AnswerReader:
    """Reads one answer, event by event, or whole.

    most: choices that were asked for. head: the first event as decoded, which an event of the guard's own
    repeats. choices: by index. failed: the server has reported an error in place of tokens. usage: of the
    whole answer, as sent.
    """

    def __init__(
        self, route: Route, spec: DetectorSpec, *, keep_text: bool = False, most: int = MAX_CHOICES
    ) -> None:
        self.head: dict[str, Any] = {}
        self.choices: dict[int, ChoiceWatch] = {}
        self.failed = False
        self.usage: tuple[int | None, int | None] = (None, None)
        self._route = route
        self._spec = spec
        self._keep_text = keep_text
        self._most = min(most, MAX_CHOICES)
        self._allowed = JudgedTokens()
        self._long: list[tuple[ChoiceWatch, Token]] | None = None

    @property
    def id(self) -> str | None:
        """The answer's id, once it is known."""
        response = self.head.get("response")
        found = self.head.get("id") or (response.get("id") if isinstance(response, dict) else None)
        return None if found is None else str(found)

    def add_event(self, payload: bytes) -> int:
        """Take one event of a stream without its long texts; returns its tokens.

        Raises UnreadableAnswerError.
        """
        self._long = [] if len(payload) > _LONG_EVENT else None
        try:
            if not self.head:
                self.head = decode_lax(_read_head, payload)
            if self._route is Route.RESPONSES:
                return self._add_delta(decode_lax(_deltas.decode, payload))
            return self._add_chunk(decode_chunk(payload))
        except (ValueError, ArithmeticError, RecursionError):  # msgspec's own errors are ValueErrors
            raise UnreadableAnswerError("an event is not a chunk of an answer") from None

    def judge_long(self, piece: int) -> Iterator[None]:
        """Take the long texts of the last event, `piece` words at a time."""
        waiting, self._long = self._long, None
        for watch, token in waiting or ():
            pieces = _words(token.text, reasoning=token.reasoning)
            while some := list(islice(pieces, piece)):
                watch.add(some)
                yield

    def _pass_on(self, watch: ChoiceWatch, tokens: list[Token]) -> None:
        """Have the tokens judged: now, or, from a long one on, by `judge_long`."""
        if self._long is None or all(len(token.text) <= _LONG_TEXT for token in tokens):
            watch.add(tokens)
        else:
            self._long += ((watch, token) for token in tokens)

    def _add_chunk(self, chunk: StreamChunk) -> int:
        if chunk.error is not None:
            self.failed = True
        if chunk.usage is not None:
            self.usage = (sane_count(chunk.usage.prompt_tokens), sane_count(chunk.usage.completion_tokens))
            if len(self.choices) > 1 and chunk.choices:
                chunk.usage = None  # of all choices together: no count of this one's tokens
        added = 0
        for choice in chunk.choices or ():
            watch = self.choice(choice.index)
            tokens = watch.assembler.add_chunk(chunk, 0.0)
            if watch.assembler.finish_reason is not None:
                tokens += watch.assembler.flush(0.0)
                watch.finish_reason = watch.assembler.finish_reason
            if tokens:
                self._pass_on(watch, tokens)
                added += len(tokens)
        return added

    def _add_delta(self, event: _Delta) -> int:
        # Texts, refusals, summaries of reasoning, and what is written for calls of all kinds.
        kind = event.type
        if kind.startswith("response.") and kind.endswith(".delta") and kind != _NO_TEXT:
            if not isinstance(event.delta, str):
                return 0
            watch = self.choice(0)
            texts = (event.delta, "") if "reasoning" in kind else ("", event.delta)
            tokens = watch.assembler.add_uncounted(*texts, 0.0)
            self._pass_on(watch, tokens)
            return len(tokens)
        if kind.endswith(_CALL_ENDS):
            self.choice(0).calls += 1
        if event.type in _ENDS and isinstance(event.response, dict):
            self._end_response(event.response)
        self.failed = self.failed or event.type in ("error", "response.failed")
        return 0

    def _end_response(self, response: dict[str, Any]) -> None:
        """Take status and usage of a finished response."""
        ended = {"completed": "stop", "incomplete": "length"}.get(str(response.get("status")))
        self.choice(0).finish_reason = ended
        usage = response.get("usage")
        if isinstance(usage, dict):
            counts = (usage.get("input_tokens"), usage.get("output_tokens"))
            prompt, completion = (sane_count(n) if type(n) is int else None for n in counts)
            self.usage = (prompt, completion)

    def add_body(self, body: bytes, piece: int) -> Iterator[None]:
        """Take a whole answer, `piece` words at a time. Raises UnreadableAnswerError."""
        try:
            if body.count(b",") > MAX_ITEMS:
                raise UnreadableAnswerError("the body has too many items")
            found = self.head = decode_lax(_decode_answer, body)
            answers = list(_whole_answers(self._route, found))
        except (ValueError, RecursionError, TypeError, AttributeError, KeyError):
            raise UnreadableAnswerError("the body is not an answer of this API") from None
        if self._route is Route.RESPONSES:
            self._end_response(found)
        elif isinstance(usage := found.get("usage"), dict):
            counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
            prompt, completion = (sane_count(n) if type(n) is int else None for n in counts)
            self.usage = (prompt, completion)
        for index, (reasoning, text, ended, calls) in enumerate(answers):
            watch = self.choice(index)
            watch.calls = calls
            watch.finish_reason = watch.finish_reason or ended
            for tokens in (_words(reasoning, reasoning=True), _words(text, reasoning=False)):
                while some := list(islice(tokens, piece)):
                    watch.add_of_body(some)
                    yield

    def choice(self, index: int) -> ChoiceWatch:
        """The watch of a choice.

        Raises UnreadableAnswerError beyond the choices that were asked for, `MAX_CHOICES` at most, and after
        `MAX_JUDGED_TOKENS` or `MAX_JUDGED_CHARS`, so that nothing of what follows is kept either.
        """
        if (exceeded := self._allowed.exceeded) is not None:
            raise UnreadableAnswerError(exceeded)
        found = self.choices.get(index)
        if found is None:
            if len(self.choices) >= self._most:
                raise UnreadableAnswerError(f"more than {self._most} choices")
            found = ChoiceWatch(index, self._spec, self._allowed, keep_text=self._keep_text)
            self.choices[index] = found
        return found


class _WholeChoice(msgspec.Struct, gc=False):
    message: msgspec.Raw = msgspec.Raw(b"")
    text: msgspec.Raw = msgspec.Raw(b"")
    finish_reason: msgspec.Raw = msgspec.Raw(b"")


class _WholeAnswer(_Head):
    status: msgspec.Raw = msgspec.Raw(b"")
    usage: msgspec.Raw = msgspec.Raw(b"")
    output: msgspec.Raw = msgspec.Raw(b"")
    choices: list[_WholeChoice] | None = None


_whole = msgspec.json.Decoder(_WholeAnswer)


def _decode_answer(body: bytes) -> dict[str, Any]:
    """What is judged of an unstreamed body, without logprobs. Raises UnreadableAnswerError, ValueError."""
    found = _whole.decode(body)
    top, *choices = map(_raw_fields, (found, *(found.choices or ())))
    written = [*top.values(), *chain.from_iterable(each.values() for each in choices)]
    if sum(map(len, written)) > MAX_DECODED:
        raise UnreadableAnswerError("the body has too much text to be judged")
    if sum(raw.count(b"[") + raw.count(b"{") for raw in map(bytes, written)) > MAX_NESTED:
        raise UnreadableAnswerError("the body has too many lists and objects")
    return {**_decoded(top), "choices": list(map(_decoded, choices))}


def _whole_answers(route: Route, body: dict[str, Any]) -> Iterator[tuple[str, str, str | None, int]]:
    """(reasoning, text with arguments of calls, finish reason, calls) of each choice of an unstreamed
    body."""
    if route is Route.RESPONSES:
        items = [item for item in body["output"] if isinstance(item, dict)]
        said = (
            join_content(item.get("content")) for item in items if item.get("type", "message") == "message"
        )
        written = "".join(filter(None, said)) + parts_arguments(items)
        yield join_reasoning(items), written, None, sum(map(is_tool_call, items))
        return
    for choice in body["choices"]:
        message = choice.get("message") or {}
        text = choice.get("text") if route is Route.COMPLETIONS else join_content(message.get("content"))
        written = str(text or message.get("refusal") or "") + message_arguments(message)
        calls = len(message.get("tool_calls") or ()) + bool(message.get("function_call"))
        ended = choice.get("finish_reason")
        reason = usual_reason(ended) if isinstance(ended, str) else None
        yield find_reasoning(message), written, reason, calls
