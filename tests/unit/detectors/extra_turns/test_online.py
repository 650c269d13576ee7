"""Answers that run past their turn, in the templates of eight model families; and texts that only look so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.extra_turns.marks import MODEL, USER, may_hold_model_turn, may_hold_turn
from stresstest.detectors.extra_turns.online import ExtraTurnsDetector
from stresstest.detectors.screening.recorded import RecordedText, detect_many
from stresstest.detectors.suite import detect_text, detect_tokens
from stresstest.detectors.text.tokens import text_tokens
from stresstest.model import GenerationVerdict, SymptomKind

ANSWER = (
    "The harbour was rebuilt after the great storm of that winter. People still talk about the old bridge. "
    "A new school opened in the autumn and drew many children from the villages nearby."
)
ASKED = ("Who paid for it?", "When did the school close?", "What became of the bridge?")
ANSWERS = (
    "Most of the money came from the merchants, who feared for their ships.",
    "It never did. Another building was added twelve years later, behind the church.",
    "Nothing is left of it but two stones on the western bank of the river.",
)
PROMPT = "Write a report about the history of a harbour town."

TEMPLATES = {
    "chatml": "<|im_end|>\n<|im_start|>user\n{0}<|im_end|>\n<|im_start|>assistant\n{1}",
    "chatml, tokens skipped": "\nuser\n{0}\nassistant\n{1}",
    "llama 3": "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n{0}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n{1}",
    "llama 3, tokens skipped": "assistant\n\n{1}",
    "llama 3, alone": "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n{1}",
    "chatml, alone": "<|im_end|>\n<|im_start|>assistant\n{1}",
    "qwen, base": "<|endoftext|>Human: {0}\n\nAssistant: {1}",
    "gemma": "<end_of_turn>\n<start_of_turn>user\n{0}<end_of_turn>\n<start_of_turn>model\n{1}",
    "mistral": "</s>[INST] {0} [/INST] {1}",
    "deepseek": "<｜end▁of▁sentence｜><｜User｜>{0}<｜Assistant｜>{1}",
    "vicuna": "\nUSER: {0}\nASSISTANT: {1}",
    "alpaca": "\n\n### Instruction:\n{0}\n\n### Response:\n{1}",
    "anthropic": "\n\nHuman: {0}\n\nAssistant: {1}",
    "guanaco": "\n\n### Human: {0}\n### Assistant: {1}",
    "solar": "\n\n### User:\n{0}\n\n### Assistant:\n{1}",
    "guanaco, behind the text": " ### Human: {0}### Assistant: {1}",
    "falcon": "</s> \n{0}</s> \n{1}",
    "llama 3, behind the text": "<|start_header_id|>assistant<|end_header_id|>\n\n{1}",
    "llama 3, both skipped": "user\n\n{0}assistant\n\n{1}",
    "glm 4": "<|user|>\n{0}<|assistant|>\n{1}",
    "vicuna, one line": " USER: {0} ASSISTANT: {1}",
}
AT_ONCE = [
    *("guanaco", "guanaco, behind the text", "falcon", "llama 3, behind the text", "llama 3, both skipped"),
    *("llama 3, tokens skipped", "glm 4", "chatml", "chatml, alone", "mistral"),
]
"""Templates whose first extra turn is proof."""


def run_on(template: str) -> str:
    turns = (template.format(asked, answer) for asked, answer in zip(ASKED, ANSWERS, strict=True))
    return ANSWER + "".join(turns)


def judge(text: str, prompt: str = PROMPT, finish: str = "length") -> GenerationVerdict:
    return detect_text(text, DetectorSpec("en", prompt_text=prompt), finish)


@pytest.mark.parametrize("mark", [*MODEL, *USER, "[/INST] ", "\nassistant \n", "\nmodel\n", ".assistant\n\n"])
def test_no_mark_is_overlooked_before_it_is_read(mark: str) -> None:
    """The screen and the online form look for parts of marks first: each mark has one."""
    assert may_hold_turn(f"{ANSWER}{mark}So it was.")
    assert mark in USER or may_hold_model_turn(f"{ANSWER}{mark}So it was.")


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_onset_is_where_the_answers_turn_ends(name: str) -> None:
    """Whatever the template, shown or skipped; online and from a log the verdict is the same."""
    text = run_on(TEMPLATES[name])
    found = judge(text)
    assert found.symptom is SymptomKind.EXTRA_TURNS
    ended = len(text_tokens(ANSWER))
    assert found.onset is not None
    assert ended <= found.onset <= ended + 3
    spec = DetectorSpec("en", prompt_text=PROMPT)
    (recorded,) = detect_many([RecordedText(text, spec, "length")])
    assert recorded.degenerate
    assert detect_tokens(text_tokens(text), spec, "length") == found


@pytest.mark.parametrize("name", AT_ONCE)
def test_one_turn_is_proof_where_nothing_else_looks_like_it(name: str) -> None:
    """As real models write them (the public outputs of AlpacaEval): most stop after one turn."""
    found = judge(ANSWER + TEMPLATES[name].format(ASKED[0], ANSWERS[0]), finish="stop")
    assert found.symptom is SymptomKind.EXTRA_TURNS
    assert found.onset is not None
    assert found.onset <= len(text_tokens(ANSWER)) + 3


def test_a_question_of_the_users_alone_is_proof_under_hashes() -> None:
    """Guanaco asks itself one more thing and stops. Not where headings of the text have the same form, nor
    where the prompt speaks of humans."""
    text = f"{ANSWER}\n\n### Human: {ASKED[0]}"
    assert judge(text, finish="stop").symptom is SymptomKind.EXTRA_TURNS
    causes = f"### Technical: worn ropes\n{ANSWER}\n\n### Human: tired crews\n{ANSWER}"
    assert judge(causes, finish="stop").symptom is None
    assert judge(text, "Compare humans and machines.", finish="stop").symptom is None


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["<|im_start|>user", "[INST]kqzwvb", "<|im_end|>", "assistant", "user\n"])
def test_no_text_takes_more_than_its_length(piece: str) -> None:
    """Each character is looked at a bounded number of times, in one endless line too."""

    def steps(n: int) -> int:
        taken = 0

        class Counting(ExtraTurnsDetector):
            def _take_lines(self, text: str, *, complete: bool) -> None:
                nonlocal taken
                taken += len(text)
                super()._take_lines(text, complete=complete)

        detector = Counting(DetectorSpec("en", prompt_text=PROMPT))
        for token in text_tokens("AI " + piece * n):
            detector.update(token)
        detector.finish("length")
        return taken

    assert steps(4000) < 2.5 * steps(2000) + 10_000


@pytest.mark.parametrize(
    "end", ["\n```py\nport = 1\n```", "\n    port = 1", "\n- one\n    - two", ' He said "no".']
)
@pytest.mark.parametrize("name", ["chatml", "llama 3", "deepseek", "mistral"])
def test_an_answer_may_end_in_code(name: str, end: str) -> None:
    """The end of its turn follows on the same line, and is no part of the code."""
    turns = run_on(TEMPLATES[name]).removeprefix(ANSWER)
    assert judge(f"{ANSWER}{end}{turns}").symptom is SymptomKind.EXTRA_TURNS


def test_one_long_line_is_read_before_it_ends() -> None:
    """A template without line breaks writes one line up to the cap: its alarm does not wait for that."""
    text = run_on(TEMPLATES["mistral"]) + " and so on, and on, for as long as the cap allows" * 60
    found = judge(text).symptoms[0]
    assert found.kind is SymptomKind.EXTRA_TURNS
    assert found.alarm < 500


@pytest.mark.parametrize(
    "text",
    [
        "ChatML marks turns:\n\n```\n" + TEMPLATES["chatml"].format("Hi", "Hello") + "\n```\n\nThat is it.",
        "A turn begins with `<|im_start|>user`, and the answer with `<|im_start|>assistant`, as a pair.",
        "User: Hi\nAssistant: Hello\nUser: Is it open?\nAssistant: Until six.\nUser: Bye\nAssistant: Bye.",
        "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>final<|message|>Until six.",
        ANSWER + "\n\nRoles in the cast:\nassistant\nconductor\nmodel\npainter",
        "Who wrote each of the lines:\n\n" + "human\nmodel\nmodel\nuser\nassistant\n" * 4,
        "ChatML:\n\n    <|im_start|>user\n    Hello<|im_end|>\n    <|im_start|>assistant\n\nThat is all.",
        'Call f("<|im_start|>user\\n" + text + "<|im_end|><|im_start|>assistant\\n") for it.',
        "Llama 2 expects the question between marks: <s>[INST] question [/INST] answer </s>. It is simple.",
        "The roles say who speaks.\n\nsystem\nSets the behaviour of the model.\nuser\nAsks the questions."
        "\nassistant\nHolds the answers of the model.\n",
        ANSWER + "\n\nOur apps are called com.acme.assistant\n\nAnd that is all there is to say about them.",
        ANSWER
        + "\nThe old <s>price of the bridge</s>\nwas changed <s>in the year 1901</s>\nand again later.",
        ANSWER + "\n\n### Human: about 280 days\nBorn helpless.\n\n### Mouse: about 20 days\nBorn blind.",
        ANSWER + "\n\n### User: read only\nThey read.\n\n### Assistant: read and write\nThey answer it all.",
        "A conversation looks like this:\n\n"
        + TEMPLATES["chatml"].format("Hi", "Hello").removeprefix("<|im_end|>\n"),
        ANSWER + "\nLlama 2 has </s>\nat the end, and another family has <|im_end|>\nfor the same purpose.",
        "| model | user | assistant |\n|---|---|---|\n| Qwen | <|im_start|>user | <|im_start|>assistant |\n"
        "| Gemma | <start_of_turn>user | <start_of_turn>model |",
        "An example of such an exchange:\n\n### Human: Where is it?\n### Assistant: At sea, they say.",
        "Three samples for you:\n\nUser: Where is it?\nAssistant: At sea.\n\nUser: Why?\nAssistant: It sank.",
    ],
    ids=[
        "code",
        "inline",
        "dialogue",
        "harmony",
        "list",
        "labels",
        "indented",
        "string",
        "form",
        "roles",
        "names",
        "struck out",
        "species",
        "permissions",
        "template shown",
        "tokens named",
        "table",
        "announced",
        "samples",
    ],
)
def test_marks_that_end_no_turn(text: str) -> None:
    """Explained, quoted, asked for, or another channel of the same turn."""
    assert judge(text, finish="stop").symptom is not SymptomKind.EXTRA_TURNS


def test_a_frameworks_turns_are_no_model_talking_to_itself() -> None:
    """Rollouts of agents log tools' responses as the user's turns within one text."""
    response = "<tool_response>\n{0}\n</tool_response>"
    tool = f"<|im_end|>\n<|im_start|>user\n{response}<|im_end|>\n<|im_start|>assistant\n{{1}}"
    skipped = f"\nuser\n{response}\nassistant\n{{1}}"
    for template in (tool, skipped):
        assert judge(run_on(template)).symptom is None
        assert judge(run_on(template.replace("<tool_response>", "Observation: "))).symptom is None


@pytest.mark.slow
@given(st.integers(0, 200), st.lists(st.integers(0, 2), min_size=1, max_size=12))
def test_tools_turns_are_the_frameworks_wherever_a_block_ends(words: int, calls: list[int]) -> None:
    """What tells them from a user's turn comes after the mark, and may not have arrived with it."""
    answer = ANSWER + " word" * words
    response = "<tool_response>\n{0}\n</tool_response>"
    turn = f"<|im_end|>\n<|im_start|>user\n{response}<|im_end|>\n<|im_start|>assistant\n{{1}}"
    skipped = f"\nuser\n{response}\nassistant\n{{1}}"
    for template in (turn, skipped):
        text = answer + "".join(template.format(ASKED[n], ANSWERS[n]) for n in calls)
        assert SymptomKind.EXTRA_TURNS not in {s.kind for s in judge(text).symptoms}


