"""What SFT and DPO change, from the measured answers: `python -m benchmarks.dpo_page`.

Reads `examples/dpo/measured/`, prints the tables of docs/results/dpo.md; `--write` puts them there.
`--collect STORE NAME=RUN…` first replaces the answers of these names by those of stored runs, NAME=FILE by
those of a log of `examples/dpo/ask.py`. Intervals are 95 %: exact for shares (Clopper-Pearson), by the
profile likelihood for reductions.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from scipy.optimize import brentq, minimize_scalar
from scipy.special import xlog1py, xlogy
from scipy.stats import chi2, fisher_exact

from benchmarks.pages import table, write_section
from benchmarks.real_model import share
from stresstest.campaign.conclusion.conclude import conclude
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.identification.inference import infer_language
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.model.result import certifying_sample
from stresstest.store import open_store
from stresstest.store.repository import Store

PAGE = "results/dpo.md"
MEASURED = Path(__file__).resolve().parents[1] / "examples" / "dpo" / "measured"
NAMES = {
    "base": "base",
    "penalty-1.15": "base, repetition_penalty 1.15",
    "stories-base": "base",
    "stories-sft": "SFT",
    "stories-dpo": "DPO",
    "earlier-base": "base, the prompts of the pairs",
    "earlier-sft": "SFT, 38 others",
    "earlier-dpo": "DPO, the same 38",
    "stories-penalty-1.1": "base, repetition_penalty 1.1",
    "stories-penalty-1.2": "base, repetition_penalty 1.2",
    "stories-temperature-0.7": "base, temperature 0.7",
    "stories-repetition-detection": "base, vLLM's repetition_detection",
}
TRAINED = ("stories-base", "stories-sft", "stories-dpo")
"""Base, SFT and DPO on the held-out prompts of `examples/dpo/prompts.py`."""
EARLIER = ("earlier-base", "earlier-sft", "earlier-dpo")
"""An earlier training, with other pairs; its prompts were not kept."""
_STORIES, _TRAINED_ON = "held out", "of the pairs"
ALTERNATIVES = {
    "stories-base": (_STORIES, None),
    "stories-penalty-1.1": (_STORIES, "stories-base"),
    "stories-penalty-1.2": (_STORIES, "stories-base"),
    "stories-temperature-0.7": (_STORIES, "stories-base"),
    "stories-repetition-detection": (_STORIES, "stories-base"),
    "stories-sft": (_STORIES, "stories-base"),
    "stories-dpo": (_STORIES, "stories-base"),
    "base": (_TRAINED_ON, None),
    "penalty-1.15": (_TRAINED_ON, "base"),
}
"""Configuration → its prompts, and what it is compared with on the same ones."""
OTHER_TASK = "technical-"
COMPARED_WORDS = 100
SHOWN_WORDS = 45
SHOWN = 10


@dataclass(frozen=True)
class Measured:
    """One answer. of: configuration. tokens: written; onset: first degenerate one, of as many.

    prompt: None where it was not kept. seconds: from sending the request to the end.
    """

    of: str
    prompt_id: str
    text: str
    finish_reason: str | None
    tokens: int
    onset: int | None
    symptom: str | None
    seconds: float | None = None
    prompt: str | None = None

    @property
    def degenerate(self) -> bool:
        """A loop that the server cut is one, also where it was cut before a detector was sure."""
        return self.onset is not None or self.finish_reason == "repetition"

    @property
    def ended(self) -> bool:
        """Whether the model ended it by itself, in health."""
        return self.onset is None and self.finish_reason == "stop"

    @property
    def wasted(self) -> int:
        return 0 if self.onset is None else self.tokens - self.onset + 1


Answers = Sequence[Measured]


def reduction(before: Answers, after: Answers) -> str:
    """The relative reduction of degeneration, with its interval and Fisher's exact p."""
    counts = [(sum(a.degenerate for a in each), len(each)) for each in (before, after)]
    (x, n), (y, m) = counts
    if not x:
        return "–"
    low, high = ratio_interval(x, n, y, m)
    p = fisher_exact([[x, n - x], [y, m - y]]).pvalue
    return (
        f"{100 * (1 - y / m / (x / n)):.0f} % ({100 * (1 - high):.0f} to {100 * (1 - low):.0f}), p = {p:.2g}"
    )


def ratio_interval(x: int, n: int, y: int, m: int) -> tuple[float, float]:
    """Bounds of the ratio of two shares, y of m over x of n, by the profile likelihood."""
    best = y / m / (x / n)
    allowed = float(chi2.ppf(0.95, 1)) / 2
    peak = _profile(x, n, y, m, best)

    def beyond(ratio: float) -> float:
        return peak - _profile(x, n, y, m, ratio) - allowed

    low = 0.0 if not y else float(brentq(beyond, 1e-9, best))
    upper = max(2 * best, 0.01)
    while beyond(upper) < 0:
        upper *= 2
    return low, float(brentq(beyond, max(best, 1e-9), upper))


