"""The benchmark: its arithmetic on clocks that are set by hand; one row that really runs."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from earl.bench import guards, neighbours, record, rows, starts, timing
from earl.bench.measured import Measured, ratio_of
from earl.bench.neighbours import neighbour
from earl.bench.parts import LargestTensor, asking
from earl.bench.profile import profile
from earl.bench.rows import ROWS, choose, measure_rows
from earl.bench.starts import picture, write_parquet
from earl.bench.subjects import bare_step, earl_midway, midway, observing, on, tiny_earl, updating
from earl.bench.timing import Effort, Times, take_turns
from earl.cli.app import app
from earl.data import seals
from earl.data.sets.cifar import cifar10
from earl.data.source import Source
from earl.errors import UnknownName
from earl.experiments.machine import thread_count
from earl.experiments.runs.records import find_runs
from earl.methods.earl.earl import EARL

PERFORMANCE = Path(__file__).parents[2] / "docs" / "performance.md"


class Clock:
    """A clock that only things move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def __call__(self) -> float:
        return self.now

    def thing(self, name: str, *seconds: float, done: float = 1) -> Callable[[], float]:
        """Return a thing that takes these times in turn, the first of them untimed."""
        left = iter(seconds)

        def run() -> float:
            self.calls.append(name)
            self.now += next(left)
            return done

        return run


def test_things_take_turns_in_alternating_order_after_one_untimed_turn() -> None:
    clock = Clock()
    things = {"a": clock.thing("a", 9, 1, 2, 3), "b": clock.thing("b", 9, 4, 5, 6)}
    times = take_turns(things, Effort(seconds=0, turns=3), clock=clock, wall=clock)
    assert clock.calls == ["a", "b", "a", "b", "b", "a", "a", "b"]
    assert times.seconds == {"a": [1, 2, 3], "b": [4, 5, 6]}


def test_turns_go_on_until_the_seconds_have_passed() -> None:
    clock = Clock()
    thing = clock.thing("a", *[1.0] * 20)
    take_turns({"a": thing}, Effort(seconds=5, turns=2), clock=clock, wall=clock)
    assert len(clock.calls) == 1 + 5


def test_a_time_is_per_unit_of_what_was_done() -> None:
    clock = Clock()
    things = {"a": clock.thing("a", 6, 6, done=3)}
    times = take_turns(things, Effort(seconds=0, turns=1), clock=clock, wall=clock)
    assert times.seconds == {"a": [2]}


def test_a_ratio_is_the_median_of_the_turns_beside_their_quartiles() -> None:
    times = Times({"a": [2.0, 3.0, 40.0, 3.0, 4.0], "b": [1.0, 2.0, 2.0, 1.0, 2.0]})
    ratio = times.ratio("a", "b")
    assert (ratio.low, ratio.value, ratio.high) == (2.0, 2.0, 3.0)  # of 1.5, 2, 2, 3, 20
    assert times.difference("a", "b") == 2.0  # of 1, 1, 2, 2, 38
    figure = ratio_of("a ÷ b", times, "a", "b", target=2.0)
    assert figure.ok and figure.times == {"a": 3000, "b": 2000}


def test_a_machine_that_slows_down_meanwhile_does_not_change_a_ratio() -> None:
    slower = [1.0, 1.0, 1.5, 3.0, 3.0, 4.0]
    times = Times({"a": [1.25 * s for s in slower], "b": slower})
    assert times.ratio("a", "b").value == 1.25


def test_a_single_turn_has_no_spread() -> None:
    ratio = Times({"a": [3.0], "b": [2.0]}).ratio("a", "b")
    assert (ratio.low, ratio.value, ratio.high) == (1.5, 1.5, 1.5)


@pytest.mark.parametrize(
    ("value", "target", "at_least", "ok"),
    [
        (1.0, 1.0, False, True),
        (1.1, 1.0, False, False),
        (1.1, 1.0, True, True),
        (0.9, 1.0, True, False),
        (9.0, None, False, True),
    ],
)
def test_a_figure_is_held_against_its_target(
    value: float, target: float | None, at_least: bool, ok: bool
) -> None:
    assert Measured(case="", value=value, target=target, at_least=at_least).ok is ok


def test_the_docs_explain_every_row_and_no_other() -> None:
    explained = re.findall(r"^\| `([a-z]+)` ", PERFORMANCE.read_text(encoding="utf-8"), re.M)
    assert list(dict.fromkeys(explained)) == list(ROWS)


def test_a_row_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'memory'"):
        choose(["memroy"])
    assert list(choose(["tiny", "step"])) == ["step", "tiny"]


def test_the_runs_of_which_a_table_is_timed_are_whole_and_differ_in_their_seeds(tmp_path) -> None:
    starts.write_runs(tmp_path, 3)
    runs = find_runs([tmp_path])
    assert all(run.finished and run.sealed for run in runs)
    assert sorted(run.experiment.seed for run in runs) == [1, 2, 3]
    assert len({run.kind for run in runs}) == 1


def test_rows_run_on_one_thread_and_give_the_others_back() -> None:
    def row(effort: Effort) -> Iterator[Measured]:
        yield Measured(case="threads", value=torch.get_num_threads())

    with thread_count(2):
        found = list(measure_rows({"row": row}, Effort(seconds=0, turns=1)))
        assert found[0][1].value == 1 and torch.get_num_threads() == 2


# ---- subjects


def test_observing_trains_the_real_learner_once_per_sample() -> None:
    learner = tiny_earl(on("shapes"), (3, 8, 8))
    assert observing(learner, 5, classes=4)() == 5
    assert isinstance(learner, EARL) and learner.work.updates == 5