@pytest.mark.parametrize(
    "template",
    [
        "<|im_end|>\n<|im_end|><|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n{0}<|im_end|>\n"
        "<|im_start|>assistant\n{1}",
        "\nsystem\nYou help.\nuser\n{0}\nassistant\n{1}",
    ],
    ids=["shown", "skipped"],
)
def test_a_whole_new_chat_begins(template: str) -> None:
    """As SmolLM2-135M-Instruct does on vLLM with `ignore_eos`: a system's message counts as a turn."""
    again = TEMPLATES["chatml" if "<|" in template else "chatml, tokens skipped"]
    found = judge(ANSWER + template.format(ASKED[0], ANSWERS[0]) + again.format(ASKED[1], ANSWERS[1]))
    assert found.symptom is SymptomKind.EXTRA_TURNS
    assert found.onset is not None
    assert found.onset <= len(text_tokens(ANSWER)) + 2


@pytest.mark.parametrize("end", [" 😊", "。", "**", "`", "]", "$$"])
def test_a_role_is_glued_to_whatever_ends_a_turn(end: str) -> None:
    """Where special tokens are skipped, Llama 3's role follows the last sign of the turn at once."""
    text = "assistant\n\n".join(f"{answer}{end}" for answer in (ANSWER, *ANSWERS))
    assert judge(text).symptom is SymptomKind.EXTRA_TURNS


