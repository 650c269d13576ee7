"""Answers as vLLM writes them: the events of a stream and the body of a whole answer, as JSON bytes.

Nothing is built as objects and then encoded: what does not change in an answer is encoded once, and a
token adds its own bytes between. Keys stand in vLLM's order.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass

import msgspec

from stresstest.simulation.engine.sequence import Sequence
from stresstest.simulation.engine.writing import Written
from stresstest.simulation.server.tokens import Spelling, chat_entry, shown, text_table

_json = msgspec.json.encode
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Frame:
    """What holds for all of an answer.

    logprobs: alternatives a token, None without logprobs. usage: "", "end" or "running". text: the wire of
    /v1/completions instead of the chat's. kept_stop: a stop string is part of the text. echoed: texts that
    stand before each choice's.
    """

    id: str
    created: int
    model: str
    fingerprint: str
    text: bool = False
    logprobs: int | None = None
    token_ids: bool = False
    usage: str = ""
    stops: tuple[str, ...] = ()
    kept_stop: bool = False
    echoed: bool = False

    def head(self, kind: str) -> bytes:
        fields = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return _json(fields)[:-1]


class Flow:
    """The text of one choice as its tokens come: what can be shown now, and no more.

    A stop string that is not to be shown may begin in what is not yet sent, so its length less one is held
    back, as vLLM does.
    """

    def __init__(self, stops: Many[str], kept: bool) -> None:
        self._spelling = Spelling()
        self._hold = 0 if kept else max((len(stop) for stop in stops), default=1) - 1
        self._kept = kept
        self._held = ""
        self._sent = 0

    def take(self, token_id: int) -> tuple[str, str]:
        """(text to send, text that the token completed)."""
        completed = self._spelling.take(token_id)
        if not self._hold:
            self._sent += len(completed.encode())
            return completed, completed
        self._held += completed
        ready, self._held = self._held[: -self._hold], self._held[-self._hold :]
        self._sent += len(ready.encode())
        return ready, completed

    def end(self, sequence: Sequence, token_id: int) -> tuple[str, str]:
        """The same for an answer's last token."""
        if sequence.finish_reason == "stop" and sequence.stop_at is None:
            return self._held, shown(token_id)
        completed = self._spelling.take(token_id)
        rest = (self._held + completed).encode()
        if sequence.stop_at is not None:
            stop = str(sequence.stop_reason).encode() if self._kept else b""
            rest = rest[: max(0, sequence.stop_at + len(stop) - self._sent)]
        return rest.decode("utf-8", "replace"), completed


class Choice:
    """One choice of a streamed answer: turns the sequence's new tokens into events."""

    def __init__(self, frame: Frame, sequence: Sequence, index: int, echo: str = "") -> None:
        self.sequence = sequence
        self.sent = 0
        self.closed = False
        self._frame = frame
        self._flow = Flow(frame.stops, frame.kept_stop)
        self._echo = echo
        self._offset = 0
        self._role_sent = frame.text
        kind = "text_completion" if frame.text else "chat.completion.chunk"
        self._chunk = b"data: " + frame.head(kind)
        opened = b',"choices":[{"index":%d,' % index
        self._token = self._chunk + opened + (b'"text":' if frame.text else b'"delta":{"content":')
        self._role = self._chunk + opened + b'"delta":{"role":"assistant","content":""},"logprobs":null,'
        prompt = sequence.prompt_tokens
        self._usage = (
            b',"usage":{"prompt_tokens":%d,"total_tokens":' % prompt if frame.usage == "running" else b""
        )
        self._details = b"" if frame.text else b',"completion_tokens_details":null'
        self._fingerprint = b"" if frame.usage else b',"system_fingerprint":' + _json(frame.fingerprint)

    def events(self, limit: int | None = None) -> bytes:
        """Events of the tokens not yet sent; limit: token position not to go beyond."""
        sequence = self.sequence
        output = sequence.output
        end = len(output) if limit is None else min(limit, len(output))
        parts: list[bytes] = []
        if not self._role_sent and (end or sequence.done):
            self._role_sent = True
            parts.append(self._opening())
        last = len(output) if sequence.done else -1
        parts += [self._event(output[i - 1], i, final=i == last) for i in range(self.sent + 1, end + 1)]
        self.sent = max(self.sent, end)
        if sequence.done and self.sent == len(output):
            self.closed = True
        return b"".join(parts)

    def _opening(self) -> bytes:
        ids = _json(self.sequence.request.prompt_ids) if self._frame.token_ids else b"null"
        end = b'"finish_reason":null}]' + self._running(0) + b',"prompt_token_ids":' + ids
        return self._role + end + b',"prompt_text":null}\n\n'

    def _running(self, completed: int) -> bytes:
        if not self._usage:
            return b""
        total = self.sequence.prompt_tokens + completed
        return self._usage + b'%d,"completion_tokens":%d%s}' % (total, completed, self._details)

    def _event(self, written: Written, position: int, *, final: bool) -> bytes:
        frame = self._frame
        sequence = self.sequence
        text, own = self._flow.end(sequence, written.id) if final else self._flow.take(written.id)
        if self._echo and position == 1:
            text = self._echo + text
        ids = b"[%d]" % written.id if frame.token_ids else b"null"
        reason = _json(sequence.finish_reason) if final else b"null"
        stop = _json(sequence.stop_reason) if final else b"null"
        usage = self._running(position)
        end = self._fingerprint if final else b""
        if frame.text:
            prompt = b"null"
            if frame.token_ids and position == 1:
                prompt = _json(sequence.request.prompt_ids)
            ending = b',"finish_reason":%s,"stop_reason":%s,"prompt_token_ids":%s' % (reason, stop, prompt)
            body = b'%s%s,"logprobs":%s' % (self._token, _json(text), self._text_logprobs(written, own))
            return b'%s%s,"token_ids":%s}]%s%s}\n\n' % (body, ending, ids, usage, end)
        logprobs = b"null"
        if frame.logprobs is not None:
            logprobs = b'{"content":[' + chat_entry(written, frame.logprobs, own) + b"]}"
        if final:
            reason += b',"stop_reason":' + stop
        body = b'%s%s},"logprobs":%s,"finish_reason":%s' % (self._token, _json(text), logprobs, reason)
        return b'%s,"token_ids":%s}]%s%s}\n\n' % (body, ids, usage, end)

    def _text_logprobs(self, written: Written, own: str) -> bytes:
        k = self._frame.logprobs
        if k is None:
            return b"null"
        offset, self._offset = self._offset, self._offset + len(own)
        return b'{"text_offset":[%d],"token_logprobs":[%r],"tokens":[%s],"top_logprobs":[%s]}' % (
            offset, written.logprob, _json(own), text_table(written, k, own),
        )  # fmt: skip


