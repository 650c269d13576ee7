"""Extra turns: the model goes on past the end of its turn, as the user and itself in turn.

Special tokens of a chat template prove it soonest, names of roles on lines of their own and labels later,
since lists, comparisons and dialogues have them too. What the prompt says of them is in `prompts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from stresstest.detectors.entry import NATURAL_FINISH_REASONS, DetectorSpec, ScreenBatch, Suspicion
from stresstest.detectors.extra_turns.marks import (
    END,
    MARKS,
    ends_a_sentence,
    fence_line,
    is_written_about,
    may_hold_model_turn,
    may_hold_turn,
)
from stresstest.detectors.extra_turns.prompts import counted_kinds, is_rendered
from stresstest.detectors.text.fences import FenceTracker
from stresstest.model import Symptom, SymptomKind, Token

NEEDED = {"template": 2, "role": 3, "label": 3, "order": 3, "template alone": 2, "role alone": 3}
"""Turns, of the user and then of the model, that prove it; or of the model alone, one after the other. One
that an end of turn or a system's message precedes counts twice."""
_LABELS = ("label", "order")
_CHANNELS = "<|start|>"
"""gpt-oss begins its reasoning, its calls and its answer with it, all in one turn."""
_BLOCK = 64
"""Tokens that are read at once, up to the last line that is complete."""
_OVERLAP = 12
"""Tokens before a block in which a mark may have begun."""
_LOOKED_AT = 256
"""Characters before a mark that tell whether it is written about."""
_LONG_LINE, _LOOKED_AHEAD = 1024, 96
"""Characters of a line that is read before it is complete, and of the end that is then left unread."""


@dataclass(slots=True)
class _Turns:
    """What was seen of one kind of marks. first: character of the first. waiting: the user's turn is open.
    ended: an end of turn stands before it; system: a system's message does."""

    first: int | None = None
    waiting: bool = False
    ended: bool = False
    system: bool = False
    complete: int = 0

    def begin(self, at: int) -> None:
        """The first one begins the extra turns."""
        if self.first is None:
            self.first = at


class ExtraTurnsDetector:
    """Online detector of `extra_turns`; its alarms come at the ends of blocks."""

    def __init__(self, spec: DetectorSpec) -> None:
        prompt = spec.prompt_text
        self._counted = set(counted_kinds(prompt))
        self._texts: list[str] = []
        self._taken = self._read = 0
        self._rest = ""
        self._reads = False
        self._tail = ""
        self._fences = FenceTracker()
        for line in prompt.splitlines() if "```" in prompt else ():
            self._fences.takes(line)  # evaluations of code begin the answer's block in the prompt
        self._is_conversation = self._has_tools = False
        self._turns = {kind: _Turns() for kind in NEEDED}
        self._symptoms: list[Symptom] = []

    @property
    def open_from(self) -> int | None:
        """First token of a turn that may yet prove to be extra."""
        opened = [turns.first for turns in self._turns.values() if turns.first is not None]
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
        for match in MARKS.finditer(text):
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
        alone = not before.strip()
        if whose == "tool":
            self._has_tools = True
            return
        if whose == "model" and self._turns["template"].waiting:
            kind = "template"  # an end of turn stood before the user's mark
        elif kind != "template" and self._turns[kind].first is None and not ends_a_sentence(before):
            if kind in _LABELS:
                self._counted -= {*_LABELS}  # the answer itself is a dialogue, or announces one
            if whose != "again":
                return  # a list of roles has a heading
        if kind not in self._counted:
            return
        turns = self._turns[kind]
        if whose == "system":
            turns.begin(at)
            turns.system = True
        elif whose == "user":
            turns.begin(at)
            turns.waiting = True
            turns.ended = mark.startswith(END)
        elif turns.waiting:
            turns.complete += 1 + (turns.system or turns.ended)
            turns.waiting = turns.system = False
        elif (whose == "again" or kind == "template") and not (alone or self._has_tools or _CHANNELS in mark):
            kind = f"{kind} alone"
            turns = self._turns[kind]
            turns.begin(at)
            turns.complete += 1
        if turns.complete >= NEEDED[kind]:
            self._report(turns, mark)

    def _report(self, turns: _Turns, mark: str) -> None:
        assert turns.first is not None
        self._symptoms.append(
            Symptom(
                kind=SymptomKind.EXTRA_TURNS,
                onset=self._token_at(turns.first),
                alarm=len(self._texts),
                score=1.0,
                summary=f"the answer continues past its turn; the model's next begins with {mark.strip()!r}",
            )
        )

    def _token_at(self, character: int) -> int:
        ends = accumulate(map(len, self._texts))
        return next((n for n, end in enumerate(ends, 1) if end > character), len(self._texts))


def suspect_extra_turns(batch: ScreenBatch) -> list[Suspicion | None]:
    """The texts that may hold a mark of the model's turn."""
    return [Suspicion(text) if may_hold_model_turn(text) else None for text in batch.texts]
