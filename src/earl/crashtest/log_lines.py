"""C10: whatever clients send, a line of the log is one event, and no character acts on a reader."""

import json
import logging
import random
import socket
from pathlib import Path

from earl.crashtest.harness import Found, Trial
from earl.crashtest.sabotage import put
from earl.crashtest.serving import PATIENCE, Server, lesson, png
from earl.crashtest.small import ready, stream
from earl.service.logs import JsonLines

EVIL = ("\r", "\n", "\r\n", "\x1b[2J", "\x1b]0;x\x07", "\0", "\u2028", "\u2029", "\x85", "\u202e")
FORGED = '{"level": "info", "event": "request", "status": 200}'
LONG = 10_000  # characters
EVENTS = {"request", "Invalid HTTP request received."}  # of ours, and of what uvicorn refuses


def log_lines(trial: Trial) -> Found:
    """Send texts that would forge lines, wherever texts can stand; the sabotage logs them raw."""
    ready()
    log = trial.place / "log"
    hook = raw if trial.sabotage else None
    server = Server(trial.place / "state", sabotage=hook, log=log).start()
    rng, image = trial.rng, png(stream(4).images[0])
    found = trial.found(requests=trial.count, answered=0, lines=0, forged=0)
    answers = [send(server.port, request(rng, image)) for _ in range(trial.count)]
    found.figures["answered"] = sum(bool(answer) for answer in answers)
    found.expect(all(answers), f"{answers.count(b'')} requests got no answer")
    wrong = [answer[:60] for answer in answers if answer[9:10] == b"5"]
    found.expect(not wrong, f"answers {wrong[:3]}")
    found.expect(server.stop() == 0, "it did not end in peace")
    compare(log, trial.count, found)
    return found


def evil(rng: random.Random) -> str:
    """Return a text with something in it that would act on a log, or on who reads it."""
    parts = [rng.choice(EVIL), FORGED, rng.choice(EVIL), rng.choice(["", "x" * LONG])]
    rng.shuffle(parts)
    return "cat" + "".join(parts)


def request(rng: random.Random, image: bytes) -> bytes:
    """Return a request that carries such a text as a label, a key, a header, a path or a verb."""
    text, place = evil(rng), rng.choice(["label", "source", "key", "header", "path", "query"])
    key, header, path, label, source = "", "", "/learn", "cat", ""
    if place == "label":
        label = text
    elif place == "source":
        source = text
    elif place == "key":
        key = text
    elif place == "header":
        header = text
    elif place == "path":
        path = "/samples/" + quoted(text)
    else:
        path = "/learn?label=" + quoted(text)
    body = lesson(image, label, source)
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"Idempotency-Key: {key}"] if key else []
    lines += [f"User-Agent: {header}"] if header else []
    return "\r\n".join([*lines, "", ""]).encode("utf-8") + body


def quoted(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text[:2000].encode())


def send(port: int, data: bytes) -> bytes:
    """Send bytes as they are; return the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        answer = b""
        try:
            connection.sendall(data)
            while part := connection.recv(65536):
                answer += part
        except ConnectionError:
            return answer or b"cut off"
    return answer


def compare(log: Path, requests: int, found: Found) -> None:
    """Expect one line for every request, each a JSON object without any raw control."""
    lines = log.read_bytes().split(b"\n")
    found.expect(lines.pop() == b"", "the last line is cut short")
    found.figures["lines"] = len(lines)
    events = []
    for line in lines:
        try:
            events.append(json.loads(line)["event"])
        except (ValueError, KeyError, TypeError):
            found.figures["forged"] += 1
            found.expect(False, f"no event: {line[:80]!r}")
        odd = [byte for byte in line if not 32 <= byte < 127]
        found.expect(not odd, f"raw bytes {odd[:5]} in {line[:80]!r}")
    found.expect(len(lines) == requests, f"{len(lines)} lines of {requests} requests")
    strange = set(events) - EVENTS
    found.expect(not strange, f"events that nothing is known of: {strange}")


def raw() -> None:
    """The sabotage: texts stand in a line as they come."""

    def line(self: JsonLines, record: logging.LogRecord) -> str:
        path = vars(record).get("path", "")
        return f'{{"event": "{record.getMessage()}", "path": "{path}"}}'

    put(JsonLines, "format", line)
