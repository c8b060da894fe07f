"""The client teaches and asks a service, and goes on after it was stopped."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from earl import Client
from earl.cli.app import app
from earl.cli.end import outcome
from earl.errors import EarlError
from earl.service.client import ServiceError
from earl.service.feeding import Files, Scheduled, already, feed
from earl.service.service import Service
from earl.service.tokens import SCOPES
from serving import bearer, png, running, service_of, settle


@pytest.fixture
def taught(url: str, secret: str, client: httpx2.Client) -> Iterator[Client]:
    with Client(url, secret) as taught:
        yield taught


def write_photos(folder: Path, count: int) -> Path:
    for number in range(count):
        photo = folder / "ab"[number % 2] / f"{number}.png"
        photo.parent.mkdir(parents=True, exist_ok=True)
        photo.write_bytes(png(200 + number))
    return folder


def test_the_client_can_do_what_the_service_can(taught: Client) -> None:
    made = taught.learn(png(100), "a", source="here")
    answer = taught.predict(png(100), png(101), min_seq=made["seq"], wait=10, top=1)
    assert len(answer["answers"]) == 2 and answer["model_seq"] >= made["seq"]
    assert taught.sample(made["id"])["source"] == "here"
    assert taught.image(made["id"]) == png(100)
    assert taught.relabel(made["id"], "b")["label"] == "b"
    assert taught.forget(made["id"])["id"] == made["id"]
    many = taught.learn_many([png(102), png(103)], ["a", "b"])
    assert [one["label"] for one in many] == ["a", "b"]
    assert taught.samples(limit=1)[0]["id"] == many[-1]["id"]
    assert {"a", "b"} <= {one["label"] for one in taught.classes()}
    assert taught.status()["health"] == "ok"
    events = taught.events()
    assert next(events)[0] in ("status", "learned")
    events.close()  # type: ignore[attr-defined]


def test_refusals_are_errors_with_a_code(taught: Client, url: str) -> None:
    with pytest.raises(ServiceError, match="not_an_image"):
        taught.learn(b"nothing", "a")
    with Client(url, "guess") as other, pytest.raises(ServiceError) as refused:
        other.status()
    assert (refused.value.status, refused.value.code) == (401, "no_token")
    with (
        Client("http://127.0.0.1:9", patience=0.1) as nobody,
        pytest.raises(EarlError, match="is it running"),
    ):
        nobody.status()


def test_a_request_whose_answer_was_lost_counts_once(
    taught: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real, lost = service.session.acknowledged, httpx2.Client.request, []

    def losing(self: httpx2.Client, *words: object, **more: object) -> httpx2.Response:
        answer = real(self, *words, **more)  # type: ignore[arg-type]
        if len(lost) < 2:
            lost.append(answer)
            raise httpx2.ReadTimeout("the answer is lost")
        return answer

    monkeypatch.setattr(httpx2.Client, "request", losing)
    made = taught.learn(png(110), "a")
    assert made["duplicate"] and service.session.acknowledged == before + 1


def test_feeding_goes_on_where_it_stopped(taught: Client, service: Service, tmp_path: Path) -> None:
    folder = write_photos(tmp_path, 7)
    lesson = Files([(path, path.parent.name) for path in sorted(folder.glob("*/*.png"))])
    (folder / "a" / "2.png").write_bytes(b"broken")
    steps = feed(taught, lesson)
    for _ in range(5):
        so_far = next(steps)
    assert so_far.done == 4 and len(so_far.refused) == 1
    assert already(taught, lesson) == 4
    before = service.session.acknowledged
    *_, last = feed(taught, lesson)
    assert (last.before, last.done) == (4, 7) and service.session.acknowledged == before + 3


def test_a_stream_is_fed_in_its_order(taught: Client, service: Service) -> None:
    import torch

    from earl.data.sets import shapes
    from earl.data.streams import Schedule

    data = shapes.load()
    lesson = Scheduled(data, Schedule(torch.tensor([5, 80, 3])))
    *_, last = feed(taught, lesson, "shapes")
    found = taught.samples(source="shapes")
    labels = [data.class_names[int(data.train.labels[i])] for i in (3, 80, 5)]
    assert [one["label"] for one in found] == labels and last.seq == service.session.acknowledged


def test_the_command_feeds_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service = service_of(tmp_path / "state")
    assert service.tokens is not None
    monkeypatch.setenv("EARL_TOKEN", service.tokens.add("feeder", SCOPES))
    folder = write_photos(tmp_path / "photos", 6)
    with running(service) as url:
        words = ["client", "learn", str(folder), "--url", url, "--json"]
        assert outcome(app, words) == 0
        settle(service.session)
        assert json.loads(capsys.readouterr().out)["sent"] == 6
        assert outcome(app, words) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["sent"], found["before"]) == (0, 6)
        assert service.session.acknowledged == 6
        headers = bearer("guess")
        assert httpx2.get(url + "/status", headers=headers).status_code == 401
