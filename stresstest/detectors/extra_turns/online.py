"""Extra turns: the model goes on past the end of its turn, as the user and itself in turn.

Special tokens of a chat template prove it soonest, names of roles on lines of their own and labels later,
since lists, comparisons and dialogues have them too. What the prompt says of them is in `prompts`.
"""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate

from stresstest.detectors.entry import NATURAL_FINISH_REASONS, DetectorSpec, ScreenBatch, Suspicion
from stresstest.detectors.extra_turns.marks import (
    END,
    announces,
    ends_in_name,
    ends_prose,
    ends_text,
    fence_line,
    find_marks,
    is_written_about,
    may_end,
    may_hold_model_turn,
    may_hold_turn,
)
from stresstest.detectors.extra_turns.prompts import LABELLED, counted_kinds, is_rendered
from stresstest.detectors.extra_turns.turns import NEEDED, Turns
from stresstest.detectors.text.code_lines import is_mostly_code
from stresstest.detectors.text.fences import FenceTracker
from stresstest.model import Symptom, SymptomKind, Token

_LABELS = ("label", "order", "heading")
_ALONE = ("template", "heading")
"""Kinds whose marks tell a turn of the model by themselves; a role's name, only directly behind the text."""
_CHANNELS = "<|start|>"
"""gpt-oss begins its reasoning, its calls and its answer with it, all in one turn."""
_BLOCK = 64
"""Tokens that are read at once, up to the last line that is complete."""
_OVERLAP = 12
"""Tokens before a block in which a mark may have begun."""
_LOOKED_AT = 256
"""Characters before a mark that tell whether it is written about."""
_FIRST_LINES = 6
"""Lines of an answer that tell whether it goes on in the prompt's block of code."""
_LONG_LINE, _LOOKED_AHEAD = 1024, 96
"""Characters of a line that is read before it is complete, and of the end that is then left unread."""


