"""Keys in the path of an address, where some gateways take them: an address is stored and shown."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from stresstest.config.credentials.shapes import TOKEN
from stresstest.config.secrets import remember
from stresstest.errors import UsageError

_FOR_A_KEY = (
    "Give the key with --api-key or OPENAI_API_KEY, which are never stored. If a gateway takes it in the "
    "path only, put a proxy before it that adds the key, and give the proxy's address."
)


def _is_key(part: str) -> bool:
    return TOKEN.match(unquote(part).removeprefix("bot")) is not None  # Telegram's `bot<token>`


def without_keys(address: str) -> str:
    """An address with an ellipsis for each part of its path that is a key by its shape."""
    return "/".join("…" if _is_key(part) else part for part in address.split("/"))


def refuse_key_in_path(address: str, what: str, hint: str = _FOR_A_KEY) -> None:
    """Raise UsageError where a part of the path is a key by its shape, without quoting it (Helicone's
    ``https://…/v1/sk-helicone-…``). what: names the address, for the message."""
    try:
        path = urlsplit(address.strip()).path
    except ValueError:  # refused elsewhere, with its own sentence
        return
    keys = [part for part in path.split("/") if _is_key(part)]
    for key in keys:
        remember(key)
    if keys:
        raise UsageError(
            f"{what} holds a key in its path. Addresses are stored and shown in reports.",
            hint=hint,
        )
