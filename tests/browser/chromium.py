"""Debian's Chromium, headless, without a network, telling everything it asked for and complained of."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

BROWSER, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


def installed() -> bool:
    """Whether the browser and its driver are there."""
    return shutil.which(BROWSER) is not None and shutil.which(DRIVER) is not None


@contextmanager
def chromium(profile: Path) -> Iterator[Chrome]:
    """A browser with an empty profile in `profile`; it ends with the block."""
    options = ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def show(driver: Chrome, page: Path, width: int = 1440, height: int = 900, *, dark: bool = False) -> None:
    """Open a file at this size of the window (CSS pixels), with what was logged before forgotten."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]},
    )
    driver.get("about:blank")
    for log in ("performance", "browser"):
        _logged(driver, log)
    driver.get(page.as_uri())
    # On a busy machine the driver may return before the document is whole.
    ready = "return document.readyState === 'complete' && location.href.startsWith(arguments[0])"
    WebDriverWait(driver, 60).until(lambda there: there.execute_script(ready, page.as_uri()))


def whole(driver: Chrome, file: Path) -> None:
    """A picture of the whole page, not of the window alone."""
    import base64

    size = driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12_000), "scale": 1}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(base64.b64decode(shot["data"]))


def requests(driver: Chrome, page: Path) -> list[str]:
    """Every address that was asked for since the page was opened, the page itself left out.

    What the page's own policy stopped never left; the console complains of it.
    """
    asked: dict[str, str] = {}
    for entry in _logged(driver, "performance"):
        message: dict[str, Any] = json.loads(entry["message"])["message"]
        about = message["params"]
        if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
            asked[about["requestId"]] = str(about.get("request", about)["url"])
        elif message["method"] == "Network.loadingFailed" and about.get("blockedReason") == "csp":
            asked.pop(about["requestId"], None)
    return [url for url in asked.values() if url.split("#")[0] != page.as_uri()]


def complaints(driver: Chrome) -> list[str]:
    """What the page's console holds: errors, warnings, violations of its own policy."""
    return [str(entry["message"]) for entry in _logged(driver, "browser")]


def _logged(driver: Chrome, log: str) -> list[dict[str, Any]]:
    """What came since the last call."""
    untyped: Any = driver
    return list(untyped.get_log(log))
