"""`doctor --log`: a startup log read, explained and joined with the stored limits."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.diagnosis.capacity import explain_kv_shortage, kv_capacity
from stresstest.features.doctor.console import capacity_sentences, startup_document, startup_rows
from stresstest.features.doctor.startup_log import explain_startup_log, may_die_of_seeds
from stresstest.model import Subject
from stresstest.records import startup_log
from stresstest.records.startup_log import StartupFacts, read_startup_log
from stresstest.render.json_text import dumps
from tests.support.paths import DATA

DATA = DATA / "startup"


def read(name: str) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").splitlines()


def facts(name: str) -> StartupFacts:
    return read_startup_log(read(name))


def test_a_real_start_on_a_cpu() -> None:
    """A log that vLLM 0.32 really wrote, with process prefixes: every number in it is found."""
    found = facts("cpu_0_32.log")
    assert (found.version, found.architecture, found.device) == ("0.32.0", "GPT2LMHeadModel", "cpu")
    assert (found.max_model_len, found.kv_cache_tokens, found.concurrency) == (4096, 349_440, 85.31)
    assert (found.kv_cache_gib, found.init_seconds, found.weights_seconds) == (1.0, 2.72, 0.02)
    assert (found.eager, found.prefix_caching, found.chunked_prefill) == (True, True, True)
    assert found.ready
    assert found.error is None, "a warning that quotes an error is no failure"


def test_a_cpu_with_small_steps_may_die_of_seeds() -> None:
    """Said of vLLM on the CPU, unless a step has room for every prompt; never of a GPU."""
    assert may_die_of_seeds(facts("cpu_0_32.log"))
    assert not may_die_of_seeds(replace(facts("cpu_0_32.log"), batched_tokens=16_384))
    assert not may_die_of_seeds(facts("gpu_awq.log"))


def test_a_documented_start_on_a_gpu() -> None:
    """Colours, prefixes and progress bars of a GPU's log hide nothing."""
    found = facts("gpu_awq.log")
    assert (found.version, found.quantization, found.kernel) == ("0.15.1", "awq_marlin", "awq_marlin")
    assert found.attention == "FLASH_ATTN"
    assert (found.weights_gib, found.loading_seconds, found.compile_seconds) == (5.20, 3.412518, 22.31)
    assert (found.kv_cache_gib, found.kv_cache_tokens, found.concurrency) == (4.13, 77_328, 2.36)
    assert found.graphs == {"mixed prefill-decode, PIECEWISE": 19, "decode, FULL": 11}
    assert (found.graph_gib, found.graph_seconds, found.batched_tokens) == (0.29, 3.0, 2048)
    assert (found.utilization, found.max_num_seqs, found.eager) == (0.92, 64, False)
    assert found.sampling_defaults is not None
    assert "'repetition_penalty': 1.05" in found.sampling_defaults


def test_a_failed_start_is_a_causal_chain() -> None:
    """The source's own failure: weights leave 2.41 GiB, the length needs 4.0; the options are computed."""
    found = explain_startup_log(read("gpu_too_long.log"), [])
    assert found.chain is not None
    assert found.chain.kib_per_token == 4.0 * 1024 * 1024 / 32768 == 128.0
    assert found.chain.missing_gib == pytest.approx(1.59)
    assert any("7.05 GiB" in s and "2.41 GiB" in s for s in found.chain.sentences)
    flags = {option.flag: option.because for option in found.chain.options}
    assert "--max-model-len 18688" in flags  # 19,696 less 5 %, down to a multiple of 256
    assert "fits" in flags["--kv-cache-dtype fp8"]
    assert "5.46 GiB at most" in flags["a smaller quantization"]
    assert not found.facts.ready


def test_utilization_is_computed_where_the_memory_is_known() -> None:
    """With the device's size the missing memory becomes a number; a number that cannot help says so."""

    def flags(total: float) -> list[str]:
        chain = explain_kv_shortage(
            max_model_len=8192,
            needed_gib=1.0,
            available_gib=0.5,
            estimated=4096,
            weights_gib=None,
            utilization=0.9,
            total_gib=total,
        )
        return [f"{o.flag} {o.because}" for o in chain.options if "utilization" in o.flag]

    assert flags(24.0)[0].startswith("--gpu-memory-utilization 0.93")
    assert "not enough" in flags(4.0)[0]


