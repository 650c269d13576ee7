"""The shipped tasks, and the task file's contract."""

from __future__ import annotations

import math
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.errors import ExitCode, UsageError
from stresstest.model import Message
from stresstest.tasks import load_task, shipped_tasks
from stresstest.tasks.taskfile import diagonal_product

LANGUAGES = ("it", "en", "fr", "de", "es", "pt")
SHIPPED = [(name, language) for name in shipped_tasks() for language in load_task(name).languages]
UNIT_WORDS = {
    name: dict(zip(LANGUAGES, words.split(), strict=True))
    for name, words in {
        "narrative": "Paragrafo Paragraph Paragraphe Absatz Párrafo Parágrafo",
        "technical": "Sezione Section Section Abschnitt Sección Secção",
        "qa": "Domanda Question Question Frage Pregunta Pergunta",
        "translation": "Frase Sentence Phrase Satz Frase Frase",
    }.items()
}
NUMBERED = [(name, language) for name, language in SHIPPED if name in UNIT_WORDS]

shipped = pytest.mark.parametrize(("name", "language"), SHIPPED)
numbered = pytest.mark.parametrize(("name", "language"), NUMBERED)


def numbers(name: str, language: str, text: str) -> list[int]:
    regex = load_task(name).language(language).unit_regex
    assert regex is not None
    return [int(match[1]) for match in regex.finditer(text)]


# ---- shipped tasks


def test_shipped_tasks_are_the_documented_ones() -> None:
    """The names users type; a file's stem and its ``name`` must agree or ``--task`` and reports differ."""
    assert shipped_tasks() == ["catalogue", "code", "json", "narrative", "qa", "technical", "translation"]
    assert [load_task(name).name for name in shipped_tasks()] == shipped_tasks()


@pytest.mark.slow
@shipped
def test_three_hundred_distinct_prompts_without_leftover_braces(name: str, language: str) -> None:
    """n generations need n distinct prompts (the strict plan's 473 too); no placeholder is sent."""
    task = load_task(name)
    count = task.distinct(language)
    assert count >= 473
    for open_structure in (False, True):
        prompts = [task.prompt(language, i, 40, open_structure=open_structure) for i in range(count)]
        assert len({prompt.id for prompt in prompts}) == count
        assert not any(set("{}") & set(prompt.messages[0].content) for prompt in prompts)
        assert {prompt.units for prompt in prompts} == {None if open_structure else 40}


@shipped
def test_neighbouring_topics_differ_in_every_slot(name: str, language: str) -> None:
    """A small sample takes the first indexes: they must not be one story told in six places."""
    topics = load_task(name).language(language).topics[:5]
    for first, second in pairwise(topics):
        assert first.split()[:3] != second.split()[:3]
        assert first.split()[-3:] != second.split()[-3:]


@shipped
def test_every_language_has_its_ablations(name: str, language: str) -> None:
    """The diagnosis changes structure and adds a language constraint: a task without them loses two arms."""
    task = load_task(name).language(language)
    assert task.open_instruction is not None
    assert task.language_constraint is not None
    if name in UNIT_WORDS:
        word = UNIT_WORDS[name][language]
        assert word.lower() not in task.open_instruction.lower().replace("questions", "")
        assert f"{word} 1." in task.instruction
    else:
        assert task.unit != "numbered"


@shipped
def test_open_prompt_keeps_the_topic(name: str, language: str) -> None:
    """The structure ablation changes the structure only; another topic would be a second change."""
    task = load_task(name)
    rigid, free = (task.prompt(language, 7, 40, open_structure=flag) for flag in (False, True))
    assert rigid.topic == free.topic
    assert rigid.id != free.id


@shipped
def test_the_open_form_is_a_task_of_its_own(name: str, language: str) -> None:
    """`--task narrative:open` asks for the same topics without numbers: nothing is counted."""
    free = load_task(f"{name}:open")
    assert free.name == f"{name}:open"
    assert free.language(language).unit_pattern is None
    assert not free.language(language).asks_units
    prompt = free.prompt(language, 7, 40)
    assert prompt.units is None
    assert prompt.id == load_task(name).prompt(language, 7, 40, open_structure=True).id


