"""Converts a Llama GGUF file to a float32 Hugging Face folder: `python convert_gguf.py SOURCE GGUF TARGET`.

Called by `fetch_model` with the interpreter of vLLM's environment, which has torch and transformers; it
imports nothing of this project.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def convert(source: Path, gguf: str, target: Path) -> None:
    """Read `source`/`gguf`, dequantise it, and write model and tokenizer to `target`.

    transformers refuses to save a model that was read from GGUF, so its state is copied into a new model with
    the same configuration. Both libraries are imported by name because only vLLM's environment has them.
    """
    torch = import_module("torch")
    transformers = import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, gguf_file=gguf)
    read = transformers.AutoModelForCausalLM.from_pretrained(source, gguf_file=gguf, dtype=torch.float32)
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = type(read)(config)
    model.load_state_dict(read.state_dict())
    model.tie_weights()
    model.to(torch.float32)
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