def test_the_join_with_the_safe_limit() -> None:
    """How many requests fit at the safe max_tokens, and what one loop takes: arithmetic one can check."""
    held = kv_capacity(77_328, 32_768, 559, prompt_tokens=256, max_num_seqs=64)
    assert held.at_safe == 64  # 94 would fit, 64 are allowed
    assert held.at_full_length == 2
    assert held.loop_share == pytest.approx(32_768 / 77_328)
    sentences = capacity_sentences([(Subject("m", "narrative", "it"), held)])
    assert "(m · narrative · Italian) this server holds 64 requests at once" in sentences[0]
    assert "42.4 % of the KV cache" in sentences[1]


def test_a_log_of_two_starts_tells_the_last() -> None:
    """A container that was restarted appends; the first failure must not stand for the second start."""
    found = read_startup_log([*read("gpu_too_long.log"), *read("gpu_awq.log")])
    assert found.ready
    assert found.shortage is None
    assert found.max_model_len == 32_768


def test_the_kernel_that_a_start_chose_is_shown_beside_the_quantization() -> None:
    """vLLM 0.15.1 on a GPU writes "Selected", older ones "Using"; the quantization is not all that counts."""
    found = read_startup_log(
        [
            "INFO 02-11 09:14:02 [api_server.py:1] vLLM API server version 0.15.1",
            "INFO 02-11 09:14:04 Initializing a V1 LLM engine (v0.15.1) with config: quantization=fp8, ",
            "INFO 02-11 09:14:09 [k.py:20] Selected CutlassFP8ScaledMMLinearKernel for Fp8LinearMethod",
        ]
    )
    assert dict(startup_rows(found))["quantization, kernel"] == "fp8 · CutlassFP8ScaledMMLinearKernel"


def test_rows_show_what_is_missing_as_missing() -> None:
    """An empty log gives rows of dashes, no zeros."""
    values = dict(startup_rows(StartupFacts()))
    assert values["KV cache size"] == "–"
    assert values["weights"] == "–"


def test_no_rule_reads_to_the_end_of_a_line_that_begins_it_again_and_again() -> None:
    """`Using FlashInfer `, repeated, took 6 s a megabyte: each of them was followed to the line's end."""
    for pattern, _ in startup_log._RULES:
        for repeated in re.finditer(r"(?<!\\)(\\?[.\w]|\\\W|\[[^\]]+\])[*+]", pattern.pattern):
            takes_blanks = re.fullmatch(repeated[1], " ") is not None
            assert not takes_blanks or not pattern.pattern[repeated.end() :].strip(")"), pattern.pattern


