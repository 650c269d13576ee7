"""Training examples: a prompt as the project ships it, and the text that should answer it.

The prompts are read from the project's own `prompts/*.toml`, because a model can only answer the
prompts it was trained on; the answers come from the grammar.
"""

from __future__ import annotations

import itertools
import random
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.lab.grammar import LANGUAGES, SECTIONS_AT_MOST, TASKS, StoryWriter, load, numbered

PROMPTS = Path(__file__).resolve().parents[2] / "prompts"
END = "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

GENERIC_SYSTEM = {
    "it": ("Sei un assistente utile.", "Sei uno scrittore esperto e preciso."),
    "en": ("You are a helpful assistant.", "You are an expert and precise writer."),
    "fr": ("Tu es un assistant utile.", "Tu es un écrivain expert et précis."),
}

_SLOTS = {"narrative": ("who", "what", "where"), "technical": ("aspect", "system", "context")}


@dataclass(frozen=True)
class Topic:
    """One topic and the phrases its answer opens with."""

    text: str
    opening: dict[str, str]


@dataclass(frozen=True)
class Prompts:
    """One task in one language, topics multiplied out."""

    instruction: str
    open_instruction: str
    systems: tuple[str, ...]
    topics: tuple[Topic, ...]


@dataclass(frozen=True)
class Example:
    """One conversation; the loss falls on `answer` only. `given` was written before it."""

    prompt: str
    given: str
    answer: str
    ended: bool
    """Whether the answer is complete, so that the end token follows."""


def _opening(language: str, task: str, indices: tuple[int, ...]) -> dict[str, str]:
    """The first sentence follows the topic, so that different prompts get different texts even
    at temperature 0."""
    grammar = load(language)
    slots = ("who", "time", "place") if task == "narrative" else ("data", "comp", "src")
    steps = (11, 1, 2) if task == "narrative" else (1, 1, 1)
    opening = {}
    for slot, step, index in zip(slots, steps, indices, strict=True):
        leaves = grammar.leaves(slot)
        opening[slot] = leaves[index * step % len(leaves)]
    return opening


def load_prompts(language: str, task: str) -> Prompts:
    """The shipped prompts of a task, with every topic and its opening."""
    raw = tomllib.loads((PROMPTS / f"{task}.toml").read_text("utf-8"))["languages"][language]
    values = [raw["slots"][slot] for slot in _SLOTS[task]]
    topics = []
    for picked in itertools.product(*(list(enumerate(v)) for v in values)):
        fields = dict(zip(_SLOTS[task], (text for _, text in picked), strict=True))
        opening = _opening(language, task, tuple(i for i, _ in picked))
        topics += [Topic(template.format(**fields), opening) for template in raw["topics"]]
    systems = (raw["language_constraint"], *GENERIC_SYSTEM[language])
    return Prompts(raw["instruction"], raw["open_instruction"], systems, tuple(topics))


def chat(user: str, system: str | None = None) -> str:
    """The prompt as the chat template renders it, up to where the model speaks."""
    head = f"<|system|>{system}" if system else ""
    return f"{head}<|user|>{user}<|assistant|>"


class ExampleSource:
    """Draws training examples; everything random comes from one seed."""

    def __init__(self, seed: int, *, fresh: bool = True, languages: tuple[str, ...] = LANGUAGES) -> None:
        self.fresh = fresh
        self.languages = languages
        self.rng = random.Random(seed)
        self.prompts = {(lang, task): load_prompts(lang, task) for lang in languages for task in TASKS}

    def draw(self, *, narrative_share: float = 0.75, most_units: int = 22) -> Example:
        """One example. `most_units` only bounds the work: the context ends before that."""
        rng = self.rng
        language = rng.choice(self.languages)
        task = "narrative" if rng.random() < narrative_share else "technical"
        prompts = self.prompts[language, task]
        topic = rng.choice(prompts.topics)
        system = rng.choice(prompts.systems) if rng.random() < 0.25 else None
        writer = StoryWriter(language, task, rng, fresh=self.fresh)
        if rng.random() < 0.10:
            user = prompts.open_instruction.format(topic=topic.text)
            count = rng.randint(8, 14) if task == "narrative" else rng.randint(5, 7)
            return Example(chat(user, system), "", "\n\n".join(writer.units(count, topic.opening)), True)
        asked = rng.randint(1, 14) if rng.random() < 0.4 else rng.randint(15, 600)
        if task == "narrative" and rng.random() < 0.12:
            user = prompts.instruction.format(topic=topic.text, units=rng.randint(150, 600))
            return self._continuation(language, chat(user, system), writer)
        user = prompts.instruction.format(topic=topic.text, units=asked)
        wanted = min(asked, SECTIONS_AT_MOST) if task == "technical" else asked
        bodies = writer.units(min(wanted, most_units), topic.opening)
        return Example(chat(user, system), "", numbered(language, task, bodies), len(bodies) == wanted)

    def _continuation(self, language: str, prompt: str, writer: StoryWriter) -> Example:
        """A story met in its middle: some units are given, with any numbers, and it goes on."""
        first, given = self.rng.randint(2, 99), self.rng.randint(1, 4)
        bodies = writer.units(22)
        before = numbered(language, "narrative", bodies[:given], first) + "\n\n"
        return Example(prompt, before, numbered(language, "narrative", bodies[given:], first + given), False)
