"""The marks at which chat templates change turns, as they stand in a text that ran past the end of its turn.

A server that does not stop at the end of a turn (a wrong chat template, a stop token that is missing from
generation_config.json) shows the template's special tokens as text, or what is left of them where they are
skipped: the names of the roles. Templates of plain text have labels instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

END_TOKENS = (
    *("<|im_end|>", "<|eot_id|>", "<|eot|>", "<end_of_turn>", "<turn|>", "<|end|>", "<|endoftext|>", "</s>"),
    *("<|END_OF_TURN_TOKEN|>", "<｜end▁of▁sentence｜>", "<|return|>", "<|end_of_text|>", "[|endofturn|]"),
    *("<|end_of_turn|>", "<|eos|>", "<seed:eos>"),
)
"""Special tokens at which a model ends its answer."""
END = (*END_TOKENS, "<|START_OF_TURN_TOKEN|>", "<|end_of_sentence|>", "<eoa>", "<eoh>", "[e~[")
_ROLE_TOKENS = ("im_start", "start_header_id", "header_start", "start_of_role", "start")
USER = (
    *(f"<|{name}|>user" for name in _ROLE_TOKENS),
    *("<start_of_turn>user", "<|turn>user", "<|user|>", "<|USER_TOKEN|>", "<｜User｜>", "<|prompter|>"),
    *("<|im_user|>user", "[|user|]", "<seed:bos>user", "]~b]user", "GPT4 Correct User:", "<|User|>:"),
    *("<extra_id_1>User", "<reserved_106>", "<|startoftext|>", "<用户>"),
)
MODEL = (
    *(f"<|{name}|>assistant" for name in _ROLE_TOKENS),
    *("<start_of_turn>model", "<|turn>model", "<|assistant|>", "<|CHATBOT_TOKEN|>", "<｜Assistant｜>"),
    *("<|im_assistant|>assistant", "[|assistant|]", "<seed:bos>assistant", "]~b]ai", "<|Bot|>:"),
    *("GPT4 Correct Assistant:", "<extra_id_1>Assistant", "<reserved_107>", "<|extra_0|>"),
)


def any_of(marks: tuple[str, ...]) -> str:
    """A pattern of any of these."""
    return "|".join(map(re.escape, marks))


ROLE_TOKEN = rf"(?:<\|(?:{'|'.join(_ROLE_TOKENS)})\|>|<\|turn>)"
"""The special token before a role's name, as a pattern."""
_HASHES = r"[#]{1,4}[ ]"
LABEL = rf"(?:{_HASHES})?"
USER_LABEL, MODEL_LABEL = r"(?:Human|User|USER)[ ]?[:：]", r"(?:Assistant|ASSISTANT|AI)[ ]?[:：]"
_TOOL = "tool|ipython|observation|function|environment"
_ROLE = rf"(?:user|human|assistant|model|system|{_TOOL})"
_ENDED = rf"(?:(?:(?:{any_of(END)})\s{{0,8}}){{1,3}})"
_UNQUOTED = r"(?<![`'\"“])"
_TEXT_BEFORE = r"(?:(?<=[^\s`'\"“}>])|(?<=\|>))"
"""No space, no quotation mark, and no call of a tool."""
HEAD = r"(?:<\|(?:end_header_id|header_end|end_of_role|message|im_middle)\|>)?"
"""How the head of a turn ends, where the role is not all of it."""
_GIVEN = r"(?:[{\[$%\\]|<(?![|｜])|(?i:observation|result|output|traceback|error|exit code|stdout|stderr)\b)"
"""How a turn begins that holds what a tool or an environment replied, or a place for a text in a template."""
_REPLY = rf"{HEAD}\s{{0,8}}{_GIVEN}"
_SENTENCE = r"[ ]?\S[^\n]{3,600}?[.!?…。？！:][\"'”’)*]{0,3}(?:[ ]*(?:\n|\Z)|[ ]?\#)"
"""What a turn has beside its label, and a heading that only looks like one has not."""
_BEHIND = r"(?:^|(?<=[^\s#])[ ]?)"
"""Where a label with hashes stands: on a line of its own, or directly behind the text."""
_MARKS = re.compile(
    rf"""
    (?P<fence>^[^\n`~]{{0,16}}(?:```|~~~))
    | (?P<template_tool>(?:{any_of(USER)}){_REPLY}
        |{ROLE_TOKEN}(?:{_TOOL})|<\|observation\|>|\[TOOL_RESULTS\])
    | (?P<template_behind>{_TEXT_BEFORE}(?:{any_of(USER)})(?!{_REPLY}))
    | (?P<template_user>{_ENDED}?{_UNQUOTED}(?:{any_of(USER)})(?!{_REPLY})
        |{_ENDED}(?:<s>)?(?:\[INST\]|{LABEL}{USER_LABEL}))
    | (?P<template_again>{_TEXT_BEFORE}{_ENDED}?(?:{any_of(MODEL)})
        {HEAD}(?=[^\w\n]?[ ]?\n\s{{0,8}}(?!<\|)[^\n]{{12}}))
    | (?P<template_system>{_ENDED}?{_UNQUOTED}{ROLE_TOKEN}system)
    | (?P<template_model>{_ENDED}?{_UNQUOTED}(?:{any_of(MODEL)})(?!{HEAD}\\))
    | (?P<role_tool>^(?:user|human)\s{{1,8}}{_GIVEN}|^(?:{_TOOL})[ ]*$)
    | (?P<role_system>^system[ ]*$)
    | (?P<role_user>^(?:user|human)[ ]*\n(?=\s{{0,8}}(?!{_ROLE}[ ]*$)\S)|(?<![`'\"“>])\[INST\])
    | (?P<role_model>^(?:assistant|model)[ ]*\n(?=\s{{0,8}}[^\n]{{12}})|\[/INST\])
    | (?P<role_behind>(?<=[^\w\s@/#-])user(?=\n\n\S))
    | (?P<role_again>(?<=[^\w\s@/#-])assistant(?=\n\n))
    | (?P<heading_opened>{_BEHIND}{_HASHES}Human:(?={_SENTENCE}))
    | (?P<heading_user>{_BEHIND}{_HASHES}(?:Human|User):(?={_SENTENCE}))
    | (?P<heading_model>{_BEHIND}{_HASHES}Assistant:(?={_SENTENCE}))
    | (?P<heading_reply>{_BEHIND}{_HASHES}Assistant:(?=[ ]?\S))
    | (?P<label_user>^{LABEL}{USER_LABEL}|(?<=[.!?…。])[ ]?USER:)
    | (?P<label_model>^{LABEL}{MODEL_LABEL}|(?<=[ ])ASSISTANT:)
    | (?P<order_user>^{LABEL}Instruction[ ]?[:：])
    | (?P<order_model>^{LABEL}Response[ ]?[:：](?!\s{{0,8}}[_.…]{{3}}))
    | (?P<heading_other>^{_HASHES})
    | (?P<template_end>(?<=\S)(?:{any_of(END)})[ ]*\n(?=\s{{0,8}}(?![<{{\[])[^\n]{{12}}))
    """,
    re.MULTILINE | re.VERBOSE,
)
"""A mark is named by its kind and whose turn it begins. A turn that holds a tool's reply is the framework's.
A role's name has its turn below it. behind, again: the user's or the model's turn directly behind the text,
on its line. opened: the user's, which may be proof alone. reply: the model's, if the user's stands before it.
end: of a turn, with text below. other: a heading.
"""
_BEGINNINGS = re.compile(r"^|(?=[<\[\]]|GPT4|user\n|assistant\n|[ ]?[#]|[ ]?USER:|ASSISTANT:)", re.MULTILINE)
"""Where a mark may begin: to try the marks there takes a fraction of what it takes everywhere."""
_PLAIN = ("# Human:", "# User:", "[|endofturn", "]~b]", "[e~[", "GPT4 Correct ")
_TAGS = ("</s>", "|>", "｜>", "<end_of_turn>", "<seed:", "<eo", "<extra_id_1>", "<reserved_10", "<用户>")
"""Parts of marks that tell as much as the model's; those of tags are looked for where there is a tag."""
_WORDS = ("ssistant", "SSISTANT", "[/INST]", "model", "AI", "Response")
_LABELS = ("ssistant", "SSISTANT", "AI", "Response")
_MODEL_TURNS = (
    *(">model", "|assistant|", "[/INST]", "\nmodel"),
    *("ssistant\n", "ssistant \n", "ssistant  "),
    *(f"{name}{colon}" for name in _LABELS for colon in (":", " :", "：", " ：")),
)
_USER_TURNS = ("\nuser\n", "\nhuman\n", ">user", "|user|")


