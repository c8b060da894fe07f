"""Numbers that are not numbers: no method trains on with them, saves them or answers with them."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from children import Children
from earl.errors import NoProgress, NotFinite, SnapshotError
from earl.experiments.catalogue import METHODS
from earl.experiments.contract.checks import samples
from earl.experiments.experiment import Experiment
from earl.experiments.recipes import Value
from earl.experiments.runs.directory import RunDirectory
from earl.learning.learner import Learner
from earl.learning.work import Work
from earl.nn.finite import all_finite, check_finite, most_likely
from earl.storage.snapshot import read_newest, write_snapshot
from kin import CLOSED_FORM

Make = Callable[..., Learner]
# A plain network, one with stored features, several networks and what their optimisers are.
DIVERGE = ("er", "earl", "oddl", "polrs")
each = pytest.mark.parametrize(
    "name",
    [
        name if name in DIVERGE else pytest.param(name, marks=pytest.mark.slow)
        for name in METHODS.names()
        if name not in CLOSED_FORM
    ],
)
NAN, INF = math.nan, math.inf


def networks(learner: Learner) -> list[nn.Module]:
    return [part for part in learner.parts().values() if isinstance(part, nn.Module)]


def experiment(method: str = "er", **given: Value) -> Experiment:
    small: dict[str, Value] = {"per_class": 8, "every": 8, "lr": 1e30}
    return Experiment(method=method, dataset="shapes", stream="gaussian", settings=small | given)


# ---- answers


@pytest.mark.parametrize(
    "row", [[NAN, 1.0], [1.0, NAN], [INF, 1.0], [-INF, -INF], [NAN, INF]], ids=str
)
def test_a_score_that_is_none_is_not_answered(row: list[float]) -> None:
    with pytest.raises(NotFinite, match="cannot answer"):
        most_likely(torch.tensor([[1.0, 2.0], row, [3.0, 1.0]]))


def test_the_highest_score_is_answered_the_first_of_several() -> None:
    z = torch.tensor([[1.0, 5.0, 5.0], [-INF, -2.0, -3.0], [3e38, 3.1e38, 0.0], [3e38, 0.0, 0.0]])
    assert most_likely(z).tolist() == [1, 1, 1, 0]  # whose sum is infinite


@settings(max_examples=100)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 10**6))
def test_finite_scores_are_answered_as_ever(rows: int, columns: int, seed: int) -> None:
    z = torch.randint(-3, 3, (rows, columns), generator=torch.Generator().manual_seed(seed)) / 2
    assert torch.equal(most_likely(z), z.argmax(dim=1))


# ---- states


def spoilt(learner: Learner, tensor: Tensor, value: float) -> str:
    """Return what is said of a learner with one wrong number, which is put right again."""
    last = (-1,) * tensor.dim()
    before = tensor.detach()[last].item()
    tensor.detach()[last] = value
    try:
        check_finite(learner.parts())
    except NotFinite as error:
        return str(error)
    finally:
        tensor.detach()[last] = before
    return ""


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_each_weight_statistic_and_moment_counts(value: float, make: Make) -> None:
    learner = make("er")
    learner.observe(*samples(16))
    check_finite(learner.parts())
    network, optimizer = learner.parts()["network"], learner.parts()["optimizer"]
    assert isinstance(network, nn.Module) and isinstance(optimizer, torch.optim.Optimizer)
    for p in network.parameters():
        assert "numbers of network are" in spoilt(learner, p, value)
        for moment in ("exp_avg", "exp_avg_sq"):
            assert "numbers of optimizer are" in spoilt(learner, optimizer.state[p][moment], value)
    statistics = [b for name, b in network.named_buffers() if "running" in name]
    assert statistics
    for buffer in statistics:
        assert "numbers of network are" in spoilt(learner, buffer, value)


@pytest.mark.parametrize("name", ["der++", "x-der"])
def test_logits_that_are_unknown_are_no_fault(name: str, make: Make) -> None:
    learner = make(name)
    x, y = samples(40)
    learner.observe(x[y == y[0]][:6], y[y == y[0]][:6])
    learner.observe(x, y)
    columns = learner.parts()["memory"].state_dict()["columns"]
    assert columns["logits"].isnan().any()
    check_finite(learner.parts())


class Masked(nn.Module):
    """A part of many a backbone: minus infinity, for ever, where attention must not go."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.full((2, 2), -INF))


def test_constants_of_a_backbone_may_be_infinite() -> None:
    check_finite({"network": Masked(), "memory": object()})


