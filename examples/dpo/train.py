"""SFT on the chosen answers of an export, then DPO on its pairs, on a few projections of the last layers."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from datasets import Dataset, load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

PROJECTIONS = ("q_proj", "v_proj", "o_proj", "down_proj")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="folder or name of the base model")
    parser.add_argument("--pairs", required=True, help="of stresstest export dpo")
    parser.add_argument("--out", default="trained", help="folder for sft/ and dpo/")
    parser.add_argument("--max-length", type=int, default=1024, help="as export printed it")
    parser.add_argument("--layers", type=int, default=10, help="last layers that are trained")
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--rate", type=float, default=2e-5)
    parser.add_argument("--no-sft-term", action="store_true", help="for pairs of --at-onset")
    asked = parser.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(asked.model)
    rows = load_dataset("json", data_files=asked.pairs, split="train").select_columns(
        ["prompt", "chosen", "rejected"]
    )
    shared = {
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "num_train_epochs": asked.epochs,
        "learning_rate": asked.rate,
        "lr_scheduler_type": "constant",
        "max_length": asked.max_length,
        "bf16": torch.cuda.is_available(),
        "gradient_checkpointing": False,
        "save_strategy": "no",
        "logging_steps": 1,
        "report_to": "none",
        "seed": 1,
    }

    sft, dpo = Path(asked.out) / "sft", Path(asked.out) / "dpo"
    model = load(asked.model, asked.layers)
    SFTTrainer(
        model=model,
        args=SFTConfig(output_dir=str(sft), **shared),
        train_dataset=healthy(rows),
        processing_class=tokenizer,
    ).train()
    save(model, tokenizer, sft)

    loss = {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.2]}
    if asked.no_sft_term:
        loss = {"loss_type": ["sigmoid"]}
    # The reference is the model after SFT: its log-probabilities are computed once, before the first step.
    model = load(sft, asked.layers)
    DPOTrainer(
        model=model,
        args=DPOConfig(output_dir=str(dpo), beta=0.1, precompute_ref_log_probs=True, **loss, **shared),
        train_dataset=rows,
        processing_class=tokenizer,
    ).train()
    save(model, tokenizer, dpo)


def load(source: str | Path, layers: int) -> PreTrainedModel:
    """The model, of which only the projections of the last layers are trained."""
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    model.requires_grad_(False)
    for layer in model.model.layers[-layers:]:
        for name, module in layer.named_modules():
            if name.endswith(PROJECTIONS):
                module.requires_grad_(True)
    return model


def healthy(rows: Dataset) -> Dataset:
    """The chosen answers, each once, as prompts with completions."""
    kept = {repr(row): row for row in ({"prompt": r["prompt"], "completion": r["chosen"]} for r in rows)}
    return Dataset.from_list(list(kept.values()))


def save(model: PreTrainedModel, tokenizer: AutoTokenizer, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main()
