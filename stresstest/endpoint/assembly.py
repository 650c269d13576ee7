"""Assembles the chunks of a stream into tokens.

A chunk may carry several tokens, one, none (buffered text, usage only), or part of a character. Its
tokens are counted by `token_ids`, else by logprobs entries, else by the increase of the running usage, where
that is of few tokens; ids of another number than the logprobs entries are not the tokens', and are dropped.
Text that nobody counts is cut into words and signs, as recorded text is, wherever its events end: gateways
join tokens, and so does speculative decoding.
The texts of logprobs entries only determine where the streamed text is split, so the joined token texts
always equal the streamed text.
"""

from __future__ import annotations

import codecs
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise, repeat
from math import inf
from sys import intern
from typing import cast

from stresstest.detectors.text.tokens import split_complete
from stresstest.detectors.verdict import PositionMap
from stresstest.endpoint.thought_details import ThoughtDetails, join_details
from stresstest.endpoint.wire import (
    ChunkChoice,
    ChunkLogprobs,
    StreamChunk,
    TokenLogprobs,
    decode_bytes,
    max_plausible_tokens,
    sane_count,
    split_parts,
)
from stresstest.model import Token
from stresstest.model.finish_reason import usual_reason
from stresstest.model.server import PROVIDER
from stresstest.model.tokens import entropy_bound

# Remaining text of at most this many characters is the end of a token already counted.
_LONGEST_REST = 64
# Tokens that usage alone counts in one event: of more, nobody knows which part of its text each is.
_MOST_JOINED = 8
_LONGEST_SHARED = 32
_SHORT = 2
"""Characters of a piece of text that is a sign, or of a script without blanks. Several are often one token,
and detectors keep less than half of what they keep of a word."""
_LONGEST_ID = 4096
LONGEST_SPLIT = 1 << 18
"""Characters of an event's text that is cut into words: they are held at once."""
_LogprobStats = Iterator[tuple[float | None, float | None]]


def split_at_pieces(text: str, pieces: Sequence[str]) -> list[str]:
    """Split `text` into len(pieces) parts, one for each piece; the joined parts equal `text`.

    A piece that does not occur (a special token, a replacement character) gets an empty part; the last
    part holds the remaining text.
    """
    parts: list[str] = []
    position = 0
    for piece in pieces[:-1]:
        if piece and text.startswith(piece, position):
            position += len(piece)
            parts.append(piece)
        else:
            parts.append("")
    parts.append(text[position:])
    return parts