def test_updating_tells_the_flops_of_a_whole_block() -> None:
    learner = midway(on("shapes", "er"), (3, 8, 8), classes=4, samples=40)
    flops = updating(learner)
    flops()
    B = learner.setting.batch_size  # half a batch waits, then as many updates follow
    assert flops() == B // 2 * B * learner.work.flops_per_input("images")


def test_the_bare_step_trains_a_copy() -> None:
    learner = tiny_earl(on("shapes"), (3, 8, 8))
    assert isinstance(learner, EARL)
    before = [p.clone() for p in learner.f.parameters()]
    step = bare_step(learner)
    step()
    assert all(torch.equal(p, q) for p, q in zip(before, learner.f.parameters(), strict=True))


def test_earl_midway_is_ready_for_every_class() -> None:
    learner = earl_midway(on("shapes"), (3, 8, 8), classes=4, samples=30)
    assert len(learner.classes) == 4 and learner.memory.full
    observing(learner, classes=4)()
    assert learner.work.updates == 1


def test_a_class_short_of_pairs_is_asked_about_with_all_others_full() -> None:
    learner = earl_midway(on("shapes", d=15), (3, 8, 8), classes=4, samples=30)
    x = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    for missing in (0, 1):
        assert asking(learner, x, 15, missing)() == 1
        assert len(learner.residuals) == 40 - missing


def test_the_guards_are_timed_beside_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "EVERY", 3)
    monkeypatch.setattr(guards, "STEPS", 3)
    step, run = guards.guards(Effort(seconds=0, turns=1, quick=True))
    assert set(step.times) == {"guard", "step"} and set(run.times) == {"guards", "run"}
    assert step.target == run.target == guards.TARGET


def test_the_largest_tensor_is_seen_even_if_it_is_gone() -> None:
    with LargestTensor() as seen:
        (torch.ones(10, 10) @ torch.ones(10, 30)).sum()
    assert seen.numbers == 300


def test_the_parts_of_a_profile_add_up_to_a_step() -> None:
    found = profile("tiny", tiny_earl(on("shapes"), (3, 8, 8)), steps=3)
    assert all(milliseconds > 0 for milliseconds in found.parts.values()), found.parts
    assert 0 < found.parts["rest"] < found.total


def test_the_made_up_cifar_is_read_by_the_real_loader(tmp_path: Path) -> None:
    pictures = [picture(n) for n in range(3)]
    for split, images in {"train": 12, "test": 10}.items():
        write_parquet(tmp_path / "cifar10" / f"{split}-0.parquet", pictures, images)
    data = cifar10(Source(root=tmp_path, cache=tmp_path / "cache"))
    assert (len(data.train), len(data.test), data.image_shape) == (12, 10, (3, 32, 32))


def test_the_row_of_opening_compares_the_hashes_of_all_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[str] = []
    real = seals.seal_of
    monkeypatch.setattr(starts, "RECORDS", 20)
    monkeypatch.setattr(seals, "seal_of", lambda file: checked.append(file.name) or real(file))
    (figure,) = starts.opened(Effort(seconds=0, turns=1))
    assert figure.unit == "s" and figure.target == 2.0 and figure.case.startswith("120 images")
    assert checked.count("train.images.npy") == 1 + 7  # made (in the untimed turn), opened in turns


# ---- others on the machine


def test_learning_is_timed_beside_a_process_that_spins_and_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(neighbours, "DIGITS", neighbours.Work("shapes", (3, 8, 8), 2, {}))
    (figure,) = neighbour(Effort(seconds=0, turns=1, quick=True))
    assert figure.target == 1.5 and set(figure.times) == {"busy", "quiet"}
    assert figure.value == pytest.approx(figure.times["busy"] / figure.times["quiet"] / 2)


# ---- the command


def bench(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["bench", *words])
    return done.exit_code, done.stdout


def test_a_row_really_runs_and_its_json_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "QUICK", Effort(seconds=0, turns=1, quick=True))
    code, out = bench("--quick", "--only", "memory", "--json")
    result = json.loads(out)
    assert code == 0 and result["quick"] is True
    assert {f["row"] for f in result["figures"]} == {"memory"} and len(result["figures"]) == 5
    assert set(result["machine"]) >= {"cpu", "cores", "torch"}
    for figure in result["figures"]:
        assert set(figure) >= {"case", "value", "unit", "target", "ok", "spread", "milliseconds"}
        assert figure["value"] > 0


def only_row(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    """Let the benchmark consist of one row, which finds this value; 2 is its target."""

    def row(effort: Effort) -> Iterator[Measured]:
        yield Measured(case="something", value=value, target=2.0)

    monkeypatch.setattr(rows, "ROWS", {"step": row})


@pytest.mark.parametrize(("words", "code"), [(["--check"], 1), ([], 0)])
def test_check_fails_where_a_target_is_missed(
    words: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_row(monkeypatch, 3.0)
    found, out = bench("--quick", *words)
    assert found == code and "MISSED" in out and "≤ 2 ×" in out


def test_a_full_run_is_remembered_where_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_row(monkeypatch, 1.23456)
    file = tmp_path / "benchmarks" / "history.jsonl"
    assert bench("--check", "--history", str(file))[0] == 0
    assert bench("--quick", "--history", str(file))[0] == 0  # is not worth remembering
    assert bench("--only", "step", "--history", str(file))[0] == 0  # neither
    (line,) = file.read_text(encoding="utf-8").splitlines()
    entry = json.loads(line)
    assert entry["figures"] == {"step: something": 1.235} and entry["ok"] is True
    assert set(entry) == {"date", "earl", "commit", "machine", "seconds", "ok", "figures"}


def test_without_a_checkout_nothing_is_remembered_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record.earl, "__file__", str(tmp_path / "a" / "b" / "__init__.py"))
    assert record.history_file() is None and record.commit() == ""