def test_a_task_without_an_open_form_says_so(tmp_path: Path) -> None:
    """A user's file may lack it: a sentence, not a story that nobody asked for."""
    path = write(tmp_path, MINIMAL)
    with pytest.raises(UsageError, match="has no open form"):
        load_task(f"{path}:open")


DECORATED = (
    "{w} {n}.",
    "{w} {n}: Il",
    "{w} {n}",
    "{w} {n} – Il",
    "  {w} {n}. Il",
    "**{w} {n}** Il",
    "**{w} {n}.** Il",
    "***{w}*** {n}",
    "### {w} {n}. Il",
    "> _{w} {n}_",
    "- **{w} n. {n}:** Il",
    "{W} {n}",
    "{l} n° {n}",
    "{w} № {n}",
    "[{w} {n}]",
    "{w}\u00a0{n}\u00a0: Il",
    "{w} {n}. Élan",
)


@numbered
@pytest.mark.parametrize("form", DECORATED)
def test_unit_pattern_reads_what_models_really_write(name: str, language: str, form: str) -> None:
    """A heading that is not recognised looks like a missing unit: a false structure_break."""
    word = UNIT_WORDS[name][language]
    line = form.format(w=word, W=word.upper(), l=word.lower(), n=12)
    assert numbers(name, language, f"Testo prima.\n\n{line}\nTesto dopo.\n") == [12]


@numbered
@pytest.mark.parametrize(
    "form",
    [
        "Come detto nel {w} 12. Poi",
        "Testo **{w} 12**",
        "{w} 12 describes the valves",
        "{w} 12 do regulamento",
        "{w} 12 a 14",
        "{w} 12, which",
        "{w} 12.3 Valves",
        "{w} 12's valves",
        "{w}",
        "{w} twelve",
        "12. Il",
        "Sub{w} 12.",
    ],
)
def test_unit_pattern_leaves_prose_alone(name: str, language: str, form: str) -> None:
    """A mention of a unit inside prose would count as a repeated number: a false structure_break."""
    assert numbers(name, language, form.format(w=UNIT_WORDS[name][language])) == []


GERMAN = [
    ("{w} Nr. 12: Il", [12]),
    ("**{w} Nr. 12**", [12]),
    ("### {w} Nummer 12 – Der Hafen", [12]),
    ("{w} No. 12", [12]),
    ("{w} 12 von 40", [12]),
    ("**{w} 12.** Über den Damm", [12]),
    ("{w} 12 Über den Damm", [12]),
    ("{w} 12 der Verordnung gilt nicht", []),
    ("{w} 12 von ihnen", []),
    ("{w} 12 über den Damm", []),
    ("{w} 12 bis 14", []),
    ("{w} 12 und 13 gelten", []),
    ("{w} 12–14 gelten", []),
    ("{w} 12-14 gelten", []),
    ("{w} 12,5", []),
    ("{w} 12, der", []),
    ("{w} zwölf", []),
    ("Un{w} 12.", []),
]


@pytest.mark.parametrize("name", UNIT_WORDS)
@pytest.mark.parametrize(("form", "found"), GERMAN)
def test_unit_pattern_reads_german_headings(name: str, form: str, found: list[int]) -> None:
    """Numbers as Germans write them; a range or a mention of one is no heading."""
    assert numbers(name, "de", form.format(w=UNIT_WORDS[name]["de"])) == found


@pytest.mark.parametrize("name", ["narrative", "technical"])
@pytest.mark.parametrize(
    "form",
    ["{w} 12 Satz 2 gilt", "{w} 12 Nr. 3", "{w} 12 Nummer 3", "{w} 12 Buchstabe b", "§ 12 Abs. 2 Satz 1"],
)
def test_unit_pattern_leaves_german_citations_alone(name: str, form: str) -> None:
    """Parts of a provision are cited by nouns, which begin with capitals as headings do."""
    assert numbers(name, "de", form.format(w=UNIT_WORDS[name]["de"])) == []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ["narrative", "technical"])
