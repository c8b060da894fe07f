"""A client of the service: `earl.Client` teaches and asks it from Python."""

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from earl.data.decode import read_file
from earl.errors import EarlError

try:
    import httpx2
except ImportError:
    raise ImportError('earl.Client needs httpx2; say: pip install "earl-learn[serve]"') from None

LONGEST = 10.0  # seconds between two tries
AGAIN = (429, 502, 503, 504)  # what may pass

Picture = str | Path | bytes


class ServiceError(EarlError):
    """The service refused a request; `code` says why, for programs."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"the service refused ({status} {code}): {detail}")
        self.status, self.code, self.detail = status, code, detail


class Client:
    """Teaches and asks a service; images are paths or the bytes of files.

    What could be lost on the way is sent again under the same key, which counts once.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8765",
        token: str | None = None,
        *,
        timeout: float = 30.0,
        patience: float = 60.0,
    ) -> None:
        self.patience = patience  # seconds in which a request is sent again
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # ---- teaching

    def learn(
        self, image: Picture, label: str, *, source: str | None = None, key: str | None = None
    ) -> dict[str, Any]:
        """Teach one image; returns when it is on the service's disk."""
        data = {"label": label} | ({} if source is None else {"source": source})
        return self._send(
            "POST", "/learn", key or fresh(), files={"image": content(image)}, data=data
        )

    def learn_many(
        self,
        images: Sequence[Picture],
        labels: Sequence[str],
        *,
        source: str | None = None,
        key: str | None = None,
    ) -> list[dict[str, Any]]:
        """Teach several images, all or none."""
        files = [("image", content(image)) for image in images]
        data: dict[str, Any] = {"label": list(labels)}
        if source is not None:
            data["source"] = source
        made = self._send("POST", "/learn/batch", key or fresh(), files=files, data=data)
        accepted: list[dict[str, Any]] = made["accepted"]
        return accepted

    def relabel(self, sample: int, label: str) -> dict[str, Any]:
        """Give a sample another label."""
        return self._send("PATCH", f"/samples/{sample}", fresh(), json={"label": label})

    def forget(self, sample: int) -> dict[str, Any]:
        """Withdraw a sample."""
        return self._send("DELETE", f"/samples/{sample}", fresh())

    # ---- asking

    def predict(self, *images: Picture, **options: Any) -> dict[str, Any]:
        """Ask about images; options are top, min_seq, wait, neighbours and unknown_below."""
        files = [("image", content(image)) for image in images]
        return self._send("POST", "/predict", None, files=files, params=options)

    def samples(self, **chosen: Any) -> list[dict[str, Any]]:
        """Return samples, the newest first; choose by after, before, label, source, key, limit."""
        found: list[dict[str, Any]] = self._send("GET", "/samples", None, params=chosen)["samples"]
        return found

    def sample(self, sample: int) -> dict[str, Any]:
        """Return what is known of a sample."""
        return self._send("GET", f"/samples/{sample}", None)

    def image(self, sample: int) -> bytes:
        """Return the image of a sample as it was posted."""
        return self._answer("GET", f"/samples/{sample}/image", {}).content

    def classes(self) -> list[dict[str, Any]]:
        """Return the classes in the order of their arrival."""
        found: list[dict[str, Any]] = self._send("GET", "/classes", None)["classes"]
        return found

    def status(self) -> dict[str, Any]:
        """Return how learning goes."""
        return self._send("GET", "/status", None)

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what happens as it happens: its kind, and its facts."""
        with self._http.stream("GET", "/events", timeout=None) as answer:
            if answer.status_code != 200:
                answer.read()
                raise refusal(answer)
            kind = ""
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)

    # ---- on the wire

    def _send(self, verb: str, path: str, key: str | None, **what: Any) -> dict[str, Any]:
        headers = {} if key is None else {"Idempotency-Key": key}
        found: dict[str, Any] = self._answer(verb, path, headers, **what).json()
        return found

    def _answer(
        self, verb: str, path: str, headers: Mapping[str, str], **what: Any
    ) -> httpx2.Response:
        """Send a request until it is answered; what may be repeated, since a key counts once."""
        end, pause = time.monotonic() + self.patience, 0.1
        while True:
            try:
                answer = self._http.request(verb, path, headers=headers, **what)
            except httpx2.TransportError as error:
                if time.monotonic() + pause > end:
                    url = self._http.base_url
                    raise EarlError(f"no answer from {url} ({error}); is it running?") from None
                wait = pause
            else:
                if answer.status_code < 400:
                    return answer
                wait = max(pause, float(answer.headers.get("Retry-After", 0)))
                late = time.monotonic() + wait > end
                if answer.status_code not in AGAIN or late or lasting(answer):
                    raise refusal(answer)
            time.sleep(wait)
            pause = min(LONGEST, 2 * pause)


def refusal(answer: httpx2.Response) -> ServiceError:
    """Return an answer of the service as an error."""
    try:
        found = answer.json()
        return ServiceError(answer.status_code, found["error"], found["detail"])
    except (ValueError, KeyError, TypeError):
        return ServiceError(answer.status_code, "unknown", answer.text[:100])


def lasting(answer: httpx2.Response) -> bool:
    """Tell whether a refusal stays, so that waiting for its end is no use."""
    stays = ("storage_failed", "learner_stopped", "learning_paused", "too_many_new_classes")
    return refusal(answer).code in stays


def content(image: Picture) -> bytes:
    """Return the bytes of an image file."""
    return image if isinstance(image, bytes) else read_file(image)


def fresh() -> str:
    """Return a new key."""
    return secrets.token_hex(16)
