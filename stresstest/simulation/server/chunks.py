"""Answers as vLLM writes them: the events of a stream and the body of a whole answer, as JSON bytes.

Nothing is built as objects and then encoded: what does not change in an answer is encoded once, and a
token adds its own bytes between. Keys are in vLLM's order.

Everything that a server states about a token depends on its id and its level, so texts are cached by id and
the alternatives by level: a token with 20 logprobs then costs a few joins instead of 20 objects. The emitted
token comes first, as in vLLM, then the others by rank.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence as Many
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import msgspec

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.scheduling.sequence import Sequence
from stresstest.simulation.engine.writing import EmittedToken, alternatives

_json = msgspec.json.encode
_NOBODY = -1


@cache
def token_text(token_id: int) -> str:
    """The token's own text; "" where its bytes are a part of a character, as vLLM shows it."""
    try:
        return vocabulary.token_bytes(token_id).decode("utf-8")
    except UnicodeDecodeError:
        return ""


@cache
def _named(token_id: int) -> tuple[bytes, bytes]:
    """(`{"token":…,"logprob":`, `,"bytes":[…]`) of a token."""
    return logprob_parts(token_text(token_id))


def logprob_parts(text: str) -> tuple[bytes, bytes]:
    """A chat logprobs entry, before and after the number."""
    return b'{"token":' + _json(text) + b',"logprob":', b',"bytes":' + _json(list(text.encode()))


@lru_cache(maxsize=1 << 15)
def _others(level: int, k: int, emitted: int) -> tuple[frozenset[int], tuple[tuple[int, float], ...]]:
    """The k alternatives of a level that are not the emitted token, and their ids.

    `_NOBODY` for the emitted token gives those of all tokens that are not among them.
    """
    found = alternatives(EmittedToken(emitted, 0.0, 0.0, level), k) if k > 0 else []
    rest = tuple((i, lp) for i, lp in found if i != emitted)
    return frozenset(i for i, _ in rest), rest


def _alternatives_beside(written: EmittedToken, k: int) -> tuple[int, tuple[tuple[int, float], ...]]:
    """(key of the emitted token, its alternatives). The key is `_NOBODY` where they are the level's own."""
    ids, rest = _others(written.level, k, _NOBODY)
    if written.id not in ids:
        return _NOBODY, rest
    return written.id, _others(written.level, k, written.id)[1]


@lru_cache(maxsize=1 << 14)
def _chat_rest(level: int, k: int, key: int) -> bytes:
    """`,{…},{…}`: the k - 1 alternatives beside the emitted token."""
    _, rest = _others(level, k, key)
    parts = []
    for token_id, logprob in rest[: k - 1]:
        head, tail = _named(token_id)
        parts.append(b"," + head + b"%r" % logprob + tail + b"}")
    return b"".join(parts)


def chat_entry(written: EmittedToken, k: int | None, text: str) -> bytes:
    """One element of a chat answer's logprobs.content; k: alternatives requested; text: as shown."""
    head, tail = _named(written.id) if text == token_text(written.id) else logprob_parts(text)
    own = head + b"%r" % written.logprob + tail
    if not k:
        return own + b',"top_logprobs":[]}'
    key, _ = _alternatives_beside(written, k)
    return own + b',"top_logprobs":[' + own + b"}" + _chat_rest(written.level, k, key) + b"]}"


@lru_cache(maxsize=1 << 14)
def _text_rest(level: int, k: int, key: int) -> bytes:
    _, rest = _others(level, k, key)
    return b"".join(b"," + _json(token_text(i)) + b":%r" % lp for i, lp in rest)


def text_table(written: EmittedToken, k: int, text: str) -> bytes:
    """One element of a plain completion's top_logprobs: token text → logprob."""
    own = b"{" + _json(text) + b":%r" % written.logprob
    if not k:
        return own + b"}"
    key, _ = _alternatives_beside(written, k)
    return own + _text_rest(written.level, k, key) + b"}"


class IncrementalDecoder:
    """Bytes of tokens to text: nothing until a character is complete, as vLLM streams it."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._whole = True

    def add_token(self, token_id: int) -> str:
        """The text that this token completes."""
        if self._whole and (text := token_text(token_id)):
            return text
        text = self._decoder.decode(vocabulary.token_bytes(token_id))
        self._whole = not self._decoder.getstate()[0]
        return text


DONE_EVENT = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class ResponseFrame:
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


class TextStream:
    """The text of one choice as its tokens come: what can be shown now, and no more.

    A stop string that is not to be shown may begin in what is not yet sent, so its length less one is held
    back, as vLLM does.
    """

    def __init__(self, stops: Many[str], kept: bool) -> None:
        self._spelling = IncrementalDecoder()
        self._hold = 0 if kept else max((len(stop) for stop in stops), default=1) - 1
        self._kept = kept
        self._held = ""
        self._sent = 0

    def add_token(self, token_id: int) -> tuple[str, str]:
        """(text to send, text that the token completed)."""
        completed = self._spelling.add_token(token_id)
        if not self._hold:
            self._sent += len(completed.encode())
            return completed, completed
        self._held += completed
        ready, self._held = self._held[: -self._hold], self._held[-self._hold :]
        self._sent += len(ready.encode())
        return ready, completed

    def finish(self, sequence: Sequence, token_id: int) -> tuple[str, str]:
        """The same for an answer's last token."""
        if sequence.finish_reason == "stop" and sequence.stop_at is None:
            return self._held, token_text(token_id)
        completed = self._spelling.add_token(token_id)
        rest = (self._held + completed).encode()
        if sequence.stop_at is not None:
            stop = str(sequence.stop_reason).encode() if self._kept else b""
            rest = rest[: max(0, sequence.stop_at + len(stop) - self._sent)]
        return rest.decode("utf-8", "replace"), completed


