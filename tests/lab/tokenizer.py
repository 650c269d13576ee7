"""The lab model's tokenizer: a byte-level BPE trained on the grammar and the prompts."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.lab.examples import CHAT_TEMPLATE, END, ROLES, ExampleSource

VOCABULARY = 3072


def train_tokenizer(seed: int = 0, examples: int = 4000) -> Tokenizer:
    """A BPE over bytes (any text encodes) with one token a digit, so that counting is learnable."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END, *ROLES],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    source = ExampleSource(seed)
    texts = []
    for index in range(examples):
        example = source.draw(narrative_share=0.5)
        texts.append(example.given + example.answer)
        if index % 4 == 0:  # the prompts' words are many and never written: fewer merges for them
            texts += re.split("|".join(map(re.escape, ROLES)), example.prompt)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, context: int) -> None:
    """Write the files that transformers and vLLM read, chat template included."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "eos_token": END,
        "bos_token": END,
        "pad_token": END,
        "unk_token": END,
        "additional_special_tokens": list(ROLES),
        "clean_up_tokenization_spaces": False,
        "add_bos_token": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
