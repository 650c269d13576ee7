"""What a prompt tells of the marks in its answer: whether they are asked for or written about, or the prompt
is itself the text that a template made."""

from __future__ import annotations

import re
from functools import lru_cache

from stresstest.detectors.extra_turns.marks import LABEL, MODEL, MODEL_LABEL, ROLE_TOKEN, USER, any_of

_TOKENS = re.compile(rf"{any_of((*USER, *MODEL))}|\[INST\]")
_TUNING = r"\bfine-?tun|\binstruction[ -]tun|\btraining examples?\b"
_TRAINING = rf"{_TUNING}|\btraining (?:data|samples?)\b"
_TEMPLATES = re.compile(
    rf"\bchat ?ml\b|(?:chat|prompt)[ _-]?(?:template|format)|special tokens?|{_TUNING}", re.IGNORECASE
)
_RENDERED = re.compile(
    r"\s*+(?:(?:<s>|<bos>)\s*+)?(?:<\|begin_of_text\|>|<\|startoftext\|>|<｜begin▁of▁sentence｜>|\[gMASK\]"
    rf"|\[INST\]|{any_of(USER)}|<\|(?:START_OF_TURN_TOKEN|system|im_system)\|>|\[\|system\|\]"
    rf"|{ROLE_TOKEN}(?:system|developer)"
    r"|(?:user|human|system)[ ]*\n)"
)
_OPEN_LABEL = re.compile(rf"^{LABEL}(?:{MODEL_LABEL}|Response[ ]?[:：])[^\n]{{0,100}}\s*\Z", re.MULTILINE)
_DIALOGUE = re.compile(
    r"\b(?:dialog|diálog|conversa|conversé|gespräch|unterhaltung|colloqui|chiacchier|charla|interview|intervist"
    r"|entrevist|entretien|transcri|trascri|screenplay|scripts?\b|sketch|role-?play|rollenspiel"
    rf"|few-shot|pairs?\b|{_TRAINING}"
    r"|диалог|разговор|rozmow|diyalog|sohbet|gesprek|samtal)"
    r"|对话|對話|聊天|会话|会話|対話|대화|حوار|محادثة|संवाद|บทสนทนา|hội thoại",
    re.IGNORECASE,
)
_BOTS = re.compile(
    r"\bchats?\b|bots?\b|\bprompts?\b|\blanguage models?\b|\bLLMs?\b|\bvoice\b|\bjokes?\b|copilot",
    re.IGNORECASE,
)
_EXAMPLES = re.compile(rf"\bfew-shot|{_TRAINING}", re.IGNORECASE)
_LABELS = re.compile(r"\b(?:Human|User|Assistant|AI|Instruction|Response) ?:", re.IGNORECASE)
_ROLES = re.compile(r"^(?:user|human|assistant|model)[ ]*$", re.MULTILINE)


def is_rendered(text: str) -> bool:
    """Whether a text is what a chat template made of messages: it begins with special tokens, or with the
    role of anybody but the model."""
    return _RENDERED.match(text) is not None


LABELLED = 300
"""Characters of a prompt's end in which the label of the answer is looked for."""


@lru_cache(maxsize=2)
def counted_kinds(prompt: str, ending: str | None = None) -> frozenset[str]:
    """The kinds of marks that are none of an answer to this prompt. ending: of the prompt with all its turns,
    where `prompt` is what was asked in it.

    Special tokens that the prompt names are written about, unless a template rendered it. Labels are what a
    dialogue is written with: they count only where the prompt is known and speaks of none. Names of roles on
    lines of their own are what training data has. What a system message says of assistants, users and
    instructions asks for none.
    """
    rendered = is_rendered(prompt)
    dialogue = _DIALOGUE.search(prompt) is not None
    found = set()
    if not _TEMPLATES.search(prompt) and (rendered or not _TOKENS.search(prompt)):
        found.add("template")
    if rendered or not (_ROLES.search(prompt) or _EXAMPLES.search(prompt)):
        found.add("role")
    labelled = _OPEN_LABEL.search(prompt[-LABELLED:] if ending is None else ending) is not None
    if prompt and not dialogue and not _BOTS.search(prompt) and (labelled or not _LABELS.search(prompt)):
        found |= {"label", "order", "heading"}
    return frozenset(found)