class ExtraTurnsDetector:
    """Online detector of `extra_turns`; its alarms come at the ends of blocks."""

    def __init__(self, spec: DetectorSpec) -> None:
        # What the model has said before, and what tools returned, ask for nothing.
        prompt = spec.requests
        self._prompt, self._ending = prompt, spec.prompt_text[-LABELLED:]
        self._texts: list[str] = []
        self._taken = self._read = 0
        self._rest = ""
        self._reads = False
        self._tail = ""
        self._fences = FenceTracker()
        for line in prompt.splitlines() if "```" in prompt else ():
            self._fences.takes(line)  # evaluations of code begin the answer's block in the prompt
        self._is_conversation = self._has_tools = self._has_headings = False
        self._names_humans = "human" in prompt.lower()
        self._turns = {kind: Turns(kind) for kind in NEEDED}
        self._symptoms: list[Symptom] = []

    @cached_property
    def _counted(self) -> set[str]:
        """Asked for at the first mark: it takes a tenth of a second for a long prompt, and few answers have
        one."""
        return set(counted_kinds(self._prompt, self._ending))

    @property
    def open_from(self) -> int | None:
        """First token of a turn that may yet prove to be extra."""
        opened = [turns.begun for turns in self._turns.values() if turns.begun is not None]
        return self._token_at(min(opened)) if opened and not self._symptoms else None

    def update(self, token: Token) -> None:
        texts = self._texts
        texts.append("" if token.reasoning else token.text)
        if not len(texts) % _BLOCK and not self._symptoms:
            self._take_block(complete=False)

    def finish(self, finish_reason: str | None) -> None:
        """Read the last line as well. An answer that ended by itself is not about to go on."""
        if not self._symptoms:
            self._take_block(complete=True)
        if finish_reason in NATURAL_FINISH_REASONS:
            self._turns.clear()

    def symptoms(self) -> list[Symptom]:
        return list(self._symptoms)

    def _take_block(self, *, complete: bool) -> None:
        """Nothing is read until the mark of a turn may have appeared; then all is."""
        if not self._reads:
            recent = "".join(self._texts[-_BLOCK - _OVERLAP :])
            self._reads = may_hold_turn(recent)
        if self._reads:
            text = self._rest + "".join(self._texts[self._taken :])
            self._taken = len(self._texts)
            self._take_lines(text, complete=complete)

    def _take_lines(self, text: str, *, complete: bool) -> None:
        # What follows a mark is looked at too, so that it must be there.
        end = len(text) if complete else text.rfind("\n", 0, max(len(text) - _LOOKED_AHEAD, 0)) + 1
        if not end and len(text) > _LONG_LINE:
            end = text.rfind(" ", 0, -_LOOKED_AHEAD) + 1 or len(text) - _LOOKED_AHEAD
        if not self._read:
            # A pipeline or training data keeps prompt and answer in one text.
            self._is_conversation = is_rendered(text)
            if self._fences.in_code and not _begins_in_code(text):
                self._fences = FenceTracker()  # the answer does not go on in the block that was left open
        for match in find_marks(text):
            if match.start() >= end:
                break
            kind, _, whose = (match.lastgroup or "").partition("_")
            if kind == "fence":
                self._fences.takes(fence_line(text, match.start()))
            elif not (self._fences.inside or self._is_conversation or self._symptoms):
                before = self._tail + text[max(match.start() - _LOOKED_AT, 0) : match.start()]
                if kind == "role" or not is_written_about(before, match.group()):
                    self._take_mark(kind, whose, match.group(), self._read + match.start(), before)
        self._tail = (self._tail + text[max(end - _LOOKED_AT, 0) : end])[-_LOOKED_AT:]
        self._rest = text[end:]
        self._read += end

    def _take_mark(self, kind: str, whose: str, mark: str, at: int, before: str) -> None:
        """before: what stands before it, as far as it is looked at."""
        if whose == "tool":
            self._has_tools = True
        elif whose == "other":
            self._has_headings = True
        elif kind == "template" and announces(before) and not mark.startswith(END):
            self._counted.discard(kind)  # a template is shown
        elif whose == "model" and self._turns["template"].open:
            self._count("template", whose, mark, at, before)  # an end of turn stood before the user's mark
        elif kind == "template" or self._turns[kind].first is not None or may_end(kind, before):
            self._count(kind, whose, mark, at, before)
        else:
            if kind in _LABELS:
                self._counted.difference_update(_LABELS)  # the answer itself is a dialogue, or announces one
            if whose == "again":
                self._count(kind, whose, mark, at, before)  # a list of roles has a heading

    def _count(self, kind: str, whose: str, mark: str, at: int, before: str) -> None:
        if kind not in self._counted:
            return
        turns = self._turns[kind]
        if whose == "system":
            turns.system(at)
        elif whose == "user":
            turns.user(at, 2 if kind == "heading" or mark.startswith(END) else 1)
        elif whose == "behind":
            if kind == "template" or ends_prose(before):
                turns.user(at, NEEDED[kind])
        elif whose == "opened":
            turns.user(at, 2)
            if not (self._has_headings or self._names_humans):
                turns.model()
        elif whose == "end":
            if ends_text(before, mark):
                turns.model_alone(at, 1)
        elif turns.open:
            turns.model()
        elif whose == "reply":
            self._has_headings = True
        elif (whose == "again" or kind in _ALONE) and self._may_follow_itself(mark, before):
            turns.model_alone(at, 2 if whose == "again" and (kind != "role" or ends_prose(before)) else 1)
        if (first := turns.proven) is not None:
            self._report(first, mark)

    def _may_follow_itself(self, mark: str, before: str) -> bool:
        """Whether a model's turn may come after a model's: not as the answer's head, nor among calls, nor
        where "assistant" is the last part of a dotted name."""
        is_head, is_name = not before.strip(), ends_in_name(before)
        return not (is_head or is_name or self._has_tools or _CHANNELS in mark)

    def _report(self, first: int, mark: str) -> None:
        self._symptoms.append(
            Symptom(
                kind=SymptomKind.EXTRA_TURNS,
                onset=self._token_at(first),
                alarm=len(self._texts),
                score=1.0,
                summary=f"the answer continues past the end of its turn: {mark.strip()!r}",
            )
        )

    def _token_at(self, character: int) -> int:
        ends = accumulate(map(len, self._texts))
        return next((n for n, end in enumerate(ends, 1) if end > character), len(self._texts))


def _begins_in_code(text: str) -> bool:
    """Whether the first lines are code, up to a fence or another mark."""
    first = next(find_marks(text), None)
    return is_mostly_code(text[: None if first is None else first.start()].splitlines()[:_FIRST_LINES])


def suspect_extra_turns(batch: ScreenBatch) -> list[Suspicion | None]:
    """The texts that may hold a mark of the model's turn."""
    return [Suspicion(text) if may_hold_model_turn(text) else None for text in batch.texts]
