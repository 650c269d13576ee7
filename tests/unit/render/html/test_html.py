"""The HTML report: one harmless file, in the promised order, small, and deliberate about what is missing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.model import DocumentKind, Generation, GenerationVerdict, RunStatus
from stresstest.render.html import compared_html, index_html, run_html
from stresstest.render.html.findings import finding_sections
from stresstest.render.html.page import data_block, sanitize_for_page
from stresstest.render.report_data import ReportData
from stresstest.render.sentences import glosses
from stresstest.store import StoredDocument
from tests.browser.pages import thresholds
from tests.support.generations import whole
from tests.support.reported_runs import START, campaign, documents, dossier, healthy, looping, lost, result
from tests.support.snapshots import Snapshot, by_sentence

MEGABYTE = 1_000_000
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}${x}</style>\u202e\u2028\x1b[31m"
TAME = re.sub("[^ ]", "x", HOSTILE) + " (x)"
RAW = {"script", "style"}


class Skeleton(HTMLParser):
    """What a browser would make of a page: tags with attributes' names, and the texts between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.raw: list[tuple[str, str]] = []
        self.text: list[str] = []
        self._in = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *(name for name, _ in attrs)))
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._in = tag

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in in RAW:
            self.raw.append((self._in, data))
        else:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split()).replace("\xa0", " ")


@pytest.fixture(scope="module")
def ordinary() -> str:
    return run_html(dossier())


def test_the_sections_come_in_the_promised_order(ordinary: str) -> None:
    """Verdict, curve, ladder, in depth, planes, findings, provenance: a reader relies on it."""
    ids = [value for tag, name, value in Skeleton(ordinary).attributes if tag == "section" and name == "id"]
    assert ids == ["curve", "ladder", "depth", "planes", "findings", "provenance"]
    assert ordinary.index("<h1") < ordinary.index('id="curve"')


def test_the_first_screen_holds_the_whole_verdict(ordinary: str) -> None:
    """Subject, safe max_tokens, confidence, n, plane and what to do: a stranger needs nothing else."""
    first = Skeleton(ordinary[: ordinary.index('id="curve"')]).words
    for part in (
        "Qwen/Qwen2.5-7B-Instruct-AWQ", "narrative · Italian", "269 safe max_tokens",
        "Certified up to T = 299 tokens: with 90 % confidence, at most 10 %",
        "of answers degenerate by then (none of 24 in the sample)", "T minus a margin of 10 %",
        "Loop from about token 380 (median of the tested answers), "
        "caused by decoding; confirmed: it goes away with",
        "set max_tokens to 269",
        "0 of 24 answers degenerate within 269 tokens, and all 24 at some point if they are not capped.",
        "degenerated within 299 tokens 0 of 24", "degenerated at any length 24 of 24",
        "rigor quick before production, use standard requests in flight 8",
    ):  # fmt: skip
        assert part in first


def test_a_term_is_explained_where_it_is_used() -> None:
    """Onset and plane have a gloss on the first screen that says them, and none where it does not."""
    assert glosses("Safe max_tokens 269", "caused by decoding") == ""
    assert glosses("onset median 300 tokens").startswith("Onset: the token at which the failure begins")
    assert glosses("Onset", "evidence for each plane").count(": ") == 2


def test_the_file_needs_nothing_outside_itself(ordinary: str) -> None:
    """Opened from a disk without a network: no address anywhere that a browser would fetch."""
    skeleton = Skeleton(ordinary)
    assert not {"link", "img", "iframe", "object", "base", "form"} & {tag for tag, *_ in skeleton.tags}
    fetched = [v for _, name, v in skeleton.attributes if name in ("src", "href", "srcset", "action", "data")]
    assert fetched
    assert all(value.startswith("#") for value in fetched)
    styles = "".join(text for tag, text in skeleton.raw if tag == "style")
    assert "url(" not in styles
    assert "@import" not in styles


def test_the_policy_names_exactly_the_scripts_and_styles_of_the_page(ordinary: str) -> None:
    """Anything that got in despite all escaping has no hash, so no browser runs it; and ours do run."""
    skeleton = Skeleton(ordinary)
    policy = next(
        v for tag, name, v in skeleton.attributes if tag == "meta" and name == "content" and "src" in v
    )
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", ordinary, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", ordinary, re.DOTALL)
    hashes = {base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in (*scripts, *styles)}
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == hashes
    assert not [name for _, name, _ in skeleton.attributes if name.startswith("on") or name == "style"]


