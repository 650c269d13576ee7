"""Reads an export as TRL does, and says what a trainer sees of it; fails where TRL would misread it."""

from __future__ import annotations

import argparse
import sys

from datasets import load_dataset
from transformers import AutoTokenizer
from trl import apply_chat_template, is_conversational


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="of stresstest export dpo or kto")
    parser.add_argument("--model", required=True, help="folder or name of the model to train")
    parser.add_argument("--max-length", type=int, default=1024)
    asked = parser.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(asked.model)
    rows = load_dataset("json", data_files=asked.file, split="train").remove_columns("metadata")
    answers = [name for name in ("chosen", "rejected", "completion") if name in rows.column_names]
    cut = 0
    for row in rows:
        read = apply_chat_template(row, tokenizer) if is_conversational(row) else row
        for name in answers:
            given = row[name][0]["content"] if is_conversational(row) else row[name]
            assert given.strip() in read[name], f"the chat template changes an answer: {read[name][:80]!r}"
            length = len(tokenizer(read["prompt"] + read[name], add_special_tokens=False)["input_ids"])
            cut += length > asked.max_length
    sys.stdout.write(
        f"{len(rows)} rows of {', '.join(rows.column_names)}; {cut} answers are longer than "
        f"{asked.max_length} tokens with their prompt\n"
    )


if __name__ == "__main__":
    main()