def test_unit_pattern_reads_the_paragraph_sign(name: str, language: str) -> None:
    """Legal-minded models number with the sign instead of the word."""
    assert numbers(name, language, "§ 12\n**§ 13.** Il\n§14 Il\n§ 15 comma 2") == [12, 13, 14]


@pytest.mark.parametrize(
    ("name", "line", "found"),
    [
        ("narrative", "Párrafo n.º 12. El farero", [12]),
        ("narrative", "Parrafo 12. El farero", [12]),
        ("narrative", "**PARRAFO 12**", [12]),
        ("narrative", "Párrafo 12.º El farero", [12]),
        ("narrative", "Párrafo 12 de 40. El farero", [12]),
        ("narrative", "Párrafo 12 – «¡Tierra!», gritó", [12]),
        ("narrative", "Párrafo 12 ¡Tierra!", [12]),
        ("technical", "### SECCIÓN 12: Averías", [12]),
        ("technical", "seccion núm. 12", [12]),
        ("technical", "Sección número 12", [12]),
        ("technical", "Sección nro. 12", [12]),
        ("qa", "Pregunta 12. ¿Qué es un átomo?", [12]),
        ("qa", "**Pregunta 12:** ¿qué es un átomo?", [12]),
        ("qa", "Pregunta 12.ª: ¿Qué es un átomo?", [12]),
        ("translation", "Frase No. 12. ¿Dónde le duele?", [12]),
        ("translation", "Frase N.o 12: ¡Enhorabuena!", [12]),
        ("narrative", "Párrafo 12 del reglamento", []),
        ("narrative", "Párrafo 12.º del reglamento", []),
        ("narrative", "Párrafo 12º, que el juez", []),
        ("narrative", "Párrafo 12 ahí termina", []),
        ("narrative", "Párrafos 12 y 13", []),
        ("technical", "Sección 12 a 14", []),
        ("technical", "Sección 12, apartado 3", []),
        ("technical", "Sección 12,5 metros", []),
        ("technical", "Sección 12.3 Válvulas", []),
        ("technical", "Sección de 12 milímetros", []),
        ("qa", "Pregunta n.º 12 del examen", []),
        ("translation", "Frase 12 única en su género", []),
    ],
)
def test_unit_pattern_reads_spanish_numbering(name: str, line: str, found: list[int]) -> None:
    """Spanish writes n.º and ordinals, and models drop its accents; a paragraph of a law is no heading."""
    assert numbers(name, "es", f"Texto previo.\n\n{line}\nTexto posterior.\n") == found


@pytest.mark.parametrize(
    ("name", "line", "found"),
    [
        ("narrative", "Paragrafo 12. Era", [12]),
        ("narrative", "**Parágrafo n.º 12** – Era", [12]),
        ("narrative", "Parágrafo número 12: Era", [12]),
        ("narrative", "PARÁGRAFO 12 DE 40", [12]),
        ("narrative", "Parágrafo 12 de 40: Era", [12]),
        ("narrative", "§ 12.º – Era", [12]),
        ("narrative", "§ 12.º do artigo 5.º", []),
        ("narrative", "Parágrafo 12.º, que define", []),
        ("narrative", "Parágrafo 12 de um decreto", []),
        ("narrative", "Parágrafo único. Era", []),
        ("narrative", "Parágrafos 12 a 14", []),
        ("technical", "## Seção 12. Válvulas", [12]),
        ("technical", "SECÇÃO N.º 12", [12]),
        ("technical", "Seccao 12 - Valvulas", [12]),
        ("technical", "secao 12", [12]),
        ("technical", "Secção 12 da norma", []),
        ("technical", "Secções 12 e 13", []),
        ("qa", "Pergunta núm. 12: Quando", [12]),
        ("qa", "Perguntas 12 e 13", []),
        ("translation", "Frase 12.ª – Onde", [12]),
        ("translation", "Frases 12 a 14", []),
    ],
)
def test_unit_pattern_reads_portuguese_as_it_is_written(name: str, line: str, found: list[int]) -> None:
    """Both spellings, none of the accents, "n.º", and the ordinals that Portuguese laws number with."""
    assert numbers(name, "pt", line) == found


