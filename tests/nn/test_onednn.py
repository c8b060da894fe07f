"""Whether a CPU survives bfloat16: tried in a child process, which here dies as it is told to.

No test depends on the processor: the children are made up, and die by a real SIGILL.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from children import Children
from earl.errors import EarlError, InvalidSetting
from earl.experiments.experiment import Experiment
from earl.experiments.matching import cost_of
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.environment import environment
from earl.learning.learner import Learner
from earl.nn import bfloat16_trial, onednn
from onednn_children import ALWAYS, LIMITED, NEVER, UNLESS, half_run

Make = Callable[..., Learner]


# ---- the trial


def test_a_child_that_dies_by_an_illegal_instruction_is_survived_and_named(
    child: Callable[[str], Path],
) -> None:
    child(ALWAYS)
    assert onednn.tried("DEFAULT") == onednn.Outcome("SIGILL", "Made-up instructions")


def test_a_child_that_dies_only_without_a_limit_is_tried_with_it(
    child: Callable[[str], Path],
) -> None:
    child(UNLESS)
    assert onednn.tried("DEFAULT").death == "SIGILL"
    assert onednn.tried(LIMITED) == onednn.Outcome("", "Made-up instructions")


@pytest.mark.parametrize(
    ("program", "death"),
    [
        ("import sys; sys.exit(3)", "exit code 3"),
        ("raise ImportError('no torch here')", "ImportError: no torch here"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 1)",
            f"signal {signal.SIGRTMIN + 1}",
        ),
    ],
)
def test_any_other_end_is_a_death_with_its_reason(
    program: str, death: str, child: Callable[[str], Path]
) -> None:
    child(program)
    assert onednn.tried("DEFAULT") == onednn.Outcome(death, "unknown")


def test_a_child_that_never_ends_is_a_death(
    child: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    child("import time; time.sleep(1000)")
    monkeypatch.setattr(onednn, "PATIENCE", 0.1)
    assert "timed out" in onednn.tried("DEFAULT").death


def test_a_process_tries_once(child: Callable[[str], Path], make: Make) -> None:
    tries = child(NEVER)
    for _ in range(3):
        make("er", precision="bfloat16")
    assert tries.read_text() == "."


def test_only_bfloat16_on_a_cpu_is_tried(child: Callable[[str], Path], make: Make) -> None:
    tries = child(ALWAYS)
    make("er")
    setting = make("er").setting
    type(setting)(
        image_shape=setting.image_shape,
        view=setting.view,
        augment=setting.augment,
        device="cuda",
        precision="bfloat16",
    )
    environment("cpu", 1)
    environment("cuda:0", 1, precision="bfloat16")
    assert not tries.exists()


class Seen(TorchDispatchMode):
    """Remembers which operations were given bfloat16 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if any(t.dtype == torch.bfloat16 for t in tensors):
            self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.usefixtures("bfloat16")
def test_the_trial_multiplies_convolves_and_goes_back_with_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bfloat16_trial, "leave_no_core", lambda: None)
    with Seen() as seen:
        bfloat16_trial.main()
    assert seen.names >= {"mm", "addmm", "convolution", "convolution_backward"}


def test_a_child_that_dies_leaves_no_core(children: Children, tmp_path: Path) -> None:
    script = (
        "import resource; from earl.nn.bfloat16_trial import leave_no_core; leave_no_core()\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE))"
    )
    done = children.run("-c", script, cwd=tmp_path)
    assert done.stdout == "(0, 0)\n", done.stderr


# ---- from Python


def test_a_cpu_that_never_survives_is_refused_in_one_line(
    child: Callable[[str], Path], make: Make
) -> None:
    child(ALWAYS)
    with pytest.raises(InvalidSetting, match="does not work on this CPU") as refused:
        make("er", precision="bfloat16")
    said = str(refused.value)
    assert "SIGILL" in said and "precision=float32" in said and "\n" not in said


def test_a_cpu_that_needs_a_limit_is_refused_with_what_to_do(
    child: Callable[[str], Path], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether oneDNN was used before in this process, and ignores a limit by now, nobody knows."""
    child(UNLESS)
    with pytest.raises(InvalidSetting, match=f"ONEDNN_MAX_CPU_ISA={LIMITED}") as refused:
        make("er", precision="bfloat16")
    assert "before Python starts" in str(refused.value) and "\n" not in str(refused.value)
    assert onednn.VARIABLE not in os.environ
    monkeypatch.setenv(onednn.VARIABLE, LIMITED)
    make("er", precision="bfloat16")


def test_experiments_and_runs_are_refused_and_leave_no_record(
    child: Callable[[str], Path], tmp_path: Path
) -> None:
    child(ALWAYS)
    with pytest.raises(EarlError, match="does not work on this CPU"):
        half_run().build()
    with pytest.raises(EarlError, match="does not work on this CPU"):
        next(RunDirectory(tmp_path / "run", half_run()).run(device="cpu", threads=1))
    assert not (tmp_path / "run" / "experiment.json").exists()


def test_what_a_method_costs_is_found_without_its_precision(
    child: Callable[[str], Path],
) -> None:
    """A run on a GPU that is matched to another must not depend on its CPU's bfloat16."""
    tries = child(ALWAYS)
    small = {"width": 4, "depth": 8}
    half, full = (
        Experiment(
            method="earl",
            dataset="shapes",
            stream="disjoint",
            settings=small | {"precision": precision},
        )
        for precision in ("bfloat16", "float32")
    )
    assert cost_of(half, (3, 8, 8), 4) == cost_of(full, (3, 8, 8), 4)
    assert not tries.exists()
