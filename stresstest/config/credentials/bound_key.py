"""An API key that a file that somebody else wrote must not be able to redirect.

A `stresstest.toml` in the current folder, or a store, may come with somebody else's repository and name any
address. The key in the environment was not put there for that address, nor is one meant for it that was given
beside another.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from stresstest.errors import UsageError

_OFFICIAL = "https://api.openai.com"
_FILE = "confirmed-servers.txt"


class BoundKey(str):
    """An API key that may be sent only to the servers that its owner chose.

    chosen: base URLs given on the command line, by the environment or in the user's own settings. A server
    that has once been chosen while a key was set is remembered in the user's configuration folder.
    """

    __slots__ = ("_chosen",)
    _chosen: frozenset[str]

    def __new__(cls, key: str, *, chosen: Collection[str]) -> Self:
        made = super().__new__(cls, key)
        made._chosen = frozenset(_server(url) for url in chosen)
        return made

    def with_chosen(self, base_urls: Collection[str]) -> Self:
        """The same key, which may also be sent to these addresses."""
        return type(self)(self, chosen=[*self._chosen, *base_urls])

    def require_confirmed(self, base_url: str) -> None:
        """Raise UsageError unless the key may be sent to this address; remember a chosen one."""
        server = _server(base_url)
        if server == _OFFICIAL:
            return
        path = _confirmed_file()
        confirmed = _read(path)
        if server in confirmed:
            return
        if server not in self._chosen:
            raise UsageError(
                f"The API key is not sent to {server}: nobody has confirmed this address, "
                "which comes from a project file or a stored run.",
                hint=f"If you trust it, name it once: stresstest doctor --base-url {server}",
            )
        _remember(path, server)


def require_confirmed(api_key: str | None, url: str) -> None:
    """Raise UsageError where a BoundKey may not be sent to this address; other keys are their owner's."""
    if isinstance(api_key, BoundKey):
        api_key.require_confirmed(url)


def _server(base_url: str) -> str:
    """Scheme, host and port of a URL; its user name and password are left out. "" for no URL."""
    try:
        parts = urlsplit(base_url.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if not host:
        return ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def _confirmed_file() -> Path | None:
    from platformdirs import user_config_path

    try:
        return user_config_path("stresstest", appauthor=False) / _FILE
    except RuntimeError:
        return None  # no home folder can be determined


def _read(path: Path | None) -> frozenset[str]:
    try:
        text = "" if path is None else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return frozenset()
    return frozenset(text.split())


def _remember(path: Path | None, server: str) -> None:
    """Best effort: where the folder cannot be written, the address is only not remembered."""
    if path is None or not server:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{server}\n")
    except OSError:
        return
