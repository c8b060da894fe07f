"""The outermost part of the application: every request passes here, and nothing else catches all.

It gives each request an id, refuses foreign hosts, pages of other origins and bodies that are too
large, adds the headers that keep browsers careful, counts and logs, and turns a mistake of ours
into an answer that tells nothing about it.
"""

import logging
import re
import secrets
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from earl.service.http.errors import answer
from earl.service.metrics import Metrics
from earl.service.refusals import Refused
from earl.service.service import Service

log = logging.getLogger("earl.service")

HEADERS: Mapping[bytes, bytes] = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'self'; img-src 'self' blob: data:; "
    b"media-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    b"frame-ancestors 'none'",
}
HEALTH = ("/healthz", "/readyz")  # which are answered at all times
BATCHES = ("/learn/batch", "/predict", "/label-studio/predict")  # which may bring many images


class Held:
    """The bytes that one request holds: its body as it comes, not too much of it, and its answer.

    All requests together may hold so many; who would add to more is refused.
    """

    def __init__(self, receive: Receive, most: int, service: Service) -> None:
        self._receive, self.most, self.all = receive, most, service.in_flight
        self.body = self.size = 0

    async def receive(self) -> Message:
        message = await self._receive()
        size = len(message.get("body", b""))
        self.body += size
        self.hold(size)
        if self.body > self.most:
            raise too_large(self.most)
        self.all.check()
        return message

    def hold(self, size: int) -> None:
        """Count so many bytes until the request has ended."""
        self.size += size
        self.all.add(size)

    def release(self) -> None:
        self.all.add(-self.size)


class Edge:
    """Wraps the routes."""

    def __init__(self, app: ASGIApp, service: Service, metrics: Metrics) -> None:
        self.app, self.service, self.metrics = app, service, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        began, status = time.monotonic(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name.lower() for name, _ in message["headers"]}
                more = [(name, value) for name, value in HEADERS.items() if name not in given]
                more.append((b"x-request-id", request_id.encode()))
                message["headers"] = [*message["headers"], *more]
            elif not message.get("more_body"):  # parts of a longer answer come one by one
                held.hold(len(message.get("body", b"")))
            await send(message)

        scope["state"]["held"] = held = Held(receive, self._most(scope), self.service)
        try:
            self._check(scope)
            await self.app(scope, held.receive, send_with_headers)
        except Refused as refusal:
            if not status:
                await answer(refusal, request_id)(scope, receive, send_with_headers)
        except Exception:  # a mistake of ours
            log.exception("internal_error", extra={"request_id": request_id})
            if status:
                raise
            wrong = Refused(500, "internal_error", "something went wrong here; see the log")
            await answer(wrong, request_id)(scope, receive, send_with_headers)
        finally:
            held.release()
            self._note(scope, status, time.monotonic() - began, request_id)

    def _check(self, scope: Scope) -> None:
        """Raise Refused for a foreign host, another origin, or a body that is too large."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if host_of(headers.get(b"host", "")) not in self.service.hosts:
            raise Refused(400, "wrong_host", "this service has another name; see --allow-host")
        origin = headers.get(b"origin")
        if origin is not None and host_of(urlsplit_netloc(origin)) not in self.service.hosts:
            raise Refused(403, "wrong_origin", "pages of other origins may not ask this service")
        length = headers.get(b"content-length", "0")
        if length.isdecimal() and int(length[:20]) > self._most(scope):
            raise too_large(self._most(scope))
        if scope["path"] not in HEALTH:
            self.service.in_flight.check()

    def _most(self, scope: Scope) -> int:
        limits = self.service.limits
        return limits.batch_body if scope["path"] in BATCHES else limits.body

    def _note(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self.metrics.count(scope["method"], route, status, seconds)
        client = scope.get("client")
        facts = {"method": scope["method"][:16], "path": scope["path"][:200], "status": status}
        facts |= {"ms": round(1e3 * seconds, 1), "client": client[0] if client else None}
        log.info("request", extra={**facts, "request_id": request_id})


def too_large(most: int) -> Refused:
    return Refused(413, "request_too_large", f"a request may have at most {most:,} bytes here")


def host_of(text: str) -> str:
    """Return the name in a Host header, without its port.

    >>> host_of("Localhost:80"), host_of("[::1]:80"), host_of("10.0.0.1")
    ('localhost', '::1', '10.0.0.1')
    """
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]*))(?::\d{1,5})?", text)
    return "" if found is None else (found[1] or found[2] or "").lower()


def urlsplit_netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
