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
    *("<|turn>user", "<|start|>user", "<|user|>", "<|USER_TOKEN|>", "<｜User｜>", "<|prompter|>", "[INST]"),
)
_MODEL = (
    *("<|im_start|>assistant", "<|start_header_id|>assistant", "<|header_start|>assistant"),
    *("<start_of_turn>model", "<|turn>model", "<|start|>assistant", "<|assistant|>", "<|CHATBOT_TOKEN|>"),
    *("<｜Assistant｜>", "[/INST]"),
)


def _any(marks: tuple[str, ...]) -> str:
    return "|".join(map(re.escape, marks))


_LABEL = r"^(?:[#]{1,4}[ ])?"
MARKS = re.compile(
    rf"""
    (?P<fence>^[ ]{{0,3}}(?:```|~~~))
    | (?P<template_user>(?:(?:{_any(_END)})\s*)?(?<![`'"“])(?:{_any(_USER)})(?!\S*\s*<tool_response>))
    | (?P<template_model>(?<![`'"“])(?:{_any(_MODEL)}))
    | (?P<role_tool>^(?:user|human)\s*<tool_response>|^(?:tool|ipython|observation|function)[ ]*$)
    | (?P<role_user>^(?:user|human)[ ]*$)
    | (?P<role_model>^(?:assistant|model)[ ]*$)
    | (?P<role_again>(?<=[.!?…:)"”])assistant(?=\n\n))
    | (?P<label_user>{_LABEL}(?:Human|User|USER|Instruction)[ ]?:)
    | (?P<label_model>{_LABEL}(?:Assistant|ASSISTANT|AI|Response)[ ]?:)
    """.replace("[ ]?:", "[ ]?[:：]"),
    re.MULTILINE | re.VERBOSE,
)
"""A mark is named by its kind and whose turn it begins. One in quotation marks or a code block is written
about, and a turn that holds a tool's response is the framework's."""
PROBES = ("ssistant", "SSISTANT", "CHATBOT", "[/INST]", "model", "AI", "Response")
"""One of these is in every text with a mark of the model's turn."""
_TEMPLATE = re.compile(_any((*_USER, *_MODEL)))
_OPEN_TURN = re.compile(
    rf"(?:(?:{_any(_MODEL)})\S*|{_LABEL}(?:Assistant|ASSISTANT|AI|Response)[ ]?:)\s*(?:<think>)?\s*\Z",
    re.MULTILINE,
)
_DIALOGUE = re.compile(
    r"\b(?:dialog|diálog|conversa|conversé|gespräch|unterhaltung|colloqui|chiacchier|charla|interview|intervist"
    r"|entrevist|entretien|transcri|trascri|screenplay|scripts?\b|sketch|role-?play|rollenspiel|chats?\b"
    r"|few-shot|pairs?\b|диалог|разговор|rozmow|diyalog|sohbet|gesprek|samtal)"
    r"|对话|對話|聊天|会话|会話|対話|대화|حوار|محادثة|संवाद|บทสนทนา|hội thoại"
    r"|\b(?:Human|User|Assistant|AI|Instruction|Response) ?:",
    re.IGNORECASE,
)


def ends_in_open_turn(prompt: str) -> bool:
    """Whether a prompt is a chat template's text, which ends where the model's turn begins."""
    return _OPEN_TURN.search(prompt[-200:]) is not None


def names_marks(prompt: str) -> bool:
    """Whether the special tokens of a template stand in the prompt."""
    return _TEMPLATE.search(prompt) is not None


def may_ask_for_dialogue(prompt: str) -> bool:
    """Whether the prompt speaks of a dialogue, in some languages, or has its labels. What a system message
    says of assistants, users and instructions asks for none."""
    return _DIALOGUE.search(prompt) is not None
