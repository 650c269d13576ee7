"""Renders a report page: template, inlined assets, content security policy, embedded data.

Untrusted text (model names, prompts, output, errors) reaches the page only through the template, which
escapes it, or as JSON in a data block, which the page's script inserts by `textContent`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from stresstest.render.text import sanitize

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_TEXT_CHARS = 4_000
"""Maximum characters of one untrusted text on the page."""
_STYLES = ("uplot-1.6.32.min.css", "report.css")
_SCRIPTS = ("uplot-1.6.32.min.js", "report.js", "charts.js", "ladder.js")
_UNIT = re.compile(r"(?<=\d) %")
"""The blank between a number and %, replaced by a no-break space."""
_CI_COMMAND = re.compile(r"\s*\n\s*(?=::|##)")
"""What stands before a command to a CI runner where the page's source is printed to its log: not at the
beginning of a line it has no effect."""
_BREAKING = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def sanitize_for_page(text: str, longest: int = MAX_TEXT_CHARS) -> str:
    """Untrusted text without control characters, truncated to `longest` characters."""
    if len(text) > longest:
        return f"{sanitize(text[:longest])}… ({len(text) - longest:,} characters more)"
    return sanitize(text)


def data_block(data: Any) -> str:
    """The data as JSON in which no text can end the surrounding script element."""
    text = json.dumps(_sanitize_value(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _BREAKING.items():
        text = text.replace(character, escape)
    return text


def render(template: str, data: Any, **values: Any) -> str:
    """The complete page. template: a name in templates/. data: for the page's script."""
    from markupsafe import Markup

    styles, scripts = "\n".join(map(_asset, _STYLES)), [_asset(name) for name in _SCRIPTS]
    return (
        _environment()
        .get_template(template)
        .render(
            values,
            policy=_policy([styles], scripts),
            style=Markup(styles),
            scripts=[Markup(script) for script in scripts],
            data=Markup(data_block(data)),
        )
    )


def _sanitize_value(value: Any) -> Any:
    if isinstance(value, str):
        return sanitize_for_page(value)
    if isinstance(value, float):
        return round(value, 5) if value == value and abs(value) != float("inf") else None
    if isinstance(value, Mapping):
        return {sanitize_for_page(str(k)): _sanitize_value(v) for k, v in value.items()}
    if isinstance(value, Sequence):
        return [_sanitize_value(v) for v in value]
    return value


def _policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """A content security policy that allows only the inlined scripts and styles, and no requests."""
    return (
        f"default-src 'none'; style-src {_hashes(styles)}; script-src {_hashes(scripts)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hashes(texts: Sequence[str]) -> str:
    digests = (hashlib.sha256(text.encode("utf-8")).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def finalize(value: Any) -> Any:
        if not isinstance(value, str) or isinstance(value, Markup):
            return value
        text = _UNIT.sub("\u00a0%", sanitize_for_page(value))
        return _CI_COMMAND.sub(" ", text)

    return Environment(
        loader=PackageLoader("stresstest.render.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )


@lru_cache(maxsize=8)
def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8").strip()