@pytest.mark.parametrize("name", ["chatml", "chatml, tokens skipped", "mistral", "llama 3", "vicuna"])
def test_a_whole_conversation_is_no_answer_that_ran_on(name: str) -> None:
    """Pipelines and training data keep prompt and answer in one text, which begins with the user's turn."""
    first = TEMPLATES[name].removeprefix("<|im_end|>\n").removeprefix("<|eot_id|>").removeprefix("</s>")
    turns = run_on(TEMPLATES[name]).removeprefix(ANSWER)
    text = ("<s>" if name == "mistral" else "") + first.lstrip().format(PROMPT, ANSWER) + turns
    for prompt in ("", PROMPT, text.partition(ANSWER)[0]):
        assert judge(text, prompt, "stop").symptom is None


def test_code_that_the_prompt_opened_ends_where_the_answer_closes_it() -> None:
    """Evaluations of code prefill the fence; a block may stand within another."""
    run = run_on(TEMPLATES["chatml, tokens skipped"]).removeprefix(ANSWER)
    prompt = f"{PROMPT} Use code.\n```python\n"
    assert judge(f"port = 'harbour'\n```\n{ANSWER}{run}", prompt).symptom is SymptomKind.EXTRA_TURNS
    assert judge(f"port = 'harbour'\n{run}", prompt).symptom is None
    nested = "```md\nRun it:\n```bash\nmake\n```\n```\n"
    assert judge(f"{nested}{ANSWER}{run}").symptom is SymptomKind.EXTRA_TURNS


