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

_CLOSED_BY = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
    "<|channel>thought": "<channel|>",
    "<unused94>": "<unused95>",
}
"""The marks of the families that vLLM has reasoning parsers for, and those that prompts ask for."""
_HARMONY = "analysis", "assistantfinal"
"""What is left of gpt-oss's marks where special tokens are skipped: a capital follows at once."""
_OPENED = re.compile(rf"\s*({'|'.join(map(re.escape, _CLOSED_BY))}|{_HARMONY[0]}(?=[A-Z]))")
_CLOSED_ALONE = re.compile(r"(?:\A|\n)[^\S\n]*</think>[^\S\n]*(?=\n|\Z)")


def _closing(opened: str) -> str:
    return _CLOSED_BY.get(opened, _HARMONY[1])


def _may_open(begun: str) -> bool:
    """Whether a text may be the beginning of a mark."""
    return any(mark.startswith(begun) for mark in (*_CLOSED_BY, _HARMONY[0]))


def thinking_end(text: str) -> int:
    """Characters of a recorded text up to and with the end of its reasoning; 0 without any.

    A chat template may open the reasoning in the prompt, so that only a closing tag is in the text. It counts
    where it has a line of its own.
    """
    opened = _OPENED.match(text)
    if opened is not None:
        mark = _closing(opened[1])
        closed = text.find(mark, opened.end())
        return len(text) if closed < 0 else closed + len(mark)
    found = None if "</think>" not in text or "<think>" in text else _CLOSED_ALONE.search(text)
    return 0 if found is None else found.end()


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
        self._closing = ""
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
        if self._closing:
            return [self._reasoning(token, self._text + token.text)]
        begun = (self._text + token.text).lstrip()
        opened = _OPENED.match(begun)
        if opened is not None:
            self._closing = _closing(opened[1])
            tags = [replace(held, reasoning=True) for held in self.release()]
            return [*tags, self._reasoning(token, begun[opened.end() :])]
        if _may_open(begun):
            self._text = begun
            return self._hold(token) if begun else [token]
        self.done = True
        return [*self.release(), token]

    def _hold(self, token: Token) -> list[Token]:
        self._held.append(token)
        return []

    def _reasoning(self, token: Token, text: str) -> Token:
        """A token of the reasoning; of the one that closes it, what belongs to the answer.

        text: the token's, after what may be the beginning of a closing tag.
        """
        _, closed, answer = text.partition(self._closing)
        self._text = text[1 - len(self._closing) :]
        self.done = bool(closed)
        if answer:
            return replace(token, text=answer)
        self.end = self._at
        return replace(token, reasoning=True)
