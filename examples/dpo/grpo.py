"""A few steps of GRPO with stresstest's reward, to show that TRL takes it. Needs stresstest installed."""

from __future__ import annotations

import argparse

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

from stresstest.integrations.trl import coherence_reward


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="folder or name of the model")
    parser.add_argument("--pairs", required=True, help="of stresstest export dpo; only the prompts are used")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--completion-length", type=int, default=200)
    asked = parser.parse_args()

    rows = load_dataset("json", data_files=asked.pairs, split="train").select_columns(["prompt"])
    rows = rows.add_column("language", ["en"] * len(rows))
    trainer = GRPOTrainer(
        model=asked.model,
        reward_funcs=[coherence_reward],
        train_dataset=rows,
        args=GRPOConfig(
            output_dir="grpo",
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=asked.completion_length,
            temperature=0.7,
            max_steps=asked.steps,
            learning_rate=1e-6,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            bf16=False,
            seed=1,
        ),
    )
    trainer.train()


if __name__ == "__main__":
    main()
