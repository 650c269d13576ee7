"""From chunks to tokens.

A chunk is not a token: it may carry several, one, none (held-back text, usage only), or a half
character. Counted are `token_ids`, else logprobs entries, else the growth of the running usage. The
streamed text is the truth; the entries' own texts only say where to cut it, so the joined token texts
always equal what was streamed.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, repeat
from math import inf

from stresstest.endpoint.wire import Choice, Chunk, Entry, Logprobs, believable, decode_bytes, sane
from stresstest.information import entropy_bound
from stresstest.model import Token

# A shorter rest is the end of a token that has been counted.
_LONGEST_REST = 64
_Stats = Iterator[tuple[float | None, float | None]]


def cut(text: str, pieces: Sequence[str]) -> list[str]:
    """Cut `text` into len(pieces) parts, at the pieces where they match; the parts joined are `text`.

    A piece that is not there (a special token, a replacement character) gets the empty part; the last
    part takes what is left.
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


def cut_evenly(text: str, n: int) -> list[str]:
    """n parts of about equal length, where nothing says where the tokens meet."""
    marks = [len(text) * i // n for i in range(n + 1)]
    return [text[a:b] for a, b in pairwise(marks)]


def _logprob(value: float | None) -> float | None:
    """A logprob as it can be: finite and, but for rounding, not above 0; None for anything else."""
    return value if value is not None and -inf < value < 0.01 else None


class Assembler:
    """Takes one stream's chunks in order and gives its tokens.

    finish_reason, stop_reason, prompt_tokens, completion_tokens, fingerprint: the server's words so far.
    produced: tokens given, of so many characters. uncounted: texts of those that no server count stands
    behind (one a chunk).
    has_ids, running_usage, top_seen: what this server turned out to send.
    """

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self.stop_reason: int | str | None = None
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.fingerprint: str | None = None
        self.produced = 0
        self.characters = 0
        self.uncounted: list[str] = []
        self.has_ids = False
        self.running_usage = False
        self.top_seen = 0
        self._outdated = False
        self._carry = ""
        self._carry_reasoning = False
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def total(self) -> int | None:
        """The server's last count, None when it has counted nothing or text has come since."""
        return None if self._outdated else self.completion_tokens

    def take(self, chunk: Chunk, at: float) -> list[Token]:
        """Tokens of one chunk, stamped with its arrival `at` (clock seconds)."""
        if chunk.system_fingerprint is not None:
            self.fingerprint = chunk.system_fingerprint
        grown = self._take_usage(chunk)
        for choice in chunk.choices:
            if choice.index == 0:
                break
        else:
            return []
        if choice.finish_reason is not None:
            self.finish_reason = choice.finish_reason
            self.stop_reason = choice.stop_reason
        delta = choice.delta
        thought, answer = "", choice.text or ""
        if delta is not None:
            thought = delta.reasoning or delta.reasoning_content or ""
            answer = delta.content or answer
        logprobs = choice.logprobs
        counted = self._count(choice, logprobs, grown)
        self.characters += len(thought) + len(answer)
        if counted is None or counted > believable(len(self._carry) + len(thought) + len(answer)):
            # A count that the text cannot hold (thoughts that are not shown, or plain nonsense) places none.
            unknown = counted is None
            counted = 1 if thought or answer or self._carry else 0
            if counted:
                self._outdated = unknown
                self.uncounted.append(self._carry + thought + answer)
        tokens = self._tokens(counted, thought, answer, choice.token_ids, logprobs, at)
        self.produced += len(tokens)
        return tokens

    def flush(self, at: float) -> list[Token]:
        """Text that no token claimed by the end of the stream; kept, because text is never lost."""
        if not self._carry:
            return []
        token = Token(self._carry, arrived=at, reasoning=self._carry_reasoning)
        if self.uncounted or len(self._carry) > _LONGEST_REST:
            self.uncounted.append(self._carry)
        self._carry = ""
        self.produced += 1
        return [token]

    def _take_usage(self, chunk: Chunk) -> int | None:
        usage = chunk.usage
        if usage is None:
            return None
        prompt = sane(usage.prompt_tokens)
        if prompt is not None:
            self.prompt_tokens = prompt
        total = sane(usage.completion_tokens)
        if total is None:
            return None
        before = self.completion_tokens or 0
        self.completion_tokens = total
        self._outdated = False
        if not chunk.choices:
            return None
        self.running_usage = True
        return max(0, total - before)

    def _count(self, choice: Choice, logprobs: Logprobs | None, grown: int | None) -> int | None:
        if choice.token_ids is not None:
            self.has_ids = True
            return len(choice.token_ids)
        if logprobs is not None:
            if logprobs.content:
                return len(logprobs.content)
            if logprobs.tokens:
                return len(logprobs.tokens)
        return grown

    def _tokens(
        self,
        n: int,
        thought: str,
        answer: str,
        ids: list[int] | None,
        logprobs: Logprobs | None,
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
            self._hold(thought + answer, bool(thought))
            return []
        entries = logprobs.content if logprobs is not None else None
        if n == 1:
            if entries and (not (thought or answer) or self._utf8.getstate()[0]):
                self._piece(entries[0])
            parts = [thought or answer]
            if thought:
                self._hold(answer, False)
        else:
            parts = self._cut(thought, answer, n, entries, logprobs)
        if n == 1 and ids and entries:  # nearly every chunk of vLLM's
            logprob, entropy = self._chat_stats(entries[0])
            return [Token(parts[0], sane(ids[0]), logprob, entropy, at, bool(thought))]
        stats = self._stats(logprobs)
        numbers = chain(ids or (), repeat(None))
        tokens: list[Token] = []
        position = 0
        for part, number, (logprob, entropy) in zip(
            parts, numbers, chain(stats, repeat((None, None))), strict=False
        ):
            tokens.append(Token(part, sane(number), logprob, entropy, at, position < len(thought)))
            position += len(part)
        return tokens

    def _cut(
        self, thought: str, answer: str, n: int, entries: list[Entry] | None, logprobs: Logprobs | None
    ) -> list[str]:
        text = thought + answer
        if entries is not None and len(entries) == n:
            parts = cut(text, [self._piece(entry) for entry in entries])
        elif logprobs is not None and logprobs.tokens is not None and len(logprobs.tokens) == n:
            parts = cut(text, logprobs.tokens)
        else:
            parts = cut_evenly(text, n)
        if thought and answer:
            parts = self._end_at(parts, len(thought))
        return parts

    def _end_at(self, parts: list[str], border: int) -> list[str]:
        """No token may be half thought, half answer: the answer's half waits for the next token."""
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
                    self._hold(rest, False)
                break
        return parts

    def _hold(self, text: str, reasoning: bool) -> None:
        self._carry = text
        self._carry_reasoning = reasoning

    def _piece(self, entry: Entry) -> str:
        raw = decode_bytes(entry.bytes)
        return entry.token if raw is None else self._utf8.decode(raw)

    def _stats(self, logprobs: Logprobs | None) -> _Stats:
        if logprobs is None:
            return iter(())
        if logprobs.content:
            return map(self._chat_stats, logprobs.content)
        return iter(self._completion_stats(logprobs))

    def _chat_stats(self, entry: Entry) -> tuple[float | None, float | None]:
        tops = entry.top_logprobs
        if not tops:
            return _logprob(entry.logprob), None
        if len(tops) > self.top_seen:
            self.top_seen = len(tops)
        return _logprob(entry.logprob), entropy_bound([top.logprob for top in tops])

    def _completion_stats(self, logprobs: Logprobs) -> list[tuple[float | None, float | None]]:
        stats: list[tuple[float | None, float | None]] = []
        tops = chain(logprobs.top_logprobs or (), repeat(None))
        for logprob, top in zip(logprobs.token_logprobs or (), tops, strict=False):
            if top:
                self.top_seen = max(self.top_seen, len(top))
            stats.append((_logprob(logprob), entropy_bound(list(top.values())) if top else None))
        return stats
