"""What the service refuses, and that a refusal changes nothing and tells nothing."""

import io
import json
import logging
import random
from typing import Any

import httpx2
import pytest
from PIL import Image

from earl.crashtest.auth import ALLOWED, EVERYBODY
from earl.service import logs
from earl.service.service import Service
from serving import bearer, png, settle

ROUTES = [
    (verb, path.replace("{sample}", "1"), scope)
    for (verb, path), scope in ALLOWED.items()
    if scope != EVERYBODY and not path.startswith("/label-studio")
]


def code(answer: httpx2.Response) -> str:
    assert len(answer.content) <= 1024 and set(answer.json()) == {"error", "detail", "request_id"}
    return str(answer.json()["error"])


def state_of(service: Service) -> tuple[int, str]:
    settle(service.session)
    return service.session.acknowledged, service.session.learner.clf.digest()


def picture(kind: str, side: tuple[int, int], mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, side).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize(("verb", "path", "scope"), ROUTES)
def test_every_route_asks_for_a_token_with_its_scope(
    verb: str, path: str, scope: str, url: str, service: Service, client: httpx2.Client
) -> None:
    assert service.tokens is not None
    before = state_of(service)
    other = {"learn": "predict", "predict": "learn"}[scope]
    names = {token.name for token in service.tokens.all()}
    if f"only {other}" in names:
        service.tokens.remove(f"only {other}")
    wrong = service.tokens.add(f"only {other}", [other])
    assert code(httpx2.request(verb, url + path)) == "no_token"
    assert code(httpx2.request(verb, url + path, headers=bearer("guess"))) == "no_token"
    assert code(httpx2.request(verb, url + path, headers=bearer(wrong))) == "wrong_scope"
    assert code(httpx2.request(verb, f"{url}{path}?token={wrong}")) == "no_token"
    assert state_of(service) == before


def test_other_verbs_and_paths_are_refused(client: httpx2.Client) -> None:
    assert client.put("/learn").status_code == 405
    assert client.get("/nothing").status_code == 404
    found = client.post("/samples/1")
    assert found.status_code == 405 and found.headers["allow"] == "DELETE, GET, PATCH"


def test_foreign_hosts_and_pages_of_other_origins_are_refused(client: httpx2.Client) -> None:
    assert code(client.get("/healthz", headers={"Host": "evil.example"})) == "wrong_host"
    assert code(client.get("/status", headers={"Origin": "http://evil.example"})) == "wrong_origin"
    assert code(client.get("/status", headers={"Origin": "null"})) == "wrong_origin"
    own = {"Origin": f"http://127.0.0.1:{client.base_url.port}"}
    assert client.get("/status", headers=own).status_code == 200


@pytest.mark.parametrize(
    ("image", "status"),
    [
        (b"", 422),
        (b"GIF89a", 415),
        (png(1)[:-40], 422),
        (picture("PNG", (9000, 10)), 413),
        (picture("PNG", (4100, 3100), "1"), 413),
        (picture("TIFF", (4, 4)), 415),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", 415),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415),
        (b"\x80\x04\x95 pickle", 415),
    ],
)
def test_what_is_no_fit_image_is_refused(
    image: bytes, status: int, client: httpx2.Client, service: Service
) -> None:
    before = state_of(service)
    for path, data in (("/learn", {"label": "a"}), ("/predict", {})):
        answer = client.post(path, files={"image": image}, data=data)
        assert answer.status_code == status and code(answer)
    assert state_of(service) == before


@pytest.mark.parametrize(
    "label", ["", "  ", "a\nb", "a\x00b", "a\u2028b", "\x1b[2J", "x" * 129, "ä" * 65]
)
def test_what_is_no_fit_label_is_refused(label: str, client: httpx2.Client) -> None:
    answer = client.post("/learn", files={"image": png(1)}, data={"label": label})
    assert answer.status_code == 422 and code(answer) in ("no_label", "bad_label")


def test_labels_that_look_alike_are_one(client: httpx2.Client) -> None:
    made = client.post("/learn", files={"image": png(1)}, data={"label": "e\u0301"}).json()
    assert made["label"] == "\u00e9"
    client.delete(f"/samples/{made['id']}")


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[1]", "application/json", 422),
        (b"\xff\xfe", "application/json", 400),
        (b"[" * 50_000, "application/json", 400),
        (b'{"image": 1, "label": "a"}', "application/json", 422),
        (b'{"image": "\xc3\xa4", "label": "a"}', "application/json", 422),
        (b'{"image": "", "image": "", "label": "a"}', "application/json", 400),
        (b'{"image": "", "label": "a", "more": 1}', "application/json", 422),
        (b"image=1", "application/x-www-form-urlencoded", 415),
        (b"", "", 415),
        (b"--x\r\n", "multipart/form-data; boundary=x", 422),
        (b"--x\r\n", "multipart/form-data", 400),
    ],
)
def test_what_is_no_fit_body_is_refused(
    body: bytes, kind: str, status: int, client: httpx2.Client, service: Service
) -> None:
    before = state_of(service)
    answer = client.post("/learn", content=body, headers={"Content-Type": kind})
    assert (answer.status_code, state_of(service)) == (status, before), code(answer)


def test_a_body_that_is_too_large_is_refused_before_it_is_read(
    client: httpx2.Client, service: Service
) -> None:
    most = service.limits.body
    answer = client.post("/learn", content=b"x" * (most + 1))
    assert answer.status_code == 413 and code(answer) == "request_too_large"
    chunks = (b"x" * 65536 for _ in range(most // 65536 + 2))
    headers = {"Content-Type": "application/json"}
    answer = client.post("/learn", content=chunks, headers=headers)  # without its length
    assert answer.status_code == 413


def test_random_requests_change_nothing_and_break_nothing(
    client: httpx2.Client, service: Service
) -> None:
    draw = random.Random(0)
    before = state_of(service)
    paths = [path for _, path, _ in ROUTES if path != "/events"]
    paths += ["/", "/healthz", "/openapi.json", "/page/x", "/samples/0", "/samples/-1"]
    paths += ["/samples/99999999999999999999", "/samples/1/image/x", "/%00", "/%ff", "//"]
    kinds = ["application/json", "multipart/form-data; boundary=b", "text/plain", "a" * 300, ";"]
    for _ in range(150):
        body = draw.randbytes(draw.choice([0, 3, 200, 5000]))
        if draw.random() < 0.3:
            body = b'{"image": ' + body[:20].hex().encode() + b"NaN}"
        verb = draw.choice(["GET", "POST", "PATCH", "PUT", "OPTIONS", "HEAD", "BREW"])
        query = draw.choice(["", "?top=-1", "?min_seq=nan", "?limit=1e9", "?label=%00&a[]=1"])
        kind = {
            "Content-Type": draw.choice(kinds),
            "Idempotency-Key": draw.choice(["k", "\u00ff"]).encode("latin-1"),
        }
        answer = client.request(verb, draw.choice(paths) + query, content=body, headers=kind)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert len(answer.content) <= 1024
    assert state_of(service) == before


def test_every_line_of_the_log_is_an_event_in_ascii() -> None:
    formatter = logs.JsonLines()
    for text in ("a\nb", "\x1b[2J", "\u2028", "\x00", "x" * 10_000, "\ud800", "{}"):
        facts: dict[str, Any] = {"msg": "request", "path": text, "levelname": "INFO"}
        line = formatter.format(logging.makeLogRecord(facts))
        assert line.isascii() and line.isprintable() and json.loads(line)["path"] == text