def test_foreign_text_changes_no_tag_of_the_page() -> None:
    """The same report with an attack in every field has the same elements with the same attributes."""
    attack = f"{HOSTILE} (x)"
    tame, wild = Skeleton(run_html(dossier(TAME))), Skeleton(run_html(dossier(attack)))
    assert tame.tags == wild.tags
    assert "{{7*7}}" in wild.words
    assert "49" not in [word for word in wild.words.split() if "7*7" in word]


def test_no_line_of_the_source_is_a_command_to_a_ci_runner() -> None:
    """A page may be printed to a job's log, where "::error::" at the beginning of a line has an effect."""
    page = run_html(dossier("m\n::error::a\n  ##[group]b"))
    assert not re.search(r"(?m)^\s*(::error|##\[)", page)
    assert "m ::error::a ##[group]b" in Skeleton(page).words


@settings(max_examples=12, deadline=None)
@given(
    st.text(min_size=1, max_size=24).filter(
        lambda t: t.strip() and sanitize_for_page(t).strip() and "(" not in t and not glosses(t)
    )
)
def test_no_text_at_all_changes_a_tag(text: str) -> None:
    """What holds for known attacks holds for any text: it stays text. Of long ones an excerpt is shown, and a
    word such as "onset" is explained."""
    few = (healthy(0, 40, text=text), looping(1, 30, 60, text=text, period=5), lost(2, 20, text))
    tame_few = (healthy(0, 40, text="x"), looping(1, 30, 60, text="x", period=5), lost(2, 20, "x"))
    wild = Skeleton(run_html(dossier(text, generations=few)))
    tame = Skeleton(run_html(dossier("x", generations=tame_few)))
    assert wild.tags == tame.tags


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(_JSON)
def test_a_data_block_is_json_that_nothing_can_end(value: Any) -> None:
    """No character that a parser of HTML looks at, no invalid number; and it is what was put in."""
    block = data_block(value)
    assert not set(block) & set("<>&\u2028\u2029")
    block.encode("utf-8")
    back = json.loads(block)
    if isinstance(value, str):
        assert back == sanitize_for_page(value)
    if isinstance(value, list):
        assert len(back) == len(value)


@pytest.mark.slow
def test_300_generations_of_8000_tokens_stay_under_two_megabytes() -> None:
    """The file is mailed and attached: its size is bounded whatever the model wrote."""
    text = "Il guardiano aprì la porta . " + '<&>"\\ ' * 8 + "日本語の文章 "
    one = looping(0, 6_500, 8_000, text=text, period=400)
    made = tuple(replace(one, job=replace(one.job, index=i), prompt_id=f"p{i}") for i in range(300))
    concluded = replace(result(made[:30], text=text), generations=made)
    page = run_html(ReportData(concluded, whole, None, (), documents(text)))
    assert len(page.encode()) < 2 * MEGABYTE


def test_one_text_of_100_000_characters_in_every_field_stays_small() -> None:
    """A line without an end fills no page."""
    few = (healthy(0, 30, text="x" * 100_000), looping(1, 20, 40, text="y" * 100_000, period=5))
    page = run_html(dossier("z" * 100_000, generations=few))
    assert len(page) < MEGABYTE
    assert "characters more" in page


@pytest.mark.slow
def test_more_than_300_generations_stay_small_too() -> None:
    """A strict campaign may have thousands: the texts give way, the lines stay."""
    one = looping(0, 300, 400)
    made = tuple(replace(one, job=replace(one.job, index=i), prompt_id=f"p{i}") for i in range(1_200))
    concluded = replace(result(made[:30]), generations=made)
    page = run_html(ReportData(concluded, whole))
    assert len(page.encode()) < 2.5 * MEGABYTE
    rows = sum(len(g["rows"]) for g in embedded(page)["ladder"]["groups"])
    assert rows == len(made)