def test_a_sum_that_overflows_is_no_fault() -> None:
    assert all_finite(torch.full((4,), 3e38), torch.full((4,), -3e38))
    assert all_finite(torch.tensor([], dtype=torch.float32), torch.arange(3))
    assert not all_finite(torch.full((4,), 3e38), torch.tensor([NAN]))


# ---- runs


@pytest.fixture
def saved_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a snapshot takes."""
    monkeypatch.setattr("earl.experiments.runs.clock.SNAPSHOT_SHARE", INF)


@pytest.mark.usefixtures("saved_at_every_step")
@each
def test_a_run_that_diverges_ends_with_the_step_and_its_last_good_state(
    name: str, tmp_path: Path
) -> None:
    run = RunDirectory(tmp_path, experiment(name))
    steps = []
    with pytest.raises(NotFinite, match=r"^at step \d+: .* choose a smaller lr; ") as ended:
        for moment in run.run(device="cpu", threads=1, snapshot_seconds=0.0):
            steps.append(moment.step)
    assert str(ended.value).startswith(f"at step {steps[-1] + 1}: ")
    saved = "is saved as of" if isinstance(ended.value, NoProgress) else "stays as it was at"
    assert str(ended.value).endswith(f"; {tmp_path} {saved} step {steps[-1]}")
    assert run.summary is None
    newest = read_newest(tmp_path / "snapshots")
    assert newest is not None and newest.step == steps[-1] and newest.skipped == ()
    check_finite(run.learner().parts())


def answers(learner: Learner, x: Tensor) -> Tensor:
    """`predict` as it was without a check."""
    if not len(learner.classes):
        return torch.full((len(x),), -1)
    return learner.classes.ids(learner.scores(x).argmax(dim=1))


def unchecked(loss: Tensor, optimizer: torch.optim.Optimizer, _: Work) -> None:
    """`descend` as it was without a check."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither training nor answering looks at its numbers, like many a method of others."""
    monkeypatch.setattr("earl.methods.er.descend", unchecked)
    monkeypatch.setattr(Learner, "predict", answers)


@pytest.mark.usefixtures("blind")
def test_an_evaluation_notices_what_training_did_not(tmp_path: Path) -> None:
    moments = RunDirectory(tmp_path, experiment()).run(device="cpu", threads=1)
    with pytest.raises(NotFinite, match=r"^at step 8: numbers of network, optimizer are "):
        list(moments)
    assert (tmp_path / "history.jsonl").read_text() == ""
    assert not (tmp_path / "snapshots").exists()


@pytest.mark.usefixtures("blind", "saved_at_every_step")
def test_a_snapshot_is_not_written_of_what_training_did_not_notice(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, experiment(every=100))
    with pytest.raises(NotFinite, match=r"^at step 8: .* stays as it was at step 7"):
        list(run.run(device="cpu", threads=1, snapshot_seconds=0.0))
    check_finite(run.learner().parts())


@pytest.mark.usefixtures("blind")
def test_a_run_that_is_stopped_does_not_save_what_training_did_not_notice(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, experiment(every=100))
    moments = run.run(device="cpu", threads=1)
    next(moment for moment in moments if moment.step == 12)
    with pytest.raises(NotFinite, match=r"^at step 12: "):
        moments.close()
    assert not (tmp_path / "snapshots").exists()


def test_a_snapshot_that_an_earlier_version_spoilt_is_refused(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, experiment(lr=0.01))
    moments = run.run(device="cpu", threads=1)
    next(moment for moment in moments if moment.step == 10)
    moments.close()
    found = read_newest(tmp_path / "snapshots")
    assert found is not None
    found.state["network"]["head.weight"][0] = NAN
    write_snapshot(tmp_path / "snapshots", 11, found.state, about=found.about)
    for use in (run.learner, lambda: next(RunDirectory(tmp_path).run())):
        with pytest.raises(SnapshotError, match=r"snap-0+11 is of no use: numbers of network are"):
            use()


def test_the_command_line_tells_in_one_line(children: Children, tmp_path: Path) -> None:
    words = ["run", "--method", "er", "--dataset", "shapes", "--set", "lr=1e30", "--json"]
    done = children.run("-m", "earl", *words, "--out", "runs", cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("earl: ")]
    assert line.startswith("earl: at step ") and "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("summary.json"))
    record = json.loads(next(tmp_path.rglob("experiment.json")).read_text())
    assert record["settings"]["lr"] == 1e30
