"""The server: uvicorn with deadlines, which ends on a signal and saves what it has."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from fastapi import FastAPI

from earl.errors import EarlError
from earl.service.heap import share_heap
from earl.service.http.deadlines import closing_after
from earl.service.service import Service

GRACE = 3  # seconds that requests have to end


class Server(uvicorn.Server):
    """Ends when it is asked to, and then with exit code 0."""

    def __init__(self, app: FastAPI, service: Service) -> None:
        config = uvicorn.Config(
            app,
            http=closing_after(service.limits.deadlines),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=service.limits.connections,
            timeout_keep_alive=int(service.limits.deadlines.idle) + 2,  # ours comes first
            timeout_graceful_shutdown=GRACE,
            h11_max_incomplete_event_size=16 << 10,
        )
        super().__init__(config)
        self.service = service

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `serve`: uvicorn would raise them again in the end."""
        yield

    def end(self) -> None:
        """Refuse to teach from now on, and stop."""
        self.service.close()
        self.should_exit = True


def serve(
    app: FastAPI, service: Service, listening: socket.socket, ready: Callable[[], None]
) -> None:
    """Answer requests until SIGTERM or SIGINT; then finish, save and return."""
    share_heap()  # before its threads begin
    server = Server(app, service)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.end)
        ready()
        await server.serve(sockets=[listening])

    try:
        service.told.start()
        asyncio.run(run())
    finally:
        service.end()


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; EarlError says why it cannot."""
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(512)
    except OSError as error:
        found.close()
        why = error.strerror or error
        raise EarlError(f"cannot listen on {host}, port {port} ({why}); choose others") from None
    return found