def find_marks(text: str) -> Iterator[re.Match[str]]:
    """The marks of a text, as `_MARKS.finditer` finds them."""
    end = 0
    for beginning in _BEGINNINGS.finditer(text):
        if beginning.start() >= end and (mark := _MARKS.match(text, beginning.start())):
            end = mark.end()
            yield mark


def may_hold_model_turn(text: str) -> bool:
    """Whether a text holds what a mark of the model's turn is made of, or one that tells as much: first its
    words, which most lack."""
    if any(part in text for part in _PLAIN) or ("<" in text and any(part in text for part in _TAGS)):
        return True
    return any(word in text for word in _WORDS) and any(part in text for part in _MODEL_TURNS)


def may_hold_turn(text: str) -> bool:
    """The same of a mark of anybody's turn; labels are left to the model's."""
    return any(part in text for part in _USER_TURNS) or may_hold_model_turn(text)


_ROW = re.compile(r"\s*\|(?!>)[^|\n]*[^|<\n]\|")
"""Of a table."""
_INDENTED = re.compile(r"(?: {4}|\t)\s*")
_SENTENCE_END = re.compile(r"[.!?…。！？|][\"'”’)\]*_`]*\s*\Z")
_ANNOUNCES = re.compile(r"(?:[:：][*_`]*|(?:^|\n)[#]{1,6} [^\n]*)\s*\Z")
_LINE_WORDS = 3
_NAME = re.compile(r"\w\.[\w.-]+\.\Z")
_ENDS = re.compile(any_of(END))