@pytest.mark.parametrize("piece", ["Linear", "Using FlashInfer ", "init engine (", "x: {", "prefix caching "])
def test_a_line_of_one_piece_is_read_in_linear_time(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything worse would not end here within a test run."""
    monkeypatch.setattr(startup_log, "LONGEST_LINE", 300_000)
    found = read_startup_log(["Using " + piece * (300_000 // len(piece))])
    assert (found.lines, found.known) == (1, 0)


def test_kinds_of_graphs_without_number_are_not_kept() -> None:
    """With each of them all were copied."""
    found = read_startup_log([f"Capturing CUDA graphs (kind {n}): 100%|###| 19/19" for n in range(100)])
    assert found.graphs == {f"kind {n}": 19 for n in range(16)}


def test_a_share_that_is_no_number_is_no_share() -> None:
    """It ended the command with a traceback."""
    found = read_startup_log(["non-default args: {'gpu_memory_utilization': 0.9.1, 'max_num_seqs': 8}"])
    assert (found.utilization, found.max_num_seqs) == (0.9, 8)


@given(
    st.lists(
        st.text(max_size=200) | st.sampled_from(read("gpu_awq.log") + read("gpu_too_long.log")), max_size=30
    )
)
def test_no_line_breaks_it(lines: list[str]) -> None:
    """Unknown, cut or mixed lines are passed over, and what is read can always be shown."""
    found = explain_startup_log(lines, [])
    assert found.facts.lines == len(lines)
    assert len(startup_rows(found.facts)) > 10


@given(st.sampled_from(read("gpu_awq.log")), st.integers(0, 400))
def test_a_cut_line_breaks_nothing(line: str, at: int) -> None:
    """A log that is being written ends anywhere."""
    read_startup_log([line[:at]])


@pytest.mark.parametrize("figure", ["", "0", "0.0", "...", "327…", "32768\\\\n", "9" * 400, "-1", "nan", "٣"])
@pytest.mark.parametrize("name", ["cpu_0_32.log", "gpu_awq.log", "gpu_too_long.log"])
def test_a_log_with_damaged_figures_is_explained(name: str, figure: str) -> None:
    """A log that was shortened, quoted in JSON, or is of a GPU with no memory ended in a traceback."""
    lines = read(name)
    for i, line in enumerate(lines):
        if not read_startup_log([line]).known:
            continue
        for place in re.finditer(r"\d[\d.,]*", line):
            damaged = line[: place.start()] + figure + line[place.end() :]
            found = explain_startup_log([*lines[:i], damaged, *lines[i + 1 :]], [])
            assert dumps(startup_document(found.facts, found.chain, found.held))
            assert startup_rows(found.facts)


@pytest.mark.parametrize(
    "end",
    [
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "NotImplementedError: Speculative decoding with draft model is not supported yet.",
        "FileNotFoundError: [Errno 2] No such file or directory: '/models/lora/adapter_config.json'",
        "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "NotImplementedError",
        "Killed",
        "vllm-1  | Killed",
        "Segmentation fault (core dumped)",
    ],
)
def test_whatever_ends_a_start_is_told(end: str) -> None:
    """Of these, none was an error, and `doctor --log - && deploy` went on."""
    before = read("gpu_awq.log")[:6]
    mark = "" if "Killed" in end or "fault" in end else "(APIServer pid=1) "
    found = read_startup_log([*before, f"{mark}{end}"])
    assert found.error is not None
    assert found.error in end
    assert not found.ready


def test_what_a_server_survives_is_no_end_of_it() -> None:
    """It warns of what it does without, and answers bad requests with errors; its engine's end is its own."""
    warned = "WARNING 11-20 10:00:00 [registry.py:1] Error in inspecting: ImportError: no flash_attn"
    assert read_startup_log([*read("gpu_awq.log")[:6], warned]).error is None
    asked = [*read("gpu_awq.log"), "ValueError: The prompt (9000) is longer than the model's length."]
    assert (read_startup_log(asked).ready, read_startup_log(asked).error) == (True, None)
    died = read_startup_log(
        [*asked, "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."]
    )
    assert (died.ready, died.error) == (False, "EngineDeadError: EngineCore encountered an issue.")


def test_a_gpu_without_memory_is_no_share_of_anything() -> None:
    """A device that says that it has 0.00 GiB."""
    found = explain_kv_shortage(
        max_model_len=32_768,
        needed_gib=4.0,
        available_gib=1.0,
        estimated=None,
        weights_gib=None,
        utilization=0.9,
        total_gib=0.0,
        kv_cache_dtype=None,
    )
    assert any("--gpu-memory-utilization" in option.flag for option in found.options)


def test_what_is_told_of_a_log_holds_no_password() -> None:
    """It is pasted into issues, and kept in the logs of a CI."""
    log = [
        "INFO [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='https://u:hunter22@h'",
        "ERROR [core.py:700] EngineCore failed to start.",
        "OSError: (Caused by ProxyError('Unable to connect to proxy http://alice:hunter22@proxy.corp:3128'))",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ]
    facts = read_startup_log(log)
    assert facts.error is not None
    assert "hunter22" not in repr(facts)
    assert "***@proxy.corp" in repr(facts)