def split_evenly(text: str, n: int) -> list[str]:
    """Split `text` into n parts of about equal length, for when the token boundaries are unknown."""
    marks = [len(text) * i // n for i in range(n + 1)]
    return [text[a:b] for a, b in pairwise(marks)]


def _logprob(value: float | None) -> float | None:
    """The logprob if it is plausible (finite and, apart from rounding, at most 0), else None."""
    return value if value is not None and -inf < value < 0.01 else None


def _entropy(logprobs: list[float | None]) -> float | None:
    """The bound of the entropy; None without a number: vLLM writes null where a model's have overflowed."""
    if None in logprobs:
        known = [each for each in logprobs if each is not None]
        return entropy_bound(known) if known else None
    return entropy_bound(cast(list[float], logprobs))


def _token(text: str, number: int | None, at: float, reasoning: bool) -> Token:
    """A token without logprobs. Without a time either, equal ones are one object, made once."""
    if at or len(text) > _LONGEST_SHARED:
        return Token(text, number, None, None, at, reasoning)
    return _shared_token(text, number, reasoning)


@lru_cache(maxsize=8192)
def _shared_token(text: str, number: int | None, reasoning: bool) -> Token:
    return Token(text, number, reasoning=reasoning)


class TooManyTokensError(ValueError):
    """A chunk has more tokens than its stream may have."""


class TokenAssembler:
    """Converts the chunks of one stream, in order, into tokens.

    index: of the choice whose tokens they are. most: tokens that the server may count, in all. longest_split:
    characters of the longest text without a count that is cut into words, as its tokens.
    finish_reason, stop_reason, prompt_tokens, completion_tokens, reasoning_tokens, fingerprint, model: last
    values from the server. answer_id, created: of the stream's first event.
    produced, characters: tokens and characters so far. uncounted_texts: texts of the tokens that the
    server did not count, which are words. uncounted_size: how many they are, and what is kept of them, in
    halves of a word.
    calls: of tools, as far as their names tell.
    has_ids, top_seen: whether the server sends token ids, and the largest number of top logprobs seen.
    """

    def __init__(self, index: int = 0, most: float = inf, longest_split: int = LONGEST_SPLIT) -> None:
        self._index = index
        self._most = most
        self._longest_split = longest_split
        self.finish_reason: str | None = None
        self.stop_reason: int | str | None = None
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.reasoning_tokens: int | None = None
        self.fingerprint: str | None = None
        self.model: str | None = None
        self.answer_id: str | None = None
        self.created: int | None = None
        self.produced = 0
        self.characters = 0
        self.uncounted_texts: list[str] = []
        self.uncounted_size = 0
        self._event_ends = array("Q")
        self.calls = 0
        self.has_ids = False
        self.top_seen = 0
        self._outdated = False
        self._counted_events = 0
        self._count_fell = False
        self._before = ""
        self._has_uncounted = self._is_carry_uncounted = False
        self._carry = ""
        self._carry_reasoning = False
        self._thinks = False
        self._details = ThoughtDetails()
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def total(self) -> int | None:
        """The server's last token count; None without one, or if more text has arrived since."""
        return None if self._outdated else self.completion_tokens

    @property
    def event_ends(self) -> Sequence[int]:
        """Characters of the text after each event that brought some, where the server has not counted all of
        its tokens; empty where it has. Each such event has a token or more."""
        return self._event_ends if self._has_uncounted else ()

    @property
    def running_usage(self) -> bool:
        """Whether the server counts tokens as they come. A single count is the answer's total, as
        OpenRouter's; where a count is less than one before it, the counts are not token counts."""
        return self._counted_events > 1 and not self._count_fell

    def add_chunk(self, chunk: StreamChunk, at: float) -> list[Token]:
        """The tokens of one chunk that arrived at clock second `at`. Raises TooManyTokensError."""
        self._take_names(chunk)
        grown = self._take_usage(chunk)
        for choice in chunk.choices or ():
            if choice.index == self._index:
                break
        else:
            return []
        if choice.finish_reason:  # some gateways send "" until the end
            self.finish_reason = usual_reason(choice.finish_reason)
            self.stop_reason = choice.stop_reason
        thought, answer = self._read_texts(choice)
        logprobs, ids = choice.logprobs, choice.token_ids
        if isinstance(logprobs, float):
            logprobs = None
        if (
            logprobs is None
            and ids is not None
            and len(ids) == 1
            and not (self._carry or (thought and answer))
        ):
            self.has_ids = True  # almost every chunk of a server that was asked for ids alone
            self._end_event(thought, answer)
            self.produced += 1
            return [_token(thought or answer, sane_count(ids[0]), at, self._is_thought(thought, answer))]
        counted = self._count(choice, logprobs, grown)
        self._end_event(thought, answer)
        if (
            counted is None
            or (ids is None and logprobs is None and self._says_no_place(counted, len(thought) + len(answer)))
            or counted > max_plausible_tokens(len(self._carry) + len(thought) + len(answer))
        ):
            # An implausible count (hidden reasoning, or a server error) cannot be mapped to the text.
            if thought or answer:
                self._outdated = counted is None
            return self._add_uncounted(thought, answer, at)
        if self.produced - len(self.uncounted_texts) + counted > self._most:
            raise TooManyTokensError
        ids = ids if ids and len(ids) == counted else None
        held = self.flush(at) if self._is_carry_uncounted else []
        tokens = self._tokens(counted, thought, answer, ids, logprobs, at)
        self.produced += len(tokens)
        return held + tokens

    def _says_no_place(self, counted: int, characters: int) -> bool:
        """Whether a growth of the usage does not tell where its tokens are in the text: a total beside the
        last event is of the whole answer, many tokens of one event may be of any length (in a loop they are
        shorter than in the prose before it), and a count of 0 beside more than a token's text is none."""
        if self._has_uncounted or counted > _MOST_JOINED:
            return True
        return counted == 0 and len(self._carry) + characters > _LONGEST_REST

    def add_uncounted(self, thought: str, answer: str, at: float) -> list[Token]:
        """The words of an event's text whose tokens nobody counted, but for the last one, which may go on."""
        self._end_event(thought, answer)
        return self._add_uncounted(thought, answer, at)

    def _read_texts(self, choice: ChunkChoice) -> tuple[str, str]:
        """(reasoning, answer) that a chunk brings, calls of tools included."""
        delta = choice.delta
        thought, answer = "", choice.text or ""
        if delta is None:
            return thought, answer
        thought = delta.reasoning or delta.reasoning_content or ""
        if not thought and (details := delta.reasoning_details or delta.thinking_blocks):
            thought = self._details.fresh(join_details(details))
        content = delta.content
        if isinstance(content, list):
            thought, content = split_parts(content)
        answer = content or delta.refusal or answer
        if delta.function_call is not None:
            answer += delta.function_call.arguments or ""
        for call in delta.tool_calls or ():
            if call.function is not None:
                answer += call.function.arguments or ""
                self.calls += bool(call.function.name)
            if call.custom is not None:
                answer += call.custom.input or ""
                self.calls += bool(call.custom.name)
        return thought, answer

    def _end_event(self, thought: str, answer: str) -> None:
        if thought or answer:
            self.characters += len(thought) + len(answer)
            self._event_ends.append(self.characters)

    def _add_uncounted(self, thought: str, answer: str, at: float) -> list[Token]:
        self._has_uncounted = self._has_uncounted or bool(thought or answer)
        tokens = self._add_words(thought, True, at) if thought else []
        if answer:
            tokens += self._add_words(answer, False, at)
        if tokens:
            texts = [token.text for token in tokens]
            self.uncounted_texts += texts
            self.uncounted_size += sum([2 if len(text) > _SHORT else 1 for text in texts])
            self.produced += len(tokens)
        return tokens

    def _add_words(self, text: str, reasoning: bool, at: float) -> list[Token]:
        held, before, tokens = self._carry, self._before, []
        if reasoning != self._carry_reasoning:  # thought and answer do not share a word
            tokens = [_token(held, None, at, not reasoning)] if held else []
            held = before = ""
        if len(text) > self._longest_split:
            pieces, rest = [held, text] if held else [text], ""
        else:
            pieces, rest = split_complete(held, text, before)
        self._before = before
        self._carry, self._is_carry_uncounted, self._carry_reasoning = rest, True, reasoning
        if pieces:
            self._before = pieces[-1][-1]
            # They recur, and all are kept.
            tokens += [_token(piece, None, at, reasoning) for piece in map(intern, pieces)]
        return tokens

    def event_scale(self) -> PositionMap | None:
        """From words to the events that brought them, one for each token unless a gateway has joined several;
        None where the server has counted tokens."""
        if not self.event_ends or self.produced != len(self.uncounted_texts):
            return None
        words, events = [0, *accumulate(map(len, self.uncounted_texts))], self.event_ends
        return PositionMap(
            len(events),
            first=lambda word: min(bisect_right(events, words[word - 1]) + 1, len(events)),
            last=lambda word: bisect_right(events, words[word]),
        )

    def flush(self, at: float) -> list[Token]:
        """The text still buffered at the end of the stream, as a last token, so that no text is lost."""
        if not self._carry:
            return []
        token = Token(self._carry, arrived=at, reasoning=self._carry_reasoning)
        if self._is_carry_uncounted or len(self._carry) > _LONGEST_REST:
            self.uncounted_texts.append(self._carry)
        self._carry = self._before = ""
        self.produced += 1
        return [token]

    def _take_names(self, chunk: StreamChunk) -> None:
        provider = chunk.provider or (chunk.extra_fields and chunk.extra_fields.provider)
        if isinstance(provider, str) and provider:
            self.fingerprint = f"{PROVIDER}{provider}"
        elif chunk.system_fingerprint is not None and not (self.fingerprint or "").startswith(PROVIDER):
            self.fingerprint = chunk.system_fingerprint
        if chunk.model != self.model and isinstance(chunk.model, str) and chunk.model:
            self.model = chunk.model
        if self.answer_id is None and isinstance(chunk.id, str) and chunk.id:
            self.answer_id = chunk.id[:_LONGEST_ID]
            self.created = sane_count(chunk.created) if type(chunk.created) is int else None

    def _take_usage(self, chunk: StreamChunk) -> int | None:
        usage = chunk.usage
        if usage is None:
            return None
        prompt = sane_count(usage.prompt_tokens)
        if prompt is not None:
            self.prompt_tokens = prompt
        if (reasoning := usage.reasoning_tokens) is not None:
            self.reasoning_tokens = reasoning
        total = sane_count(usage.completion_tokens)
        if total is None:
            return None
        before = self.completion_tokens or 0
        self._count_fell |= total < before
        self.completion_tokens = total
        self._outdated = False
        if not chunk.choices:
            return None
        self._counted_events += 1
        return max(0, total - before)

    def _count(self, choice: ChunkChoice, logprobs: ChunkLogprobs | None, grown: int | None) -> int | None:
        entries = 0 if logprobs is None else len(logprobs.content or logprobs.tokens or ())
        if choice.token_ids is not None and entries in (0, len(choice.token_ids)):
            self.has_ids = True
            return len(choice.token_ids)
        return entries or grown

    def _tokens(
        self,
        n: int,
        thought: str,
        answer: str,
        ids: list[int] | None,
        logprobs: ChunkLogprobs | None,
        at: float,
    ) -> list[Token]:
        if self._carry:
            if self._carry_reasoning and not thought:
                thought = self._carry
            elif self._carry_reasoning:
                thought = self._carry + thought
            else:
                answer = self._carry + answer
            self._carry = ""
        if n == 0:
            self._hold_back(thought + answer, bool(thought))
            return []
        entries = logprobs.content if logprobs is not None else None
        if n == 1:
            if entries and (not (thought or answer) or self._utf8.getstate()[0]):
                self._piece(entries[0])
            parts = [thought or answer]
            if thought:
                self._hold_back(answer, False)
        else:
            parts = self._cut(thought, answer, n, entries, logprobs)
        if n == 1 and logprobs is None:
            kind = self._is_thought(thought, answer)
            return [_token(parts[0], sane_count(ids[0]) if ids else None, at, kind)]
        if n == 1 and ids and entries:
            logprob, entropy = self._chat_stats(entries[0])
            kind = self._is_thought(thought, answer)
            return [Token(parts[0], sane_count(ids[0]), logprob, entropy, at, kind)]
        stats = self._stats(logprobs)
        numbers = chain(ids or (), repeat(None))
        tokens: list[Token] = []
        position = 0
        only_thought = self._is_thought(thought, answer) and not answer
        for part, number, (logprob, entropy) in zip(
            parts, numbers, chain(stats, repeat((None, None))), strict=False
        ):
            kind = only_thought or position < len(thought)
            tokens.append(Token(part, sane_count(number), logprob, entropy, at, kind))
            position += len(part)
        return tokens

    def _cut(
        self,
        thought: str,
        answer: str,
        n: int,
        entries: list[TokenLogprobs] | None,
        logprobs: ChunkLogprobs | None,
    ) -> list[str]:
        text = thought + answer
        if entries is not None and len(entries) == n:
            parts = split_at_pieces(text, [self._piece(entry) for entry in entries])
        elif logprobs is not None and logprobs.tokens is not None and len(logprobs.tokens) == n:
            parts = split_at_pieces(text, logprobs.tokens)
        else:
            parts = split_evenly(text, n)
        if thought and answer:
            parts = self._split_at_border(parts, len(thought))
        return parts

    def _split_at_border(self, parts: list[str], border: int) -> list[str]:
        """Move the answer's share of a token that spans reasoning and answer to the next token."""
        position = 0
        for i, part in enumerate(parts):
            inside = border - position
            position += len(part)
            if 0 < inside < len(part):
                rest = part[inside:]
                parts[i] = part[:inside]
                if i + 1 < len(parts):
                    parts[i + 1] = rest + parts[i + 1]
                else:
                    self._hold_back(rest, False)
                break
        return parts

    def _is_thought(self, thought: str, answer: str) -> bool:
        """The kind of a token. One without text (a part of a character, a control token) has that of the one
        before it."""
        if thought or answer:
            self._thinks = bool(thought) and not answer
            return bool(thought)
        return self._thinks

    def _hold_back(self, text: str, reasoning: bool) -> None:
        self._carry = text
        self._is_carry_uncounted = False
        self._carry_reasoning = reasoning

    def _piece(self, entry: TokenLogprobs) -> str:
        raw = decode_bytes(entry.bytes)
        return entry.token if raw is None else self._utf8.decode(raw)

    def _stats(self, logprobs: ChunkLogprobs | None) -> _LogprobStats:
        if logprobs is None:
            return iter(())
        if logprobs.content:
            return map(self._chat_stats, logprobs.content)
        return iter(self._completion_stats(logprobs))

    def _chat_stats(self, entry: TokenLogprobs) -> tuple[float | None, float | None]:
        tops = entry.top_logprobs
        if not tops:
            return _logprob(entry.logprob), None
        if len(tops) > self.top_seen:
            self.top_seen = len(tops)
        return _logprob(entry.logprob), _entropy([top.logprob for top in tops])

    def _completion_stats(self, logprobs: ChunkLogprobs) -> list[tuple[float | None, float | None]]:
        stats: list[tuple[float | None, float | None]] = []
        tops = chain(logprobs.top_logprobs or (), repeat(None))
        for logprob, top in zip(logprobs.token_logprobs or (), tops, strict=False):
            if top:
                self.top_seen = max(self.top_seen, len(top))
            stats.append((_logprob(logprob), _entropy(list(top.values())) if top else None))
        return stats