class ChoiceStream:
    """One choice of a streamed answer: turns the sequence's new tokens into events."""

    def __init__(self, frame: ResponseFrame, sequence: Sequence, index: int, echo: str = "") -> None:
        self.sequence = sequence
        self.sent = 0
        self.closed = False
        self._frame = frame
        self._flow = TextStream(frame.stops, frame.kept_stop)
        self._echo = echo
        self._offset = 0
        self._role_sent = frame.text
        kind = "text_completion" if frame.text else "chat.completion.chunk"
        self._chunk = b"data: " + frame.head(kind)
        opened = b',"choices":[{"index":%d,' % index
        self._token = self._chunk + opened + (b'"text":' if frame.text else b'"delta":{"content":')
        self._thought = self._token if frame.text else self._chunk + opened + b'"delta":{"reasoning":'
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
        if not self._role_sent and (end or sequence.is_done):
            self._role_sent = True
            parts.append(self._opening())
        last = len(output) if sequence.is_done else -1
        parts += [self._event(output[i - 1], i, final=i == last) for i in range(self.sent + 1, end + 1)]
        self.sent = max(self.sent, end)
        if sequence.is_done and self.sent == len(output):
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

    def _event(self, written: EmittedToken, position: int, *, final: bool) -> bytes:
        frame = self._frame
        sequence = self.sequence
        text, own = self._flow.finish(sequence, written.id) if final else self._flow.add_token(written.id)
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
        delta = self._thought if written.reasoning else self._token
        body = b'%s%s},"logprobs":%s,"finish_reason":%s' % (delta, _json(text), logprobs, reason)
        return b'%s,"token_ids":%s}]%s%s}\n\n' % (body, ids, usage, end)

    def _text_logprobs(self, written: EmittedToken, own: str) -> bytes:
        k = self._frame.logprobs
        if k is None:
            return b"null"
        offset, self._offset = self._offset, self._offset + len(own)
        return b'{"text_offset":[%d],"token_logprobs":[%r],"tokens":[%s],"top_logprobs":[%s]}' % (
            offset, written.logprob, _json(own), text_table(written, k, own),
        )  # fmt: skip


def usage_chunk(frame: ResponseFrame, prompt: int, completed: int) -> bytes:
    """The event without choices that ends a stream with include_usage."""
    kind = "text_completion" if frame.text else "chat.completion.chunk"
    usage = {"prompt_tokens": prompt, "total_tokens": prompt + completed, "completion_tokens": completed}
    end = b',"choices":[],"usage":' + _json(usage) + b',"system_fingerprint":' + _json(frame.fingerprint)
    return b"data: " + frame.head(kind) + end + b"}\n\n"


def full_body(
    frame: ResponseFrame, sequences: Many[Sequence], echoes: Many[str], prompt_tokens: int
) -> bytes:
    """The body of an answer that is not streamed."""
    completed = sum(len(sequence.output) for sequence in sequences)
    prompt_ids = sequences[0].request.prompt_ids if frame.token_ids else None
    chat = {"prompt_logprobs": None, "prompt_token_ids": prompt_ids, "prompt_text": None}
    body = {
        "choices": [
            _full_choice(frame, sequence, i, echo)
            for i, (sequence, echo) in enumerate(zip(sequences, echoes, strict=True))
        ],
        "service_tier": None,
        "system_fingerprint": frame.fingerprint,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "total_tokens": prompt_tokens + completed,
            "completion_tokens": completed,
            "prompt_tokens_details": None,
            "completion_tokens_details": None,
        },
        **({} if frame.text else chat),
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }
    return frame.head("text_completion" if frame.text else "chat.completion") + b"," + _json(body)[1:]


def _full_choice(frame: ResponseFrame, sequence: Sequence, index: int, echo: str) -> dict[str, Any]:
    flow = TextStream(frame.stops, frame.kept_stop)
    last = len(sequence.output) - 1
    written = [
        flow.finish(sequence, token.id) if i == last else flow.add_token(token.id)
        for i, token in enumerate(sequence.output)
    ]
    thought = sum(token.reasoning for token in sequence.output)
    text, own = echo + "".join(ready for ready, _ in written[thought:]), [done for _, done in written]
    ending = {"finish_reason": sequence.finish_reason, "stop_reason": sequence.stop_reason}
    ids = [token.id for token in sequence.output] if frame.token_ids else None
    if frame.text:
        prompt = sequence.request.prompt_ids if frame.token_ids else None
        more = {"token_ids": ids, "prompt_logprobs": None, "prompt_token_ids": prompt, "routed_experts": None}
        logprobs = msgspec.Raw(_full_logprobs(frame, sequence, own))
        return {"index": index, "text": text, "logprobs": logprobs, **ending, **more}
    message = {"role": "assistant", "content": text, "refusal": None, "annotations": None, "audio": None}
    reasoning = "".join(ready for ready, _ in written[:thought]) if thought else None
    message |= {"function_call": None, "reasoning": reasoning}
    entries = None
    if frame.logprobs is not None:
        pairs = zip(sequence.output, own, strict=True)
        entries = {"content": [msgspec.Raw(chat_entry(token, frame.logprobs, t)) for token, t in pairs]}
    choice = {"index": index, "message": message, "logprobs": entries}
    return {**choice, **ending, "token_ids": ids, "routed_experts": None}


def _full_logprobs(frame: ResponseFrame, sequence: Sequence, own: Many[str]) -> bytes:
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
