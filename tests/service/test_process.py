"""The command `earl serve` as a process: killed, started again, and asked to stop."""

import os
import re
import signal
import socket
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from children import Children
from earl import EARLClassifier
from earl.cli.app import app
from earl.cli.end import outcome
from earl.service.tokens import Tokens
from serving import SETTINGS, bearer, png, taught

WORDS = ["--image-size", "16", "--memory-size", "20", "--port", "0", "--snapshot-seconds", "0.5"]
WORDS += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
SAMPLES = [(png(i), "ab"[i % 2]) for i in range(20)]


class Process:
    """A service in a process of its own."""

    def __init__(self, children: Children, state: Path, folder: Path) -> None:
        words = ["-m", "earl", "serve", "--state", str(state), *WORDS]
        out, log = folder / "out", folder / "log"
        out.unlink(missing_ok=True)
        self.children, end = children, time.monotonic() + 120
        self.pid = children.start(*words, cwd=folder, env=os.environ, out=out, err=log)
        while not (found := re.search(r"^Serving (\S+)/$", read(out), re.MULTILINE)):
            assert time.monotonic() < end, read(log)
            time.sleep(0.05)
        self.said, self.url = read(out), found[1]

    def end(self, number: int) -> int:
        os.kill(self.pid, number)
        return self.children.wait()


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def test_what_was_acknowledged_survives_a_kill_and_is_learned_once(
    children: Children, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    first = Process(children, state, tmp_path)
    secret = re.search(r"Token .*: (\S+)", first.said)
    assert secret is not None and f"#token={secret[1]}" in first.said
    sent: dict[str, Any] = {"headers": bearer(secret[1]), "timeout": 30}
    for image, label in SAMPLES[:12]:
        files, data = {"image": image}, {"label": label}
        assert httpx2.post(first.url + "/learn", files=files, data=data, **sent).status_code == 202
    first.end(signal.SIGKILL)
    second = Process(children, state, tmp_path)
    assert "Token" not in second.said
    for image, label in SAMPLES[12:]:
        files, data = {"image": image}, {"label": label}
        made = httpx2.post(second.url + "/learn", files=files, data=data, **sent)
    assert made.json()["seq"] == 20
    sent["params"] = {"min_seq": 20, "wait": 10}
    answer = httpx2.post(second.url + "/predict", files={"image": png(1)}, **sent)
    assert answer.status_code == 200
    assert second.end(signal.SIGTERM) == 0
    assert EARLClassifier.load(state).digest() == taught(SAMPLES).digest()
    assert max(state.glob("snap-*")).name == "snap-000000000020"  # nothing is left to replay
    assert secret[1] not in read(tmp_path / "log")
    assert (state / "tokens.json").stat().st_mode & 0o77 == 0


def test_a_service_that_others_can_reach_must_ask_for_a_token(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert outcome(app, ["serve", "--host", "0.0.0.0", "--without-token"]) == 1
    assert "a token must be asked for" in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert outcome(app, ["serve", "--state", str(tmp_path / "s"), "--port", port]) == 1
    assert f"port {port}" in capsys.readouterr().err and not (tmp_path / "s").exists()


def test_a_missing_extra_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert outcome(app, ["serve", "--state", str(tmp_path)]) == 1
    assert 'pip install "earl-learn[serve]"' in capsys.readouterr().err


def test_tokens_are_made_listed_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--state", str(tmp_path)]
    assert outcome(app, ["token", "add", "cam", "--scope", "learn", *words]) == 0
    secret = capsys.readouterr().out.strip()
    found = Tokens(tmp_path).find(secret)
    assert found is not None and found.scopes == ("learn",)
    assert secret not in (tmp_path / "tokens.json").read_text()
    assert outcome(app, ["token", "list", *words]) == 0
    assert capsys.readouterr().out == "cam: learn\n"
    assert outcome(app, ["token", "add", "cam", *words]) == 1
    assert outcome(app, ["token", "add", "b", "--scope", "lern", *words]) == 1
    assert "did you mean 'learn'" in capsys.readouterr().err
    assert outcome(app, ["token", "remove", "cam", *words]) == 0
    time.sleep(0.01)
    assert Tokens(tmp_path).all() == ()


def test_tokens_that_others_can_read_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Tokens(tmp_path).add("a", ["predict"])
    (tmp_path / "tokens.json").chmod(0o644)
    assert outcome(app, ["token", "list", "--state", str(tmp_path)]) == 1
    assert "chmod 600" in capsys.readouterr().err
