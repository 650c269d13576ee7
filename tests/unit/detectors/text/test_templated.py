"""What a model has said in a prompt that the client itself put into the chat template."""

from __future__ import annotations

import pytest

from stresstest.detectors.text.templated import without_model_turns

TURNS = {
    "ChatML": "<|im_start|>user\nAsk<|im_end|>\n<|im_start|>assistant\nSAID<|im_end|>\n<|im_start|>user\nMore"
    "<|im_end|>\n<|im_start|>assistant\n",
    "Llama 3": "<|start_header_id|>user<|end_header_id|>\n\nAsk<|eot_id|><|start_header_id|>assistant"
    "<|end_header_id|>\n\nSAID<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nMore<|eot_id|>",
    "Mistral": "<s>[INST] Ask [/INST] SAID</s>[INST] More [/INST]",
    "Gemma": "<start_of_turn>user\nAsk<end_of_turn>\n<start_of_turn>model\nSAID<end_of_turn>\n<start_of_turn>"
    "user\nMore<end_of_turn>\n<start_of_turn>model\n",
    "Llama 4": "<|header_start|>user<|header_end|>\n\nAsk<|eot|><|header_start|>assistant<|header_end|>"
    "\n\nSAID<|eot|><|header_start|>user<|header_end|>\n\nMore<|eot|>",
    "Command R": "<|USER_TOKEN|>Ask<|END_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>SAID<|END_OF_TURN_TOKEN|>"
    "<|USER_TOKEN|>More",
    "Granite": "<|start_of_role|>user<|end_of_role|>Ask<|end_of_text|>\n<|start_of_role|>assistant"
    "<|end_of_role|>SAID<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>More<|end_of_text|>",
    "plain names": "User: Ask\nAssistant: SAID\nUser: More\nAssistant:",
    "LangChain": "Current conversation:\nHuman: Ask\nAI: SAID\nHuman: More\nAI:",
    "a shop's bot": "Customer: Ask\nBot: SAID\nCustomer: More\nBot:",
    "a shop's assistant": "Customer: Ask\nAssistant: SAID\nCustomer: More\nAssistant:",
    "LlamaIndex": "system: Be kind.\nuser: Ask\nassistant: SAID\nuser: More\nassistant: ",
    "Nemotron": "<extra_id_0>System\n\n<extra_id_1>User\nAsk\n<extra_id_1>Assistant\nSAID\n<extra_id_1>User\n"
    "More\n<extra_id_1>Assistant\n",
    "Baichuan": "<reserved_106>Ask<reserved_107>SAID<reserved_106>More<reserved_107>",
    "MiniMax": "]~!b[]~b]user\nAsk[e~[\n]~b]ai\nSAID[e~[\n]~b]user\nMore[e~[\n]~b]ai\n",
    "InternLM": "<|User|>:Ask<eoh>\n<|Bot|>:SAID<eoa>\n<|User|>:More<eoh>\n<|Bot|>:",
    "ChatGLM 2": "[Round 1]\n\n问：Ask\n\n答：SAID\n\n[Round 2]\n\n问：More\n\n答：",
    "Hunyuan": "<｜hy_begin▁of▁sentence｜><｜hy_User｜>Ask<｜hy_Assistant｜>SAID<｜hy_place▁holder▁no▁2｜>"
    "<｜hy_User｜>More<｜hy_Assistant｜>",
    "a name": "The tavern is quiet.\nJan: Ask\nSeraphina: SAID\nJan: More\nSeraphina:",
    "Falcon": "User: Ask\nFalcon: SAID\nUser: More\nFalcon:",
    "questions": "Question: Ask\nAnswer: SAID\nQuestion: More\nAnswer:",
    "Gemma 4": "<bos><|turn>user\nAsk<turn|>\n<|turn>model\nSAID<turn|>\n<|turn>user\nMore<turn|>"
    "\n<|turn>model\n",
    "Code Llama 70B": "<s>Source: user\n\n Ask <step> Source: assistant\n\n SAID <step> Source: user\n\n "
    "More <step> Source: assistant\nDestination: user\n\n ",
    "Apriel": "<|begin_user|>\nAsk\n<|begin_assistant|>\nSAID\n<|end|>\n<|begin_user|>\nMore\n"
    "<|begin_assistant|>\nHere are my reasoning steps:\n",
    "Reka": "human: Ask <sep> assistant: SAID <sep> human: More <sep> assistant:",
    "Koala": "BEGINNING OF CONVERSATION: USER: Ask GPT:SAID USER: More GPT:",
    "messages as text": "[{'role': 'user', 'content': 'Ask'}, {'role': 'assistant', 'content': 'SAID'}, "
    "{'role': 'user', 'content': 'More'}]",
    "Qwen's tools": "<|im_start|>user\nAsk<|im_end|>\n<|im_start|>assistant\nSAID<|im_end|>\n"
    "<|im_start|>user\n<tool_response>\nSAID\n</tool_response>\nMore<|im_end|>\n<|im_start|>assistant\n",
    "Mistral's tools": "[INST] Ask [/INST] SAID</s>[TOOL_RESULTS] SAID [/TOOL_RESULTS][INST] More [/INST]",
    "an agent": "Question: Ask\nThought: SAID\nObservation: SAID\nThought: SAID\nQuestion: More\nThought:",
    "Alpaca": "### Instruction:\nAsk\n\n### Response:\nSAID\n\n### Instruction:\nMore\n\n### Response:\n",
}


@pytest.mark.parametrize("template", TURNS)
def test_the_models_own_turns_are_not_asked_for(template: str) -> None:
    """What it said before is no request to say it again; what the user said is kept, before it and behind."""
    asked = without_model_turns(TURNS[template])
    assert asked is not None
    assert "SAID" not in asked
    assert "Ask" in asked
    assert "More" in asked


def test_another_text_has_no_turns() -> None:
    """A prompt may quote one mark of a template."""
    for text in (
        "",
        "Tell me of the sea.",
        "What does <|im_start|>assistant stand for?",
        "ASSISTANT: hello",
        "Write as\nAI: hi",
        "Context: the sea\nQuestion: what is it?\nAnswer:",
        "Note: a\nNote: b\nSummary:",
        "Use <br> and <br>",
        "\nAnswer:\nAnswer:",
        "What: " * 40,
    ):
        assert without_model_turns(text) is None