def test_labels_need_a_prompt_that_asks_for_no_dialogue() -> None:
    """ "Human:" and "Assistant:" are what a dialogue is written with; only a known prompt tells them apart.
    A prompt that is a template's own text asks for one turn."""
    text = run_on(TEMPLATES["anthropic"])
    assert judge(text, "").symptom is None
    assert judge(text, "Write a dialogue about a harbour town, after a short introduction.").symptom is None
    assert judge(text, f"Answer in this form:\nHuman: …\nAssistant: …\n\n{PROMPT}").symptom is None
    system = (
        "You are a helpful AI assistant. Follow the user's instructions; give examples and a description."
    )
    assert judge(text, f"{system}\n\n{PROMPT}").symptom is SymptomKind.EXTRA_TURNS
    for begun in ("", " Let's think step by step."):
        assert judge(text, f"Human: {PROMPT}\n\nAssistant:{begun}").symptom is SymptomKind.EXTRA_TURNS
    rendered = "[INST] Write a dialogue of a human and an assistant about a harbour town. [/INST]"
    assert judge(text, rendered).symptom is None


def test_special_tokens_in_the_prompt_are_written_about_unless_it_is_a_template() -> None:
    """A question on chat templates is answered with their marks; a completion's prompt ends in one."""
    text = run_on(TEMPLATES["chatml"])
    assert judge(text, "What does <|im_start|>user mean in a model's output?").symptom is None
    raw = f"<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n"
    for begun in ("", "<think>\n\n</think>\n\n", "The town"):
        assert judge(text, raw + begun).symptom is SymptomKind.EXTRA_TURNS


def test_a_turn_that_has_only_begun_is_in_doubt_where_the_cap_cut_it() -> None:
    """An answer that ended by itself, with a role's name somewhere in it, is sound to its end."""
    text = f"{ANSWER}\nuser\n{ASKED[0]} The models of that time are lost."
    cut, ended = judge(text, finish="length"), judge(text, finish="stop")
    assert cut.observed < ended.observed == ended.tokens
    assert not cut.degenerate


def test_reasoning_is_not_read() -> None:
    """A model that thinks about a chat in its reasoning still answers in one turn."""
    assert judge(f"<think>{run_on(TEMPLATES['chatml'])}</think>{ANSWER}", finish="stop").symptom is None


@pytest.mark.parametrize(
    "prompt",
    [
        "You are a friendly conversational AI assistant.",
        "You write a bash script for each question.",
        "Mind the pair.",
    ],
)
def test_names_of_roles_on_lines_of_their_own_are_no_dialogue(prompt: str) -> None:
    """Llama 3 without its stop token writes further turns; a word such as "conversational" in the system
    prompt hid them."""
    text = run_on(TEMPLATES["chatml, tokens skipped"])
    assert judge(text, prompt).symptom is SymptomKind.EXTRA_TURNS
    assert judge(text, f"{prompt} Write training data for a chat model.").symptom is None


@pytest.mark.parametrize("name", ["chatml", "chatml, tokens skipped"])
@pytest.mark.parametrize(
    ("prompt", "requested"),
    [
        (f"{PROMPT}\nSure:\n```python\nprint(1)\nAnd then?", f"{PROMPT}\nAnd then?"),  # cut by its cap
        (f"{PROMPT}\nYes.<|im_end|>\n<|im_start|>user\nMore\nAnd then?", f"{PROMPT}\nAnd then?"),
        (f"{PROMPT}\n```\na log that is not closed", None),
    ],
    ids=["a block of its own", "a turn past its end", "the user's block"],
)
def test_what_was_said_before_hides_no_turn(name: str, prompt: str, requested: str | None) -> None:
    """The model's earlier turn that ran on, or was cut in a block of code, or a result of a tool: extra turns
    were blind behind it, and 203 was certified where 106 was safe."""
    spec = DetectorSpec(language="en", prompt_text=prompt, requested_text=requested)
    verdict = detect_text(run_on(TEMPLATES[name]), spec, "length")
    assert verdict.symptom is SymptomKind.EXTRA_TURNS