@numbered
@pytest.mark.parametrize("piece", [" ", "\n", "*", "{w} ", "{w} 1", "9", "# ", "\t\n", "§"])
def test_unit_pattern_is_linear_in_hostile_text(name: str, language: str, piece: str) -> None:
    """Degenerate output is what this regex is fed: 30,000 pieces, which quadratic time would not end."""
    text = piece.format(w=UNIT_WORDS[name][language]) * 30_000
    assert len(numbers(name, language, text)) <= 1


# ---- prompts of a task


def test_a_prompt_says_what_was_asked() -> None:
    """Units and topic stand in the text, and the record of them matches what is sent."""
    prompt = load_task("narrative").prompt("it", 3, 120)
    (message,) = prompt.messages
    assert message.role == "user"
    assert "da 1 a 120" in message.content
    assert "paragrafo 120" in message.content
    assert prompt.topic is not None
    assert message.content.endswith(f"Tema: {prompt.topic}.")
    assert (prompt.index, prompt.units, prompt.text) == (3, 120, None)


def test_topics_start_over_and_the_repetition_shows() -> None:
    """Reused prompts must share an id: n and the number of distinct prompts are printed side by side."""
    task = load_task("qa")
    count = task.distinct("fr")
    first, again = task.prompt("fr", 2, 10), task.prompt("fr", 2 + count, 10)
    assert first.id == again.id == again.fingerprint
    assert again.index == 2 + count


def test_ids_are_stable_across_runs_and_machines() -> None:
    """A resumed run finds its prompts by id; a salted or versioned hash would measure everything twice."""
    task = load_task("narrative")
    assert task.prompt("en", 0, 40).id == load_task("narrative").prompt("en", 0, 40).id
    assert len({task.prompt("en", 0, units).id for units in (40, 41)}) == 2


@pytest.mark.parametrize("system", ["", "Rispondi in italiano."])
def test_a_given_system_prompt_is_sent_even_when_empty(system: str) -> None:
    """Some chat templates insert a system prompt of their own unless one, possibly empty, is sent."""
    prompt = load_task("narrative").prompt("it", 0, 5, system_prompt=system)
    assert prompt.messages[0] == Message("system", system)
    assert prompt.id != load_task("narrative").prompt("it", 0, 5).id


def test_unknown_language_and_task_say_what_exists() -> None:
    """The two commonest typos get a list and a suggestion, with the usage exit code."""
    with pytest.raises(UsageError, match=r"narrative, qa, technical, translation") as caught:
        load_task("narative")
    assert caught.value.hint == "did you mean 'narrative'?"
    assert caught.value.exit_code is ExitCode.USAGE
    with pytest.raises(UsageError, match=r"no language 'nl'; it has: it, en, fr, es, pt, de"):
        load_task("qa").prompt("nl", 0, 5)


def test_impossible_indexes_are_a_programming_error() -> None:
    """A negative index would silently wrap round to another topic."""
    task = load_task("narrative")
    with pytest.raises(ValueError, match="index"):
        task.prompt("it", -1, 5)
    with pytest.raises(ValueError, match="units"):
        task.prompt("it", 0, 0)


# ---- a user's task file


