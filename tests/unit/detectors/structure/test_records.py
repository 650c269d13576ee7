"""Units of structured answers: records, rows and functions, and units that say nothing new."""

from __future__ import annotations

import json
import random

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.structure.records import unit_reader
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.tokens import split_pieces
from stresstest.model import SymptomKind

NAMES = ("Ada", "Bo", "Cem", "Dana", "Eli", "Fay", "Gus", "Hal", "Ines", "Jo", "Kim", "Lev")
CITIES = ("Rome", "Oslo", "Lima", "Bern", "Cork", "Graz", "Lyon", "Kyiv", "Pisa", "Turin", "York", "Zug")
PEOPLE = [
    {"id": i, "name": name, "city": city, "note": f'Likes {city}}} and "quotes" \\', "tags": [{"a": i}]}
    for i, (name, city) in enumerate(zip(NAMES, CITIES, strict=True), 1)
]
MODULE = "import os\n\n\n" + "\n\n\n".join(
    f"def to_{name.lower()}(x):\n    y = x.{city.lower()}()\n    return y + {i}"
    for i, (name, city) in enumerate(zip(NAMES, CITIES, strict=True))
)
TABLE = "| id | name | city |\n|---|---|---|\n" + "\n".join(
    f"| {p['id']} | {p['name']} | {p['city']} |" for p in PEOPLE
)


@pytest.mark.parametrize("size", [1, 3, 7, 10_000])
@pytest.mark.parametrize(
    ("unit", "text", "count"),
    [
        ("json_record", json.dumps(PEOPLE), 12),
        ("json_record", 'The "list":\n```json\n' + json.dumps({"people": PEOPLE}, indent=2) + "\n```\n", 12),
        ("json_record", "\n".join(map(json.dumps, PEOPLE)), 12),
        ("json_record", json.dumps(PEOPLE)[:-40], 11),
        ("row", f"Here it is.\n\n{TABLE}\n", 12),
        ("row", "id,name\n" + "\n".join(f"{p['id']},{p['name']}" for p in PEOPLE) + "\n", 12),
        ("function", f"```python\n{MODULE}\n```\n", 12),
    ],
)
def test_units_are_counted_however_the_text_is_cut(unit: str, text: str, count: int, size: int) -> None:
    """The same units whatever a token holds; braces in strings and nested objects are none."""
    reader = unit_reader(unit)
    assert reader is not None
    found = [u for at in range(0, len(text), size) for u in reader.feed(text[at : at + size], at)]
    assert len(found) == count
    assert all(text.startswith(u.text[:5], u.start) for u in found)


def verdict_at(unit: str, text: str, reason: str = "length") -> tuple[str | None, int | None]:
    """(symptom, character of its onset)."""
    found = detect_text(text, DetectorSpec(unit=unit, units=60), reason)
    before = split_pieces(text)[: found.onset - 1] if found.onset else []
    return found.symptom, len("".join(before)) if found.onset else None


def repeated(turn: int, *, counted: bool) -> tuple[str, int]:
    """(healthy records with the last ones in turn to the cap, the character of the first copy)."""
    last = PEOPLE[-turn:]
    copies = [dict(last[i % turn], id=13 + i) if counted else last[i % turn] for i in range(40)]
    return json.dumps(PEOPLE + copies, indent=1), len(json.dumps(PEOPLE, indent=1))


@pytest.mark.parametrize("turn", [1, 3])
@pytest.mark.parametrize("counted", [False, True])
def test_records_that_say_nothing_new_are_a_symptom(turn: int, counted: bool) -> None:
    """A grammar keeps them valid for ever: the break begins with the first copy."""
    text, at = repeated(turn, counted=counted)
    symptom, onset = verdict_at("json_record", text)
    assert symptom in ("loop", "near_loop")
    assert onset is not None
    assert abs(onset - at) <= 150 * turn


