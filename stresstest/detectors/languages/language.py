"""One language's facts, and the reader of the file that states them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stresstest.config.foreign_files import MalformedFileError, TomlTable, format_short, read_file, toml_table

LATIN = "LATIN"
USUAL_SHARE = 0.4
"""Share of listed function words among the words of English and of most other languages' prose."""

_CODE = re.compile(r"[a-z]{2,3}")
_SCRIPT = re.compile(r"[A-Z]+")


@dataclass(frozen=True, slots=True)
class Language:
    """What one file states. Every key but the two names may be left out.

    code: the file's name, ISO 639-1. name, native_name: in English and in the language itself.
    aliases: other codes for it ("nb" and "nn" for "no"). long_codes: of ISO 639-2 and 639-3 ("nor", "nob").
    scripts: Unicode names of the scripts that it is written in, its own first.
    rare: an identifier that names this language in a doubtful passage is wrong more often than right, so
    it is considered only where the language is wanted.
    relatives: codes of languages that the identifiers confuse it with; both identifiers must be nearly
    certain before one of these counts as foreign. twins: languages that cannot be distinguished at all. An
    entry in one of the two files is enough for both lists.
    foreign_letters, foreign_sequences: letters of its script, and of its letters, that the language does not
    use but its relatives do: where none occurs, a passage in its script is its own.
    judges_its_script: words of its script inside text of another script are spelled as this language's.
    trigram_profiles: names of langdetect's profiles that count its trigrams (default: the code).
    spelling_slack: how far below the language's mean usualness its words may be, in log10 a trigram
    (default: its script's, `word_evidence.script_slack`).
    function_words: words of grammar; without them the language is recognised by its script and by the
    identifiers alone. function_word_share: their share among the words of prose.
    never_final_words: words that end no sentence: an answer that ends with one was cut.
    abbreviations, number_abbreviations: what a full stop follows that ends no sentence, before a name or
    before a figure, without that full stop.
    author_conjunctions: "and", between the authors of a bibliography's entry.
    label_names: names of the language, in any language, as labels of translations have them ("Inglese: …").
    day_words, weekdays: headings of a plan whose days recur.
    repetition_units: nouns after the count of a requested repetition ("50 times", "20 lines").
    gherkin_blocks, gherkin_steps: keywords of test scenarios.

    Words of `label_names` and `repetition_units` may end in "*", see
    `stresstest.detectors.languages.catalog`.
    """

    code: str
    name: str
    native_name: str
    aliases: tuple[str, ...] = ()
    long_codes: frozenset[str] = frozenset()
    scripts: tuple[str, ...] = (LATIN,)
    rare: bool = False
    relatives: tuple[str, ...] = ()
    twins: tuple[str, ...] = ()
    foreign_letters: str = ""
    foreign_sequences: frozenset[str] = frozenset()
    judges_its_script: bool = False
    trigram_profiles: tuple[str, ...] = ()
    spelling_slack: float | None = None
    function_words: frozenset[str] = frozenset()
    function_word_share: float = USUAL_SHARE
    never_final_words: frozenset[str] = frozenset()
    abbreviations: frozenset[str] = frozenset()
    number_abbreviations: frozenset[str] = frozenset()
    author_conjunctions: frozenset[str] = frozenset()
    label_names: frozenset[str] = frozenset()
    day_words: frozenset[str] = frozenset()
    weekdays: frozenset[str] = frozenset()
    repetition_units: frozenset[str] = frozenset()
    gherkin_blocks: tuple[str, ...] = ()
    gherkin_steps: tuple[str, ...] = ()


_WORDS = (
    "long_codes",
    "foreign_sequences",
    "function_words",
    "never_final_words",
    "abbreviations",
    "number_abbreviations",
    "author_conjunctions",
    "day_words",
    "weekdays",
    "repetition_units",
)
"""Keys of words in lower case, separated by white space."""
_CODES = ("aliases", "relatives", "twins")
_TEXTS = ("trigram_profiles", "gherkin_blocks", "gherkin_steps")
_FLAGS = ("rare", "judges_its_script")
_NUMBERS = ("spelling_slack", "function_word_share")
_KEYS = (
    "name",
    "native_name",
    "scripts",
    "foreign_letters",
    "label_names",
    *_WORDS,
    *_CODES,
    *_TEXTS,
    *_FLAGS,
    *_NUMBERS,
)


def read_language(path: Path) -> Language:
    """The language of one file. UsageError names the file, the key and what is wrong."""
    with toml_table(read_file(path, "language file"), str(path)) as table:
        if not _CODE.fullmatch(path.stem):
            raise MalformedFileError("a language file is named by the language's code, such as it.toml")
        table.refuse_unknown(_KEYS)
        values: dict[str, Any] = {key: _words(table, key) for key in _WORDS if key in table.values}
        values |= {key: _matching(table, key, _CODE, "code, such as it") for key in _CODES}
        values |= {key: tuple(table.texts(key)) for key in _TEXTS if key in table.values}
        values |= {key: _flag(table, key) for key in _FLAGS}
        values |= {key: table.positive(key, 1.0) for key in _NUMBERS if key in table.values}
        if "scripts" in table.values:
            values["scripts"] = _matching(table, "scripts", _SCRIPT, "script name, such as LATIN")
        return Language(
            code=path.stem,
            name=table.label("name"),
            native_name=table.label("native_name"),
            foreign_letters=table.text("foreign_letters") or "",
            label_names=frozenset((table.text("label_names") or "").split()),
            **values,
        )


def _words(table: TomlTable, key: str) -> frozenset[str]:
    words = table.required(key).split()
    for word in words:
        if word != word.lower():
            raise MalformedFileError(
                f"{table.key(key)} must hold words in lower case, not {format_short(word)}"
            )
    return frozenset(words)


def _matching(table: TomlTable, key: str, pattern: re.Pattern[str], what: str) -> tuple[str, ...]:
    values = table.texts(key) if key in table.values else []
    for value in values:
        if not pattern.fullmatch(value):
            raise MalformedFileError(f"{format_short(value)} in {table.key(key)} is not a {what}")
    return tuple(values)


def _flag(table: TomlTable, key: str) -> bool:
    value = table.values.get(key, False)
    if not isinstance(value, bool):
        raise MalformedFileError(f"{table.key(key)} must be true or false, not {format_short(value)}")
    return value
