"""The marks at which chat templates change turns, as they stand in a text that ran past the end of its turn.

A server that does not stop at the end of a turn (a wrong chat template, a stop token that is missing from
generation_config.json) shows the template's special tokens as text, or what is left of them where they are
skipped: the names of the roles. Templates of plain text have labels instead.
"""

from __future__ import annotations

import re

_END = (
    *("<|im_end|>", "<|eot_id|>", "<|eot|>", "<end_of_turn>", "<turn|>", "<|end|>", "<|endoftext|>", "</s>"),
    *("<|END_OF_TURN_TOKEN|>", "<｜end▁of▁sentence｜>", "<|return|>"),
)
_USER = (
    *("<|im_start|>user", "<|start_header_id|>user", "<|header_start|>user", "<start_of_turn>user"),
    *("<|turn>user", "<|start|>user", "<|user|>", "<|USER_TOKEN|>", "<｜User｜>", "<|prompter|>"),
)
_MODEL = (
    *("<|im_start|>assistant", "<|start_header_id|>assistant", "<|header_start|>assistant"),
    *("<start_of_turn>model", "<|turn>model", "<|start|>assistant", "<|assistant|>", "<|CHATBOT_TOKEN|>"),
    "<｜Assistant｜>",
)


def _any(marks: tuple[str, ...]) -> str:
    return "|".join(map(re.escape, marks))


_LABEL = r"(?:[#]{1,4}[ ])?"
_USER_LABEL, _MODEL_LABEL = r"(?:Human|User|USER)[ ]?[:：]", r"(?:Assistant|ASSISTANT|AI)[ ]?[:：]"
_TOOL = "tool|ipython|observation|function|environment"
_ROLE = rf"(?:user|human|assistant|model|system|{_TOOL})"
_ENDED = rf"(?:(?:(?:{_any(_END)})\s{{0,8}}){{1,3}})"
_UNQUOTED = r"(?<![`'\"“])"
_GIVEN = r"(?:<[a-z]|observation|result|output)"
"""How a turn begins that holds what a tool or an environment answered."""
_REPLY = rf"\S{{0,24}}\s{{0,8}}(?i:{_GIVEN})"
MARKS = re.compile(
    rf"""
    (?P<fence>^[^\n`~]{{0,16}}(?:```|~~~)[^\n]{{0,200}})
    | (?P<template_tool>(?:{_any(_USER)}){_REPLY}
        |<\|(?:im_start|start_header_id|start|turn)\|?>(?:{_TOOL})|<\|observation\|>|\[TOOL_RESULTS\])
    | (?P<template_user>{_ENDED}?{_UNQUOTED}(?:{_any(_USER)})(?!{_REPLY})
        |{_ENDED}(?:<s>)?(?:\[INST\]|{_LABEL}{_USER_LABEL}))
    | (?P<template_system>{_ENDED}?{_UNQUOTED}<\|(?:im_start|start_header_id|header_start|turn)\|?>system)
    | (?P<template_model>{_ENDED}?{_UNQUOTED}(?:{_any(_MODEL)}))
    | (?P<role_tool>^(?:user|human)\s{{1,8}}(?i:{_GIVEN})|^(?:{_TOOL})[ ]*$)
    | (?P<role_system>^system[ ]*$)
    | (?P<role_user>^(?:user|human)[ ]*\n(?=\s{{0,8}}(?!{_ROLE}[ ]*$)\S)|(?<![`'\"“>])\[INST\])
    | (?P<role_model>^(?:assistant|model)[ ]*\n(?=\s{{0,8}}[^\n]{{12}})|(?<=[^\w\s@/#-])assistant(?=\n\n)
        |\[/INST\])
    | (?P<label_user>^{_LABEL}{_USER_LABEL})
    | (?P<label_model>^{_LABEL}{_MODEL_LABEL})
    | (?P<order_user>^{_LABEL}Instruction[ ]?[:：])
    | (?P<order_model>^{_LABEL}Response[ ]?[:：])
    """,
    re.MULTILINE | re.VERBOSE,
)
"""A mark is named by its kind and whose turn it begins. One in quotation marks or a code block is written
about, and a turn that holds a tool's reply is the framework's. A role's name has its turn below it."""
PROBES = ("ssistant", "SSISTANT", "CHATBOT", "[/INST]", "model", "AI", "Response")
"""One of these is in every text with a mark of the model's turn."""
_TEMPLATE = re.compile(
    rf"{_any((*_USER, *_MODEL))}|\[INST\]"
    r"|(?i:\bchat ?ml\b|(?:chat|prompt)[ _-]?(?:template|format)|special tokens?)"
)
_RENDERED = re.compile(
    rf"\s*(?:<s>|<bos>)?\s*(?:<\|begin_of_text\|>|<\|startoftext\|>|<｜begin▁of▁sentence｜>|\[gMASK\]|\[INST\]|{_any(_USER)}"
    r"|<\|(?:im_start|start_header_id|header_start|start|turn|system|START_OF_TURN_TOKEN)\|?>"
    r"|(?:user|human|system)[ ]*\n)"
)
_INDENTED = re.compile(r"(?: {4}|\t)\s*")
_SENTENCE_END = re.compile(r"[.!?…。！？|][\"'”’)\]*_`]*\s*\Z")
_OPEN_LABEL = re.compile(rf"^{_LABEL}(?:{_MODEL_LABEL}|Response[ ]?[:：])[^\n]{{0,100}}\s*\Z", re.MULTILINE)
_DIALOGUE = re.compile(
    r"\b(?:dialog|diálog|conversa|conversé|gespräch|unterhaltung|colloqui|chiacchier|charla|interview|intervist"
    r"|entrevist|entretien|transcri|trascri|screenplay|scripts?\b|sketch|role-?play|rollenspiel|chats?\b"
    r"|few-shot|pairs?\b|диалог|разговор|rozmow|diyalog|sohbet|gesprek|samtal)"
    r"|对话|對話|聊天|会话|会話|対話|대화|حوار|محادثة|संवाद|บทสนทนา|hội thoại"
    r"|\b(?:Human|User|Assistant|AI|Instruction|Response) ?:",
    re.IGNORECASE,
)


def is_quoted(line: str) -> bool:
    """Whether a mark behind this beginning of a line is written about: in quotation marks, or in indented
    code."""
    return line.count('"') % 2 == 1 or line.count("`") % 2 == 1 or bool(_INDENTED.match(line))


def ends_a_sentence(text: str) -> bool:
    """Whether an answer may have ended here: no heading, and nothing that announces what follows."""
    return _SENTENCE_END.search(text) is not None


def is_rendered(text: str) -> bool:
    """Whether a text is what a chat template made of messages: it begins with special tokens or a role."""
    return _RENDERED.match(text) is not None


def opens_labelled_turn(prompt: str) -> bool:
    """Whether a prompt ends with the label of the model's turn, perhaps with the beginning of an answer."""
    return _OPEN_LABEL.search(prompt[-300:]) is not None


def names_marks(prompt: str) -> bool:
    """Whether a template's special tokens, or templates as such, are named in the prompt."""
    return _TEMPLATE.search(prompt) is not None


def may_ask_for_dialogue(prompt: str) -> bool:
    """Whether the prompt speaks of a dialogue, in some languages, or has its labels. What a system message
    says of assistants, users and instructions asks for none."""
    return _DIALOGUE.search(prompt) is not None
