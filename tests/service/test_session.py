"""A session acknowledges what is on the disk; its state is that of a classifier fed the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from earl import EARLClassifier
from earl.errors import DirectoryInUse, InvalidSetting, SnapshotError
from earl.service.operations import Wish
from earl.service.refusals import Refused
from earl.service.session import Session
from serving import TINY, learn, lessons, png, replayed, settle, started, taught

SAMPLES = [(png(i), "ab"[i % 2]) for i in range(12)]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with started(tmp_path / "state", TINY) as session:
        yield session


def test_the_state_is_that_of_a_classifier_that_learned_the_same(session: Session) -> None:
    assert learn(session, *lessons(SAMPLES)) == list(range(1, 13))
    assert session.learner.clf.digest() == taught(SAMPLES).digest()


def test_a_session_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with started(tmp_path, TINY) as session:
        learn(session, *lessons(SAMPLES[:5]))
    with started(tmp_path) as session:
        assert session.applied == 5 and not session.catching_up
        learn(session, *lessons(SAMPLES[5:]))
    assert EARLClassifier.load(tmp_path).digest() == taught(SAMPLES).digest()


def test_what_was_acknowledged_before_a_stop_is_learned_after_it(tmp_path: Path) -> None:
    session = Session(tmp_path, TINY)
    session.writer.start()  # the learner never comes to it
    session.learner.is_alive = lambda: True  # type: ignore[method-assign]
    session.learn(lessons(SAMPLES)).result()
    session.writer.stop()
    session._held.close()
    session = Session(tmp_path)
    assert session.catching_up and session.waiting == 12
    session.start()
    settle(session)
    assert not session.catching_up
    assert session.learner.clf.digest() == taught(SAMPLES).digest()
    session.stop()


def test_relabelling_and_withdrawing_are_operations_like_others(session: Session) -> None:
    samples = [*SAMPLES, (png(90), "typo")]
    learn(session, *lessons(samples))
    learn(session, Wish(kind="relabel", sample=13, label="b"), Wish(kind="forget", sample=2))
    clf = taught(samples)
    clf.relabel(13, "b")
    clf.forget(label="typo")  # nothing of it is left
    clf.forget(key=2)
    assert session.learner.clf.digest() == clf.digest() == replayed(session.journal).digest()
    assert [session.sample(i)["state"] for i in (2, 13)] == ["forgotten", "learned"]  # type: ignore[index]
    assert session.sample(13)["label"] == "b" and session.sample(13)["taught"] == "typo"  # type: ignore[index]


def test_a_wish_under_a_known_key_is_granted_once(session: Session) -> None:
    wish = Wish(kind="learn", image=png(1), label="a", key="k")
    first, again = (session.learn([wish]).result()[0] for _ in range(2))
    assert (again.id, again.duplicate) == (first.id, True)
    other = Wish(kind="learn", image=png(2), label="a", key="k")
    with pytest.raises(Refused, match="used before"):
        session.learn([other]).result()
    assert session.acknowledged == 1


def test_a_batch_is_granted_as_a_whole_or_not_at_all(session: Session) -> None:
    def admit(new: object) -> None:
        raise Refused(403, "no", "not these")

    wishes = [Wish(kind="learn", image=png(i), label=f"l{i}") for i in range(3)]
    with pytest.raises(Refused, match="not these"):
        session.learn(wishes, admit).result()
    assert session.acknowledged == 0 and session.writer.labels == set()
    assert [receipt.id for receipt in session.learn(wishes).result()] == [1, 2, 3]


def test_withdrawing_twice_is_one_operation(session: Session) -> None:
    learn(session, *lessons(SAMPLES[:2]))
    wish = Wish(kind="forget", sample=1)
    assert [session.learn([wish]).result()[0].seq for _ in range(2)] == [3, 3]
    with pytest.raises(Refused, match="withdrawn"):
        session.learn([Wish(kind="relabel", sample=1, label="c")]).result()
    with pytest.raises(Refused, match="no sample 9"):
        session.learn([Wish(kind="forget", sample=9)]).result()


def test_a_directory_has_one_session_and_one_set_of_parameters(tmp_path: Path) -> None:
    session = Session(tmp_path, TINY)
    with pytest.raises(DirectoryInUse):
        Session(tmp_path)
    session._held.close()
    with pytest.raises(InvalidSetting, match="memory_size = 20"):
        Session(tmp_path, {"memory_size": 30})


def test_snapshots_without_their_journal_are_refused(tmp_path: Path) -> None:
    with started(tmp_path, TINY):
        pass
    (tmp_path / "journal.db").unlink()
    with pytest.raises(SnapshotError, match="put it back"):
        Session(tmp_path)


def test_classes_beyond_the_capacity_are_refused_before_they_are_acknowledged(
    tmp_path: Path,
) -> None:
    settings = TINY["settings"] | {"growth": False, "d": 2}
    with started(tmp_path, TINY | {"settings": settings}) as session:
        learn(session, *lessons((png(i), f"l{i}") for i in range(3)))
        with pytest.raises(Refused, match="room for 3 classes"):
            learn(session, *lessons([(png(4), "one more")]))
        learn(session, *lessons([(png(4), "l0")]))
        assert session.skipped == 0 and session.acknowledged == 4
