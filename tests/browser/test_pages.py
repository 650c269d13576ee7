"""Every kind of page in a real browser: quiet, alone, fitting, reachable, readable. Pictures are kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.pages import BUILD

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

pytestmark = pytest.mark.chromium

PAGES = ("run", "healthy", "bare", "interrupted", "empty", "large", "compared", "index")
AXE = Path(__file__).parent / "vendored" / "axe-core-4.14.1.min.js"


def opened(driver: Chrome, page: Path, width: int = 1440, *, dark: bool = False) -> None:
    from tests.browser.chromium import show

    show(driver, page, width, 900, dark=dark)


def element(driver: Chrome, selector: str) -> WebElement:
    from selenium.webdriver.common.by import By

    return driver.find_element(By.CSS_SELECTOR, selector)


def press(driver: Chrome, *keys: str) -> None:
    from selenium.webdriver import ActionChains

    chain = ActionChains(driver)
    for key in keys:
        chain.send_keys(key)
    chain.perform()


def focused(driver: Chrome) -> str:
    """Tag, id, and class of what has the focus."""
    script = "const e = document.activeElement; return [e.tagName.toLowerCase(), e.id, e.className].join(' ')"
    return str(driver.execute_script(script)).strip()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_quiet_alone_and_fits(
    driver: Chrome, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    """No error, warning or violated policy; no request; nothing wider than the screen."""
    from tests.browser.chromium import complaints, requests, whole

    opened(driver, pages[name], width, dark=dark)
    whole(driver, BUILD / f"{name}-{width}-{'dark' if dark else 'light'}.png")
    assert complaints(driver) == []
    assert requests(driver, pages[name]) == []
    assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    paper = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 22, 26)" if dark else "rgb(252, 252, 250)")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("name", ["run", "interrupted", "large", "compared", "index"])
def test_axe_finds_nothing(driver: Chrome, pages: dict[str, Path], name: str, width: int, dark: bool) -> None:
    """Contrast, names, roles, landmarks, focus: axe-core's rules for WCAG 2.2 AA and best practice."""
    opened(driver, pages[name], width, dark=dark)
    assert violations(driver) == []


def violations(driver: Chrome) -> list[str]:
    driver.execute_script(AXE.read_text(encoding="utf-8"))
    found: dict[str, Any] = driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    assert len(found["passes"]) > 10
    return [
        f"{v['id']}: {v['nodes'][0]['html'][:160]} {v['nodes'][0]['failureSummary'][:300]}"
        for v in found["violations"]
    ]


def test_charts_and_ladder_are_drawn(driver: Chrome, pages: dict[str, Path]) -> None:
    """One curve, six panels of one generation, a line a generation."""
    opened(driver, pages["run"])
    assert driver.execute_script("return document.querySelectorAll('#survival canvas').length") == 1
    assert driver.execute_script("return document.querySelectorAll('#panels canvas').length") == 6
    assert driver.execute_script("return document.querySelectorAll('#rows .row').length") == 26
    inked = driver.execute_script(
        "const c = document.querySelector('#survival canvas');"
        "return new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size"
    )
    assert inked > 20