def write(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


MINIMAL = 'name = "mine"\n[languages.de]\ninstruction = "Schreibe {units} Absätze."\n'


def test_a_minimal_user_file_is_enough(tmp_path: Path) -> None:
    """Name and one instruction: nothing else may be required of a user."""
    task = load_task(write(tmp_path, MINIMAL))
    assert task.distinct("de") == 1
    prompt = task.prompt("de", 5, 9)
    assert prompt.messages == (Message("user", "Schreibe 9 Absätze."),)
    assert prompt.topic is None
    with pytest.raises(UsageError, match="open_instruction"):
        task.prompt("de", 0, 9, open_structure=True)


def test_a_unit_of_another_kind_needs_no_pattern(tmp_path: Path) -> None:
    """Records are recognised as such; a pattern beside them, or an unknown kind, is refused by name."""
    text = MINIMAL + 'unit = "json_record"\n'
    assert load_task(write(tmp_path, text)).language("de").unit == "json_record"
    assert load_task(write(tmp_path, text)).language("de").unit_regex is None
    with pytest.raises(UsageError, match="must be one of numbered, json_record, row, function"):
        load_task(write(tmp_path, MINIMAL + 'unit = "record"\n'))
    with pytest.raises(UsageError, match="is for numbered units"):
        load_task(write(tmp_path, text + "unit_pattern = '(\\d+)'\n"))


def test_the_documented_task_file_works(tmp_path: Path) -> None:
    """Readers copy it; its records are recognised as such."""
    text = (Path(__file__).parents[3] / "docs" / "tasks.md").read_text("utf-8")
    block = text.partition("```toml\n")[2].partition("```")[0]
    task = load_task(write(tmp_path, block))
    assert (task.language("en").unit, task.distinct("en")) == ("json_record", 9)
    assert "as a JSON array" in task.prompt("en", 0, 30).messages[0].content


def test_an_instruction_without_units_asks_for_no_number(tmp_path: Path) -> None:
    """``units`` is None, not the ladder's number: nothing was requested, so nothing can be short."""
    task = load_task(write(tmp_path, MINIMAL.replace("{units} ", "")))
    assert task.prompt("de", 0, 9).units is None


def test_user_text_is_never_a_format_string(tmp_path: Path) -> None:
    """Braces other than the two placeholders survive, and substituted text is not scanned again."""
    text = (
        MINIMAL.replace("Absätze.", "x {0} {units.__class__} {} {{units}} %s {topic}")
        + 'topics = ["{units} {x!r}"]'
    )
    prompt = load_task(write(tmp_path, text)).prompt("de", 0, 9)
    assert prompt.messages[0].content == "Schreibe 9 x {0} {units.__class__} {} {9} %s {units} {x!r}"


def test_templates_take_turns(tmp_path: Path) -> None:
    """Two templates of different size are interleaved, not one after the other, and duplicates count once."""
    text = MINIMAL.replace("Absätze", "{topic}") + (
        'topics = ["{a}-{b}", "solo", "solo"]\n[languages.de.slots]\na = ["1", "2"]\nb = ["x", "y"]\n'
    )
    assert load_task(write(tmp_path, text)).language("de").topics == ("1-x", "solo", "2-y", "1-y", "2-x")


TOPICS = 'topics = ["{who} geht"]\n[languages.de.slots]\nwho = ["A"]\n'
WITH_TOPICS = MINIMAL.replace("Absätze", "Absätze {topic}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", ["not valid TOML"]),
        ('name = "a"\n', ["at least one language"]),
        ('name = "a"\nlanguages = 3\n', ["languages must be a table"]),
        (MINIMAL.replace("name", "nam"), ["unknown key 'nam'", "did you mean 'name'"]),
        (MINIMAL.replace('name = "mine"', ""), ["the key name is missing"]),
        (MINIMAL.replace('"mine"', '"a\\u001b[31m"'), ["name must be one line"]),
        ('instruction = "x"\n' + MINIMAL, ["unknown key 'instruction'", "[languages.it]"]),
        (
            MINIMAL.replace("instruction", "instructoin"),
            ["languages.de.instructoin", "did you mean 'instruction'"],
        ),
        (
            MINIMAL.replace('"Schreibe {units} Absätze."', '" "'),
            ["languages.de.instruction must be a non-empty"],
        ),
        (WITH_TOPICS, ["languages.de.topics is missing"]),
        (WITH_TOPICS + "topics = []", ["languages.de.topics must be a list"]),
        (WITH_TOPICS + 'topics = "one"', ["languages.de.topics must be a list"]),
        (WITH_TOPICS + "topics = [1]", ["languages.de.topics must hold non-empty texts, not 1"]),
        (MINIMAL + 'topics = ["x"]', ["languages.de.instruction lacks {topic}"]),
        (
            MINIMAL.replace("{units}", "{unit}"),
            ["languages.de.instruction holds {unit}, which is not filled in (did you mean 'units'?)"],
        ),
        (
            MINIMAL + 'open_instruction = "Write about {Topics}."',
            ["languages.de.open_instruction holds {Topics}", "did you mean 'topic'?"],
        ),
        (MINIMAL + '[languages.de.slots]\nwho = ["A"]', ["slots is given without"]),
        (WITH_TOPICS + TOPICS.replace("{who}", "{whom}"), ["uses {whom}", "did you mean 'who'"]),
        (WITH_TOPICS + TOPICS + 'where = ["B"]', ["languages.de.slots.where is used by none"]),
        (
            MINIMAL + "unit_pattern = '('",
            ["languages.de.unit_pattern", "is not a valid regular expression"],
        ),
        (MINIMAL + "unit_pattern = 'a{99999999999}'", ["repeats too much"]),
        (MINIMAL + "unit_pattern = 'Absatz'", ["needs a group 1"]),
        (MINIMAL + "tokens_per_unit = 0", ["tokens_per_unit must be a number above 0", "not 0"]),
        (MINIMAL + "tokens_per_unit = true", ["not True"]),
        (MINIMAL + "tokens_per_unit = nan", ["not nan"]),
    ],
)
def test_a_malformed_file_gets_one_clear_sentence(tmp_path: Path, text: str, words: list[str]) -> None:
    """File, key and fault in one line: the user fixes it without reading our source."""
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load_task(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}: ")
    assert "\x1b" not in sentence
    for word in words:
        assert word in sentence


