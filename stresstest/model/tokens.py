"""Tokens of one generation: an object each as they arrive, columns once they are kept."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import overload

from stresstest.model.texts.copies import ends_in_copies
from stresstest.model.texts.times_and_ids import without_times_and_ids

NO_ID = -(1 << 63)
"""In `TokenColumns.ids`: the server named no id."""


_SHORT_TOKENS = 64
"""Tokens of a message that stands in place of an answer, at most."""
IMPOSSIBLE_TEXTS = 8
"""So many texts of one id, and no other id, show that a server's ids are not those of the tokens. The pieces
into which a chunk of one repeated token is cut have two or three."""


@dataclass(frozen=True, slots=True)
class Token:
    """One output token as it arrived.

    text: its piece of the decoded text, possibly empty (a UTF-8 character may end in a later token).
    entropy: nats, lower bound from the top-k logprobs and the residual mass; None without logprobs.
    arrived: clock seconds. reasoning: from a reasoning delta, not from the answer.
    """

    text: str
    id: int | None = None
    logprob: float | None = None
    entropy: float | None = None
    arrived: float = 0.0
    reasoning: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TokenColumns(Sequence[Token]):
    """All tokens of one generation, column by column: about 85 bytes a token instead of 250.

    Indexing and iterating build `Token` objects on demand; a slice is a tuple of them. It equals every
    sequence of equal tokens. ids: `NO_ID` where there is none. logprobs, entropies: NaN where not measured.
    reasoning: one byte a token.
    """

    texts: Sequence[str]
    ids: array[int]
    logprobs: array[float]
    entropies: array[float]
    arrivals: array[float]
    reasoning: bytes

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Token, ...]: ...
    def __getitem__(self, index: int | slice) -> Token | tuple[Token, ...]:
        if isinstance(index, slice):
            return tuple(map(self._token, range(*index.indices(len(self)))))
        return self._token(index)

    def __iter__(self) -> Iterator[Token]:
        return map(self._token, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"TokenColumns({tuple(self)!r})"

    def _token(self, at: int) -> Token:
        number = self.ids[at]
        return Token(
            self.texts[at],
            None if number == NO_ID else number,
            _measured(self.logprobs[at]),
            _measured(self.entropies[at]),
            self.arrivals[at],
            bool(self.reasoning[at]),
        )


class ArrivedTokens:
    """The tokens of a generation while it streams, as columns: a third of what an object each takes."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._different: dict[str, str] = {}
        self._ids, self._reasoning = array("q"), bytearray()
        self._logprobs, self._entropies, self._arrivals = array("d"), array("d"), array("d")

    def __len__(self) -> int:
        return len(self._texts)

    def extend(self, tokens: Sequence[Token]) -> None:
        """Add tokens at the end. A text that recurs is held once."""
        for token in tokens:
            known = token.id is not None and -NO_ID > token.id > NO_ID
            self._texts.append(self._different.setdefault(token.text, token.text))
            self._ids.append(token.id if token.id is not None and known else NO_ID)
            self._logprobs.append(math.nan if token.logprob is None else token.logprob)
            self._entropies.append(math.nan if token.entropy is None else token.entropy)
            self._arrivals.append(token.arrived)
            self._reasoning.append(token.reasoning)

    def columns(self) -> TokenColumns:
        """All of them, to read."""
        reasoning = bytes(self._reasoning)
        return TokenColumns(
            self._texts, self._ids, self._logprobs, self._entropies, self._arrivals, reasoning
        )


_EQUAL_TOKENS = 16
MIN_UNSEEN_TOKENS = 64
"""With 64 counted tokens or more beyond the text, some are no special ones, and nobody saw them,
so that nobody can call them sound."""


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=12).hexdigest()


_DIGEST_OF_NOTHING = _digest(b"")


@dataclass(frozen=True, slots=True)
class TokenSummary:
    """What is kept of a generation's tokens when they are dropped.

    count: how many there are. digest: of their texts, None without tokens. outline: of a short text without
    times and ids, by which two messages of a gateway are one. repeats: they end in copies of one text, or in
    one token again and again. entropy: whether any was measured. first_arrived, last_arrived: clock
    seconds, None without tokens.
    """

    count: int = 0
    digest: str | None = None
    outline: str | None = None
    repeats: bool = False
    entropy: bool = False
    first_arrived: float | None = None
    last_arrived: float | None = None

    @property
    def textless(self) -> bool:
        """Whether there is not one character in all of them, or no token at all."""
        return self.digest is None or self.digest == _DIGEST_OF_NOTHING

    @classmethod
    def of(cls, tokens: Sequence[Token]) -> TokenSummary:
        """The summary of all tokens of a generation. O(characters)."""
        if not tokens:
            return cls()
        texts = tokens.texts if isinstance(tokens, TokenColumns) else [token.text for token in tokens]
        whole = "".join(texts)
        short = len(tokens) <= _SHORT_TOKENS
        return cls(
            count=len(tokens),
            digest=_digest(_raw(whole)),
            outline=_digest(_raw(without_times_and_ids(whole))) if short else None,
            repeats=_is_one(texts[-_EQUAL_TOKENS:]) or ends_in_copies(whole),
            entropy=any(value is not None for value in entropies(tokens)),
            first_arrived=tokens[0].arrived,
            last_arrived=tokens[-1].arrived,
        )


def _is_one(last: Sequence[str]) -> bool:
    """Whether the last tokens are one token, as often as services look for (Ollama: more than 30)."""
    return len(last) == _EQUAL_TOKENS and len(set(last)) == 1


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def entropies(tokens: Sequence[Token]) -> Iterator[float | None]:
    """The entropy of each token, in nats; None where it was not measured."""
    if isinstance(tokens, TokenColumns):
        return map(_measured, tokens.entropies)
    return (token.entropy for token in tokens)


def _measured(value: float) -> float | None:
    return None if math.isnan(value) else value


def entropy_bound(logprobs: Sequence[float]) -> float:
    """Lower bound of the entropy, in nats, from the top-k log-probabilities.

    The residual probability mass counts as one outcome. Spreading it over the rest of the vocabulary can only
    add entropy, so this is a lower bound, tight when the residual is small. Values above 0 count as 0; NaN
    is ignored.
    """
    total = 0.0
    entropy = 0.0
    for lp in logprobs:
        if lp > -60.0:
            p = exp(lp) if lp < 0.0 else 1.0
            total += p
            entropy -= p * min(lp, 0.0)
    residual = 1.0 - total
    if residual > 1e-12:
        entropy -= residual * log(residual)
    return entropy if entropy > 0.0 else 0.0
