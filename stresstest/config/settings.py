"""Settings: the effective value of every option.

Precedence: command line > environment (``STRESSTEST_*``) > TOML file > default. The TOML file is
``--config FILE`` (or ``STRESSTEST_CONFIG``), else ``stresstest.toml`` in the current folder, else
``config.toml`` in the user's configuration folder. An unknown key in a file is an error with a
suggestion. An unknown ``STRESSTEST_*`` variable only causes a warning, because orchestrators inject
variables of their own: a Kubernetes service called "stresstest" sets ``STRESSTEST_PORT``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from stresstest.config.credentials.paths import refuse_key_in_path
from stresstest.config.foreign_files import format_short, read_file
from stresstest.config.found_file import PROJECT_FILE, refuse_found_options
from stresstest.config.suggestions import closest_names, did_you_mean
from stresstest.config.toml_text import parse_toml
from stresstest.errors import UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_settings import BaseSettings

ENV_PREFIX = "STRESSTEST_"
DEFAULT_BASE_URL = "http://localhost:8000/v1"
SECTIONS = ("check", "guard")
"""Top-level keys of a project file that are tables, not options; see :mod:`stresstest.config.project` and
:mod:`stresstest.config.guard`."""
CHOICES = {"rigor": ("quick", "standard", "strict"), "display": ("rich", "plain", "none")}
_NOT_OPTIONS = {"CONFIG"}


_LEAST_SHARE = 1e-9


def parse_share(value: str | float) -> float:
    """``"10%"``, ``"0.1"`` or ``0.1`` → ``0.1``. Raises UsageError outside [0, 1)."""
    try:
        text = str(value).strip()
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise UsageError(f"{value!r} is not a share: write 0.1 or 10%.") from None
    if not 0.0 <= share < 1.0:
        raise UsageError(
            f"A share must be at least 0 and below 1 (100%), not {value!r}; for 2 percent write 2% or 0.02."
        )
    if 0.0 < share < _LEAST_SHARE:
        raise UsageError(f"The share {value!r} is too small: no sample could show it.")
    return share


def parse_duration(value: str | float) -> float:
    """``"90s"``, ``"30m"``, ``"2h"``, ``"1h30m"`` or a number of seconds → seconds, above 0."""
    import re

    text = str(value).strip().lower().replace(" ", "")
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    seconds = 0.0
    if re.fullmatch(r"\d+(\.\d+)?", text):
        seconds = float(text)
    elif re.fullmatch(r"(\d+(\.\d+)?[smhd])+", text):
        seconds = sum(float(n) * units[u] for n, _, u in re.findall(r"(\d+(\.\d+)?)([smhd])", text))
    if seconds <= 0:
        raise UsageError(f"{value!r} is not a duration: write for example 90s, 30m or 1h30m.")
    return seconds


def parse_count(value: str | int) -> int:
    """``"200000"``, ``"200_000"``, ``"200k"``, ``"2M"`` or ``"1G"`` → a positive whole number."""
    text = str(value).strip().lower().replace("_", "").replace(",", "")
    factor = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000}.get(text[-1:], 1)
    digits = text[:-1] if factor > 1 else text
    try:
        count = int(float(digits) * factor) if factor > 1 else int(digits)
    except (ValueError, OverflowError):
        raise UsageError(f"{value!r} is not a count: write for example 200000, 200k or 2M.") from None
    if count <= 0:
        raise UsageError(f"A count must be above 0, not {value!r}.")
    return count


@cache
def _settings_class() -> type[BaseSettings]:
    """The pydantic model, built on first use because importing pydantic would slow down `--help`."""
    from pydantic import AfterValidator, BeforeValidator, Field
    from pydantic_settings import BaseSettings, SettingsConfigDict

    from stresstest.config.request_fields import parse_extra_body, plain_system_prompt

    class Settings(BaseSettings):
        model_config = SettingsConfigDict(
            env_prefix=ENV_PREFIX, extra="forbid", env_ignore_empty=True, allow_inf_nan=False
        )

        model: str | None = None
        lang: str | None = None
        task: str = "narrative"
        base_url: str = DEFAULT_BASE_URL
        rigor: Annotated[str, AfterValidator(partial(_one_of, "rigor"))] = "standard"
        temperature: float | None = Field(default=None, ge=0)
        top_p: float | None = Field(default=None, gt=0, le=1)
        top_k: int | None = Field(default=None, ge=-1)
        min_p: float | None = Field(default=None, ge=0, le=1)
        repetition_penalty: float | None = Field(default=None, gt=0)
        presence_penalty: float | None = Field(default=None, ge=-2, le=2)
        frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
        system_prompt: Annotated[str, AfterValidator(plain_system_prompt)] | None = None
        extra_body: Annotated[str, BeforeValidator(parse_extra_body)] | None = None
        concurrency: int = Field(default=8, ge=1, le=4096)
        horizon: int | None = Field(default=None, ge=64, le=1_000_000)
        margin: Annotated[float, BeforeValidator(parse_share)] = 0.10
        prompts: str | None = None
        budget_tokens: Annotated[int, BeforeValidator(parse_count)] | None = None
        budget_time: Annotated[float, BeforeValidator(parse_duration)] | None = None
        tighten: bool = False
        no_abort: bool = False
        seed: int = Field(default=1, ge=0)
        no_seed: bool = False
        no_logprobs: bool = False
        stall_timeout: Annotated[float, BeforeValidator(parse_duration)] | None = None
        gpus: str = "auto"
        gpu_exporter: Annotated[str, AfterValidator(_plain_exporter)] | None = None
        store: str | None = None
        api_key: str | None = Field(default=None, repr=False)
        display: Annotated[str, AfterValidator(partial(_one_of, "display"))] | None = None

    return Settings


def _plain_exporter(url: str) -> str:
    refuse_key_in_path(
        url, "--gpu-exporter", hint="Put a proxy before it that adds the key, and give the proxy's address."
    )
    return url


def parse_parameter(name: str, value: object) -> float | int:
    """A sampling parameter out of a JSON file, with the type and the range of its option.

    Raises UsageError: what is stored with a wrong type could not be read back. Unlike an option's value it
    must be a number, as a server would refuse the text "0.7" too.
    """
    from pydantic import ValidationError

    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f'"{name}" must be a number, not {format_short(value)}')
    try:
        number = _parameter_type(name).validate_python(value)
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        raise UsageError(f'"{name}" {format_short(value)} is not valid: {why[0].lower()}{why[1:]}') from None
    return number


@cache
def _parameter_type(name: str) -> TypeAdapter[float | int]:
    from pydantic import ConfigDict, TypeAdapter

    field = _settings_class().model_fields[name]
    kind: Any = Annotated[field.annotation, field]
    return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))


def _one_of(name: str, value: str) -> str:
    if value not in CHOICES[name]:
        raise UsageError(f"--{name} {value!r} is not known: choose {', '.join(CHOICES[name])}.")
    return value


def option_names() -> tuple[str, ...]:
    """Every option that the environment and the TOML file can set."""
    return tuple(_settings_class().model_fields)


def option_fields() -> dict[str, Any]:
    """Every option with its type and pydantic field, in the form that `pydantic.create_model` expects."""
    return {name: (field.annotation, field) for name, field in _settings_class().model_fields.items()}


def section(name: str, config_file: Path | None = None) -> tuple[Path, Any] | None:
    """(settings file in use, its table `name`); None without a file or without that table.

    name: one of `SECTIONS`.
    """
    path = config_file or _find_file()
    if path is None:
        return None
    data = _toml(path)
    return (path, data[name]) if name in data else None


def resolve(given: Mapping[str, Any], *, config_file: Path | None = None) -> dict[str, Any]:
    """The effective value of every option.

    given: values from the command line; None means "not given".
    Raises UsageError for an unknown key or an invalid value; the message names its source.
    """
    from pydantic import ValidationError

    known = option_names()
    source, from_file = _read_file(config_file, known)
    cls = _settings_class()
    env_set = {name for name in known if os.environ.get(ENV_PREFIX + name.upper())}
    merged = {k: v for k, v in from_file.items() if k not in env_set}
    merged.update({k: v for k, v in given.items() if v is not None and k in known})
    refuse_found_options(_found(given, config_file))
    _refuse_unsendable(merged)
    try:
        return dict(cls(**merged))
    except ValidationError as error:
        raise UsageError(_validation_sentence(error, given, env_set, source)) from None


def _refuse_unsendable(values: Mapping[str, Any]) -> None:
    """Raise UsageError for text that cannot be encoded or sent: lone surrogates, NUL characters.

    Undecodable bytes on the command line arrive as lone surrogates.
    """
    for name, value in values.items():
        if isinstance(value, str) and ("\0" in value or any(0xD800 <= ord(c) <= 0xDFFF for c in value)):
            raise UsageError(f"--{name.replace('_', '-')} holds bytes that are not valid UTF-8.")


def unknown_variables() -> list[str]:
    """Warnings about unknown ``STRESSTEST_*`` variables whose names resemble a known one."""
    known = {ENV_PREFIX + n.upper() for n in option_names()} | {ENV_PREFIX + n for n in _NOT_OPTIONS}
    warnings = []
    for name in sorted(os.environ):
        if name.startswith(ENV_PREFIX) and name not in known:
            close = closest_names(name, known, cutoff=0.85)
            if close:
                warnings.append(f"The environment variable {name} is not known. Did you mean {close[0]}?")
    return warnings


def _read_file(config_file: Path | None, known: tuple[str, ...]) -> tuple[Path | None, dict[str, Any]]:
    path = config_file or _find_file()
    if path is None:
        return None, {}
    data = _toml(path)
    for key in data:
        if key not in known and key not in SECTIONS:
            hint = did_you_mean(key, (*known, *SECTIONS)) or f"Known keys: {', '.join(known)}."
            raise UsageError(f"The settings file {path} has an unknown key {key!r}. {hint}")
    return path, {key: value for key, value in data.items() if key not in SECTIONS}


def _toml(path: Path) -> dict[str, Any]:
    raw = read_file(path, "The settings file")
    try:
        return parse_toml(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # also a number of 5,000 digits, which is no TOML error
        raise UsageError(f"The settings file {path} is not valid TOML: {error}.") from None


def address_comes_from_project_file(given: Mapping[str, Any], config_file: Path | None = None) -> bool:
    """Whether `base_url` is set by a project file that was only found in the current folder."""
    return _found(given, config_file).get("base_url") is not None


def _found(given: Mapping[str, Any], config_file: Path | None) -> dict[str, Any]:
    """The options that nothing but a project file found in the current folder sets, and its tables."""
    named = config_file or os.environ.get(ENV_PREFIX + "CONFIG")
    if named or not Path(PROJECT_FILE).is_file():
        return {}
    return {
        key: value
        for key, value in _toml(Path(PROJECT_FILE)).items()
        if given.get(key) is None and not os.environ.get(ENV_PREFIX + key.upper())
    }


def _find_file() -> Path | None:
    named = os.environ.get(ENV_PREFIX + "CONFIG")
    if named:
        return Path(named)
    project = Path(PROJECT_FILE)
    if project.is_file() or project.is_dir():  # reading a folder says that it is none
        return project
    from platformdirs import user_config_path

    try:
        user = user_config_path("stresstest", appauthor=False) / "config.toml"
    except RuntimeError:
        return None  # no home folder can be determined
    return user if user.is_file() else None


def _validation_sentence(error: Any, given: Mapping[str, Any], env_set: set[str], source: Path | None) -> str:
    first = error.errors()[0]
    key = str(first["loc"][0]) if first["loc"] else "?"
    if given.get(key) is not None:
        origin = f"--{key.replace('_', '-')}"
    elif key in env_set:
        origin = ENV_PREFIX + key.upper()
    else:
        origin = f"{key!r} in {source}"
    # Never echo an API key, nor what an address, a table or a list may hold of one.
    secret = key in ("api_key", "base_url", "store") or isinstance(first["input"], dict | list)
    value = "" if secret else f" {first['input']!r}"
    return f"{origin}{value} is not valid: {first['msg'][0].lower()}{first['msg'][1:]}."