def embedded(page: str) -> dict[str, Any]:
    """The page's data block."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    parsed: dict[str, Any] = json.loads(found[1])
    return parsed


def test_both_copies_of_a_loop_are_told_apart() -> None:
    """The first copy is legitimate, the second is the onset: the whole point of the marked text."""
    generation = looping(3, 300, 420, period=6)
    page = run_html(ReportData(result((*campaign(), generation)), whole))
    [row] = [
        r
        for g in embedded(page)["ladder"]["groups"]
        for r in g["rows"]
        if r["onset"] == 300 and r["seed"] == 103
    ]
    kinds = dict(row["parts"])
    assert list(kinds) == ["before", "first", "second", "after"]
    assert kinds["first"].split() == kinds["second"].split() == [f"giro{i}" for i in range(6)]
    assert "giro" not in kinds["before"]
    assert set(kinds["after"].split()) == {f"giro{i}" for i in range(6)}


def test_every_generation_has_its_line_and_its_zones(ordinary: str) -> None:
    """Every answer is drawn, the earliest onset first, by the zones that the panel saw."""
    data = embedded(ordinary)
    made = campaign()
    assert sum(len(g["rows"]) for g in data["ladder"]["groups"]) == len(made)
    certifying = data["ladder"]["groups"][-1]["rows"]
    assert [row["onset"] for row in certifying] == sorted(row["onset"] for row in certifying)
    assert certifying[0]["zones"] == [["stable", 1, 279], ["drifting", 280, 299], ["collapsed", 300, 480]]


def words_of(concluded: Any, **more: Any) -> str:
    return Skeleton(run_html(ReportData(concluded, whole, **more))).words


def test_what_is_missing_is_said_and_not_left_blank(snapshot: Snapshot) -> None:
    """No GPU, no /metrics, no logprobs, no diagnosis: each has its sentence, and none is a zero."""
    bare = result()
    silent = tuple(
        replace(g, tokens=tuple(replace(t, entropy=None, logprob=None) for t in g.tokens))
        for g in map(whole, bare.generations)
    )
    profile = replace(bare.run.profile, max_model_len=None, top_logprobs=0)
    bare = replace(bare, generations=silent, server=None, samples=(), run=replace(bare.run, profile=profile))
    snapshot(by_sentence(words_of(bare)))
    data = embedded(run_html(ReportData(bare, whole)))["depths"][0]
    assert data["entropy"] == data["kv"] == data["gpu"] == []


def test_no_onset_is_an_answer_and_says_where_it_ends(snapshot: Snapshot) -> None:
    """Healthy up to the cap: "≥ C", nothing extrapolated, the longest healthy answer in depth."""
    answers = [replace(healthy(i, 400), finish_reason="length") for i in range(30)]
    own = [
        replace(a, tokens=(*a.tokens[:-1], replace(a.tokens[-1], text=f" {i}")))
        for i, a in enumerate(answers)
    ]
    said = words_of(result(tuple(own)))
    assert "≥ 400" in said
    snapshot(by_sentence(said))


def test_an_interrupted_run_shows_what_it_has_and_how_to_go_on(snapshot: Snapshot) -> None:
    """Never a number from a part of a sample; the command that resumes it."""
    said = words_of(result(campaign(6), status=RunStatus.INTERRUPTED))
    assert "stresstest run --resume 20261121-173000-4f2a" in said
    snapshot(by_sentence(said))


def test_an_empty_run_is_a_whole_page(snapshot: Snapshot) -> None:
    """Killed before the first answer ended: every section says so."""
    snapshot(by_sentence(words_of(result((), status=RunStatus.RUNNING))))


def test_generations_without_tokens_or_zones_are_drawn() -> None:
    """Lost before the first token, or stored without zones by an early version."""
    nothing = replace(lost(0, 1), tokens=(), verdict=GenerationVerdict(0, 0))
    bare: Generation = replace(healthy(1, 50), verdict=GenerationVerdict(50, 50))
    page = run_html(ReportData(result((nothing, bare)), whole))
    rows = [row for g in embedded(page)["ladder"]["groups"] for row in g["rows"]]
    assert {row["tokens"] for row in rows} == {0, 50} or {row["tokens"] for row in rows} == {1, 50}
    assert "cut" in next(row["ending"] for row in rows if row["lost"])


def test_simulated_numbers_are_never_shown_as_measurements(snapshot: Snapshot) -> None:
    """On a run's page and on a comparison's."""
    simulated, real = ReportData(result(simulated=True), whole), ReportData(result(), whole)
    marked, plain = (Skeleton(run_html(run)).words for run in (simulated, real))
    compared = Skeleton(compared_html([simulated, real])).words
    said = [line for line in by_sentence(marked).splitlines() if line not in by_sentence(plain).splitlines()]
    assert any("imulat" in line for line in said)
    snapshot("\n".join(said), "only on a simulated run's page")
    snapshot(by_sentence(compared), "a comparison")


def test_several_runs_stand_side_by_side() -> None:
    """One column a run, in the order given, curves on one axis of tokens."""
    runs = [
        ReportData(result(run_id="a-1"), whole),
        ReportData(result(tuple(healthy(i, 400) for i in range(30)), run_id="b-2"), whole),
    ]
    page = compared_html(runs)
    said = Skeleton(page).words
    assert said.index("a-1") < said.index("b-2")
    assert said.index("24 of 24") < said.index("0 of 30")
    drawn = embedded(page)["compared"]
    assert [len(run["coherent"]) for run in drawn["runs"]] == [len(drawn["x"])] * 2
    assert drawn["runs"][0]["coherent"][0] == 1.0
    assert drawn["runs"][1]["onsets"] == []
    tame, wild = ([dossier(text), dossier(text)] for text in (TAME, f"{HOSTILE} (x)"))
    assert Skeleton(compared_html(tame)).tags == Skeleton(compared_html(wild)).tags


def test_runs_of_different_questions_are_marked(snapshot: Snapshot) -> None:
    """Limits of two languages are no better and worse of one another."""
    other = result()
    subject = replace(other.run.settings.subject, language="fr")
    other = replace(other, run=replace(other.run, settings=replace(other.run.settings, subject=subject)))
    snapshot(
        by_sentence(Skeleton(compared_html([ReportData(result(), whole), ReportData(other, whole)])).words)
    )


def test_findings_are_drawn_from_their_documents(ordinary: str) -> None:
    """Cost, sweep, check and scan: the numbers of the document, what it lacks as –."""
    said = Skeleton(ordinary).words
    for part in (
        "6 of 160", "42 % of the observed time", "+73.8 %", "× 1.31 95 % interval 1.20 to 1.43",
        "time per token inside loops over outside –", "38 of 38", "10 recorded answers read",
    ):  # fmt: skip
        assert part in said


_KEYS = ("cells", "groups", "rate", "rate_ci", "money", "healthy_slowdown", "baseline", "interval")
_MORE = ("verdict", "answers", "requests", "share_of_time", "wall_clock_s", "lacking")


@pytest.mark.slow
@given(st.sampled_from(list(DocumentKind)), st.dictionaries(st.sampled_from((*_KEYS, *_MORE)), _JSON))
def test_any_document_can_be_drawn(kind: DocumentKind, body: dict[str, Any]) -> None:
    """Keys that are missing, or of another type in an older version, cost their own cell and no more."""
    [found] = finding_sections([StoredDocument("d", kind, START, True, False, (), body)])
    assert found.kind == kind
    assert all(isinstance(cell, str) for row in found.rows for cell in row)
    assert all(isinstance(value, str) for _, value in found.facts)


def test_the_index_joins_no_results_of_different_conditions() -> None:
    """One line through two servers or two decodings looks like a change of the model."""
    row = replace(thresholds()[0], base_url="http://a:8000/v1", latest=True, overruled_by=None)
    other = replace(row, run_id="r9", base_url="http://b:8000/v1", created=row.created + 60)
    warm = replace(
        row, run_id="r8", decoding=replace(row.decoding, temperature=1.5), created=row.created + 90
    )
    page = index_html([row, other, warm], "s.sqlite3")
    points = embedded(page)["history"][0]["points"]
    assert len({point["series"] for point in points}) == 3
    assert all(host in page for host in ("a:8000", "b:8000"))
    assert page.count("<td>first</td>") == 3
    again = replace(row, run_id="r7", created=row.created + 30)
    points = embedded(index_html([row, again], "s.sqlite3"))["history"][0]["points"]
    assert [point["series"] for point in points] == [row.subject.model] * 2


def test_the_index_recommends_no_limit_that_another_run_speaks_against() -> None:
    """Its number would be read as safe; why it is not stands where it comes from."""
    first, second, *others = thresholds()
    page = index_html([first, replace(second, overruled_by="run-9"), *others], "s.sqlite3")
    assert "run run-9" in page
    assert "is not recommended" in page
    assert f'class="num strong">{second.safe_max_tokens}<' not in page
    assert f'class="num strong">{second.safe_max_tokens}<' in index_html(thresholds(), "s.sqlite3")
