"""Replicas answer from the snapshots of a writer, follow it, and never change anything."""

import shutil
from pathlib import Path

import httpx2
import pytest

from earl.errors import SnapshotError
from earl.service.events import Broker
from earl.service.limits import Limits
from earl.service.replica import Replica
from earl.service.service import Service
from earl.service.tokens import SCOPES, Tokens
from serving import bearer, png, running, service_of, settle

HOSTS = frozenset({"127.0.0.1"})


def replica_of(folder: Path) -> Service:
    broker = Broker(4)
    return Service(
        Replica(folder, tell=broker.tell, seconds=0.05), Tokens(folder), broker, hosts=HOSTS
    )


def ask(url: str, headers: dict[str, str], seq: int) -> dict[str, object]:
    found = httpx2.post(
        url + "/predict",
        params={"min_seq": seq, "wait": 10},
        files={"image": png(3)},
        headers=headers,
        timeout=30,
    )
    assert found.status_code == 200, found.text
    answer: dict[str, object] = found.json()
    return answer


def test_two_replicas_follow_a_writer_and_answer_as_it_does(folder: Path) -> None:
    writer = service_of(folder, Limits(snapshot_seconds=0.0))
    assert writer.tokens is not None
    headers = bearer(writer.tokens.add("first", SCOPES))
    with running(writer) as url:
        post = {"files": {"image": png(1)}, "headers": headers}
        seq = httpx2.post(url + "/learn", data={"label": "a"}, **post).json()["seq"]  # type: ignore[arg-type]
        settle(writer.session)
        writer.session.snapshots.wait()
        with running(replica_of(folder)) as one, running(replica_of(folder)) as two:
            assert ask(one, headers, seq) == ask(two, headers, seq) == ask(url, headers, seq)
            seq = httpx2.post(url + "/learn", data={"label": "b"}, **post).json()["seq"]  # type: ignore[arg-type]
            assert ask(one, headers, seq) == ask(two, headers, seq) == ask(url, headers, seq)
            refused = httpx2.post(one + "/learn", data={"label": "b"}, **post)  # type: ignore[arg-type]
            assert refused.status_code == 403 and refused.json()["error"] == "read_only"
            assert httpx2.get(one + "/status", headers=headers).json()["classes"] == 2
            assert httpx2.get(two + "/readyz").json() == {"status": "ok", "reasons": []}


def test_a_replica_without_a_snapshot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="no snapshot yet"):
        Replica(tmp_path)


def test_a_replica_passes_over_a_damaged_snapshot_and_leaves_it(folder: Path) -> None:
    session = service_of(folder).session
    session.start()
    session.stop()
    (found,) = folder.glob("snap-*")
    damaged = folder / "snap-000000000009"
    shutil.copytree(found, damaged)
    replica = Replica(folder)
    assert replica.published.seq == 0 and damaged.exists()
