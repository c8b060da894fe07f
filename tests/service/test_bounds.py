"""What a service may need at most is computed before it starts, told, and kept to."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from earl.cli.app import app
from earl.cli.end import outcome
from earl.errors import TooLarge
from earl.estimator.parameters import Parameters
from earl.estimator.rehearsal import Needs, needs_of
from earl.nn.room import room
from earl.service.begun import begun_with
from earl.service.bounds import Bounds, Item, bounds_of, disk_short
from earl.service.images import ImageLimits
from earl.service.limits import Limits
from earl.service.replica import Replica
from earl.service.session import Session
from serving import SETTINGS, TINY, connected, png, service_of, settle, started

SMALL = ["serve", "--image-size", "16", "--memory-size", "20", "--max-classes", "5"]
SMALL += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]


BOUNDED = TINY | {"max_classes": 5}


@pytest.fixture(scope="module")
def bounds() -> Bounds:
    return bounds_of(begun_with(BOUNDED), Limits())


@pytest.fixture(scope="module")
def needs() -> Needs:
    return needs_of(Parameters(**begun_with(BOUNDED)), 5)


def of(bounds: Bounds, name: str) -> int:
    return next(item.bytes for item in (*bounds.memory, *bounds.disk) if item.name == name)


def test_sums_are_of_all_items_and_fit_the_machine(bounds: Bounds) -> None:
    assert bounds.most_memory == sum(item.bytes for item in bounds.memory)
    assert bounds.most_disk == sum(item.bytes for item in bounds.disk)
    assert min(item.bytes for item in bounds.memory) >= 0
    bounds.check(room())


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"in_flight": 1 << 30}, "requests"),
        ({"batch_body": 1 << 30}, "requests"),
        ({"connections": 10_000}, "connections"),
        ({"listeners": 10_000}, "connections"),
        ({"images": ImageLimits(most_pixels=1 << 28)}, "images"),
        ({"waiting": 10**6}, "lists"),
        ({"journal": 1 << 40}, "journal"),
    ],
)
def test_a_limit_that_is_raised_raises_its_item(
    changed: dict[str, int],
    name: str,
    bounds: Bounds,
    needs: Needs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("earl.service.bounds.needs_of", lambda *_: needs)  # no limit changes them
    monkeypatch.setattr("earl.service.bounds.give_back", lambda: None)
    raised = bounds_of(begun_with(BOUNDED), replace(Limits(), **changed))
    assert of(raised, name) > of(bounds, name)


def test_the_bound_depends_on_classes_and_says_so_where_nothing_bounds_them(
    bounds: Bounds,
) -> None:
    assert (bounds.classes, bounds.assumed) == (5, False) and "5 classes" in bounds.line()
    free = bounds_of(begun_with(TINY), Limits(), known=2000)
    assert (free.classes, free.assumed) == (2000, True) and "(assumed)" in free.line()
    full = {**TINY, "settings": {**TINY["settings"], "growth": False}}
    bounded = bounds_of(begun_with(full), Limits())
    assert (bounded.classes, bounded.assumed) == (16, False)


def test_a_refusal_is_one_line_that_names_the_largest_items() -> None:
    items = [Item("a", 10**9, "--a"), Item("b", 3 * 10**9, "--b"), Item("c", 1, "--c")]
    items.append(Item("d", 2 * 10**9, "--d"))
    with pytest.raises(TooLarge) as caught:
        Bounds(1, False, items, []).check(5 * 10**9)
    said = str(caught.value)
    assert "6 GB" in said and "5 GB" in said and "\n" not in said
    named = said[said.index("items: ") :]
    assert named.startswith("items: b 3 GB (--b), d 2 GB (--d), a 1 GB (--a). ")


def test_a_service_that_needs_too_much_is_not_begun(folder: Path) -> None:
    with pytest.raises(TooLarge):
        Session(folder, TINY, Limits(memory=10**6))
    assert not (folder / "journal.db").exists()
    session = Session(folder, TINY | {"memory_size": 7}, Limits(memory=10**11))  # it may be another
    assert session.bounds is not None and session.bounds.most_memory < 10**11
    session._held.close()
    with pytest.raises(TooLarge):  # nor started again
        Session(folder, {}, Limits(memory=10**6))
    Session(folder, {})._held.close()  # whose folder is free


def test_a_replica_that_needs_too_much_does_not_start(folder: Path) -> None:
    with started(folder, TINY, Limits(snapshot_seconds=0.0)):
        pass
    with pytest.raises(TooLarge):
        Replica(folder, Limits(memory=10**6))
    found = Replica(folder, Limits(memory=10**11)).bounds
    assert found is not None and not found.disk


def test_check_prints_a_table_and_begins_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*SMALL, "--state", str(tmp_path / "s")]
    assert outcome(app, [*words, "--check"]) == 0
    said = capsys.readouterr().out
    assert "all memory" in said and "all disk" in said and "with 5 classes" in said
    assert outcome(app, [*words, "--json", "--journal-gib", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["most_memory"] == sum(item["bytes"] for item in found["memory"])
    assert found["disk"][0]["bytes"] == 2 << 30 and found["allowed_memory"] == room()
    assert outcome(app, [*words, "--check", "--max-memory", "1MB"]) == 1
    assert "the largest items: " in capsys.readouterr().err
    assert outcome(app, [*words, "--max-memory", "much"]) == 1
    assert "500MB" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_check_takes_what_a_folder_was_begun_with(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Session(folder, TINY | {"max_classes": 3})._held.close()
    assert outcome(app, ["serve", "--state", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["classes"] == 3
    assert outcome(app, ["serve", "--state", str(folder), "--check", "--memory-size", "9"]) == 1
    assert "memory_size = 20" in capsys.readouterr().err


def test_a_disk_that_is_too_small_is_told(tmp_path: Path, bounds: Bounds) -> None:
    assert disk_short(tmp_path / "not yet", bounds, Limits(free=1 << 62)) is not None
    tiny = replace(bounds, disk=[Item("journal", 1, "")])
    assert disk_short(tmp_path / "not yet", tiny, Limits(free=0)) is None


def test_images_that_are_being_sent_count_until_they_are_read(folder: Path) -> None:
    service = service_of(folder, Limits(in_flight=40_000))
    image = png(0, 100)
    assert 20_000 < len(image) < 40_000
    with connected(service) as sent:
        made = sent.post("/learn", files={"image": image}, data={"label": "a"})
        assert made.status_code == 202
        assert sent.get("/samples/1/image").content == image
        service.in_flight.add(41_000)  # as if clients did not read their answers
        for path in ("/samples/1/image", "/classes", "/status"):
            refused = sent.get(path)
            assert (refused.status_code, refused.json()["error"]) == (429, "busy")
            assert refused.headers["Retry-After"] == "1"
        assert sent.get("/healthz").status_code == 200
        service.in_flight.add(-41_000)
        assert sent.get("/samples/1/image").content == image
    assert service.in_flight.bytes == 0


def test_a_question_that_waits_holds_no_model(folder: Path) -> None:
    service, free = service_of(folder), threading.Event()
    with connected(service) as sent:
        teach = {"files": {"image": png(0)}}
        seq = sent.post("/learn", data={"label": "a"}, **teach).json()["seq"]
        settle(service.session)
        for _ in range(2):  # both threads that answer are busy
            service.asking._threads.submit(free.wait)
        found: list[int] = []

        def ask() -> None:
            found.append(sent.post("/predict", **teach).json()["model_seq"])

        asking = threading.Thread(target=ask)
        asking.start()
        while not service.asking.pending:
            pass
        later = sent.post("/learn", data={"label": "b"}, **teach).json()["seq"]
        settle(service.session)
        free.set()
        asking.join()
    assert found == [later] and later > seq