def _profile(x: int, n: int, y: int, m: int, ratio: float) -> float:
    """The largest log likelihood of both counts at a given ratio of the shares."""

    def negative(share: float) -> float:
        both = (
            xlogy(x, share),
            xlog1py(n - x, -share),
            xlogy(y, ratio * share),
            xlog1py(m - y, -ratio * share),
        )
        return -float(sum(both))

    most = min(1.0, 1 / ratio) if ratio else 1.0
    return -float(minimize_scalar(negative, bounds=(0.0, most), method="bounded").fun)


def rates(groups: dict[str, Answers], thresholds: dict[str, str], of: tuple[str, ...] = TRAINED) -> str:
    """Degeneration within the cap, reductions, thresholds."""
    base, sft, dpo = of
    rows = [
        [
            NAMES[name],
            share(sum(a.degenerate for a in groups[name]), len(groups[name])),
            reduction(groups[base], groups[name]) if name != base else "–",
            reduction(groups[sft], groups[name]) if name == dpo else "–",
            thresholds[name],
            share(sum(a.ended for a in groups[name]), len(groups[name])),
        ]
        for name in of
    ]
    return table(
        ["model", "degenerate", "less than base", "less than SFT", "certified T", "ended by itself, healthy"],
        rows,
    )


def price(groups: dict[str, Answers]) -> str:
    """Tokens and wall clock of a batch whose requests are all sent at once, and what of it nobody wants."""
    rows = []
    for name in TRAINED:
        at = groups[name]
        spent, wasted = sum(a.tokens for a in at), sum(a.wasted for a in at)
        clock = max(a.seconds or 0 for a in at)
        rows.append(
            [
                NAMES[name],
                f"{clock:.0f} s",
                f"{spent:,}",
                f"{wasted:,}, {100 * wasted / spent:.0f} %",
                for_one_healthy(at),
                f"{clock / max(1, sum(not a.degenerate for a in at)):.1f} s",
            ]
        )
    head = [
        "model",
        "wall clock",
        "tokens",
        "after the onset",
        "tokens for one healthy answer",
        "seconds for one",
    ]
    return table(head, rows)


def for_one_healthy(answers: Answers) -> str:
    healthy = sum(not a.degenerate for a in answers)
    return f"{sum(a.tokens for a in answers) / healthy:,.0f}" if healthy else "–"


def kept(groups: dict[str, Answers]) -> str:
    """Lengths, variety and language."""
    rows = []
    for name in TRAINED:
        at = groups[name]
        healthy = [a.tokens for a in at if a.onset is None]
        pairs = [d for a in at if (d := distinct_pairs(a.text)) is not None]
        english = sum(infer_language(a.text) in ("en", None) for a in at)
        rows.append(
            [
                NAMES[name],
                f"{fmean(a.tokens for a in at):.0f}",
                f"{median(healthy):.0f} (n = {len(healthy)})" if healthy else "–",
                f"{fmean(pairs):.2f} (n = {len(pairs)})" if pairs else "–",
                share(english, len(at)),
            ]
        )
    head = [
        "model",
        "tokens, mean",
        "healthy ones, median",
        f"distinct pairs in {COMPARED_WORDS} words",
        "English",
    ]
    return table(head, rows)


def distinct_pairs(text: str) -> float | None:
    """Share of distinct pairs of adjacent words in the first `COMPARED_WORDS`; None of a shorter text."""
    words = text.lower().split()[:COMPARED_WORDS]
    if len(words) < COMPARED_WORDS:
        return None
    return len(set(pairwise(words))) / (len(words) - 1)


def loss() -> str:
    """Loss a token on answers that no model was trained on."""
    found = json.loads((MEASURED / "loss.json").read_text("utf-8"))
    groups = list(found["base"])
    rows = [
        [NAMES[f"stories-{name}"], *(f"{of[group]['loss']:.3f}" for group in groups)]
        for name, of in found.items()
    ]
    head = ["model", *(f"{group} ({found['base'][group]['tokens']:,} tokens)" for group in groups)]
    return table(head, rows)


def other_task(groups: dict[str, Answers]) -> str:
    """The same on technical explanations."""
    rows = []
    for name in ("base", "sft", "dpo"):
        at = groups[OTHER_TASK + name]
        rows.append(
            [
                NAMES[f"stories-{name}"],
                share(sum(a.degenerate for a in at), len(at)),
                "–" if name == "base" else reduction(groups[OTHER_TASK + "base"], at),
                share(sum(a.ended for a in at), len(at)),
                f"{fmean(a.tokens for a in at):.0f}",
            ]
        )
    return table(["model", "degenerate", "less than base", "ended by itself, healthy", "tokens, mean"], rows)


def alternatives(groups: dict[str, Answers], thresholds: dict[str, str]) -> str:
    """The cheap alternatives on the base model, each against the base model on the same prompts."""
    rows = []
    for name, (prompts, baseline) in ALTERNATIVES.items():
        at = groups[name]
        pairs = [d for a in at if (d := distinct_pairs(a.text)) is not None]
        rows.append(
            [
                NAMES[name],
                prompts,
                share(sum(a.degenerate for a in at), len(at)),
                "–" if baseline is None else reduction(groups[baseline], at),
                thresholds.get(name, "–"),
                share(sum(a.ended for a in at), len(at)),
                for_one_healthy(at),
                f"{fmean(pairs):.2f}" if pairs else "–",
            ]
        )
    head = [
        "model",
        "prompts",
        "degenerate",
        "less than base",
        "certified T",
        "ended by itself, healthy",
        "tokens for one healthy answer",
        f"distinct pairs in {COMPARED_WORDS} words",
    ]
    return table(head, rows)