@pytest.mark.parametrize(
    "piece", ['"field_{i}": "x",\n', '"item {i}", ', "{i}, ", "and so on, as item {i} says, "]
)
def test_a_record_that_never_closes_is_a_symptom(piece: str) -> None:
    """Keys, an array or a string without end: each piece is new, and the record never is."""
    opening = {'"f': "", '"i': '"tags": [', "{i": '"n": [', "an": '"note": "'}[piece[:2]]
    text = json.dumps(PEOPLE)[:-1] + ', {"id": 13, ' + opening
    symptom, onset = verdict_at(
        "json_record", text + "".join(piece.format(i=i * 7919 % 9973) for i in range(900))
    )
    assert symptom is not None
    assert onset is not None
    assert onset >= len(json.dumps(PEOPLE)) - 150


def test_one_function_under_new_names_is_a_symptom() -> None:
    """Names are no content where every body is the same."""
    more = "".join(
        f"\n\n\ndef {name.lower()}_{city.lower()}(x):\n    return x + 1" for name in NAMES for city in CITIES
    )
    assert verdict_at("function", MODULE + more)[0] in ("loop", "near_loop")


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("json_record", json.dumps(PEOPLE)),
        ("json_record", json.dumps([{"hour": i, "value": i * i % 17 + 0.5} for i in range(24)])),
        ("row", TABLE),
        ("function", MODULE),
    ],
)
def test_real_units_are_healthy(unit: str, text: str) -> None:
    """Equal keys, a counter, figures that differ, similar short functions."""
    assert verdict_at(unit, text, "stop") == (None, None)


HEALTHY_CODE = {
    "the same calls in a test": "def test_again(self):\n"
    + "    from xml.sax import make_parser\n    p = make_parser()\n" * 6,
    "a table of zeros": "def table():\n    return [\n" + "        0,\n" * 230 + "    ]\n",
    "assertions of few words": "def test_bool(self):\n"
    + "".join(
        f"    self.assertEqual({a} {sign} {b}, {c})\n"
        for sign in "+-*"
        for a in (True, False)
        for b in (True, False)
        for c in (True, False)
    )
    * 2,
    "stubs": "\n".join(f"def is_{name.lower()}(x: object) -> bool: ..." for name in NAMES + CITIES),
    "a cipher": 'ZEN = """Gur Mra bs Clguba, ol Gvz Crgref. Ornhgvshy vf orggre guna htyl. Rkcyvpvg vf'
    ' orggre guna vzcyvpvg. Fvzcyr vf orggre guna pbzcyrk. Pbzcyrk vf orggre guna pbzcyvpngrq."""\n',
}


@pytest.mark.parametrize("name", HEALTHY_CODE)
def test_what_modules_repeat_is_healthy(name: str) -> None:
    """Tests, tables and stubs are written alike by design, and a literal may hold anything."""
    text = f"{MODULE}\n\n\n{HEALTHY_CODE[name]}\n\n{MODULE}"
    assert verdict_at("function", text, "stop") == (None, None)


@pytest.mark.parametrize("name", ["the same calls in a test", "a table of zeros"])
def test_code_that_repeats_itself_to_the_cap_is_a_symptom(name: str) -> None:
    """The same lines again where the cap cuts them, although fewer than a healthy module may hold."""
    text = f"{MODULE}\n\n\n{HEALTHY_CODE[name].removesuffix('    ]' + chr(10))}"
    symptom, onset = verdict_at("function", text)
    assert symptom == "loop"
    assert onset is not None
    assert onset >= len(MODULE)


@pytest.mark.parametrize(("unit", "row"), [("json_record", '{"v": 1},'), ("row", "| 1 | a |")])
def test_a_short_unit_that_repeats_from_the_beginning_is_a_loop(unit: str, row: str) -> None:
    """The same record of a few tokens again and again is a loop by its records before it is one by its
    tokens: judging it ended the run."""
    for count in (12, 40, 400):
        verdict = detect_text("[" + f"{row}\n" * count, DetectorSpec("en", unit=unit, units=60), "length")
        assert verdict.symptom is SymptomKind.LOOP
        assert verdict.onset is not None
        assert verdict.onset <= 30


