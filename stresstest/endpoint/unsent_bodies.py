"""How much of large requests may be encoded and not yet sent: pictures of all at once are much memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar

from stresstest.model import GenerationRequest

MOST_BYTES = 32 * 1024 * 1024
_LARGE = 1024 * 1024
_SENT: ContextVar[Callable[[], None] | None] = ContextVar("body_sent", default=None)


class UnsentBodies:
    """A budget for one event loop: a request beyond it waits until others are sent, unless there are none."""

    def __init__(self) -> None:
        self._bytes = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def hold(self, request: GenerationRequest) -> AsyncIterator[None]:
        """Wait for room, and hold it until the transport has called what `when_sent` returns, or the end."""
        size = _size(request)
        if size < _LARGE:
            yield
            return
        while self._bytes and self._bytes + size > MOST_BYTES:
            room = asyncio.get_running_loop().create_future()
            self._waiting.append(room)
            await room
        self._bytes += size
        left = [size]

        def release() -> None:
            self._bytes -= left[0]
            left[0] = 0
            while self._waiting:
                waiting = self._waiting.popleft()
                if not waiting.done():
                    waiting.set_result(None)

        before = _SENT.set(release)
        try:
            yield
        finally:
            _SENT.reset(before)
            release()


def when_sent() -> Callable[[], None]:
    """What to call once the body of this task's request is sent."""
    return _SENT.get() or _nothing


def _nothing() -> None:
    """A small body holds no room."""


def _size(request: GenerationRequest) -> int:
    """Characters of its prompt and its further fields."""
    messages = sum(len(each.wire or each.content) for each in request.messages or ())
    prompt = len(request.prompt) if isinstance(request.prompt, str) else 0
    return messages + prompt + len(request.body or "")
