"""What the service answers over HTTP."""

import base64
import json
from typing import Any

import httpx2
import pytest

from earl.service.service import Service
from serving import bearer, png

B64 = base64.b64encode(png(1)).decode()


def ask(client: httpx2.Client, seq: int = 0, **more: Any) -> dict[str, Any]:
    answer = client.post(
        "/predict", params={"min_seq": seq, "wait": 10} | more, files={"image": png(1)}
    )
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_taught_image_counts_as_soon_as_one_asks_for_it(client: httpx2.Client) -> None:
    made = client.post("/learn", files={"image": png(50)}, data={"label": "a", "source": "cam"})
    receipt = made.json()
    assert made.status_code == 202
    assert receipt["label"] == "a" and receipt["source"] == "cam" and not receipt["duplicate"]
    assert ask(client, receipt["seq"])["model_seq"] >= receipt["seq"]
    found = client.get(f"/samples/{receipt['id']}").json()
    assert found["state"] == "learned" and found["taught"] == "a" and found["predicted"] is not None


def test_probabilities_are_of_the_taught_classes_and_sum_to_one(client: httpx2.Client) -> None:
    (answer,) = ask(client, top=100)["answers"]
    assert sum(share["p"] for share in answer["probabilities"]) == pytest.approx(1)
    assert answer["label"] == answer["probabilities"][0]["label"]
    assert 0 <= answer["unknown"] <= 1
    (answer,) = ask(client, unknown_below=1.0)["answers"]
    assert answer["label"] is None  # nothing is that near


def test_json_and_forms_mean_the_same(client: httpx2.Client) -> None:
    images = {"images": [B64]}
    answers = client.post("/predict", json=images).json()["answers"]
    assert answers == ask(client)["answers"]
    made = client.post("/learn", json={"image": B64, "label": "a"}).json()
    assert client.get(f"/samples/{made['id']}/image").content == png(1)


def test_a_batch_is_learned_in_its_order(client: httpx2.Client) -> None:
    files = [("image", png(60)), ("image", png(61))]
    made = client.post("/learn/batch", files=files, data={"label": ["b", "a"]})
    accepted = made.json()["accepted"]
    assert [one["label"] for one in accepted] == ["b", "a"]
    assert accepted[1]["seq"] == accepted[0]["seq"] + 1
    samples = {"samples": [{"image": B64, "label": "a", "key": "x1"}]}
    first, again = (client.post("/learn/batch", json=samples).json() for _ in range(2))
    assert first["accepted"][0]["id"] == again["accepted"][0]["id"]
    assert again["accepted"][0]["duplicate"]


def test_one_bad_image_of_a_batch_refuses_all(client: httpx2.Client, service: Service) -> None:
    before = service.session.acknowledged
    files = [("image", png(60)), ("image", b"no image")]
    made = client.post("/learn/batch", files=files, data={"label": ["b", "a"]})
    assert made.status_code == 415 and service.session.acknowledged == before


def test_a_key_counts_once(client: httpx2.Client) -> None:
    sent: dict[str, Any] = {"files": {"image": png(70)}, "headers": {"Idempotency-Key": "key-70"}}
    first, again = (client.post("/learn", data={"label": "a"}, **sent).json() for _ in range(2))
    assert first["id"] == again["id"] and again["duplicate"] and not first["duplicate"]
    other = client.post("/learn", data={"label": "b"}, **sent)
    assert other.status_code == 422 and other.json()["error"] == "key_reused"
    (found,) = client.get("/samples", params={"key": "key-70"}).json()["samples"]
    assert found["id"] == first["id"]


def test_wrong_and_undo(client: httpx2.Client) -> None:
    made = client.post("/learn", files={"image": png(80)}, data={"label": "wrogn"}).json()
    changed = client.patch(f"/samples/{made['id']}", json={"label": "wrong"})
    assert changed.status_code == 202 and changed.json()["label"] == "wrong"
    ask(client, changed.json()["seq"])
    labels = [one["label"] for one in client.get("/classes").json()["classes"]]
    assert "wrong" in labels and "wrogn" not in labels
    gone, again = (client.delete(f"/samples/{made['id']}") for _ in range(2))
    assert gone.status_code == 202 and gone.json() == again.json()
    ask(client, gone.json()["seq"])
    labels = [one["label"] for one in client.get("/classes").json()["classes"]]
    assert "wrong" not in labels
    assert client.get(f"/samples/{made['id']}").json()["state"] == "forgotten"
    assert client.get("/samples/999999").status_code == 404