def test_the_same_row_of_few_words_begins_where_it_repeats() -> None:
    """Words of the row that stand in the rows before it too do not date the failure back."""
    rows = [f"{i},America/{city},America\n" for i, city in enumerate(("Lima", "Bahia", "Nome", "Panama"), 1)]
    text = "id,zone,area\n" + "".join(rows)
    symptom, onset = verdict_at("row", text + "4,America/Panama,America\n" * 150)
    assert symptom == "loop"
    assert onset is not None
    assert abs(onset - len(text)) <= len(rows[-1])


COUNTRIES = ("Italy", "France", "Spain", "Portugal")


def of_few_values(rows: int) -> str:
    """A table whose rows take one of four values anew, in no order, as a real model wrote it."""
    lines = [f"| {i + 1} | {COUNTRIES[i * i * 7 % 11 % 4]} | Pecorino | sheep |" for i in range(rows)]
    return "| No. | Origin | Name | Milk |\n|---|---|---|---|\n" + "\n".join(lines) + "\n"


def test_rows_of_a_few_values_in_no_order_say_nothing_new() -> None:
    """A real model filled a catalogue with four rows in ever new order, numbered on: valid, and empty."""
    symptom, onset = verdict_at("row", of_few_values(40), "stop")
    assert symptom == "near_loop"
    assert onset is not None
    assert of_few_values(40)[:onset].count("\n") <= 8


def test_a_short_table_of_few_values_is_a_table() -> None:
    """Who is on duty on each of ten days is no loop."""
    assert verdict_at("row", of_few_values(10), "stop") == (None, None)


def test_rows_whose_figures_differ_say_something() -> None:
    """A column of four towns beside a column of measurements is data."""
    rows = [f"| {i + 1} | {COUNTRIES[i * i % 4]} | {i * i * 7919 % 1000} |" for i in range(40)]
    text = "| No. | Origin | Tonnes |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    assert verdict_at("row", text, "stop") == (None, None)


def test_a_list_in_place_of_a_table_has_rows() -> None:
    """Where a table was asked for, a real model numbered one and the same line up to the number wanted."""
    lines = [f"{i}. People who collect {'pine ' * (i == 2)}mushrooms" for i in range(1, 41)]
    symptom, onset = verdict_at("row", "\n".join(lines) + "\n", "stop")
    assert symptom == "near_loop"
    assert onset is not None
    assert "\n".join(lines)[:onset].count("\n") <= 4


def test_functions_that_come_again_in_any_order() -> None:
    """The module's own functions once more, each under its own name: nobody writes them twice."""
    functions = MODULE.removeprefix("import os\n\n\n").split("\n\n\n")
    again = random.Random(3).choices(functions[:5], k=40)
    symptom, onset = verdict_at("function", "\n\n\n".join([MODULE, *again]) + "\n")
    assert symptom in ("near_loop", "loop")
    assert onset is not None
    assert abs(onset - len(MODULE)) <= 2 * len(functions[0])


def test_a_copy_begins_with_its_own_name() -> None:
    """A row under ever new names is dated to the row, not to the first word that it shares; also where the
    request is closed some hundred tokens after the alarm."""
    rows = [
        f"| {i} | {name} {city} | {city} Bay | a note on {name} |"
        for i, name in enumerate(NAMES, 1)
        for city in (CITIES[i - 1],)
    ]
    same = (
        "In this town there lived a stern old baker who knew each family by its bread | all kinds of feasts |"
    )
    copies = [f"| {i + 13} | {NAMES[i % 12]} {CITIES[i * 5 % 11]} | {same}" for i in range(60)]
    head = "| id | name | place | note |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    for most in (25, 60):
        symptom, onset = verdict_at("row", head + "\n".join(copies[:most]) + "\n")
        assert symptom == "near_loop"
        assert onset == len(head) + len(copies[0]) + 1


def test_a_value_that_floods_begins_where_it_is_opened() -> None:
    """The loop inside it, recognised some copies later, does not make the failure younger."""
    records = [f'  {{"id": {i}, "zone": "America/{city}"}},\n' for i, city in enumerate(CITIES[:5], 1)]
    text = "[\n" + "".join(records) + '  {"id": 6, "zone": "'
    _, onset = verdict_at("json_record", text + "value" * 1_200)
    assert onset is not None
    assert abs(onset - len(text)) <= len(records[0])
