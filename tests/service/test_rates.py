"""How many requests a token may send: a bucket for each, that fills again all the time."""

import json
from pathlib import Path

import httpx2

from earl.cli.app import app
from earl.cli.end import outcome
from earl.service.limits import Limits, Rates
from earl.service.tokens import SCOPES, Tokens
from serving import bearer, running, service_of


class Clock:
    """A clock that goes on when it is told to."""

    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_a_bucket_holds_what_comes_in_ten_seconds_and_fills_again() -> None:
    clock = Clock()
    rates = Rates(clock)
    assert [rates.take("a", 30) for _ in range(6)] == [0, 0, 0, 0, 0, 2]
    clock.seconds += 2
    assert [rates.take("a", 30) for _ in range(2)] == [0, 2]
    clock.seconds += 3600
    assert [rates.take("a", 30) for _ in range(6)] == [0, 0, 0, 0, 0, 2]


def test_each_name_has_a_bucket_of_its_own_and_at_least_one_request() -> None:
    rates = Rates(Clock())
    assert [rates.take("a", 1), rates.take("a", 1), rates.take("b", 1)] == [0, 60, 0]


def test_refused_requests_take_nothing() -> None:
    clock = Clock()
    rates = Rates(clock)
    taken = []
    for _ in range(60):  # one in a second, where one in two is allowed
        taken.append(rates.take("a", 30) == 0)
        clock.seconds += 1
    assert taken[10:] == [True, False] * 25


def test_too_many_requests_of_a_token_are_refused_with_a_time_to_come_again(folder: Path) -> None:
    service = service_of(folder, Limits(requests=6))
    tokens = service.tokens
    assert tokens is not None
    admin, usual = tokens.add("admin", SCOPES), tokens.add("usual", SCOPES[:3])
    held, free = tokens.add("held", SCOPES, 12), tokens.add("free", SCOPES[:3], 60_000)
    with running(service) as url:

        def ask(secret: str) -> httpx2.Response:
            return httpx2.get(f"{url}/classes", headers=bearer(secret))

        assert ask(usual).status_code == 200
        refused = ask(usual)
        assert refused.status_code == 429 and refused.json()["error"] == "too_many_requests"
        assert 1 <= int(refused.headers["Retry-After"]) <= 10
        assert [ask(held).status_code for _ in range(3)] == [200, 200, 429]
        for secret in (admin, free):
            assert {ask(secret).status_code for _ in range(5)} == {200}
        assert httpx2.get(f"{url}/healthz").status_code == 200


def test_a_token_is_added_with_a_rate_and_older_files_have_none(tmp_path: Path, capsys) -> None:
    words = ["token", "add", "camera", "--state", str(tmp_path), "--requests", "60"]
    assert outcome(app, words) == 0
    (token,) = Tokens(tmp_path).all()
    assert token.requests == 60
    capsys.readouterr()
    assert outcome(app, ["token", "list", "--state", str(tmp_path)]) == 0
    assert (
        capsys.readouterr().out == "camera: predict, learn, learn:new-class; 60 requests a minute\n"
    )
    (row,) = json.loads((tmp_path / "tokens.json").read_text(encoding="utf-8"))
    del row["requests"]
    (tmp_path / "tokens.json").write_text(json.dumps([row]), encoding="utf-8")
    (token,) = Tokens(tmp_path).all()
    assert token.requests is None
