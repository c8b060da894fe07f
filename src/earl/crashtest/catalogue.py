"""The harnesses by name, in the order of the bars they check."""

from collections.abc import Mapping

from earl.crashtest.harness import Harness

HARNESSES: Mapping[str, Harness] = {
    "kills-model": Harness(
        "A1",
        "kills",
        200,
        "SIGKILL at random moments of an estimator that learns and saves",
        "a state is acknowledged before it is saved",
    ),
    "kills-run": Harness(
        "A1",
        "kills",
        200,
        "SIGKILL at random moments of a run",
        "a snapshot is acknowledged before it is written",
    ),
    "points-model": Harness(
        "A2",
        "points",
        1000,
        "death before and after every operation of saving an estimator",
        "a snapshot is written in place, not beside and renamed",
    ),
    "points-run": Harness(
        "A2",
        "points",
        1000,
        "death before and after every operation of a run",
        "a snapshot is written in place, not beside and renamed",
    ),
    "corruption-model": Harness(
        "A6",
        "corruption",
        1000,
        "damage to the newest save of an estimator",
        "the SHA-256 of the tensors is not looked at",
    ),
    "corruption-run": Harness(
        "A6",
        "corruption",
        1000,
        "damage to the newest snapshot of a run",
        "the SHA-256 of the tensors is not looked at",
    ),
    "versions": Harness(
        "A7",
        "versions",
        1000,
        "models and runs of a newer format, or opened with other settings",
        "the settings of a run are not compared",
    ),
    "locks": Harness(
        "A8",
        "locks",
        20,
        "two processes on one folder, and a kill of the first",
        "the folder is not locked",
    ),
    "crash-loop-model": Harness(
        "A9",
        "crash_loop",
        1500,
        "an estimator whose every life is killed after 1.5 intervals of saving",
        "nothing is saved before the end",
    ),
    "crash-loop-run": Harness(
        "A9",
        "crash_loop",
        1500,
        "a run whose every life is killed after 1.5 intervals of snapshots",
        "nothing is saved before the end",
    ),
    "snapshot-cost": Harness(
        "A11",
        "snapshot_cost",
        3000,
        "throughput with snapshots beside that without, and the way back after a stop",
        "snapshots may take any share of the time",
    ),
    "inputs": Harness(
        "B2",
        "inputs",
        10_000,
        "generated calls of observe and predict",
        "images are not checked",
    ),
    "tiny-states": Harness(
        "B4",
        "tiny",
        10_000,
        "every method with no sample, one sample, one class, a memory of one",
        "scores are NaN and nothing looks at them",
    ),
    "questions": Harness(
        "B5",
        "purity",
        1000,
        "questions at random between steps of learning",
        "a question counts as an update",
    ),
    "determinism": Harness(
        "B6",
        "purity",
        6,
        "the same stream in new processes with other hashes, saves and questions",
        "draws depend on the hashes of Python",
    ),
    "hostile": Harness(
        "D1",
        "hostile",
        500,
        "hostile snapshots and models under an audit hook",
        "tensors are not compared with what the state expects",
    ),
}
