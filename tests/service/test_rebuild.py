"""The state without a source is that of a service which that source never reached."""

import csv
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from earl import EARLClassifier
from earl.cli.app import app
from earl.cli.end import outcome
from earl.errors import DirectoryInUse, InvalidInput, SnapshotError
from earl.estimator.samples import find_samples
from earl.service.exporting import export_folders, export_parquet, opened
from earl.service.limits import Limits
from earl.service.operations import Wish
from earl.service.rebuild import rebuild, without_source
from earl.service.session import Session
from earl.service.swap import finish
from serving import TINY, learn, lessons, png, settle, started

HONEST = [
    Wish(kind="learn", image=png(i), label="ab"[i % 2], source="me", key=f"m{i}") for i in range(8)
]
POISON = [Wish(kind="learn", image=png(50 + i), label="ba"[i % 2], source="x") for i in range(4)]


def wishes(poisoned: bool) -> list[Wish]:
    """Return samples of two sources with changes to them; or without one of the sources."""
    if poisoned:
        first = [HONEST[0], POISON[0], *HONEST[1:4], *POISON[1:3], *HONEST[4:], POISON[3]]
        relabel, undo, own = 3, 8, 2  # the second and the fifth honest sample; one of the other
        change = Wish(kind="relabel", sample=own, label="c")
        return [
            *first,
            Wish(kind="relabel", sample=relabel, label="new"),
            change,
            Wish(kind="forget", sample=undo),
        ]
    change = Wish(kind="relabel", sample=2, label="new")
    return [*HONEST, change, Wish(kind="forget", sample=5)]


def served(folder: Path, poisoned: bool) -> str:
    """Serve the wishes; return the digest of what was learned."""
    with started(folder, TINY) as session:
        learn(session, *wishes(poisoned))
    return session.learner.clf.digest()


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("poisoned")
    served(folder, True)
    return folder


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> str:
    return served(tmp_path_factory.mktemp("clean"), False)


def listed(out: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((out / "labels.csv").read_text(encoding="utf-8").splitlines()))


def copy_of(folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(folder, tmp_path / "state")
    return tmp_path / "state"


def test_forgetting_a_source_gives_the_state_without_it(
    poisoned: Path, clean: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = copy_of(poisoned, tmp_path)
    assert EARLClassifier.load(state).digest() != clean
    assert outcome(app, ["forget", "--state", str(state), "--source", "x"]) == 0
    assert "without 4 samples" in capsys.readouterr().out
    assert EARLClassifier.load(state).digest() == clean
    session = Session(state)
    assert session.waiting == 0 and session.journal.sources() == {"me": 8}
    assert session.learner.clf.digest() == clean
    session.start()
    (again,) = session.learn([HONEST[3]]).result()  # its key is still known
    assert (again.id, again.duplicate) == (4, True)
    session.stop()


def test_a_rebuild_that_is_cut_off_leaves_the_old_state(poisoned: Path, tmp_path: Path) -> None:
    state = copy_of(poisoned, tmp_path)
    before = EARLClassifier.load(state).digest()
    steps = rebuild(state, lambda one: one.source == "x")
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert EARLClassifier.load(state).digest() == before
    with started(state) as session:
        pass
    assert not (state / "rebuilt").exists() and session.learner.clf.digest() == before


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_kill_while_the_new_state_moves_in_is_no_loss(
    moves: int, poisoned: Path, clean: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, real, made = copy_of(poisoned, tmp_path), Path.rename, 0

    def killed(self: Path, target: Path) -> Path:
        nonlocal made
        if self.parent.name == "rebuilt":
            made += 1
            if made > moves:
                raise KeyboardInterrupt
        return real(self, target)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(Path, "rename", killed)
        list(rebuild(state, lambda one: one.source == "x"))
    finish(state)
    session = Session(state)
    assert session.learner.clf.digest() == clean or session.catching_up
    session.start()
    settle(session)
    session.stop()
    assert session.learner.clf.digest() == clean


def test_what_cannot_be_forgotten_is_refused(poisoned: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="'me', 'x'"):
        without_source({"me": 1, "x": 2}, "y")
    with pytest.raises(SnapshotError, match="holds no service"):
        next(rebuild(tmp_path, lambda one: True))
    state = copy_of(poisoned, tmp_path)
    session = Session(state)
    with pytest.raises(DirectoryInUse):
        next(rebuild(state, lambda one: True))
    session._held.close()


def test_after_trimming_nothing_is_rebuilt(tmp_path: Path) -> None:
    for wish in HONEST[:4]:  # each session ends with a snapshot, and what is older may go
        with started(tmp_path, TINY, Limits(retention=1)) as session:
            learn(session, wish)
    with pytest.raises(SnapshotError, match="retention"):
        next(rebuild(tmp_path, lambda one: True))


def test_what_was_taught_comes_back_as_folders(poisoned: Path, tmp_path: Path) -> None:
    journal, out = opened(poisoned), tmp_path / "out"
    assert export_folders(journal, out) == 11  # one of 12 was withdrawn
    rows = listed(out)
    assert [row["label"] for row in rows][:3] == ["a", "c", "new"]  # as they are now
    assert (out / rows[0]["path"]).read_bytes() == png(0)
    assert len(find_samples(out / "labels.csv")) == 11  # `earl learn` takes them
    journal.close()


def test_what_was_taught_comes_back_as_a_table(poisoned: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    journal = opened(poisoned)
    assert export_parquet(journal, tmp_path / "taught.parquet") == 11
    rows = parquet.read_table(tmp_path / "taught.parquet").to_pylist()
    assert rows[0]["image"]["bytes"] == png(0) and rows[0]["source"] == "me"
    journal.close()


def test_labels_that_cannot_name_folders_are_kept_in_the_list(tmp_path: Path) -> None:
    labels = ["..", "a/b", "A-b", "CON é", "/"]
    with started(tmp_path / "state", TINY) as session:
        learn(session, *lessons((png(i), label) for i, label in enumerate(labels)))
    journal, out = opened(tmp_path / "state"), tmp_path / "out"
    export_folders(journal, out)
    rows = listed(out)
    assert [row["label"] for row in rows] == labels
    assert len({row["path"].partition("/")[0].lower() for row in rows}) == len(labels)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "state"]
    journal.close()
