"""Writes docs/licences.md from the installed packages; ``--check`` fails if it must be looked at.

Every direct dependency has to be in the table, and all that they bring has to have a known licence. What they
bring changes without us: there the table may lag behind.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TARGET = Path(__file__).parent / "licences.md"
_PROJECT = Path(__file__).parents[1] / "pyproject.toml"
_HEAD = """# Licences of what is installed with stresstest

This program is under the Apache licence 2.0. It installs these packages and contains none of them. One marked
with an extra comes where that is asked for. `make docs` writes this page from the packages' metadata;
`make sbom` lists the versions of an installation as CycloneDX.

Only of langdetect and py3langid are private parts used, and their versions are bounded for that reason.

| package | licence | comes with |
|---|---|---|
"""
_KNOWN = re.compile(
    r"(MIT|Apache|BSD|PSF|Python Software Foundation|MPL|Mozilla|ISC|LGPL|CNRI|0BSD|Zlib|CC0)\b.*"
)
"""Beginnings of the licences under which a package may be installed beside this program."""
_FREE_TEXT = {"matplotlib": "PSF-2.0 (matplotlib licence)", "cycler": "BSD-3-Clause"}


def licence_of(name: str) -> str:
    """The licence expression, else the classifiers, else the free text of the metadata."""
    metadata = distribution(name).metadata
    if name in _FREE_TEXT:
        return _FREE_TEXT[name]
    classifiers = [c.rpartition(" :: ")[2] for c in metadata.get_all("Classifier") or [] if "License ::" in c]
    text = (metadata.get("License") or "").strip().split("\n")[0]
    return metadata.get("License-Expression") or ", ".join(classifiers) or text or "not told"


def installed_with(requirements: list[str], extra: str = "") -> set[str]:
    """The packages that these requirements bring, their own included, as far as they are installed here."""
    found: set[str] = set()
    waiting = [(Requirement(each), extra) for each in requirements]
    while waiting:
        wanted, chosen = waiting.pop()
        name = canonicalize_name(wanted.name)
        applies = wanted.marker is None or wanted.marker.evaluate({"extra": chosen})
        if not applies or name in found:
            continue
        try:
            more = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        found.add(name)
        waiting += [(Requirement(each), each_extra) for each in more for each_extra in wanted.extras or {""}]
    return found


def table() -> dict[str, tuple[str, str]]:
    """Package -> (licence, what it comes with)."""
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]
    base = installed_with(project["dependencies"])
    found = {name: (licence_of(name), "always") for name in base}
    for extra, requirements in project["optional-dependencies"].items():
        for name in installed_with(requirements) - found.keys():
            found[name] = (licence_of(name), f"`{extra}`")
    return dict(sorted(found.items()))


def troubles() -> list[str]:
    """Why the page cannot stay as it is."""
    page, found = TARGET.read_text(encoding="utf-8"), table()
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]
    direct = {canonicalize_name(Requirement(each).name) for each in project["dependencies"]}
    missing = [f"{name} is not listed" for name in sorted(direct) if f"| {name} |" not in page]
    return missing + [
        f"{name} has an unknown licence: {licence}"
        for name, (licence, _) in found.items()
        if not _KNOWN.match(licence)
    ]


if __name__ == "__main__":
    if "--check" in sys.argv:
        if found := troubles():
            sys.exit("\n".join([*found, "run: python docs/generate_licences.py"]))
    else:
        rows = (f"| {name} | {licence} | {use} |\n" for name, (licence, use) in table().items())
        TARGET.write_text(_HEAD + "".join(rows), encoding="utf-8")
