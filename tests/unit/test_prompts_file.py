"""The ``--prompts`` file: the user's own prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from stresstest.errors import UsageError
from stresstest.tasks import Message, load_prompts


def prompts_file(folder: Path, *lines: str | bytes) -> Path:
    path = folder / "prompts.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return path


def test_a_prompts_file_keeps_ids_order_and_text(tmp_path: Path) -> None:
    """Both forms of the contract, numbers as ids, blank lines, null keys, and U+2028 inside a text."""
    path = prompts_file(
        tmp_path,
        b'\xef\xbb\xbf{"id": "a", "messages": '
        b'[{"role": "user", "content": "x\xe2\x80\xa8y {units}", "name": null}]}\r',
        "",
        '{"id": 7, "prompt": "C\'era una volta"}',
        '{"prompt": "senza id"}',
    )
    first, second, third = load_prompts(path)
    assert (first.id, first.messages, first.text) == ("a", (Message("user", "x\u2028y {units}"),), None)
    assert (second.id, second.messages, second.text) == ("7", (), "C'era una volta")
    assert third.id == third.fingerprint
    assert [p.index for p in (first, second, third)] == [0, 1, 2]
    assert {(p.units, p.topic) for p in (first, second, third)} == {(None, None)}


def test_same_content_under_two_ids_is_one_distinct_prompt(tmp_path: Path) -> None:
    """Distinct prompts are counted by content; ids are only the user's labels."""
    path = prompts_file(tmp_path, '{"id": "a", "prompt": "x"}', '{"id": "b", "prompt": "x"}')
    first, second = load_prompts(path)
    assert first.fingerprint == second.fingerprint


GOOD = '{"id": "a", "prompt": "x"}'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ["not valid JSON"]),
        ("[" * 100_000, ["not valid JSON"]),
        (b"\xff", ["not UTF-8"]),
        ("[]", ["a JSON object is expected"]),
        ('{"id": "b"}', ['either "messages" or "prompt"']),
        ('{"id": "b", "prompt": "x", "messages": []}', ["not both"]),
        ('{"id": "b", "prompt": 3}', ['"prompt" must be a text, not 3']),
        ('{"id": "b", "prompt": "  "}', ['"prompt" is empty']),
        ('{"id": "b", "prompt": "\\ud800"}', ["surrogate"]),
        ('{"id": "b", "mesages": []}', ["unknown key 'mesages'", "did you mean 'messages'"]),
        ('{"id": "b", "prompt": "x", "temperature": 1}', ["'temperature'", "options"]),
        ('{"id": true, "prompt": "x"}', ['"id" must be']),
        ('{"id": "\\u001b[0m", "prompt": "x"}', ['"id" must be']),
        ('{"id": "a", "prompt": "y"}', ["id 'a' is already used on line 1"]),
        ('{"id": "b", "messages": []}', ["at least one message"]),
        ('{"id": "b", "messages": ["x"]}', ["message 1 must be an object"]),
        ('{"id": "b", "messages": [{"role": "usr", "content": "x"}]}', ["message 1", "'usr'"]),
        ('{"id": "b", "messages": [{"role": [], "content": "x"}]}', ["message 1", "[]"]),
        ('{"id": "b", "messages": [{"role": "user", "content": [{}]}]}', ['"content" must be a text']),
        ('{"id": "b", "messages": [{"role": "user", "text": "x"}]}', ["unknown key 'text'"]),
        ('{"id": "b", "messages": [{"role": "user", "content": ""}]}', ["hold no text"]),
    ],
)
def test_a_bad_line_is_named_with_its_fault(tmp_path: Path, line: str | bytes, words: list[str]) -> None:
    """One sentence with the line number as an editor counts it: nothing is dropped or guessed silently."""
    path = prompts_file(tmp_path, GOOD, "", line)
    with pytest.raises(UsageError) as caught:
        load_prompts(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}, line 3: ")
    assert "\x1b" not in sentence
    assert len(sentence) < len(str(path)) + 250
    for word in words:
        assert word in sentence


def test_an_empty_or_missing_prompts_file_is_refused(tmp_path: Path) -> None:
    """Zero prompts would be zero generations, reported as if nothing had failed."""
    with pytest.raises(UsageError, match="holds no prompts"):
        load_prompts(prompts_file(tmp_path, "", "  "))
    with pytest.raises(UsageError, match="does not exist"):
        load_prompts(tmp_path / "none.jsonl")