def test_samples_come_newest_first_and_can_be_chosen(client: httpx2.Client) -> None:
    client.post("/learn", files={"image": png(5)}, data={"label": "b", "source": "lens"})
    found = client.get("/samples", params={"limit": 200}).json()["samples"]
    ids = [one["id"] for one in found]
    assert ids == sorted(ids, reverse=True)
    chosen = client.get("/samples", params={"source": "lens", "label": "b"}).json()["samples"]
    assert {(one["source"], one["label"]) for one in chosen} == {("lens", "b")}
    few = client.get("/samples", params={"after": ids[-3], "before": ids[-1] + 5}).json()["samples"]
    assert all(ids[-3] < one["id"] < ids[-1] + 5 for one in few)


def test_the_status_tells_how_learning_goes(client: httpx2.Client, service: Service) -> None:
    made = client.post("/learn", files={"image": png(6)}, data={"label": "a"}).json()
    ask(client, made["seq"])
    status = client.get("/status").json()
    assert status["health"] == "ok" and status["reasons"] == []
    assert status["waiting"] == status["acknowledged"] - status["applied"] == 0
    assert status["memory"]["size"] == 20 and 0 < status["memory"]["used"] <= 20
    assert status["curve"][-1][0] == status["samples"]
    classes = client.get("/classes").json()["classes"]
    assert [one["since"] for one in classes] == sorted(one["since"] for one in classes)
    assert sum(one["remembered"] for one in classes) == status["memory"]["used"]
    metrics = client.get("/metrics").text
    assert f"earl_acknowledged {float(status['acknowledged'])}" in metrics


def test_a_question_about_the_future_is_refused_after_its_wait(client: httpx2.Client) -> None:
    answer = client.post(
        "/predict", params={"min_seq": 10**6, "wait": 0.05}, files={"image": png(1)}
    )
    assert answer.status_code == 412 and answer.json()["error"] == "not_learned_yet"


def test_events_tell_what_is_learned(client: httpx2.Client) -> None:
    with client.stream("GET", "/events") as events:
        lines = events.iter_lines()
        assert next(lines) == ": hello"
        made = client.post("/learn", files={"image": png(7)}, data={"label": "b"}).json()
        for line in lines:
            if line == "event: learned":
                learned = json.loads(next(lines).removeprefix("data: "))
                break
    assert (learned["id"], learned["label"]) == (made["id"], "b")
    assert set(learned) == {"id", "seq", "label", "predicted", "right", "recent"}


def test_the_page_needs_no_token_and_nothing_from_elsewhere(url: str) -> None:
    page = httpx2.get(url + "/")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert httpx2.get(url + "/page/../session.py").status_code == 404
    assert httpx2.get(url + "/page/..%2fsession.py").status_code == 404


def test_health_needs_no_token(url: str) -> None:
    for path in ("/healthz", "/readyz"):
        assert httpx2.get(url + path).json() == {"status": "ok", "reasons": []}


def test_posted_images_are_handed_back_as_nothing_but_images(client: httpx2.Client) -> None:
    image = client.get("/samples/1/image")
    assert image.headers["content-type"] == "image/png"
    assert image.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in image.headers["content-security-policy"]


def test_tokens_may_do_what_their_scopes_say(url: str, service: Service) -> None:
    assert service.tokens is not None
    watcher = bearer(service.tokens.add("watcher", ["predict"]))
    pupil = bearer(service.tokens.add("pupil", ["predict", "learn"]))
    post = {"files": {"image": png(1)}, "data": {"label": "a"}}
    assert httpx2.post(url + "/learn", headers=watcher, **post).status_code == 403
    assert httpx2.post(url + "/learn", headers=pupil, **post).status_code == 202
    post["data"] = {"label": "never heard of"}
    refused = httpx2.post(url + "/learn", headers=pupil, **post)
    assert refused.status_code == 403 and refused.json()["error"] == "no_new_classes"
    service.tokens.remove("watcher")
    assert httpx2.get(url + "/status", headers=watcher).status_code == 401
