"""Label Studio's protocol: requests in the form in which Label Studio sends them."""

import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from earl.cli.app import app
from earl.cli.end import outcome
from earl.service.http.labelstudio import routes
from earl.service.service import Service
from earl.service.session import Session
from earl.service.tokens import SCOPES
from served import picture
from serving import TINY, replayed, running, service_of, settle

CONFIG = """<View>
  <Image name="image" value="$photo"/>
  <Choices name="kind" toName="image" choice="single">
    <Choice value="sky"/> <Choice value="sand"/> <Choice value="dark wood" alias="wood"/>
  </Choices>
</View><!-- {"data": {"photo": "https://example.org/cat.jpg"}} -->"""
PROJECT = {"id": 7, "title": "Photos", "label_config": CONFIG, "model_version": ""}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Label Studio keeps on its disk, and a file beside it that is none of its own."""
    folder = tmp_path_factory.mktemp("media")
    (folder.parent / "secret.png").write_bytes(picture("sky"))
    (folder / "upload" / "7").mkdir(parents=True)
    (folder / "upload" / "7" / "a b.png").write_bytes(picture("sand"))
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    return folder


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    settings = {**TINY["settings"], "lr": 3e-3}
    return service_of(tmp_path_factory.mktemp("studio"), steps_per_sample=4, settings=settings)


@pytest.fixture(scope="module")
def studio(service: Service, files: Path) -> Iterator[httpx2.Client]:
    """A client as Label Studio is one: a name and a password, of which the second counts."""
    assert service.tokens is not None
    secret = service.tokens.add("first", SCOPES)
    with running(service, [routes(service, files)]) as url:
        address, login = f"{url}/label-studio", ("label-studio", secret)
        with httpx2.Client(base_url=address, auth=login, timeout=60) as client:
            yield client


def inside(kind: str, seed: int = 0) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture(kind, seed)).decode()}"


def event(action: str, number: int, label: str | None, photo: str, **more: Any) -> dict[str, Any]:
    """Return a webhook's payload about one annotation."""
    value = {"choices": [label]}
    result = [
        {"value": value, "id": "x1", "from_name": "kind", "to_name": "image", "type": "choices"}
    ]
    annotation = {
        "id": number,
        "result": [] if label is None else result,
        "was_cancelled": False,
        "ground_truth": False,
        "lead_time": 3.1,
        "task": 100 + number,
        "completed_by": 1,
        **more,
    }
    task = {"id": 100 + number, "data": {"photo": photo}, "project": 7, "is_labeled": True}
    return {"action": action, "annotation": annotation, "task": task, "project": PROJECT}


def tell(studio: httpx2.Client, *given: Any, **more: Any) -> dict[str, Any]:
    found = studio.post("/webhook", json=event(*given, **more))
    assert found.is_success, found.text
    answer: dict[str, Any] = found.json()
    return answer


def ask(studio: httpx2.Client, *photos: str, config: str = CONFIG) -> list[dict[str, Any]]:
    """Return the suggestions for tasks, which must be as many."""
    tasks = [{"id": n, "data": {"photo": photo}, "project": 7} for n, photo in enumerate(photos)]
    body = {
        "tasks": tasks,
        "project": "7.1700000000",
        "label_config": config,
        "params": {"login": None, "password": None, "hostname": "http://x", "context": None},
    }
    found = studio.post("/predict", json=body)
    assert found.status_code == 200, found.text
    results: list[dict[str, Any]] = found.json()["results"]
    assert len(results) == len(photos)
    return results


def session(service: Service) -> Session:
    settle(service.session)
    return service.session


def test_every_annotation_teaches_and_the_next_suggestion_knows(
    studio: httpx2.Client, service: Service
) -> None:
    assert studio.get("/health").json() == {"status": "UP"}
    connect = {"project": "7.1700000000", "schema": CONFIG, "hostname": "", "access_token": "t"}
    before = studio.post("/setup", json=connect).json()["model_version"]
    assert ask(studio, inside("sky"))[0]["result"] == []  # nothing is known yet
    for number in range(16):
        kind = ("sky", "sand")[number % 2]
        answer = tell(studio, "ANNOTATION_CREATED", number, kind, inside(kind, number))
        assert answer["status"] == "ok"
    session(service)
    sky, sand = ask(studio, inside("sky", 99), inside("sand", 99))
    assert [one["value"]["choices"] for one in sky["result"]] == [["sky"]]
    assert [one["value"]["choices"] for one in sand["result"]] == [["sand"]]
    names = {name: sky["result"][0][name] for name in ("from_name", "to_name", "type")}
    assert names == {"from_name": "kind", "to_name": "image", "type": "choices"}
    assert 0.5 < sky["score"] <= 1
    after = studio.post("/setup", json=connect).json()["model_version"]
    assert sky["model_version"] == after != before  # else Label Studio would not ask again


def test_annotations_are_corrected_withdrawn_and_come_back(
    studio: httpx2.Client, service: Service
) -> None:
    photo, where = inside("sky", 200), {"source": "label-studio/7"}
    tell(studio, "ANNOTATION_CREATED", 200, "sand", photo)
    again = tell(studio, "ANNOTATION_CREATED", 200, "sand", photo)  # told twice
    (newest, *_) = session(service).samples(where, 10)
    assert again["operations"] == [newest["id"]]
    assert (newest["label"], newest["state"]) == ("sand", "learned")
    tell(studio, "ANNOTATION_UPDATED", 200, "sky", photo)
    assert session(service).samples(where, 1)[0]["label"] == "sky"
    gone = {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 200}], "project": PROJECT}
    assert studio.post("/webhook", json=gone).json()["status"] == "ok"
    assert session(service).samples(where, 1)[0]["state"] == "forgotten"
    assert studio.post("/webhook", json=gone).json()["status"] == "ignored"
    tell(studio, "ANNOTATION_UPDATED", 200, "sky", photo)
    (back, *_) = session(service).samples(where, 1)
    assert back["id"] > newest["id"] and back["state"] == "learned"
    tell(studio, "ANNOTATION_UPDATED", 200, None, photo)  # the choice was taken away
    assert session(service).samples(where, 1)[0]["state"] == "forgotten"


