"""Prompts with the chat template already applied: the model's own turns in them are not requests."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ASKING = ("\nUser:", "\nuser:", "\nHuman:", "\nCustomer:", "\nClient:", "\nStudent:")
_TEMPLATES = (
    ("<|im_start|>assistant", ("<|im_end|>", "<|im_start|>")),
    ("<|start_header_id|>assistant<|end_header_id|>", ("<|eot_id|>", "<|start_header_id|>")),
    ("<start_of_turn>model", ("<end_of_turn>", "<start_of_turn>")),
    ("<|start|>assistant", ("<|end|>", "<|return|>", "<|start|>")),
    ("<|assistant|>", ("<|end|>", "<|user|>", "</s>")),
    ("<｜Assistant｜>", ("<｜end▁of▁sentence｜>", "<｜User｜>")),
    ("[/INST]", ("</s>", "[INST]")),
    ("### Response:", ("### Instruction:", "### Input:")),
    ("<|header_start|>assistant<|header_end|>", ("<|eot|>", "<|header_start|>")),
    ("<|CHATBOT_TOKEN|>", ("<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>")),
    ("<|start_of_role|>assistant", ("<|end_of_text|>", "<|start_of_role|>")),
    ("<|im_assistant|>", ("<|im_end|>", "<|im_user|>")),
    ("<seed:bos>assistant", ("<seed:eos>", "<seed:bos>")),
    ("[|assistant|]", ("[|endofturn|]", "[|user|]")),
    ("ASSISTANT:", ("USER:", "</s>")),
    ("Assistant:", ("User:", "Human:")),
    ("\nAI:", ("\nHuman:", "\nUser:")),
    *((f"\n{name}:", _ASKING) for name in ("Assistant", "assistant", "Bot", "Chatbot", "Agent", "Model")),
    ("<extra_id_1>Assistant", ("<extra_id_1>User",)),
    ("<reserved_107>", ("<reserved_106>",)),
    ("]~b]ai", ("[e~[", "]~b]user")),
    ("<|Bot|>:", ("<eoa>", "<|User|>:")),
    ("答：", ("问：",)),
    ("<|turn>model", ("<turn|>", "<|turn>")),
    ("Source: assistant", ("<step>", "Source: user")),
    ("<|begin_assistant|>", ("<|end|>", "<|begin_user|>")),
    ("<|BOT|>assistant", ("<|EOT|>", "<|BOT|>")),
    ("<sep> assistant:", ("<sep>",)),
    (" GPT:", (" USER:", "</s>")),
    ('<message role="assistant">', ("</message>",)),
    ("'role': 'assistant', 'content': ", ("'}", '"}')),
    ('"role": "assistant", "content": ', ('"}',)),
)
"""What begins a turn of the model's, and what ends it: ChatML, Llama 3, Gemma, Harmony, Phi and Zephyr,
DeepSeek, Mistral, Alpaca, Llama 4, Command R, Granite, Kimi, Seed, EXAONE, Vicuna, plain names, LangChain,
LlamaIndex, Nemotron, Baichuan, MiniMax, InternLM 1, ChatGLM 2, Gemma 4, Code Llama 70B, Apriel, Step, Reka,
Koala, Semantic Kernel, lists of messages as text."""
_TOOLS = (
    ("<tool_response>", ("</tool_response>",)),
    ("<|im_start|>tool", ("<|im_end|>",)),
    ("<|start_header_id|>ipython<|end_header_id|>", ("<|eot_id|>", "<|start_header_id|>")),
    ("<|header_start|>ipython<|header_end|>", ("<|eot|>", "<|header_start|>")),
    ("[TOOL_RESULTS]", ("[/TOOL_RESULTS]", "[INST]", "</s>")),
    ("<|observation|>", ("<|assistant|>", "<|user|>")),
    ("<|im_system|>tool", ("<|im_end|>",)),
    ("<｜tool▁outputs▁begin｜>", ("<｜tool▁outputs▁end｜>",)),
    ("<|start|>functions.", ("<|end|>", "<|start|>")),
    ("<start_of_turn>tool", ("<end_of_turn>",)),
    *((f"\n{name}:", ("\nThought:", "\nAI:", "\nHuman:", "\nQuestion:")) for name in ("Tool", "Observation")),
)
"""The same of what tools returned: of Qwen and Hermes, Llama 3 and 4, Mistral, GLM, Kimi, DeepSeek, gpt-oss,
Gemma, LangChain and agents that reason and act."""
_ENDING = 80
"""Characters of a prompt's end in which the head of the model's turn is looked for."""
_TOKEN = re.compile(r"[<‹][^<>‹›\s]{1,40}[>›]")
_LABEL = re.compile(r"(?m)^[^\n:：]{1,40}[:：]")


_SYSTEMS = (
    ("<|im_start|>system", ("<|im_end|>",)),
    ("<|start_header_id|>system<|end_header_id|>", ("<|eot_id|>",)),
    ("<|header_start|>system<|header_end|>", ("<|eot|>",)),
    ("<|start|>system", ("<|end|>",)),
    ("<|start|>developer", ("<|end|>",)),
    ("<|start_of_role|>system", ("<|end_of_text|>",)),
    ("<|im_system|>", ("<|im_end|>",)),
    ("<|system|>", ("<|end|>", "</s>", "<|user|>")),
    ("<seed:bos>system", ("<seed:eos>",)),
    ("[SYSTEM_PROMPT]", ("[/SYSTEM_PROMPT]",)),
    ("[|system|]", ("[|endofturn|]",)),
    ("<<SYS>>", ("<</SYS>>",)),
)
"""The same of the system's turn."""


