"""C7: requests that nobody should send are refused, briefly, and change nothing."""

import http.client
import json
import random
import time
from collections.abc import Callable
from typing import Any

from earl.crashtest.harness import Found, Trial
from earl.crashtest.sabotage import put
from earl.crashtest.serving import Server, lesson, png, question
from earl.crashtest.small import ready, stream

VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW")
PATHS: tuple[str, ...] = (
    "/learn",
    "/learn/batch",
    "/predict",
    "/samples",
    "/samples/1",
    "/samples/1/image",
)
PATHS += ("/classes", "/status", "/metrics", "/healthz", "/readyz", "/nothing", "/../etc/passwd")
PATHS += ("/samples/-1", "/samples/99999999999999999999", "/samples/x", "/predict?top=x")
PATHS += ("/predict?min_seq=-1", "/samples?limit=10000000", "/samples?after=NaN", "//", "/%00")
KINDS: tuple[str, ...] = (
    "application/json",
    "multipart/form-data",
    "multipart/form-data; boundary=x",
    "text/plain",
)
KINDS += ("application/x-www-form-urlencoded", "image/png", "", "application/json; charset=utf-16")
MARK = "sesame"  # stands in what is sent, and must stand in no answer
LONGEST, MOST = 2.0, 1024  # seconds and bytes of an answer
HARMLESS = ("/samples", "/classes", "/status", "/metrics", "/healthz", "/readyz")


def fuzz(trial: Trial) -> Found:
    """Send requests of all kinds; the sabotage lets errors of validation out as they are."""
    ready()
    server = Server(trial.place / "state", sabotage=echoing if trial.sabotage else None).start()
    samples, rng = stream(8), trial.rng
    for i in range(4):
        server.learn(samples.images[i], "ab"[i % 2])
    before = known(server)
    found = trial.found(requests=0, errors_5xx=0, slowest=0.0, echoed=0, changed=0)
    for _ in range(trial.count):
        send(server, rng, png(samples.images[0]), found)
    after = known(server)
    found.figures["changed"] = int(after != before)
    found.expect(after == before, f"the state has changed: {before} {after}")
    found.expect(server.stop() == 0, "it did not end in peace")
    return found


def known(server: Server) -> list[Any]:
    """Return what the service says it knows."""
    status = server.settle()
    return [status["acknowledged"], status["samples"], status["classes"]]


def send(server: Server, rng: random.Random, image: bytes, found: Found) -> None:
    """Send one request, and note what is wrong with the answer."""
    verb, path, body, headers = generated(rng, image)
    what = f"{verb} {path} {str(headers)[:60]} {body[:40]!r}"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    began = time.monotonic()
    try:
        connection.putrequest(verb, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        data, status = answer.read(), answer.status
    except (OSError, http.client.HTTPException, ValueError):
        data, status = b"", 400  # cut off, or not even sent
    finally:
        connection.close()
    seconds = time.monotonic() - began
    found.figures["requests"] += 1
    found.figures["errors_5xx"] += status >= 500
    found.figures["slowest"] = max(found.figures["slowest"], round(seconds, 2))
    found.expect(status < 500, f"{what}: {status} {data[:100]!r}")
    found.expect(seconds < LONGEST, f"{what}: {seconds:.1f} s")
    if status >= 400:
        echoed = MARK.encode() in data or b"Traceback" in data
        found.figures["echoed"] += echoed
        found.expect(len(data) <= MOST and not echoed, f"{what}: {data[:200]!r}")
    found.expect(status >= 400 or may_pass(verb, path), f"{what}: {status} {data[:100]!r}")


def may_pass(verb: str, path: str) -> bool:
    """Tell whether a request may be in order: a question changes nothing."""
    return verb in ("GET", "HEAD") or path.startswith("/predict")


def generated(rng: random.Random, image: bytes) -> tuple[str, str, bytes, dict[str, str]]:
    """Return a request that is wrong in some way, or only asks."""
    verb = rng.choice(VERBS) if rng.random() < 0.4 else "POST"
    path = rng.choice(PATHS)
    if verb == "DELETE" and path.startswith("/samples/1"):
        path = "/samples/77"
    headers = {"Content-Type": rng.choice(KINDS)} if rng.random() < 0.9 else {}
    if rng.random() < 0.1:
        headers["Idempotency-Key"] = rng.choice(["", MARK * 100, "\x01", "a b"])
    body = rng.choice(BODIES)(rng, image)
    return verb, path, body, headers


Body = Callable[[random.Random, bytes], bytes]
BODIES: tuple[Body, ...] = (
    lambda rng, image: b"",
    lambda rng, image: rng.randbytes(rng.randint(1, 300)),
    lambda rng, image: b"[" * rng.choice([10, 1000, 100_000]),
    lambda rng, image: b'{"a":' * rng.choice([10, 1000, 50_000]),
    lambda rng, image: b'{"image": NaN, "label": Infinity}',
    lambda rng, image: b'{"image": "eA==", "image": "eA==", "label": "sesame"}',
    lambda rng, image: b'{"image": "' + b"9" * 5000 + b'", "label": ' + b"9" * 5000 + b"}",
    lambda rng, image: b'{"image": "\xff\xfe", "label": "\xed\xa0\x80"}',
    lambda rng, image: b'{"image": "sesame!!", "label": "sesame"}',
    lambda rng, image: json.dumps({"image": [MARK], "label": {MARK: MARK}}).encode(),
    lambda rng, image: lesson(image[: rng.randrange(len(image))], MARK),
    lambda rng, image: lesson(image, rng.choice(["", "\0", "a\nb", MARK * 100, "\u202e", " "])),
    lambda rng, image: json.dumps({"samples": [{"image": 1, MARK: 2}] * 300}).encode(),
    lambda rng, image: question(image[: rng.randrange(len(image))]),
    lambda rng, image: json.dumps({"images": [MARK] * rng.choice([1, 1000])}).encode(),
    lambda rng, image: b"--x\r\n" + rng.randbytes(50) + b"\r\n--x--\r\n",
    lambda rng, image: (
        b'--x\r\nContent-Disposition: form-data; name="label"\r\n\r\nsesame\r\n--x--'
    ),
    lambda rng, image: b"--x\r\n" * 2000,
)


def echoing() -> None:
    """The sabotage: answer what is refused with what was sent."""
    from fastapi import Request
    from fastapi.responses import JSONResponse

    from earl.service.http import errors

    async def echo(request: Request, error: Exception) -> JSONResponse:
        sent = (await request.body()).decode("latin-1")
        return JSONResponse({"detail": str(error), "input": sent}, 422)

    for name in ("on_refused", "on_http_error", "on_invalid"):
        put(errors, name, echo)