def side_by_side(groups: dict[str, Answers]) -> str:
    """The ends of answers to the first held-out prompts, before and after."""
    after = {a.prompt_id: a for a in groups["stories-dpo"]}
    rows = [[_shown(a), _shown(after[a.prompt_id])] for a in groups["stories-base"] if a.prompt_id in after][
        :SHOWN
    ]
    return table(["base", "DPO"], rows)


def _shown(answer: Measured) -> str:
    tail = (
        " ".join(answer.text.split()[-SHOWN_WORDS:])
        .replace("|", "\\|")
        .replace("<", "&lt;")
        .replace("*", "\\*")
    )
    state = f"**{answer.symptom} from token {answer.onset}**" if answer.onset else "healthy"
    end = "ended by itself" if answer.finish_reason == "stop" else "cut"
    return f"{state}, {answer.tokens} tokens, {end}: … {tail}"


def collect(location: str, sources: dict[str, str]) -> None:
    """Write what is measured, answers and thresholds; names that are not given stay as they are."""
    answers = [each for each in read_answers() if each.of not in sources]
    thresholds = {name: said for name, said in read_thresholds().items() if name not in sources}
    with open_store(location) as store:
        for name, source in sources.items():
            if Path(source).is_file():
                answers += logged(name, Path(source))
            else:
                answers += stored(name, store, source)
                thresholds[name] = threshold(store, source)
    with gzip.open(MEASURED / "answers.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in answers)
    (MEASURED / "thresholds.json").write_text(json.dumps(thresholds, indent=1) + "\n", "utf-8")


def read_answers() -> list[Measured]:
    with gzip.open(MEASURED / "answers.jsonl.gz", "rt", encoding="utf-8") as file:
        return [Measured(**json.loads(line)) for line in file]


def read_thresholds() -> dict[str, str]:
    found: dict[str, str] = json.loads((MEASURED / "thresholds.json").read_text("utf-8"))
    return found


def stored(name: str, store: Store, reference: str) -> Iterator[Measured]:
    """The certifying answers of a run, as it judged them; the first to each prompt."""
    run = store.run(reference)
    sample = {each.key for each in certifying_sample(store.records(run.id))}
    asked: set[str] = set()
    for g in sorted(store.generations(run.id), key=lambda each: each.job.index):
        if g.key in sample and g.failure is None and g.prompt_id not in asked:
            asked.add(g.prompt_id)
            symptom = g.verdict.symptom
            yield Measured(
                name,
                g.prompt_id,
                "".join(token.text for token in g.tokens),
                g.finish_reason,
                g.output_tokens,
                g.verdict.onset,
                None if symptom is None else str(symptom),
                round(g.ended - g.started, 1),
                g.prompt_text,
            )


def threshold(store: Store, reference: str) -> str:
    """The certified threshold in words."""
    found = conclude(store, reference).threshold
    if not found.certified:
        return "none"
    return f"{found.tokens} ({100 * found.alpha:.0f} % at {100 * found.confidence:.0f} %)"


def logged(name: str, path: Path) -> Iterator[Measured]:
    """The answers of a log, judged as `scan` does; positions are scaled from pieces of text to tokens."""
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        spec = DetectorSpec("en", prompt_text=row["prompt"])
        verdict = detect_recorded(row["response"], spec, row["finish_reason"])
        tokens = row["completion_tokens"]
        onset = verdict.onset and max(1, round(verdict.onset / verdict.tokens * tokens))
        symptom = None if verdict.symptom is None else str(verdict.symptom)
        seconds = round(row["end"] - row["start"], 1)
        yield Measured(
            name,
            row["id"],
            row["response"],
            row["finish_reason"],
            tokens,
            onset,
            symptom,
            seconds,
            row["prompt"],
        )


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collect", nargs="+", metavar=("STORE", "NAME=RUN"))
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if args.collect:
        collect(args.collect[0], dict(each.split("=", 1) for each in args.collect[1:]))
    answers = read_answers()
    groups: dict[str, Answers] = {}
    for name in dict.fromkeys(a.of for a in answers):
        groups[name] = [a for a in answers if a.of == name]
    thresholds = read_thresholds()
    sections = {
        "rates": rates(groups, thresholds),
        "price": price(groups),
        "kept": kept(groups),
        "loss": loss(),
        "other": other_task(groups),
        "alternatives": alternatives(groups, thresholds),
        "earlier": rates(groups, thresholds, EARLIER),
        "answers": side_by_side(groups),
    }
    for name, text in sections.items():
        if args.write:
            write_section(PAGE, name, text)
        print(f"\n## {name}\n\n{text}")


if __name__ == "__main__":
    main()
