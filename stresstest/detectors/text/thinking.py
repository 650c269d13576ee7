"""Reasoning before an answer: where it ends, and the tags that a server without a reasoning parser leaves in
the text.

A server with a parser sends reasoning as such (`Token.reasoning`). Without one it comes as plain content,
between the model family's own marks at the beginning (`<think>` and `</think>`, `[THINK]` and `[/THINK]`,
gpt-oss's channels …); here its tokens are marked as if a parser had sent them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from stresstest.detectors.text.tokens import text_tokens
from stresstest.model import Token

_OPENING = (
    *("<think>", "<thinking>", "<thought>", "<reasoning>", "<seed:think>", "[THINK]", "◁think▷"),
    *("<|begin_of_thought|>", "<|START_THINKING|>", "<|channel|>analysis<|message|>"),
    *("<|channel>thought", "<unused94>"),
)
_CLOSING = (
    *("</think>", "</thinking>", "</thought>", "</reasoning>", "</seed:think>", "[/THINK]", "◁/think▷"),
    *("<|end_of_thought|>", "<|END_THINKING|>", "<channel|>", "<unused95>"),
)
"""The marks of the families that vLLM has reasoning parsers for, and those that prompts ask for. Models mix
them up, so any of the second ends what any of the first began."""
_HARMONY = "analysis", "assistantfinal"
"""What is left of gpt-oss's marks where special tokens are skipped: a capital follows at once."""
_ANSWERS = ("<answer>", "<|begin_of_solution|>", "<|START_RESPONSE|>")
"""Marks at which an answer begins, whether its reasoning was closed or not."""
_OPENED = re.compile(rf"\s*({'|'.join(map(re.escape, _OPENING))}|{_HARMONY[0]}(?=[A-Z]))")
_CLOSED = re.compile(
    "|".join(map(re.escape, (*_CLOSING, *_ANSWERS)))
    + r"|<\|channel\|>final[^<\n]{0,40}(?:<\|constrain\|>\w+)?<\|message\|>"
)
_CLOSED_HARMONY = re.compile(_HARMONY[1])
_LONGEST = 96
"""Characters of a mark, at most."""
_CLOSED_ALONE = re.compile(r"(?:\A|\n)[^\S\n]*</think>[^\S\n]*(?=\n|\Z)")


def _closing(opened: str) -> re.Pattern[str]:
    return _CLOSED_HARMONY if opened == _HARMONY[0] else _CLOSED


def _may_open(begun: str) -> bool:
    """Whether a text may be the beginning of a mark."""
    return any(mark.startswith(begun) for mark in (*_OPENING, _HARMONY[0]))


def thinking_end(text: str) -> int:
    """Characters of a recorded text up to and with the end of its reasoning; 0 without any.

    A chat template may open the reasoning in the prompt, so that only a closing tag is in the text. It counts
    where it has a line of its own.
    """
    opened = _OPENED.match(text)
    if opened is not None:
        closed = _closing(opened[1]).search(text, opened.end())
        return len(text) if closed is None else closed.end()
    found = None if "</think>" not in text or "<think>" in text else _CLOSED_ALONE.search(text)
    return 0 if found is None else found.end()


def last_closing_mark(text: str) -> int:
    """Characters before the last mark that ends reasoning, wherever it stands; 0 without one."""
    return max(0, *(text.rfind(mark) for mark in _CLOSING))


def recorded_tokens(text: str) -> list[Token]:
    """`text_tokens`, those of the reasoning marked as such."""
    end = thinking_end(text)
    if not end:
        return text_tokens(text)
    return [*(replace(token, reasoning=True) for token in text_tokens(text[:end])), *text_tokens(text[end:])]


class ThinkingMarker:
    """Marks the reasoning of one answer, online, until the answer has begun.

    end: 1-based position of the last token of the reasoning so far, 0 without any. done: the answer has
    begun, so that nothing is left to mark. A closing tag without an opening one is recognised in recorded
    text only (`recorded_tokens`): online, nobody knows that it will come.
    """

    def __init__(self) -> None:
        self.end = 0
        self.done = False
        self._at = 0
        self._closing: re.Pattern[str] | None = None
        self._text = ""
        self._held: list[Token] = []

    def mark(self, tokens: Sequence[Token]) -> list[Token]:
        """The tokens in order, marked. The beginning of what may become an opening tag is held back."""
        passed: list[Token] = []
        for n, token in enumerate(tokens):
            if self.done:
                return [*passed, *tokens[n:]]
            self._at += 1
            passed += self._marked(token)
        return passed

    def release(self) -> list[Token]:
        """What is held back when the output ends: it was no tag."""
        held, self._held = self._held, []
        return held

    def _marked(self, token: Token) -> list[Token]:
        if token.reasoning:
            self.end = self._at
            return [*self.release(), token]
        if not token.text:
            return [token] if not self._held else self._hold(token)
        if self._closing is not None:
            return [self._reasoning(token, self._text + token.text, self._closing)]
        begun = (self._text + token.text).lstrip()
        opened = _OPENED.match(begun)
        if opened is not None:
            self._closing = _closing(opened[1])
            tags = [replace(held, reasoning=True) for held in self.release()]
            return [*tags, self._reasoning(token, begun[opened.end() :], self._closing)]
        if _may_open(begun):
            self._text = begun
            return self._hold(token) if begun else [token]
        self.done = True
        return [*self.release(), token]

    def _hold(self, token: Token) -> list[Token]:
        self._held.append(token)
        return []

    def _reasoning(self, token: Token, text: str, closing: re.Pattern[str]) -> Token:
        """A token of the reasoning; of the one that closes it, what belongs to the answer.

        text: the token's, after what may be the beginning of a closing tag.
        """
        closed = closing.search(text)
        self._text = text[-_LONGEST:]
        self.done = closed is not None
        answer = text[closed.end() :] if closed is not None else ""
        if answer:
            return replace(token, text=answer)
        self.end = self._at
        return replace(token, reasoning=True)
