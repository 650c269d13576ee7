"""What people call a language, and whether drift away from it can be detected."""

from __future__ import annotations

from stresstest.detectors.identification.votes import screening_identifier
from stresstest.detectors.languages.catalog import Catalog, catalog, normalize_language, per_catalog
from stresstest.errors import UsageError


@per_catalog
def _codes_by_name(known: Catalog) -> dict[str, str]:
    """Codes by the names of languages, in English and in themselves, and by their longer codes."""
    return {
        name.casefold(): code
        for code, language in known.languages.items()
        for name in (language.name, language.native_name, *language.long_codes)
    }


def read_language_name(stated: str) -> str | None:
    """What a record calls a language, as a code: "de-AT", "German", "Deutsch", "deu_Latn". None for a
    language that drift cannot be detected from."""
    if can_detect_drift(stated):
        return stated
    names = _codes_by_name()
    return names.get(stated.strip().casefold()) or names.get(
        stated.replace("_", "-").split("-")[0].casefold()
    )


def can_detect_drift(language: str) -> bool:
    """Whether drift away from this language can be detected: by its script, its words or the identifier."""
    code = normalize_language(language)
    return code in catalog().languages or code in screening_identifier(code).labels


def require_language(language: str | None) -> None:
    """Raises UsageError for a language that drift cannot be detected from; None is fine."""
    if language and not can_detect_drift(language):
        raise UsageError(
            f"This program cannot identify the language {language!r}; write a code such as en or fr."
        )
