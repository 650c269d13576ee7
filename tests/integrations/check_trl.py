"""What `export dpo` and `export kto` write is read by TRL's own trainers, and GRPO takes the reward.

A random model of two layers is enough: nothing is downloaded.
build/integrations/trl/bin/python -m pytest tests/integrations/check_trl.py
"""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, load_dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, KTOConfig, KTOTrainer, is_conversational
from trl.rewards import get_repetition_penalty_reward

from stresstest.integrations.trl import coherence_reward
from tests.support.commands import command
from tests.support.stories import LOOP, story

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QUESTIONS = ("Tell me of the sea.", "Tell me of the road.", "Tell me of a «tower» called naïveté 🗼.")
CPU = {"use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no", "logging_steps": 1}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE with a chat template of the usual kind."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|im_start|>", "<|im_end|>", "<|pad|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator([story(40, seed=n) for n in range(5)], trainer)
    found = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|pad|>")
    found.chat_template = TEMPLATE
    return found


@pytest.fixture
def model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=4096,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


Rows = list[dict[str, Any]]
KINDS = pytest.mark.parametrize("strings", [False, True], ids=["messages", "strings"])


def exported(folder: Path, kind: str, strings: bool) -> tuple[Dataset, Rows, dict[str, Any]]:
    """An export of a log as TRL's users load it, the rows of the file, and the printed configuration."""
    log, output = folder / "log.jsonl", folder / "out.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in answers(strings)), encoding="utf-8")
    words = ["--display", "none", "export", kind, str(log), "--lang", "en", "--held-out", "0"]
    code, out, err = command(*words, "-o", str(output), "--json", *(["--strings"] if strings else []))
    assert code == 0, err
    written = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    cache = str(folder / "cache")
    data = load_dataset("json", data_files=str(output), split="train", cache_dir=cache)
    return data, written, json.loads(out)["training"]


def answers(strings: bool) -> Rows:
    """A healthy and a looping answer to each question. Not all have token counts or a system prompt: the type
    of a column must not hang on its first row."""
    found: Rows = []
    for n, question in enumerate(QUESTIONS):
        turns = [{"role": "system", "content": "Be brief."}] * (n % 2)
        given: dict[str, Any] = {"model": "m", "request": {"temperature": 0.2, "max_tokens": 900}}
        given |= (
            {"prompt": question} if strings else {"messages": [*turns, {"role": "user", "content": question}]}
        )
        given |= {"completion_tokens": 300, "prompt_tokens": 20} if n == 2 else {}
        looping = story(1, seed=n + 10) + f" {LOOP}" * 40
        found.append({**given, "id": f"good{n}", "response": story(3, seed=n), "finish_reason": "stop"})
        found.append({**given, "id": f"bad{n}", "response": looping, "finish_reason": "length"})
    return found


def rendered(prompt: Any, answer: Any) -> str:
    """What the model is trained on, written out by hand."""
    if isinstance(prompt, str):
        return f"{prompt}{answer}<|im_end|>"
    turns = (f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n" for turn in [*prompt, *answer])
    return "".join(turns)


def trained(trainer: Any) -> dict[str, float]:
    """What the trainer logged of its last step."""
    trainer.train()
    logged: list[dict[str, float]] = [each for each in trainer.state.log_history if "loss" in each]
    return logged[-1]


@KINDS
def test_dpo_trainer_reads_the_pairs_as_they_were_written(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, model: LlamaForCausalLM, strings: bool
) -> None:
    """load_dataset gives back every row. DPOTrainer takes the printed configuration, tokenises prompt and
    answers to the very text that was exported, parts them where the answer begins, and trains two epochs."""
    data, written, config = exported(tmp_path, "dpo", strings)
    assert data.select_columns(["prompt", "chosen", "rejected"]).to_list() == [
        {name: row[name] for name in ("prompt", "chosen", "rejected")} for row in written
    ]
    assert len(data) == len(QUESTIONS)
    assert all(is_conversational(row) is not strings for row in data)
    trainer = DPOTrainer(
        model=model,
        args=DPOConfig(output_dir=str(tmp_path / "dpo"), **CPU, **config),
        train_dataset=data,
        processing_class=tokenizer,
    )
    for prepared, row in zip(trainer.train_dataset, written, strict=True):
        for side in ("chosen", "rejected"):
            ids = prepared["prompt_ids"] + prepared[f"{side}_ids"]
            assert tokenizer.decode(ids) == rendered(row["prompt"], row[side])
            assert len(ids) <= config.get("max_length", 1024)
            answer = row[side] if strings else row[side][0]["content"]
            assert tokenizer.decode(prepared[f"{side}_ids"]).startswith(answer)
    step = trained(trainer)
    assert all(math.isfinite(step[name]) for name in ("loss", "rewards/margins"))


@KINDS
def test_kto_trainer_reads_the_labels(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, model: LlamaForCausalLM, strings: bool
) -> None:
    """The same of single answers: labels are booleans, and each stays with its own answer."""
    data, written, config = exported(tmp_path, "kto", strings)
    assert data["label"][:] == [row["label"] for row in written]
    assert sum(data["label"]) == len(QUESTIONS) == len(data) - sum(data["label"])
    trainer = KTOTrainer(
        model=model,
        ref_model=copy.deepcopy(model),
        args=KTOConfig(output_dir=str(tmp_path / "kto"), **CPU, **config),
        train_dataset=data,
        processing_class=tokenizer,
    )
    for prepared, row in zip(trainer.train_dataset, written, strict=True):
        ids = prepared["prompt_ids"] + prepared["completion_ids"]
        assert tokenizer.decode(ids) == rendered(row["prompt"], row["completion"])
        assert prepared["label"] is row["label"]
    assert math.isfinite(trained(trainer)["loss"])


@KINDS
def test_grpo_trainer_takes_the_reward(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, model: LlamaForCausalLM, strings: bool
) -> None:
    """Two steps on exported prompts, beside a reward of TRL's own: it is called with TRL's arguments and a
    column of ours, and logged by its name."""
    data, _, _ = exported(tmp_path, "dpo", strings)
    prompts = data.select_columns(["prompt"]).add_column("language", ["en"] * len(data))
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[coherence_reward, get_repetition_penalty_reward(4, -1.0)],
        args=GRPOConfig(
            output_dir=str(tmp_path / "grpo"),
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=200,
            max_steps=2,
            **CPU,
        ),
        train_dataset=prompts,
        processing_class=tokenizer,
    )
    step = trained(trainer)
    assert trainer.state.global_step == 2
    assert -1.0 <= step["rewards/coherence_reward/mean"] <= 0.0


def test_the_reward_agrees_with_trls_own_on_a_loop(tokenizer: PreTrainedTokenizerFast) -> None:
    """Called as TRL's penalty is, with texts and with messages: either takes a loop for worse."""
    texts = [story(3), story(1) + f" {LOOP}" * 40]
    ids = [tokenizer(text)["input_ids"] for text in texts]
    kept, lost = get_repetition_penalty_reward(4, -1.0)(completion_ids=ids)
    assert lost < kept
    for completions in (texts, [[{"role": "assistant", "content": text}] for text in texts]):
        ours = coherence_reward(prompts=QUESTIONS[:2], completions=completions, completion_ids=ids)
        assert ours[0] == 0.0
        assert -1.0 <= ours[1] < -0.5