def system_turn(prompt: str) -> tuple[int, int] | None:
    """The characters [begin, end) of the system's turn in a known template; None where there is none."""
    for begins, ends in _SYSTEMS:
        first = prompt.find(begins)
        if first >= 0:
            begin = first + len(begins)
            found = [at for end in ends if (at := prompt.find(end, begin)) >= 0]
            return (begin, min(found)) if found else None
    return None


def without_model_turns(prompt: str) -> str | None:
    """The prompt without what the model has said in it, and tools returned; None where no turn of theirs is
    recognised: in a known template, or in one whose head of such a turn stands at the end of the prompt and
    before."""
    asked = _without_own_turns(prompt)
    before = kept = f"\n{prompt if asked is None else asked}"  # a label may be the first of all
    for begins, ends in _TOOLS:
        if begins in kept:
            kept = _without(kept, begins, _any_of(ends))
    return asked if kept == before else kept.removeprefix("\n")


def asked_in(contents: Sequence[str], *, all_of_them: bool) -> str | None:
    """What was asked in the messages that are neither the model's nor a tool's, some of which may hold a
    history. all_of_them: there are no others; then None where nothing is taken out of them."""
    asked = list(map(without_model_turns, contents))
    if all_of_them and all(each is None for each in asked):
        return None
    return "\n".join(whole if each is None else each for whole, each in zip(contents, asked, strict=True))


def _without_own_turns(prompt: str) -> str | None:
    for begins, ends in _TEMPLATES:
        first = prompt.find(begins)
        if first < 0:
            continue
        others = _any_of(ends)
        if others.search(prompt, first + len(begins)):
            return _without(prompt, begins, others)
    heads = _heads_at_its_end(prompt)
    return None if heads is None else _without(prompt, heads[0], _any_of(heads[1:]))


def _any_of(texts: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, texts)))


def _heads_at_its_end(prompt: str) -> tuple[str, str] | None:
    """What begins the model's turns and the user's, in a template that is not known: the former is how the
    prompt ends, and stood in it before; the latter stands before each. Examples of an application's, as in
    "Question: … Answer: …", are such turns too."""
    text = prompt.rstrip()
    for shape, before in ((_TOKEN, ""), (_LABEL, "\n")):
        own = next((m.group() for m in shape.finditer(text[-_ENDING:]) if text.endswith(m.group())), None)
        if own is None:
            continue
        last, earlier = len(text) - len(own), text.rfind(before + own, 0, len(text) - len(own) - 1)
        if earlier < 0:
            continue
        known = {m.group() for m in shape.finditer(text[:earlier])} - {own}
        between = [m.group() for m in shape.finditer(text[earlier + len(own) : last])]
        other = next((head for head in reversed(between) if head in known), None)
        if other is not None:
            return before + own, before + other
    return None


def _without(prompt: str, begins: str, ends: re.Pattern[str]) -> str:
    kept: list[str] = []
    at = 0
    while (start := prompt.find(begins, at)) >= 0:
        kept.append(prompt[at:start])
        end = ends.search(prompt, start + len(begins))
        if end is None:
            return "".join(kept)
        at = end.start()
    return "".join([*kept, prompt[at:]])
