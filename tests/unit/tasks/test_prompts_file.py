"""The ``--prompts`` file: the user's own prompts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stresstest.errors import UsageError
from stresstest.model import Decoding, Message
from stresstest.tasks import load_prompts
from stresstest.tasks import prompts_file as prompts_file_module


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
    first, second, third = load_prompts(path).prompts
    assert (first.id, first.messages, first.text) == ("a", (Message("user", "x\u2028y {units}"),), None)
    assert (second.id, second.messages, second.text) == ("7", (), "C'era una volta")
    assert third.id == third.fingerprint
    assert [p.index for p in (first, second, third)] == [0, 1, 2]
    assert {(p.units, p.topic) for p in (first, second, third)} == {(None, None)}


def test_same_content_under_two_ids_is_one_distinct_prompt(tmp_path: Path) -> None:
    """Distinct prompts are counted by content; ids are only the user's labels."""
    path = prompts_file(tmp_path, '{"id": "a", "prompt": "x"}', '{"id": "b", "prompt": "x"}')
    read = load_prompts(path)
    assert ([prompt.id for prompt in read.prompts], read.lines, read.distinct) == (["a"], 2, 1)


@pytest.mark.parametrize("name", ["user", "metadata", "cache_salt", "priority"])
def test_who_asks_makes_no_other_prompt(tmp_path: Path, name: str) -> None:
    """One prompt, logged for sixty users, is one prompt: else a limit would stand on sixty."""

    def value(n: int) -> object:
        return {"metadata": {"team": n}, "priority": n}.get(name, f"u{n}")

    lines = [json.dumps({"prompt": "x", name: value(n)}) for n in range(3)]
    prompts = load_prompts(prompts_file(tmp_path, *lines)).prompts
    assert len({prompt.fingerprint for prompt in prompts}) == 1
    other = load_prompts(prompts_file(tmp_path, *lines, '{"prompt": "x", "stop": ["y"]}')).prompts
    assert len({prompt.fingerprint for prompt in other}) == 2


def test_the_salt_of_a_tenants_cache_is_not_sent(tmp_path: Path) -> None:
    """It is a secret, and what is sent is stored and shown."""
    read = load_prompts(prompts_file(tmp_path, '{"prompt": "x", "cache_salt": "s3cret"}'))
    assert "s3cret" not in repr(read)


def test_the_ids_of_calls_make_no_other_prompt(tmp_path: Path) -> None:
    """They are new in each request; the calls' arguments are what the model reads."""

    def line(name: str, city: str) -> str:
        call = {"id": name, "type": "function", "function": {"name": "f", "arguments": city}}
        turns = [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "ok", "tool_call_id": name},
        ]
        return json.dumps({"messages": turns})

    prompts = load_prompts(prompts_file(tmp_path, line("a", "Rome"), line("b", "Rome"), line("c", "Oslo")))
    assert [prompt.index for prompt in prompts.prompts] == [0, 2]


def test_lines_that_repeat_a_prompt_need_no_ids(tmp_path: Path) -> None:
    """A log of requests holds the same one often: it is no error."""
    read = load_prompts(prompts_file(tmp_path, '{"prompt": "x"}', '{"prompt": "x"}'))
    [prompt] = read.prompts
    assert (prompt.id, read.lines, read.distinct) == (prompt.fingerprint, 2, 1)


def test_an_id_that_is_another_lines_content_is_refused(tmp_path: Path) -> None:
    """A prompt without an id is known by its fingerprint, which nobody else may be called."""
    [prompt] = load_prompts(prompts_file(tmp_path, '{"prompt": "x"}')).prompts
    named = json.dumps({"id": prompt.id, "prompt": "y"})
    for lines in (['{"prompt": "x"}', named], [named, '{"prompt": "x"}', '{"prompt": "x"}']):
        with pytest.raises(UsageError, match=f"line 2: id '{prompt.id}' is already used on line 1"):
            load_prompts(prompts_file(tmp_path, *lines))


