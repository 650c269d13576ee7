"""The page around a report: template, inlined assets, content security policy, data that stays data.

Everything foreign (model names, prompts, texts, errors) reaches the page in two ways only: through the
template, escaped there, or as JSON in a data block that the page's own script puts in by `textContent`.
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

from stresstest.report.text import clean

if TYPE_CHECKING:
    from jinja2 import Environment

LONGEST = 4_000
"""Characters of one foreign text that the page shows."""
_STYLES = ("uplot-1.6.32.min.css", "report.css")
_SCRIPTS = ("uplot-1.6.32.min.js", "report.js", "charts.js", "ladder.js")
_UNIT = re.compile(r"(?<=\d) %")
"""A number and its unit stay on one line."""
_BREAKING = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def shown(text: str, longest: int = LONGEST) -> str:
    """Foreign text fit for a page: no steering characters, cut where it is longer than anyone reads."""
    if len(text) > longest:
        return f"{clean(text[:longest])}… ({len(text) - longest:,} characters more)"
    return clean(text)


def data_block(data: Any) -> str:
    """JSON that no text in it can end or break out of, whatever the parser of the page thinks of it."""
    text = json.dumps(_harmless(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _BREAKING.items():
        text = text.replace(character, escape)
    return text


def render(template: str, data: Any, **values: Any) -> str:
    """The whole page. template: a name in templates/; data: what its script draws."""
    from markupsafe import Markup

    styles, scripts = _assets(_STYLES), [_asset(name) for name in _SCRIPTS]
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


def _harmless(value: Any) -> Any:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, float):
        return round(value, 5) if value == value and abs(value) != float("inf") else None
    if isinstance(value, Mapping):
        return {shown(str(k)): _harmless(v) for k, v in value.items()}
    if isinstance(value, Sequence):
        return [_harmless(v) for v in value]
    return value


def _policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Only what stands in this file may act, and nothing may be fetched or sent."""
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
        return _UNIT.sub("\u00a0%", shown(value))

    return Environment(
        loader=PackageLoader("stresstest.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )


def _assets(names: Sequence[str]) -> str:
    return "\n".join(_asset(name) for name in names)


@lru_cache(maxsize=8)
def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8").strip()