def test_the_keyboard_reaches_everything_and_opens_a_generation(
    driver: Chrome, pages: dict[str, Path]
) -> None:
    """Tab order follows the page; arrows move along the ladder; Enter opens, Escape gives the focus back."""
    from selenium.webdriver.common.keys import Keys

    opened(driver, pages["run"])
    order = []
    for _ in range(40):
        press(driver, Keys.TAB)
        now = focused(driver)
        if now.startswith("body"):
            break
        order.append(now)
    assert order[0] == "a  skip"
    reached = [order.index(stop) for stop in ("button theme", "button  row", "select which")]
    assert reached == sorted(reached)
    assert order.count("button  row") == 1
    assert "pre  command" in order

    driver.execute_script("document.querySelector('.row').focus()")
    press(driver, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    assert element(driver, "#reader").get_attribute("open") is not None
    assert focused(driver) == "button reader-close"
    title = element(driver, "#reader-title").text
    marks = driver.execute_script(
        "return [...document.querySelectorAll('#reader-text mark')].map(m => m.className)"
    )
    assert marks == ["first", "second", "after"]
    assert violations(driver) == []
    driver.save_screenshot(str(BUILD / "reader-1440.png"))
    press(driver, Keys.ESCAPE)
    assert element(driver, "#reader").get_attribute("open") is None
    assert focused(driver) == "button  row"
    here = driver.execute_script("return document.activeElement.getAttribute('aria-label')")
    assert here.startswith(title + ",")


def test_a_generation_leads_to_the_next_and_into_its_depth(driver: Chrome, pages: dict[str, Path]) -> None:
    """Next, previous, and "see it in depth", which changes the panels."""
    from selenium.webdriver.support.select import Select

    opened(driver, pages["run"], 360)
    driver.execute_script("document.querySelectorAll('.row')[0].click()")
    first = element(driver, "#reader-title").text
    assert not element(driver, "#reader-back").is_enabled()
    element(driver, "#reader-on").click()
    assert element(driver, "#reader-title").text != first
    driver.save_screenshot(str(BUILD / "reader-360.png"))
    for _ in range(26):
        if element(driver, "#reader-depth").is_displayed() or not element(driver, "#reader-on").is_enabled():
            break
        element(driver, "#reader-on").click()
    shown = element(driver, "#reader-title").text
    element(driver, "#reader-depth").click()
    assert Select(element(driver, "#which")).first_selected_option.text.startswith(shown + ":")
    assert focused(driver) == "select which"


def test_the_cursor_reads_all_panels_at_one_token(driver: Chrome, pages: dict[str, Path]) -> None:
    """Interactive where it pays: one place on the axis, every value of text and machine."""
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    opened(driver, pages["run"])
    driver.execute_script("document.querySelector('#panels').scrollIntoView()")
    ActionChains(driver).move_to_element(element(driver, "#panels .u-over")).perform()
    read = panel_values(driver)
    assert len(read) == 6
    assert all(read)
    driver.execute_script("document.querySelector('#panels').focus()")
    before = panel_values(driver)
    press(driver, Keys.END)
    press(driver, Keys.ARROW_LEFT)
    chosen = panel_values(driver)
    assert all(chosen)
    assert chosen != before
    # The focus scrolls the page under the resting mouse: what the keyboard chose stays.
    driver.execute_script("scrollTo({ top: 0, behavior: 'instant' })")
    driver.execute_async_script("const done = arguments[0]; setTimeout(done, 300)")
    assert panel_values(driver) == chosen
    driver.execute_script("document.querySelector('#panels').scrollIntoView({ behavior: 'instant' })")
    ActionChains(driver).move_to_element(element(driver, "#panels .u-over")).move_by_offset(40, 0).perform()
    assert panel_values(driver) != chosen


def panel_values(driver: Chrome) -> list[str]:
    """What the panels say at the cursor."""
    script = "return [...document.querySelectorAll('#panels output')].map(o => o.textContent.trim())"
    return list(driver.execute_script(script))


def test_the_switch_changes_the_colours_and_paper_is_light(driver: Chrome, pages: dict[str, Path]) -> None:
    """The system's choice until the switch is used; what is printed is dark on white."""

    def paper() -> str:
        return str(driver.execute_script("return getComputedStyle(document.body).backgroundColor"))

    opened(driver, pages["run"], dark=True)
    assert paper() == "rgb(20, 22, 26)"
    element(driver, "#theme").click()
    assert paper() == "rgb(252, 252, 250)"
    assert element(driver, "#theme").text == "Dark"
    element(driver, "#theme").click()
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert paper() == "rgb(255, 255, 255)"
    assert (
        driver.execute_script("return getComputedStyle(document.querySelector('.top nav')).display") == "none"
    )
    driver.execute_script("dispatchEvent(new Event('afterprint'))")
    assert driver.execute_script("return document.documentElement.dataset.theme") == "dark"
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert paper() == "rgb(20, 22, 26)"
    assert driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"].startswith("JVBER")
