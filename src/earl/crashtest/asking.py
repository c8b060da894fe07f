"""Honest clients that ask at a pace, and the time of every answer."""

import http.client
import time

from earl.crashtest.serving import JSON, PATIENCE


def ask_for(port: int, body: bytes, seconds: float, pace: float) -> list[tuple[int, float]]:
    """Ask for so long over one connection; return the status and the seconds of each answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    found: list[tuple[int, float]] = []
    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        connection.request("POST", "/predict", body, JSON)
        answer = connection.getresponse()
        answer.read()
        found.append((answer.status, time.monotonic() - began))
        time.sleep(max(0.0, began + pace - time.monotonic()))
    connection.close()
    return found