def test_exploding_slots_are_refused(tmp_path: Path) -> None:
    """Six slots of ten are a million strings; a task file must not be able to fill the memory."""
    names = "abcdef"
    slots = "".join(f"{n} = {[n + str(i) for i in range(10)]}\n" for n in names)
    topics = f'topics = ["{"".join("{" + n + "}" for n in names)}"]\n[languages.de.slots]\n'
    with pytest.raises(UsageError, match="1000000 topics"):
        load_task(write(tmp_path, WITH_TOPICS + topics + slots))


def test_unreadable_files_are_sentences_too(tmp_path: Path) -> None:
    """Missing, folder, wrong encoding, NUL in the path: never a traceback."""
    (tmp_path / "latin.toml").write_bytes('name = "perché"'.encode("latin-1"))
    for path, word in [
        (str(tmp_path / "none.toml"), "does not exist"),
        (f"{tmp_path}/", "is a folder"),
        (str(tmp_path / "latin.toml"), "not UTF-8"),
        ("a\0b.toml", "cannot be read"),
        ("~nobody-here/x.toml", "does not exist"),
    ]:
        with pytest.raises(UsageError, match=word):
            load_task(path)


def test_a_byte_order_mark_is_forgiven(tmp_path: Path) -> None:
    """Windows editors write one; tomllib refuses it with a message that helps nobody."""
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL, encoding="utf-8-sig")
    assert load_task(str(path)).name == "mine"


@given(st.lists(st.integers(min_value=1, max_value=7), max_size=4))
@settings(max_examples=60, deadline=None)
def test_diagonal_product_visits_every_combination_once(sizes: list[int]) -> None:
    """A combination left out or visited twice would make 'distinct prompts' a lie. Oracle: itertools."""
    visited = list(diagonal_product(sizes))
    assert len(visited) == math.prod(sizes)
    assert set(visited) == set(product(*(range(size) for size in sizes)))


@given(st.lists(st.integers(min_value=3, max_value=9), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_diagonal_product_moves_every_digit_at_the_start(sizes: list[int]) -> None:
    """Consecutive indexes differ in everything: the first prompts of a run are the most varied ones."""
    visited = list(diagonal_product(sizes))[: max(sizes)]
    for first, second in pairwise(visited):
        assert all(a != b for a, b in zip(first, second, strict=True))