def test_what_was_learned_is_what_a_classifier_learns_from_the_same_samples(
    studio: httpx2.Client, service: Service
) -> None:
    tell(studio, "ANNOTATION_CREATED", 300, "sky", inside("sky", 300))
    held = session(service)
    held.writer.flush()
    assert held.learner.clf.digest() == replayed(held.journal).digest()


@pytest.mark.parametrize(
    "body",
    [
        {"action": "PROJECT_UPDATED", "project": PROJECT},
        {"action": "START_TRAINING", "project": PROJECT},
        {"action": "TASKS_CREATED", "tasks": [{"id": 1, "data": {}}], "project": PROJECT},
        event("ANNOTATION_CREATED", 400, "sky", inside("sky"), was_cancelled=True),
        event("ANNOTATION_CREATED", 401, None, inside("sky")),
    ],
    ids=lambda body: body["action"],
)
def test_events_that_teach_nothing_are_ignored(
    studio: httpx2.Client, service: Service, body: dict[str, Any]
) -> None:
    before = session(service).acknowledged
    answer = studio.post("/webhook", json=body)
    assert (answer.status_code, answer.json()["status"]) == (200, "ignored")
    assert service.session.acknowledged == before


def test_only_labels_that_can_be_chosen_are_suggested(studio: httpx2.Client) -> None:
    only = CONFIG.replace('<Choice value="sky"/>', "")
    (found,) = ask(studio, inside("sky", 500), config=only)
    assert found["result"][0]["value"]["choices"] == ["sand"]
    free = '<View><Image name="i" value="$photo"/><Choices name="c" toName="i" value="$l"/></View>'
    (found,) = ask(studio, inside("sky", 500), config=free)  # tasks bring their own choices
    assert found["result"][0]["value"]["choices"] == ["sky"]
    none = '<View><Image name="i" value="$photo"/><Choices name="c" toName="i"><Choice value="x"/>'
    assert ask(studio, inside("sky"), config=f"{none}</Choices></View>")[0]["result"] == []


def test_files_below_the_folder_are_read_and_no_others(studio: httpx2.Client) -> None:
    good = ("/data/upload/7/a%20b.png", "/data/local-files/?d=upload/7/a%20b.png")
    bad = (
        "/data/upload/../../secret.png",
        "/data/local-files/?d=../secret.png",
        "/data/local-files/?d=/etc/passwd",
        "/data/local-files/?d=link.png",
        "/data/local-files/?d=upload",
        "/data/upload/7/missing.png",
        "/etc/passwd",
        "",
    )
    for found in ask(studio, *good):
        assert found["result"][0]["value"]["choices"] == ["sand"]
    for address, found in zip(bad, ask(studio, *bad), strict=True):
        assert found["result"] == [], address


def test_no_address_is_ever_fetched(studio: httpx2.Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.3)
        place = f"127.0.0.1:{listening.getsockname()[1]}/a.png"
        addresses = (f"http://{place}", f"//{place}", "file:///etc/passwd", "s3://a/b.png")
        assert all(found["result"] == [] for found in ask(studio, *addresses))
        body = event("ANNOTATION_CREATED", 600, "sky", f"http://{place}")
        assert studio.post("/webhook", json=body).status_code == 422
        with pytest.raises(TimeoutError):
            listening.accept()


@pytest.mark.parametrize(
    "config",
    [None, 5, "", "<View", "<View/>", '<View><Text name="t" value="$t"/></View>'],
)
def test_projects_without_a_choice_about_an_image_are_refused(
    studio: httpx2.Client, config: object
) -> None:
    answer = studio.post("/setup", json={"project": "7.1", "schema": config})
    assert (answer.status_code, answer.json()["error"]) == (422, "bad_label_config")


def test_entities_are_not_expanded(studio: httpx2.Client) -> None:
    bomb = '<!DOCTYPE v [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><View>&b;</View>'
    assert studio.post("/setup", json={"schema": bomb}).status_code == 422


def test_a_token_is_needed_and_must_be_allowed_to_teach(
    studio: httpx2.Client, service: Service
) -> None:
    assert service.tokens is not None
    guest = service.tokens.add("guest", ["predict"])
    body = event("ANNOTATION_CREATED", 700, "sky", inside("sky"))
    assert studio.post("/webhook", json=body, auth=("x", "wrong")).status_code == 401
    assert studio.post("/webhook", json=body, auth=("x", guest)).status_code == 403
    bearer = {"Authorization": f"Bearer {guest}"}
    config = {"schema": CONFIG}
    assert studio.post("/setup", json=config, headers=bearer, auth=None).status_code == 200
    text = {"Content-Type": "text/plain"}
    assert studio.post("/setup", content=json.dumps(config), headers=text).status_code == 415


@pytest.mark.parametrize("more", [["--label-studio"], []], ids=["no folder", "nobody asks"])
def test_a_wrong_folder_is_refused_before_anything_is_begun(
    tmp_path: Path, more: list[str]
) -> None:
    folder = tmp_path / "missing" if more else tmp_path
    words = ["serve", "--state", str(tmp_path / "state"), "--label-studio-files", str(folder)]
    assert outcome(app, [*words, *more]) == 1
    assert not (tmp_path / "state").exists()
