"""bfloat16 from the command line: oneDNN is limited where that helps, and it is recorded."""

import json
import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from children import Children
from earl.cli.doctor import examine
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.environment import changes, environment
from earl.nn import onednn
from onednn_children import ALWAYS, DIE, LIMITED, NEVER, UNLESS, half_run


@pytest.fixture(scope="session")
def unlimited(bfloat16: None) -> None:
    """Skip what really calculates with bfloat16 and no limit where the tests were given one."""
    if onednn.limit() != onednn.DEFAULT:
        pytest.skip(f"bfloat16 was tried with the limit {onednn.limit()} only")


# ---- from the command line

SCRIPT = """
import sys
from pathlib import Path
from earl.nn import onednn
onednn.TRIAL = Path(sys.argv[1])
onednn.WITHOUT_AMX = sys.argv[2]
from earl.cli.app import main
sys.argv = ["earl", *sys.argv[3:]]
main()
"""


RUN = ["run", "--method", "er", "--dataset", "shapes", "--threads", "1", "--device", "cpu"]
RUN += ["--set", "precision=bfloat16", "--per-class", "2", "--set", "every=4"]


Earl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def earl(children: Children, child: Callable[[str], Path], tmp_path: Path) -> Earl:
    """Carry out a command in a process of its own whose trials end as the given program does."""

    def carry_out(
        program: str, *words: str, limit: str = LIMITED, **env: str
    ) -> "subprocess.CompletedProcess[str]":
        child(program)
        script = [SCRIPT, str(onednn.TRIAL), limit]
        return children.run("-c", *script, *words, cwd=tmp_path, env=dict(os.environ) | env)

    return carry_out


def only_run(tmp_path: Path) -> Path:
    (record,) = (tmp_path / "runs").rglob("experiment.json")
    return record.parent


@pytest.mark.usefixtures("bfloat16")
def test_a_command_limits_onednn_where_that_helps_and_says_so(earl: Earl, tmp_path: Path) -> None:
    done = earl(UNLESS, *RUN)
    assert done.returncode == 0, done.stderr
    (note,) = (line for line in done.stderr.splitlines() if line.startswith("note: "))
    assert f"ONEDNN_MAX_CPU_ISA={LIMITED} was set" in note and "SIGILL" in note
    run = RunDirectory(only_run(tmp_path))
    assert run.summary is not None and run.summary["notes"] == [note.removeprefix("note: ")]
    record = json.loads((run.path / "experiment.json").read_text())
    assert record["environment"]["onednn_limit"] == LIMITED
    assert record["environment"]["onednn"] == "Made-up instructions"


@pytest.mark.usefixtures("unlimited")
def test_a_run_that_needs_no_limit_gets_none_and_no_note(earl: Earl, tmp_path: Path) -> None:
    done = earl(NEVER, *RUN)
    assert done.returncode == 0 and "note: " not in done.stderr, done.stderr
    record = json.loads((only_run(tmp_path) / "experiment.json").read_text())
    assert record["environment"]["onednn_limit"] == "DEFAULT"


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available(),
    reason="oneDNN's instruction sets here are those of x86",
)
def test_the_limit_is_set_before_onednn_reads_it(earl: Earl) -> None:
    """oneDNN itself says what it uses; every CPU that torch runs on has SSE 4.1, and most more."""
    until = f"{DIE}if os.environ['ONEDNN_MAX_CPU_ISA'] != 'SSE41':\n    os.kill(os.getpid(), 4)"
    done = earl(until, *RUN, limit="SSE41", ONEDNN_VERBOSE="1")
    assert done.returncode == 0, done.stderr
    assert "info,cpu,isa:Intel SSE4.1\n" in done.stdout


def test_a_command_is_refused_in_one_line_where_nothing_helps(earl: Earl, tmp_path: Path) -> None:
    done = earl(ALWAYS, *RUN)
    assert done.returncode == 1
    assert done.stderr.startswith("earl: precision = 'bfloat16' does not work on this CPU")
    assert done.stderr.count("\n") == 1
    assert not list((tmp_path / "runs").rglob("*.json"))


@pytest.mark.usefixtures("unlimited")
def test_a_run_goes_on_only_where_its_precision_works(
    earl: Earl, child: Callable[[str], Path], tmp_path: Path
) -> None:
    child(NEVER)
    run = RunDirectory(tmp_path / "run", half_run())
    moments = run.run(device="cpu", threads=1)
    for _ in range(5):
        next(moments)
    moments.close()
    refused = earl(ALWAYS, "resume", "run")
    assert refused.returncode == 1 and "does not work on this CPU" in refused.stderr
    assert refused.stderr.count("\n") == 1 and run.summary is None
    done = earl(UNLESS, "resume", "run")
    assert done.returncode == 0, done.stderr
    assert "was set: without it" in done.stderr
    assert f"onednn_limit was 'DEFAULT' at the start and is '{LIMITED}' now" in done.stderr
    printed = earl(ALWAYS, "resume", "run")  # it has ended: nothing is calculated
    assert printed.returncode == 0 and "A_AUC" in printed.stdout
    assert not onednn.TRIAL.with_name("tries").exists()


