"""`recommend --format vllm` on real vLLM: a server started with the printed flags enforces the limit."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from stresstest.model import Basis, Decoding, Plane, PlaneVerdict, Subject, Threshold
from stresstest.store import open_store
from tests.e2e.commands import stresstest
from tests.lab.serve import MODELS, serve
from tests.support.simulated_servers import post
from tests.support.stored_data import make_run

pytestmark = pytest.mark.vllm
LIMIT = 90


def test_real_vllm_enforces_the_printed_limit_and_decoding(tmp_path: Path) -> None:
    """The cap acts on a request that names none and on one that asks for more; temperature 0 is in force.

    The stored measurement is of another version and folder, so `--base-url` warns of both.
    """
    store = tmp_path / "s.sqlite3"
    with open_store(str(store)) as opened:
        run = make_run("r1", subject=Subject("lab", "narrative", "it"))
        decoding = Decoding(temperature=0.0, repetition_penalty=1.1)
        run = replace(run, settings=replace(run.settings, decoding=decoding))
        opened.create_run(replace(run, profile=replace(run.profile, version="0.31.0", root="/elsewhere")))
        certified = Threshold(0.05, 0.95, LIMIT * 10 // 9, 124, 3, 0.049, certified=True)
        verdict = PlaneVerdict(Plane.CONTEXT, Basis.OBSERVED, "It breaks.")
        opened.save_threshold("r1", certified, LIMIT, verdict, distinct_prompts=124)

    printed = stresstest("recommend", "--format", "vllm", store=store)
    assert printed.returncode == 0, printed.stderr
    flags = shlex.split(printed.stdout, comments=True)
    assert json.loads(flags[1]) == {"max_new_tokens": LIMIT, "temperature": 0.0, "repetition_penalty": 1.1}

    with serve(MODELS / "lab", "lab", extra_args=flags) as url:
        messages = [{"role": "user", "content": "Scrivi una storia in 40 paragrafi numerati. Tema: il mare."}]
        texts = set()
        for asked in ({}, {"max_tokens": 2000}, {"max_tokens": 2000}):
            answer = post(
                url, "/chat/completions", {"model": "lab", "messages": messages} | asked, timeout=120
            )
            assert answer["choices"][0]["finish_reason"] == "length"
            assert answer["usage"]["completion_tokens"] == LIMIT
            texts.add(answer["choices"][0]["message"]["content"])
        assert len(texts) == 1, "temperature 0 is the server's default now: every answer is the same"
        checked = stresstest("recommend", "--base-url", url, store=store)
    assert checked.returncode == 0, checked.stderr
    assert "vLLM version is 0.32.0, but the limit was measured with 0.31.0" in checked.stderr
    assert "root is" in checked.stderr
