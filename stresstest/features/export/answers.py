"""Answers as an export reads them, wherever they come from: a stored run or a log."""

from __future__ import annotations

from dataclasses import dataclass

from stresstest.model import Decoding, Message, Subject
from stresstest.tasks.prompt import fingerprint


@dataclass(frozen=True, slots=True)
class AskedPrompt:
    """A prompt as the user gave it, without the system prompt of a decoding; text: of a plain completion.

    topic: what decides the split where a task asks for one topic at several lengths. units: how many are
    asked for, recognised by unit_pattern; None where nobody counts. body: the fields that its request alone
    brings, as canonical JSON.
    """

    id: str
    messages: tuple[Message, ...]
    text: str | None = None
    topic: str | None = None
    units: int | None = None
    unit_pattern: str | None = None
    body: str | None = None

    @property
    def key(self) -> str:
        """Hash of the content: two prompts that share it are one."""
        return fingerprint(self.messages, self.text, self.body)

    @property
    def question(self) -> str:
        """What was asked, under whatever system prompt and in whatever white space."""
        asked = [turn.content for turn in self.messages if turn.role not in ("system", "developer")]
        return " ".join(" ".join([self.text or "", *asked]).split())

    def messages_under(self, decoding: Decoding) -> tuple[Message, ...]:
        """The turns that were sent, with the system prompt of a decoding."""
        if decoding.system_prompt is None or self.text is not None:
            return self.messages
        return (Message("system", decoding.system_prompt), *self.messages)


@dataclass(frozen=True, slots=True)
class ExportedAnswer:
    """One answer to a prompt; a degenerate one is already cut behind its onset.

    source: run id or file. language: of the subject; empty where it is not known. tokens: of the text, None
    where nobody counted. symptom: of a degenerate answer, whose onset is the first degenerate token and
    onset_char its 0-based character; onset is None where tokens were not counted. flaw: why a healthy answer
    is no example to learn from; None for one that is. recorded: read from a log, in which a parameter that is
    not named may have been sent all the same.
    """

    source: str
    key: str
    prompt: AskedPrompt
    subject: Subject
    decoding: Decoding
    text: str
    tokens: int | None = None
    prompt_tokens: int | None = None
    onset: int | None = None
    onset_char: int | None = None
    symptom: str | None = None
    flaw: str | None = None
    recorded: bool = False

    @property
    def degenerate(self) -> bool:
        return self.symptom is not None

    @property
    def healthy(self) -> bool:
        """Whether a model may learn from it."""
        return self.symptom is None and self.flaw is None

    @property
    def words(self) -> int:
        return len(self.text.split())


@dataclass(frozen=True, slots=True)
class LeftOutAnswer:
    """An answer that is of no use to an export. reason: as a plural clause, such as "with reasoning"."""

    reason: str


LOST = "lost to service failures"
UNSEEN = "whose text the log did not keep, or not all of it"
REASONING = "with reasoning, which pairs have no place for"
CALLS = "with calls of tools, which pairs have no place for"
PARTIAL_PROMPT = "with pictures, calls of tools or other parts in their prompt, which pairs have no place for"
OFFERED = "to requests that offer tools, whose calls pairs have no place for"
REFUSED = "marked as refusals by the API"
NO_PROMPT = "without their prompt"
NOT_ENDED = "healthy, but cut before its end"
IN_DOUBT = "healthy, but a symptom may have been under way at their end"
SHORT = "healthy, but shorter than requested"
OTHER_LANGUAGE = "healthy, but not in the requested language"