def usage_event(frame: Frame, prompt: int, completed: int) -> bytes:
    """The event without choices that ends a stream with include_usage."""
    kind = "text_completion" if frame.text else "chat.completion.chunk"
    usage = {"prompt_tokens": prompt, "total_tokens": prompt + completed, "completion_tokens": completed}
    end = b',"choices":[],"usage":' + _json(usage) + b',"system_fingerprint":' + _json(frame.fingerprint)
    return b"data: " + frame.head(kind) + end + b"}\n\n"


def whole(frame: Frame, sequences: Many[Sequence], echoes: Many[str], prompt_tokens: int) -> bytes:
    """The body of an answer that is not streamed."""
    completed = sum(len(sequence.output) for sequence in sequences)
    choices = [
        _whole_choice(frame, s, i, echo) for i, (s, echo) in enumerate(zip(sequences, echoes, strict=True))
    ]
    usage = {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completed,
        "completion_tokens": completed,
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }
    prompt_ids = sequences[0].request.prompt_ids if frame.token_ids else None
    more = {"prompt_logprobs": None, "prompt_token_ids": prompt_ids, "prompt_text": None}
    tail = {} if frame.text else more
    tail |= {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}
    head = frame.head("text_completion" if frame.text else "chat.completion")
    between = {"service_tier": None, "system_fingerprint": frame.fingerprint, "usage": usage, **tail}
    return head + b',"choices":[' + b",".join(choices) + b"]," + _json(between)[1:]


def _whole_choice(frame: Frame, sequence: Sequence, index: int, echo: str) -> bytes:
    flow = Flow(frame.stops, frame.kept_stop)
    pieces, own = [echo], []
    for written in sequence.output[:-1]:
        text, completed = flow.take(written.id)
        pieces.append(text)
        own.append(completed)
    if sequence.output:
        text, completed = flow.end(sequence, sequence.output[-1].id)
        pieces.append(text)
        own.append(completed)
    ending = {"finish_reason": sequence.finish_reason, "stop_reason": sequence.stop_reason}
    ids = [written.id for written in sequence.output] if frame.token_ids else None
    text = "".join(pieces)
    if frame.text:
        prompt = sequence.request.prompt_ids if frame.token_ids else None
        more = {"token_ids": ids, "prompt_logprobs": None, "prompt_token_ids": prompt, "routed_experts": None}
        body = b'"text":' + _json(text) + b',"logprobs":' + _whole_table(frame, sequence, own)
        return b'{"index":%d,' % index + body + b"," + _json({**ending, **more})[1:]
    message = {"role": "assistant", "content": text, "refusal": None, "annotations": None, "audio": None}
    message |= {"function_call": None, "reasoning": None}
    logprobs = b"null"
    if frame.logprobs is not None:
        pairs = zip(sequence.output, own, strict=True)
        logprobs = b'{"content":[' + b",".join(chat_entry(w, frame.logprobs, t) for w, t in pairs) + b"]}"
    end = _json({**ending, "token_ids": ids, "routed_experts": None})[1:]
    return b'{"index":%d,"message":' % index + _json(message) + b',"logprobs":' + logprobs + b"," + end


def _whole_table(frame: Frame, sequence: Sequence, own: Many[str]) -> bytes:
    k = frame.logprobs
    if k is None:
        return b"null"
    offsets, at = [], 0
    for text in own:
        offsets.append(at)
        at += len(text)
    tables = b",".join(text_table(w, k, t) for w, t in zip(sequence.output, own, strict=True))
    lists = {"text_offset": offsets, "token_logprobs": [w.logprob for w in sequence.output], "tokens": own}
    return _json(lists)[:-1] + b',"top_logprobs":[' + tables + b"]}"