def is_written_about(before: str, mark: str) -> bool:
    """Whether a mark is text about templates: in quotation marks or ticks, in a table, or in indented code.
    before: what stands before it on its line and above."""
    line = before.rpartition("\n")[2].replace("```", "")
    if line.count('"') % 2 or line.count("`") % 2 or _ROW.match(line):
        return True
    _, line_break, last = mark.rpartition("\n")
    if line_break:
        line = last  # the turn begins on a line of its own
    elif _ENDS.match(mark):
        return False  # an answer may end in code
    return _INDENTED.match(line) is not None


def may_end(kind: str, text: str) -> bool:
    """Whether an answer may have ended here, before a mark of this kind: at a sentence's end; before hashes,
    unless it announces what follows or is a heading itself."""
    if kind == "heading":
        return not announces(text)
    return _SENTENCE_END.search(text) is not None


def announces(text: str) -> bool:
    """Whether a text announces what follows, or is a heading itself."""
    return _ANNOUNCES.search(text) is not None


def ends_text(before: str, mark: str) -> bool:
    """Whether an end of turn stands at the end of a line of text, and is no end of struck-out HTML."""
    return len(before.rpartition("\n")[2].split()) >= _LINE_WORDS and not (
        mark.startswith("</s>") and "<s>" in before
    )


def ends_prose(before: str) -> bool:
    """Whether a sentence of some words ends here, and no dotted name."""
    line = before.rpartition("\n")[2]
    words = len(line.split()) >= _LINE_WORDS or line.endswith(("。", "！", "？"))
    return words and not ends_in_name(before) and may_end("role", line)


def ends_in_name(before: str) -> bool:
    """Whether a dotted name continues here: "com.acme."."""
    return _NAME.search(before) is not None


def fence_line(text: str, at: int) -> str:
    """The line of a fence, without an end of turn behind it."""
    end = text.find("\n", at)
    return _ENDS.split(text[at : end if end >= 0 else len(text)], maxsplit=1)[0]
