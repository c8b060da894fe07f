"""Events: what happens inside is told to all who listen, and nobody is waited for."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from earl.service.refusals import Refused

BEHIND = 512  # events that a listener may be behind before it is dropped
ALIVE = 10.0  # seconds without an event after which a comment tells that the line is alive


class Broker:
    """Spreads events of other threads to listeners in the loop of asyncio."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queues: set[asyncio.Queue[str | None]] = set()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def attach(self) -> None:
        """Begin to spread, in the loop that runs now."""
        self._loop = asyncio.get_running_loop()

    @property
    def listeners(self) -> int:
        return len(self._queues)

    def tell(self, kind: str, data: dict[str, Any]) -> None:
        """Tell an event, from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed() and (self._queues or kind == "published"):
            loop.call_soon_threadsafe(self._spread, kind, data)

    def _spread(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "published":
            for seq, waiter in self._waiting:
                if seq <= data["seq"] and not waiter.done():
                    waiter.set_result(None)
            return
        text = f"event: {kind}\ndata: {json.dumps(data)}\n\n"
        for queue in list(self._queues):
            if queue.full():
                self._queues.discard(queue)
                queue.get_nowait()
                queue.put_nowait(None)
            else:
                queue.put_nowait(text)

    def close(self) -> None:
        """End all streams."""
        for queue in list(self._queues):
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)
        for _, waiter in self._waiting:
            waiter.cancel()

    def subscribe(self) -> AsyncIterator[str]:
        """Return the events from now on, as server-sent events; Refused if too many listen."""
        if len(self._queues) >= self.most:
            detail = f"{self.most} clients listen to events already; try again later"
            raise Refused(429, "too_many_listeners", detail, retry_after=5)
        queue: asyncio.Queue[str | None] = asyncio.Queue(BEHIND)
        self._queues.add(queue)
        return self._stream(queue)

    async def _stream(self, queue: "asyncio.Queue[str | None]") -> AsyncIterator[str]:
        try:
            yield ": hello\n\n"
            while True:
                try:
                    async with asyncio.timeout(ALIVE):
                        text = await queue.get()
                except TimeoutError:
                    text = ": still here\n\n"
                if text is None:
                    return
                yield text
        finally:
            self._queues.discard(queue)

    async def published(self, seq: int, seconds: float) -> None:
        """Wait until a model with operation `seq` is published; TimeoutError if that takes long."""
        assert self._loop is not None
        waiter = self._loop.create_future()
        entry = seq, waiter
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        finally:
            self._waiting.remove(entry)
