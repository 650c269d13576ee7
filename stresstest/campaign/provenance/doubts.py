"""What speaks against a run's answers being of what it names: whoever uses its limit has to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from stresstest.campaign.provenance.notes import provenance_notes
from stresstest.diagnosis.evidence.metrics_series import count_restarts
from stresstest.model import RIGORS, GenerationRecord, Phase, Run, RunSettings, ServerSample
from stresstest.statistics.sample import (
    count_answerless,
    count_copies,
    is_unseen,
    late_refusals,
    redrawn,
    was_cut_by_service,
)

if TYPE_CHECKING:
    from stresstest.store.repository import Store

_STEADY_SHARE = 1 / 3
"""The part of a sample that may be in flight at once: the rest of it then keeps the load up."""
_LONGEST_REASON = 40
_CUT_THINKING = 0.1
"""Part of the sample that is cut within its reasoning, from which on a note tells."""
_FEWEST_ALIKE = 3
_ALIKE_SHARE = 0.01
"""Answers of one short text, or that broke off, and their part of the sample, from which on a note tells."""


def doubts(run: Run, generations: Sequence[GenerationRecord], samples: Sequence[ServerSample]) -> list[str]:
    """What speaks against a run's answers being of the model, the decoding and the server that it names:
    whoever uses its limit has to know."""
    sample = [g for g in generations if g.job.phase is Phase.CERTIFY]
    return [
        *provenance_notes(run, generations),
        *seed_notes(run),
        *load_notes(run.settings),
        *_unseen_notes(sample),
        *_answerless_notes(sample),
        *_lost_notes(sample),
        *_retry_notes(sample),
        *_redrawn_notes(sample),
        *_one_text_notes(sample),
        *_cut_notes(sample),
        *_loss_notes(sample),
        *_window_notes(sample),
        *_server_notes(run, samples),
    ]


def doubts_about(store: Store, run_id: str) -> list[str]:
    """The same of a stored run."""
    return doubts(store.run(run_id), store.records(run_id), store.samples(run_id))


def seed_notes(run: Run) -> list[str]:
    """That requests with a seed may take another way through vLLM than those of clients that send none.

    Source: vLLM's `TopKTopPSampler.forward_cuda` and `forward_hip` (vllm/v1/sample/ops/topk_topp_sampler.py).
    """
    profile, decoding = run.profile, run.settings.decoding
    unfiltered = decoding.top_p == 1 and decoding.top_k in (0, -1)
    if not run.settings.send_seed or profile.simulated or profile.on_cpu:
        return []
    if decoding.temperature == 0 or unfiltered:
        return []
    return [
        "Seeds were sent: with top_p or top_k in force, vLLM on a GPU samples such requests with PyTorch's "
        "kernel, and those of clients without seeds with FlashInfer's or aiter's. A fault of the latter is "
        "not seen; --no-seed measures with it."
    ]


def _server_notes(run: Run, samples: Sequence[ServerSample]) -> list[str]:
    """What speaks against all answers of a run being of one server, started once."""
    notes = []
    if run.settings.earlier_urls:
        notes.append(
            f"The run was interrupted and continued at another address: its answers come from "
            f"{' and '.join((*run.settings.earlier_urls, run.settings.base_url))}. Model root, vLLM version "
            f"and context are the same there; other server flags (quantization, cache) were not compared."
        )
    if run.settings.continued_after:
        begin = f"The run was interrupted, and continued after {run.settings.continued_after} answers."
        if not (samples and all(each.began is not None for each in samples)):
            notes.append(
                f"{begin} The server does not tell when its counters began: nothing shows whether it was "
                f"restarted, and the same weights gave all answers."
            )
        elif run.profile.is_adapter:
            notes.append(
                f"{begin} The model is an adapter, which vLLM can reload under its name without a restart: "
                f"nothing shows whether the same weights gave all answers."
            )
    if restarts := count_restarts(samples):
        notes.append(
            f"The server's counters began again {restarts} time{'s' if restarts > 1 else ''}: it was "
            f"restarted, or several servers answer /metrics in turn. They may serve other weights under one "
            f"name: the result is that of what answered."
        )
    return notes


def _unseen_notes(sample: Sequence[GenerationRecord]) -> list[str]:
    """That answers show nothing, or not all of what was counted, or are copies."""
    notes = []
    unseen = sum(g.unseen_tokens > 0 and not g.verdict.degenerate for g in sample)
    if unseen:
        notes.append(
            f"{unseen} of the sample's {len(sample)} answers "
            f"{'has' if unseen == 1 else 'have'} tokens that the server counted and did not show (hidden "
            f"reasoning, or padding). Whether they were sound is not known: each such answer counts as a "
            f"possible failure."
        )
    empty = sum(g.failure is None and not g.verdict.tokens and not g.unseen_tokens for g in sample)
    if empty:
        notes.append(
            f"{empty} of the sample's {len(sample)} answers {'is' if empty == 1 else 'are'} empty. An "
            "empty answer is at risk at no length, so the limit says nothing about it: look for the cause in "
            "the server or the chat template. A guardrail may empty what fails; then the limit is too high."
        )
    if copies := count_copies(sample):
        notes.append(
            f"{copies} of the sample's {len(sample)} answers are identical to another one and do not "
            f"count again: is there a cache in front of the server?"
        )
    return notes


def _answerless_notes(sample: Sequence[GenerationRecord]) -> list[str]:
    """That answers are nothing but reasoning."""
    only = [g for g in sample if g.failure is None and g.verdict.answerless]
    ended = sum(g.finish_reason == "stop" for g in only)
    notes = []
    if ended:
        notes.append(
            f"{ended} of the sample's {len(sample)} answers {'is' if ended == 1 else 'are'} nothing but "
            f"reasoning, and ended so; perhaps the server's parser takes the answer for it. What stands "
            f"there is judged as the answer."
        )
    cut = count_answerless(sample)
    if cut >= max(1, _CUT_THINKING * len(sample)):
        notes.append(
            f"{cut} of the sample's {len(sample)} answers {'was' if cut == 1 else 'were'} cut within their "
            f"reasoning, so that no answer was seen: the limit says nothing about its language and "
            f"structure. A parser may have taken answers for reasoning, too."
        )
    return notes


def _retry_notes(sample: Sequence[GenerationRecord]) -> list[str]:
    """That answers were asked for again: what fails for a reason of its own is chosen out of the sample."""
    again = sum(g.attempts > 1 and g.failure is None for g in sample)
    if not again:
        return []
    begin = f"{again} of the sample's {len(sample)} answers came only when asked again"
    doubtful = len(redrawn(sample) & {g.key for g in sample if g.attempts > 1 and g.failure is None})
    if doubtful:
        return [
            f"{begin}. Answers arrive late in their time, so the service may hold them back until they are "
            f"complete, and an attempt that failed may have been a loop that ran into a time limit: "
            f"{doubtful} of them count as possible failures. Measure at the server itself, where answers "
            f"are streamed."
        ]
    return [
        f"{begin}: the service had failed before their first token. A service that fails on answers that "
        f"loop, such as a gateway with a time limit, leaves them out of the sample, and the limit is then "
        f"too high: measure at the server itself."
    ]


def _lost_notes(sample: Sequence[GenerationRecord]) -> list[str]:
    """That the server gave no answer at all to some requests, or refused them."""
    late = late_refusals(sample)
    lost = [g for g in sample if g.failure is not None and not g.verdict.tokens]
    unseen = [g for g in lost if is_unseen(g) or g.key in late]
    refused = [g for g in lost if not is_unseen(g) and g.key not in late]
    notes = []
    if unseen:
        one = len(unseen) == 1
        notes.append(
            f"{len(unseen)} of the sample's {len(sample)} answers never arrived "
            f"({_commonest_failure(unseen)}). Whether {'it was' if one else 'they were'} sound is not known: "
            f"{'it' if one else 'each'} counts as a possible failure."
        )
    if refused:
        notes.append(
            f"{len(refused)} of the sample's {len(sample)} requests were refused "
            f"({_commonest_failure(refused)}): the result is about the others."
        )
    return notes


def _commonest_failure(lost: Sequence[GenerationRecord]) -> str:
    return Counter(g.failure.message for g in lost if g.failure is not None).most_common(1)[0][0].rstrip(".")


def _redrawn_notes(sample: Sequence[GenerationRecord]) -> list[str]:
    """That answers had failed before the process was killed, or were withheld, and are others now."""
    again = sum(g.redrawn for g in sample)
    dropped = len(redrawn(sample) & {g.key for g in sample if g.attempts == 1 and not g.redrawn})
    notes = []
    if dropped:
        notes.append(
            f"When the run was interrupted, nothing had arrived of {dropped} of the sample's {len(sample)} "
            f"answers, and they were requested again. Answers arrive late in their time, so the service may "
            f"hold them back until they are complete; what it held back may have been loops: each counts as "
            f"a possible failure."
        )
    if not again:
        return notes
    return [
        *notes,
        f"When the run was killed, {again} of the sample's {len(sample)} answers had failed that are healthy "
        f"now: asked again, the server gave others, as one that ignores seeds does. Each counts as a "
        f"possible failure.",
    ]


def _one_text_notes(sample: Sequence[GenerationRecord]) -> list[str]:
    """That many answers are one short text beside longer ones, but for times and ids: a refusal, or what a
    gateway puts in place of an answer. Longer copies count once, and have a note of their own."""
    whole = [g for g in sample if g.failure is None]
    short = [g for g in whole if g.token_summary.outline is not None and not g.token_summary.textless]
    counted = Counter(g.token_summary.outline for g in short).most_common(1)
    if not counted or counted[0][1] < max(_FEWEST_ALIKE, _ALIKE_SHARE * len(whole)):
        return []
    [(outline, alike)] = counted
    tokens = next(g.verdict.tokens for g in short if g.token_summary.outline == outline)
    others = [g.verdict.tokens for g in whole if g.token_summary.outline != outline]
    if not others or median(others) < 2 * tokens:
        return []
    return [
        f"{alike} of the sample's {len(whole)} answers are one text of {tokens} tokens: a refusal, or the "
        f"words of a gateway in place of an answer that it stopped. What it stopped may have failed, and the "
        f"limit is then too high: measure at the server itself."
    ]


def _cut_notes(sample: Sequence[GenerationRecord]) -> list[str]:
    """That the service ended answers: a filter, or something for which it has a word of its own."""
    cut = [g for g in sample if was_cut_by_service(g) and not g.verdict.degenerate]
    if not cut:
        return []
    reasons = Counter(str(g.finish_reason)[:_LONGEST_REASON] for g in cut)
    return [
        f"{len(cut)} of the sample's {len(sample)} answers {'was' if len(cut) == 1 else 'were'} ended by the "
        f"service (finish reason {', '.join(reason for reason, _ in reasons.most_common(3))}), perhaps "
        f"because {'it' if len(cut) == 1 else 'they'} failed: each counts as a possible failure."
    ]


def _loss_notes(sample: Sequence[GenerationRecord]) -> list[str]:
    """That many answers broke off while they were healthy: a gateway may end what begins to repeat."""
    lost = [g for g in sample if g.failure is not None and g.verdict.tokens and not g.verdict.degenerate]
    notes = []
    if len(lost) >= max(_FEWEST_ALIKE, _ALIKE_SHARE * len(sample)):
        notes.append(
            f"{len(lost)} of the sample's {len(sample)} answers broke off after their first token "
            f"({_commonest_failure(lost)}), and count up to there. A service that ends answers because they "
            f"begin to repeat leaves their failures out, and the limit is then too high."
        )
    repeating = sum(g.token_summary.repeats for g in lost)
    if repeating:
        notes.append(
            f"{repeating} of the sample's {len(sample)} answers broke off in the midst of repetitions, as "
            f"Ollama ends an answer after 31 equal tokens: each counts as a possible failure."
        )
    return notes


def _window_notes(sample: Sequence[GenerationRecord]) -> list[str]:
    """That answers are censored where the server was in trouble."""
    limited = sum(g.invalid_from is not None for g in sample)
    if not limited:
        return []
    return [
        f"{limited} of {len(sample)} certifying answers count only up to their first preemption or GPU "
        f"trouble: after it, the model is not the only possible cause."
    ]


def load_notes(settings: RunSettings) -> list[str]:
    """That the sample is smaller than the load that was asked for, or not much larger."""
    reached, sample = settings.in_flight, settings.smallest_sample
    if reached == settings.concurrency and reached <= sample * _STEADY_SHARE:
        return []
    if reached == settings.concurrency:
        return [
            f"The certifying sample can have as few as {sample} requests: {reached} of them are in flight "
            f"at first, and ever fewer while the last {reached} end. If load makes answers fail, more fail "
            f"under a steady load."
        ]
    larger = next((each for each in RIGORS.values() if each.planned >= settings.concurrency), None)
    hint = "" if larger is None else f" Rigor {larger.name} sends {larger.planned}."
    return [
        f"The certifying sample can have as few as {reached} requests, so at most {reached} are in flight, "
        f"although --concurrency is {settings.concurrency}: nothing is certified for a larger load.{hint}"
    ]
