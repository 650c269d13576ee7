"""Python's ``str()`` of a response object, as ``json.dumps(…, default=str)`` writes it: the answer is
somewhere within, behind the prompt and its tokens."""

from __future__ import annotations

import re

from stresstest.records.record import UnreadableError

_HEAD = 65_536
"""Characters of a text in which its object shows what it is."""
_OBJECT = re.compile(r"\s*\[?(?:[A-Z]\w{2,64}\(\w{1,64}=|(?:content|generations|id)=['\"\[])")
"""``RequestOutput(request_id=``, ``AIMessage(content=``; LangChain's and pydantic's ``str()`` has no name."""
_CLOSED = re.compile(r"[)\]}'\"]\s*\Z")
_FIELDS = re.compile(
    r"\b(?:token_ids|prompt_token_ids|outputs|choices|finish_reason|stop_reason|additional_kwargs"
    r"|response_metadata|generation_info|system_fingerprint|output_index)="
)
_ADDRESS = re.compile(r"\s*<[\w.]{1,128} object (?:[\w.<>]{1,128} )?at 0x[0-9a-fA-F]{4,16}>\s*")
"""Of a stream or a coroutine, too, that nobody waited for."""
_OF_JAVASCRIPT = re.compile(r"\s*\[object \w{1,64}\]\s*")


def refuse_printed(text: str) -> None:
    """Raise UnreadableError for the print of an object in place of an answer."""
    if text.lstrip()[:1] == "<":
        printed = _ADDRESS.fullmatch(text) is not None
    elif _OF_JAVASCRIPT.fullmatch(text):
        printed = True
    else:
        printed = _OBJECT.match(text) is not None and _CLOSED.search(text[-8:]) is not None
        printed = printed and _FIELDS.search(text[:_HEAD] + text[-_HEAD:]) is not None
    if printed:
        raise UnreadableError(
            "str() of a response object, or what JavaScript prints: log the text in it "
            "(`outputs[0].text`, `choices[0].message.content`)"
        )
