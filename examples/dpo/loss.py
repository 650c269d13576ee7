"""Mean loss a token of models on answers to prompts: JSON Lines with prompt, text and group; prints JSON.

For what training must not spoil: healthy answers that no model was trained on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("answers")
    parser.add_argument("--model", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--max-length", type=int, default=512)
    asked = parser.parse_args()

    rows = [json.loads(line) for line in Path(asked.answers).read_text("utf-8").splitlines()]
    found = {}
    for name, _, folder in (each.partition("=") for each in asked.model):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
        for row in rows:
            turns = [{"role": "user", "content": row["prompt"]}]
            prompt = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
            begins = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
            ids = tokenizer(prompt + row["text"], add_special_tokens=False, return_tensors="pt")["input_ids"]
            ids = ids[:, : asked.max_length]
            with torch.inference_mode():
                logits = model(ids).logits[0, begins - 1 : -1]
            losses = torch.nn.functional.cross_entropy(logits, ids[0, begins:], reduction="sum")
            sums[row["group"]][0] += float(losses)
            sums[row["group"]][1] += ids.shape[1] - begins
        found[name] = {
            group: {"loss": total / tokens, "tokens": tokens} for group, (total, tokens) in sums.items()
        }
    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
