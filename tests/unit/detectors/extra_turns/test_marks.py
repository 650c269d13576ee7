"""The marks of turns are looked for only where one may begin."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from stresstest.detectors.extra_turns import marks
from stresstest.detectors.extra_turns.marks import END, MODEL, USER, find_marks

PARTS = st.sampled_from(
    [
        *(*END, *USER, *MODEL, "[INST]", "[/INST]", "<s>", "<|message|>", "<|turn>system", "[TOOL_RESULTS]"),
        *("user", "assistant", "system", "model", "human", "tool", "observation", "USER:", "ASSISTANT:"),
        *("AI:", "Human:", "Assistant：", "Instruction:", "Response :", "Yes, it is so.", "x", "…"),
        *("\n", "\n\n", " ", "  ", "#", "## ", "```", "~~~", "`", "\\", "{", "|", ">", "-", "@", "/", "."),
    ]
)


@given(st.lists(PARTS, max_size=30).map("".join))
@example("The end. ## Human: What does it cost in winter?\n")
def test_every_mark_is_found(text: str) -> None:
    """A mark that begins in another way than the others must not be lost."""
    expected = [(mark.lastgroup, mark.span()) for mark in marks._MARKS.finditer(text)]
    assert [(mark.lastgroup, mark.span()) for mark in find_marks(text)] == expected
