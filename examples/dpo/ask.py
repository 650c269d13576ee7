"""Asks every prompt of a --prompts file once, with any fields in the body; writes a log for stresstest scan.

For what `stresstest run` has no option for, such as vLLM's repetition_detection. Plain Python is enough.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prompts", help="JSON Lines with id and messages, such as pairs.held-out.jsonl")
    parser.add_argument("--base-url", default="http://localhost:8000/v1")
    parser.add_argument("--model", required=True, help="name as served")
    parser.add_argument("--max-tokens", type=int, default=300)
    parser.add_argument("--body", type=json.loads, default={}, help='more of the body: {"temperature": 0.2}')
    parser.add_argument("--most", type=int, help="ask the first so many only")
    parser.add_argument("--concurrency", type=int, default=24)
    asked = parser.parse_args()

    def ask(numbered: tuple[int, dict[str, Any]]) -> str:
        number, prompt = numbered
        body = {
            "model": asked.model,
            "messages": prompt["messages"],
            "max_tokens": asked.max_tokens,
            "seed": number,
            **asked.body,
        }
        request = urllib.request.Request(
            f"{asked.base_url}/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        start = time.time()
        with urllib.request.urlopen(request, timeout=3600) as reply:
            answer = json.load(reply)
        choice = answer["choices"][0]
        return json.dumps(
            {
                **asked.body,
                "id": prompt["id"],
                "model": asked.model,
                "prompt": prompt["messages"][-1]["content"],
                "response": choice["message"]["content"],
                "finish_reason": choice["finish_reason"],
                "completion_tokens": answer["usage"]["completion_tokens"],
                "max_tokens": asked.max_tokens,
                "start": start,
                "end": time.time(),
            },
            ensure_ascii=False,
        )

    rows = [json.loads(line) for line in Path(asked.prompts).read_text("utf-8").splitlines()]
    with ThreadPoolExecutor(asked.concurrency) as pool:
        for line in pool.map(ask, enumerate(rows[: asked.most])):
            sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
