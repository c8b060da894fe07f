"""Replicas answer from the snapshots of a writer, follow it, and never change anything."""

import shutil
from pathlib import Path
from typing import Any

import httpx2
import pytest

from earl.errors import SnapshotError
from earl.service.events import Broker
from earl.service.limits import Limits
from earl.service.replica import Replica
from earl.service.service import Service
from earl.service.tokens import Tokens
from serving import TINY, admin, png, running, service_of, settle, started

HOSTS = frozenset({"127.0.0.1"})


def replica_of(folder: Path) -> Service:
    broker = Broker(4)
    return Service(
        Replica(folder, tell=broker.tell, seconds=0.05), Tokens(folder), broker, hosts=HOSTS
    )


def test_two_replicas_follow_a_writer_and_answer_as_it_does(folder: Path) -> None:
    service = service_of(folder, Limits(snapshot_seconds=0.0))
    headers, image = admin(service), {"image": png(3)}

    def teach(url: str, label: str) -> httpx2.Response:
        return httpx2.post(url + "/learn", data={"label": label}, files=image, headers=headers)

    def ask(url: str, seq: int) -> Any:
        given = {"params": {"min_seq": seq, "wait": 10}, "files": image, "headers": headers}
        found = httpx2.post(url + "/predict", timeout=30, **given)
        assert found.status_code == 200, found.text
        return found.json()

    with running(service) as writer:
        seq = teach(writer, "a").json()["seq"]
        settle(service.session)
        service.session.snapshots.wait()
        with running(replica_of(folder)) as one, running(replica_of(folder)) as two:
            assert ask(one, seq) == ask(two, seq) == ask(writer, seq)
            seq = teach(writer, "b").json()["seq"]
            assert ask(one, seq) == ask(two, seq) == ask(writer, seq)
            refused = teach(one, "b")
            assert refused.status_code == 403 and refused.json()["error"] == "read_only"
            assert httpx2.get(one + "/status", headers=headers).json()["classes"] == 2
            assert httpx2.get(two + "/readyz").json() == {"status": "ok", "reasons": []}


def test_a_replica_without_a_snapshot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="no snapshot yet"):
        Replica(tmp_path)


def test_a_replica_passes_over_a_damaged_snapshot_and_leaves_it(folder: Path) -> None:
    with started(folder, TINY):
        pass
    (found,) = folder.glob("snap-*")
    damaged = folder / "snap-000000000009"
    shutil.copytree(found, damaged)
    replica = Replica(folder)
    assert replica.published.seq == 0 and damaged.exists()
