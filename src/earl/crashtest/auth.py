"""C9: every route asks for a token with its scope, and no secret is ever told."""

import http.client
import io
import stat
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from earl.cli.app import app
from earl.cli.end import outcome
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import ask_child
from earl.crashtest.sabotage import put
from earl.crashtest.serving import JSON, PATIENCE, Server, free_port, lesson, png, question
from earl.crashtest.small import ready, stream
from earl.service.tokens import SCOPES, Token, Tokens

VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
EVERYBODY = "everybody"
ALLOWED: Mapping[tuple[str, str], str] = {  # what each asks for, written down a second time
    ("POST", "/predict"): "predict",
    ("GET", "/classes"): "predict",
    ("GET", "/status"): "predict",
    ("GET", "/samples"): "predict",
    ("GET", "/samples/{sample}"): "predict",
    ("GET", "/samples/{sample}/image"): "predict",
    ("GET", "/metrics"): "predict",
    ("GET", "/events"): "predict",
    ("GET", "/healthz"): EVERYBODY,
    ("GET", "/readyz"): EVERYBODY,
    ("POST", "/learn"): "learn",
    ("POST", "/learn/batch"): "learn",
    ("PATCH", "/samples/{sample}"): "learn",
    ("DELETE", "/samples/{sample}"): "learn",
    ("GET", "/label-studio/health"): EVERYBODY,
    ("POST", "/label-studio/setup"): "predict",
    ("POST", "/label-studio/predict"): "predict",
    ("POST", "/label-studio/webhook"): "learn",
}
OTHER = {"predict": "learn", "learn": "predict"}
NAMES = (
    "evil.example",
    "127.0.0.1.evil.example",
    "",
    "127.0.0.1@evil.example",
    "10.0.0.1",
    "[::2]",
)
OUTSIDE = ("0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", "")


def auth(trial: Trial) -> Found:
    """Send every verb to every route with every kind of token; the sabotage ignores scopes."""
    ready()
    found = trial.found(requests=0, passed=0, refused=0, hosts=0, secrets_told=0)
    log, folder = trial.place / "log", trial.place / "state"
    hook = any_scope if trial.sabotage else None
    server = Server(folder, sabotage=hook, asks=True, log=log).start()
    tokens = Tokens(folder)
    secrets = {scope: tokens.add(f"only {scope}", [scope]) for scope in ("predict", "learn")}
    secrets["admin"] = tokens.add("admin", SCOPES)
    mode = stat.S_IMODE(tokens.path.stat().st_mode)
    found.expect(mode == 0o600, f"the file of tokens has the mode {mode:o}")
    body = lesson(png(stream(4).images[0]), "a")
    assert send(server, "POST", "/learn", secrets["admin"], body)[0] == 202
    said = ask_all(server, secrets, trial.count, found)
    check_hosts(server, secrets["admin"], found)
    check_known(server, found)
    found.expect(server.stop() == 0, "it did not end in peace")
    told = log.read_bytes() + said
    for name, secret in secrets.items():
        count = told.count(secret.encode())
        found.figures["secrets_told"] += count
        found.expect(count == 0, f"the token {name} stands {count} times in the log or in answers")
    check_binding(trial.place, found)
    return found


def ask_all(server: Server, secrets: Mapping[str, str], count: int, found: Found) -> bytes:
    """Send every verb to so many paths with every token, the right one last; return all answers."""
    said = []
    for path in [*dict.fromkeys(path for _, path in ALLOWED)][:count]:
        for verb in VERBS:
            scope = ALLOWED.get((verb, path))
            for kind, secret, query in asked_with(scope or "learn", secrets):
                filled = path.replace("{sample}", "1") + query
                status, data = send(server, verb, filled, secret, body_of(path))
                said.append(data)
                passes = scope == EVERYBODY or (scope is not None and kind == "right")
                right = status not in (401, 403, 405) if passes else status in (401, 403, 405)
                found.figures["requests"] += 1
                found.figures["passed" if passes else "refused"] += right
                found.expect(right, f"{verb} {path} with {kind} token: {status} {data[:80]!r}")
    return b"".join(said)


def asked_with(scope: str, secrets: Mapping[str, str]) -> Iterator[tuple[str, str | None, str]]:
    """Yield kinds of tokens, each with what is sent in the header and in the address."""
    other = secrets[OTHER.get(scope, "predict")]
    right = secrets.get(scope, secrets["admin"])
    yield "no", None, ""
    yield "no", None, f"?token={right}"
    yield "a wrong", "guess", ""
    yield "a wrong", right[:-1], ""
    yield "a wrong", right + "A", ""
    yield "another scope's", other, ""
    yield "right", right, ""


def body_of(path: str) -> bytes:
    """Return what a path takes, if it takes something."""
    image = png(stream(4).images[0])
    return {"/predict": question(image), "/learn": lesson(image, "a")}.get(path, b"{}")


def send(
    server: Server, verb: str, path: str, secret: str | None, body: bytes, host: str = "127.0.0.1"
) -> tuple[int, bytes]:
    """Send one request with a token; return the status, and the beginning of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    try:
        connection.putrequest(verb, path, skip_host=True)
        headers = JSON | {"Host": host, "Content-Length": str(len(body))}
        if secret is not None:
            headers["Authorization"] = f"Bearer {secret}"
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        stream_ = answer.headers.get_content_type() == "text/event-stream"
        return answer.status, answer.read(8 if stream_ else None) + str(answer.headers).encode()
    finally:
        connection.close()


def check_hosts(server: Server, secret: str, found: Found) -> None:
    """Expect that a service which is asked under another name refuses."""
    for name in NAMES:
        status, data = send(server, "GET", "/status", secret, b"", name)
        found.figures["hosts"] += status == 400
        found.expect(status == 400, f"Host: {name}: {status} {data[:80]!r}")


def check_known(server: Server, found: Found) -> None:
    """Expect that every route which the service describes is in the list above, and no other."""
    routes = server.ask("GET", "/openapi.json")[1]["paths"]
    there = {(verb.upper(), path) for path, verbs in routes.items() for verb in verbs}
    found.figures["routes"] = len(there)
    found.expect(there == set(ALLOWED), f"routes that differ: {there ^ set(ALLOWED)}")


def check_binding(place: Path, found: Found) -> None:
    """Expect that a service which asks for no token does not begin where others reach it."""
    for host in OUTSIDE:
        state, port = place / "outside", free_port()
        words = ["serve", "--state", str(state), "--host", host, "--port", str(port)]
        code, said = ask_child(lambda: outcome_of([*words, "--without-token"]))  # noqa: B023
        refused = code == 1 and "token" in said and not state.exists()
        found.expect(refused, f"--host {host} without a token: {code} {said}")


def outcome_of(words: list[str]) -> tuple[int, str]:
    """Return the exit code of a command, and what it said."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        return outcome(app, words), said.getvalue()


def any_scope() -> None:
    """The sabotage: every token may do everything."""
    put(Token, "may", lambda token, scope: True)