def test_of_a_large_file_a_sample_is_kept_and_all_of_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1.4 million short prompts took a gigabyte. The sample is the beginning of the same order."""
    lines = [json.dumps({"id": n, "prompt": f"Tell story {n % 90}.", "user": "x"}) for n in range(100)]
    path = prompts_file(tmp_path, *lines)
    whole = load_prompts(path)
    monkeypatch.setattr(prompts_file_module, "KEPT_PROMPTS", 10)
    path.touch()
    sample = load_prompts(path)
    assert (len(whole.prompts), len(sample.prompts)) == (90, 10)
    assert (sample.lines, sample.distinct, sample.digest) == (whole.lines, whole.distinct, whole.digest)
    drawn = sorted(whole.prompts, key=lambda prompt: prompt.fingerprint)[:10]
    assert sorted(sample.prompts, key=lambda prompt: prompt.fingerprint) == drawn


def test_fields_that_only_the_last_line_lacks_are_no_decoding(tmp_path: Path) -> None:
    """What all share is known at the end alone; the fingerprints hold what differs."""
    lines = ['{"prompt": "x", "stop": "a"}', '{"prompt": "y", "stop": "a"}', '{"prompt": "z"}']
    read = load_prompts(prompts_file(tmp_path, *lines))
    assert (read.common, read.differing) == (None, ("stop",))
    assert [prompt.body for prompt in read.prompts] == ['{"stop":"a"}', '{"stop":"a"}', None]
    assert load_prompts(prompts_file(tmp_path, *lines[:2])).common == '{"stop":"a"}'


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    """A process may read a file twice, and a user may edit it in between."""
    first = load_prompts(prompts_file(tmp_path, '{"prompt": "x"}'))
    assert load_prompts(tmp_path / "prompts.jsonl") is first
    assert load_prompts(prompts_file(tmp_path, '{"prompt": "yy"}')).digest != first.digest


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
        ('{"id": "b", "prompt": "x", "temperature": 1}', ['"temperature"', "one decoding"]),
        ('{"id": "b", "prompt": "x", "guided_zson": {}}', ["unknown key 'guided_zson'", "extra_body"]),
        ('{"id": "b", "prompt": "x", "extra_body": 3}', ['"extra_body" must be an object']),
        ('{"id": "b", "prompt": "x", "stop": "a", "extra_body": {"stop": "b"}}', ["'stop' is given twice"]),
        ('{"id": "b", "prompt": "x", "extra_body": {"api_key": "geheim"}}', ["credential (api_key)"]),
        ('{"id": true, "prompt": "x"}', ['"id" must be']),
        ('{"id": "\\u001b[0m", "prompt": "x"}', ['"id" must be']),
        ('{"id": "a", "prompt": "y"}', ["id 'a' is already used on line 1"]),
        ('{"id": "b", "messages": []}', ["at least one message"]),
        ('{"id": "b", "messages": ["x"]}', ["message 1 must be an object"]),
        ('{"id": "b", "messages": [{"role": "usr", "content": "x"}]}', ["message 1", "'usr'"]),
        ('{"id": "b", "messages": [{"role": [], "content": "x"}]}', ["message 1", "[]"]),
        ('{"id": "b", "messages": [{"role": "user", "content": [{}]}]}', ["message 1, part 1", "image_url"]),
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
    assert len(sentence) < len(str(path)) + 330
    for word in words:
        assert word in sentence


def test_an_empty_or_missing_prompts_file_is_refused(tmp_path: Path) -> None:
    """Zero prompts would be zero generations, reported as if nothing had failed."""
    with pytest.raises(UsageError, match="holds no prompts"):
        load_prompts(prompts_file(tmp_path, "", "  "))
    for path in (tmp_path / "none.jsonl", "~nobody-here/p.jsonl"):
        with pytest.raises(UsageError, match="does not exist"):
            load_prompts(path)
    with pytest.raises(UsageError, match="cannot be read"):
        load_prompts("a\0b")


TOOL = '{"type": "function", "function": {"name": "f", "parameters": {"properties": {"token": {}}}}}'
IMAGE = '{"type": "image_url", "image_url": {"url": "https://x.example/a.png?sig=geheim"}}'
BODIES = (
    '{"id": "a", "model": "m", "stream": true, "max_tokens": 9, "temperature": 0.2, "stop": ["END"], '
    '"messages": [{"role": "user", "content": [{"type": "text", "text": "Look."}, ' + IMAGE + "]}]}",
    '{"id": "b", "temperature": 0.2, "extra_body": {"stop": ["END"]}, "tools": [' + TOOL + "], "
    '"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}, '
    '{"role": "tool", "tool_call_id": "1", "content": "42"}]}',
)


def test_whole_bodies_are_sent_as_they_are(tmp_path: Path) -> None:
    """What all share is the decoding, what differs goes with its prompt, what is ours is left out."""
    read = load_prompts(prompts_file(tmp_path, *BODIES))
    first, second = read.prompts
    assert read.decoding(Decoding()) == Decoding(temperature=0.2, extra_body='{"stop":["END"]}')
    assert (read.not_sent, read.differing) == (("max_tokens", "model", "stream"), ("tools",))
    assert first.body is None
    assert second.body is not None
    assert '"tools"' in second.body
    assert first.messages[0].content == "Look.\n[image_url]"
    assert [turn.as_sent().keys() for turn in second.messages] == [
        {"role", "tool_calls"},
        {"role", "tool_call_id", "content"},
    ]


def test_another_image_or_field_is_another_prompt(tmp_path: Path) -> None:
    """A resume refuses a changed file by these fingerprints; the words alone would not tell."""
    plain = '{"messages": [{"role": "user", "content": [%s]}], "stop": "%s"}'
    lines = [plain % (IMAGE, "END"), plain % (IMAGE.replace("x.ex", "y.ex"), "END"), plain % (IMAGE, "STOP")]
    assert len({p.fingerprint for p in load_prompts(prompts_file(tmp_path, *lines)).prompts}) == 3


@pytest.mark.parametrize("given", [Decoding(temperature=0.7), Decoding(extra_body='{"stop":["ENDE"]}')])
def test_an_option_against_the_file_is_a_clash_and_named(tmp_path: Path, given: Decoding) -> None:
    """Either value in force silently would be another decoding than the user believes."""
    with pytest.raises(UsageError, match="different values"):
        load_prompts(prompts_file(tmp_path, *BODIES)).decoding(given)


def test_a_file_of_nested_lists_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    """15 MB of empty lists took half a gigabyte."""
    path = prompts_file(tmp_path, '{"prompt": "x", "documents": [' + "[]," * 2_000_000 + "[]]}")
    with pytest.raises(UsageError, match="more than 2,000,000 lists and objects"):
        load_prompts(path)


def test_a_line_of_many_numbers_is_refused(tmp_path: Path) -> None:
    """16 MB of them took 600 MB, and 250 MB held Ctrl-C for ten seconds. Commas of a text are none."""
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"prompt": "Count.", "tools": [1.5] * 200_100}) + "\n", "utf-8")
    with pytest.raises(UsageError, match=r"line 1, holds more than 200,000 values"):
        load_prompts(str(path))
    path.write_text(json.dumps({"prompt": "Well, then, " * 120_000}) + "\n", "utf-8")
    assert len(load_prompts(str(path)).prompts) == 1


@pytest.mark.parametrize("nested", [False, True], ids=["field", "extra_body"])
@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ('"temperature": "0.7"', "\"temperature\" must be a number, not '0.7'"),
        ('"top_k": 5.5', '"top_k" 5.5 is not valid'),
        ('"top_k": [5]', '"top_k" must be a number, not [5]'),
        ('"repetition_penalty": true', '"repetition_penalty" must be a number, not True'),
        ('"top_p": 1.5', '"top_p" 1.5 is not valid: input should be less than or equal to 1'),
        ('"temperature": NaN', '"temperature" nan is not valid'),
        ('"temperature": 1' + "0" * 400, '"temperature" 1000'),
    ],
)
def test_a_parameter_that_could_not_be_read_back_is_refused(
    tmp_path: Path, parameter: str, words: str, nested: bool
) -> None:
    """Stored with a run, a text for a number makes the whole store unusable: it is refused with its line."""
    fields = f'"extra_body": {{{parameter}}}' if nested else parameter
    path = prompts_file(tmp_path, f'{{"id": "a", "prompt": "x", {fields}}}')
    with pytest.raises(UsageError) as caught:
        load_prompts(path)
    assert f"{path}, line 1: " in str(caught.value)
    assert words in str(caught.value)


def test_whole_numbers_fit_every_parameter(tmp_path: Path) -> None:
    """JSON writers print 5 as 5.0 and 1.0 as 1: the types are those of the options."""
    path = prompts_file(
        tmp_path,
        '{"prompt": "x", "top_k": 5.0, "temperature": 1, "extra_body": {"min_p": null}}',
        '{"prompt": "y", "top_k": 5, "temperature": 1.0}',
    )
    found = load_prompts(path).decoding(Decoding())
    assert found == Decoding(temperature=1.0, top_k=5)
    assert (type(found.temperature), type(found.top_k)) == (float, int)
