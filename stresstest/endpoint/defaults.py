"""The sampling defaults that a server applies to what a request does not say, where they can be known.

vLLM takes them from the model's generation_config.json (`--generation-config auto`, the default) and
reveals them only in its startup log. A model served from a folder of this machine has the file at hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

_SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "max_new_tokens",
)
_LARGEST = 1_000_000


def generation_config(root: str | None) -> dict[str, Any] | None:
    """What the model's generation_config.json sets, for a `root` that is a folder here; None if unknown.

    An empty dict: the folder is here and sets nothing. A server started with `--generation-config vllm`
    ignores the file; nobody can tell that from outside.
    """
    if not root or not root.startswith("/"):
        return None
    folder = Path(root)
    try:
        if not (folder / "config.json").is_file():
            return None
        file = folder / "generation_config.json"
        if not file.is_file():
            return {}
        if file.stat().st_size > _LARGEST:
            return None
        found = msgspec.json.decode(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    numbers = {key: found[key] for key in _SAMPLING if isinstance(found.get(key), int | float)}
    if found.get("do_sample") is False:
        numbers.setdefault("temperature", None)
    return {key: value for key, value in numbers.items() if value is not None}
