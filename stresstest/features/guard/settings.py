"""The configuration of one guard: its upstream, its rules and limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from stresstest.config.credentials.paths import refuse_key_in_path
from stresstest.config.secrets import remember
from stresstest.detectors.registry import entries
from stresstest.errors import UsageError
from stresstest.features.guard.asked import Asked
from stresstest.model.guard import GuardConfig, GuardPolicy, GuardRule

if TYPE_CHECKING:
    from stresstest.store import StoredThreshold

API_FOLDER = "/v1"
_MOST_CAP_LINES = 20


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """body: bytes of a request's body. bodies: of all that are held at once. header: bytes of a header line,
    in both directions. seconds: of one request in all. idle: seconds without a byte from the upstream.
    arrival: seconds for the headers and for the body of a request; a body that is passed on as it arrives may
    take longer, but not stand still for so long. connect: seconds. connections: of clients.
    drain: seconds at the end."""

    body: int = 64 * 1024 * 1024
    bodies: int = 128 * 1024 * 1024
    header: int = 16 * 1024
    seconds: float = 3600.0
    idle: float = 600.0
    arrival: float = 60.0
    connect: float = 10.0
    connections: int = 2048
    drain: float = 300.0


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """upstream: scheme, host, port and any prefix before /v1, without a slash at the end. caps: the certified
    limits that the store holds."""

    upstream: str
    config: GuardConfig = field(default_factory=GuardConfig)
    dry_run: bool = False
    caps: Sequence[StoredThreshold] = ()
    limits: GuardLimits = field(default_factory=GuardLimits)

    def cap_for(self, asked: Asked, rule: GuardRule) -> int | None:
        """The most tokens that this request may ask for; None where nothing is certified for it. A request
        that names no model, as vLLM takes it, may be for any."""
        if rule.max_tokens is not None:
            return rule.max_tokens
        fitting = (
            row.safe_max_tokens
            for row in self.caps
            if row.safe_max_tokens and asked.model in ("", row.subject.model) and _is_of(row, rule)
        )
        return min(fitting, default=None)


def _is_of(row: StoredThreshold, rule: GuardRule) -> bool:
    """Whether a limit is of the language and the task that a rule names."""
    return rule.language in (None, row.subject.language) and rule.task in (None, row.subject.task)


def idle_rules(rules: Sequence[GuardRule], caps: Sequence[StoredThreshold]) -> list[str]:
    """A sentence for each rule that caps with limits of the store and finds none there."""
    found = []
    for rule in rules:
        if rule.policy is not GuardPolicy.CAP or rule.max_tokens is not None:
            continue
        if any(fnmatchcase(row.subject.model, rule.model) and _is_of(row, rule) for row in caps):
            continue
        named = {"model": rule.model, "language": rule.language, "task": rule.task}
        words = ", ".join(f"{name} {value!r}" for name, value in named.items() if value is not None)
        found.append(f"the cap rule for {words} fits no limit in the store, so it caps nothing")
    return found


def cap_lines(caps: Sequence[StoredThreshold]) -> list[str]:
    """What the limits from the store cap, one line each, and what they were measured with."""
    from stresstest.render.limits import decoding_words, subject_words
    from stresstest.render.text import load_words

    lines = [
        f"cap from the store: {subject_words(row)}: max_tokens {row.safe_max_tokens:,}, run {row.run_id} "
        f"(with {decoding_words(row.decoding)}; {load_words(row.concurrency)})"
        for row in caps
        if row.safe_max_tokens
    ]
    if len(lines) > _MOST_CAP_LINES:
        return [*lines[:_MOST_CAP_LINES], f"and {len(lines) - _MOST_CAP_LINES:,} more caps from the store"]
    return lines


def checked_upstream(url: str) -> str:
    """The upstream without the /v1 that clients' paths bring. Raises UsageError for what is none."""
    from yarl import URL

    try:
        found = URL(url)
        usable = found.scheme in ("http", "https") and bool(found.host) and found.port is not None
    except ValueError:
        usable = False
    if not usable or "@" in url or found.query_string or found.fragment:
        remember(url)
        raise UsageError(
            "--upstream must be an address such as http://vllm:8000, without user, query or fragment."
        )
    refuse_key_in_path(url, "--upstream")
    return url.rstrip("/").removesuffix(API_FOLDER)


def check_symptoms(config: GuardConfig) -> None:
    """Raise UsageError for a symptom that no detector knows: a rule that waits for it never acts."""
    known = [entry.kind.value for entry in entries()]
    for rule in config.rules:
        for name in rule.symptoms:
            if name not in known:
                raise UsageError(f"[guard] names the symptom {name!r}. Known: {', '.join(known)}.")