SWEEP = """
import sys
from pathlib import Path
from earl.experiments.sweeps.sweep import sweep
from earl.nn import onednn
from onednn_children import half_run
onednn.TRIAL = Path(sys.argv[1])
*_, (status,) = sweep([half_run()], Path("runs"), device="cpu")
print(status.state, status.message, sep="\\n")
"""


def test_a_run_of_a_sweep_is_refused_in_one_line(
    children: Children, child: Callable[[str], Path], tmp_path: Path
) -> None:
    child(ALWAYS)
    done = children.run("-c", SWEEP, str(onednn.TRIAL), cwd=tmp_path, forks=True)
    state, message = done.stdout.splitlines()
    assert state == "failed"
    assert message.startswith("precision = 'bfloat16' does not work on this CPU")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (NEVER, "works on this CPU; oneDNN uses Made-up instructions"),
        (UNLESS, f"with ONEDNN_MAX_CPU_ISA={LIMITED} only, which earl run sets; else SIGILL"),
        (ALWAYS, "does not work on this CPU: SIGILL"),
    ],
)
def test_the_doctor_shows_the_answer_and_is_content_with_it(
    program: str, words: str, child: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    child(program)
    for other in ("learning", "saving"):
        monkeypatch.setattr(f"earl.cli.doctor.{other}", lambda: "")
    (found,) = (finding for finding in examine() if finding.what == "bfloat16")
    assert found.ok and words in found.found


def test_tests_that_need_bfloat16_skip_and_say_why(
    children: Children, child: Callable[[str], Path]
) -> None:
    child(ALWAYS)
    script = (
        "import sys; from pathlib import Path; import pytest; from earl.nn import onednn\n"
        "onednn.TRIAL = Path(sys.argv[1]); sys.exit(pytest.main(sys.argv[2:]))"
    )
    here = Path(__file__).parents[1]
    words = [
        str(here / "methods" / "test_earl_and_er.py"),
        "-n",
        "0",
        "-k",
        "half_as_many_bits_in_networks and vanilla",
    ]
    words += ["-p", "no:cacheprovider", "--assert=plain"]  # forks have imported plugins
    done = children.run("-c", script, str(onednn.TRIAL), *words, cwd=here.parent)
    assert "1 skipped" in done.stdout and "does not work on this CPU" in done.stdout, done.stdout


# ---- what is recorded


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, "DEFAULT"),
        ({"ONEDNN_MAX_CPU_ISA": ""}, "DEFAULT"),
        ({"ONEDNN_MAX_CPU_ISA": "avx2"}, "AVX2"),
        ({"DNNL_MAX_CPU_ISA": "AVX2"}, "AVX2"),
        ({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "DNNL_MAX_CPU_ISA": "AVX2"}, "AVX512_CORE"),
        ({"ONEDNN_MAX_CPU_ISA": "", "DNNL_MAX_CPU_ISA": "AVX2"}, "AVX2"),
    ],
)
def test_the_limit_is_the_one_that_onednn_reads(
    given: dict[str, str], limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)
    assert onednn.limit() == limit == environment("cpu", 1)["onednn_limit"]


def test_instructions_are_recorded_where_they_matter(child: Callable[[str], Path]) -> None:
    child(NEVER)
    assert "onednn" not in environment("cpu", 1)
    assert "onednn" not in environment("cuda", 1, precision="bfloat16")
    assert environment("cpu", 1, precision="bfloat16")["onednn"] == "Made-up instructions"


def test_another_limit_is_noted_when_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in (onednn.VARIABLE, onednn.OLD_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    stopped(tmp_path)
    monkeypatch.setenv(onednn.VARIABLE, "AVX2")
    run = RunDirectory(tmp_path)
    assert list(run.run())
    assert run.notes == [
        "not exactly reproducible: onednn_limit was 'DEFAULT' at the start and is 'AVX2' now"
    ]


def test_a_run_from_before_limits_were_recorded_goes_on_without_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(tmp_path)
    file = tmp_path / "experiment.json"
    record = json.loads(file.read_text())
    del record["environment"]["onednn_limit"]
    file.write_text(json.dumps(record))
    monkeypatch.setenv(onednn.VARIABLE, "AVX2")
    run = RunDirectory(tmp_path)
    assert list(run.run()) and run.notes == []


def stopped(path: Path) -> None:
    """Leave a run that was stopped after five samples."""
    settings = {"per_class": 2, "every": 4}
    experiment = Experiment(method="er", dataset="shapes", stream="gaussian", settings=settings)
    moments = RunDirectory(path, experiment).run(device="cpu", threads=1)
    for _ in range(5):
        next(moments)
    moments.close()


def test_only_what_a_record_knows_is_compared() -> None:
    now = {"cpu": "AVX512", "onednn_limit": "AVX2"}
    assert changes({"cpu": "AVX512"}, now) == []
    (note,) = changes({"cpu": "AVX2", "onednn_limit": "AVX2"}, now)
    assert "cpu was 'AVX2'" in note
