"""Connections with deadlines: whoever sends or reads too slowly is cut off."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from earl.service.limits import Deadlines

GRACE = 1.0  # seconds longer than its deadline a body may take, for the answer that it is late


class DeadlineProtocol(H11Protocol):
    """Closes a connection that is idle, or whose header, body or reading takes too long.

    A deadline begins with its phase, and nothing that arrives meanwhile puts it off. Closing waits
    for nobody: what a client has not read by then is dropped.
    """

    deadlines = Deadlines()
    _phase = ""
    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._enter("idle", self.deadlines.idle)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._review()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._review()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._deadline, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.deadlines.reading, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def _review(self) -> None:
        """Find out in which phase the connection is."""
        if self.conn.their_state is h11.SEND_BODY:
            self._enter("body", self.deadlines.body + GRACE)
        elif self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._enter("header", self.deadlines.header)
        elif self.conn.their_state is h11.IDLE:
            self._enter("idle", self.deadlines.idle)
        elif self.transport.is_closing():  # when all is sent; it may be that nobody reads it
            self._enter("closing", self.deadlines.reading)
        else:
            self._enter("", None)

    def _enter(self, phase: str, seconds: float | None) -> None:
        if phase == self._phase:
            return
        self._phase = phase
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if seconds is not None:
            self._deadline = self.loop.call_later(seconds, self.transport.abort)


def closing_after(deadlines: Deadlines) -> type[DeadlineProtocol]:
    """Return the protocol with other deadlines."""
    return type("OwnDeadlines", (DeadlineProtocol,), {"deadlines": deadlines})
