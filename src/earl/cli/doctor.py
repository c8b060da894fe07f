"""The doctor: does everything here work, and with what?"""

import importlib.metadata
import platform
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import earl
from earl.errors import EarlError
from earl.experiments.experiment import Experiment
from earl.experiments.machine import best_device, thread_count
from earl.experiments.runs.directory import RunDirectory
from earl.nn.etf import SimplexETF
from earl.nn.onednn import about_bfloat16, limit
from earl.storage.state import digest

LEAST_FREE = 2e9  # bytes of disk for runs and their snapshots


@dataclass(frozen=True)
class Finding:
    """One thing the doctor looked at."""

    what: str
    ok: bool
    found: str


def examine() -> list[Finding]:
    """Return what was found; every check really does the thing it speaks of."""
    checks: dict[str, Callable[[], str]] = {
        "versions": versions,
        "device": device,
        "bfloat16": about_bfloat16,
        "disk": disk,
        "geometry": geometry,
        "learning": learning,
        "saving": saving,
    }
    findings = []
    for what, check in checks.items():
        try:
            findings.append(Finding(what, True, check()))
        except (EarlError, OSError, RuntimeError, ImportError) as error:
            findings.append(Finding(what, False, f"{type(error).__name__}: {error}"))
    return findings


def versions() -> str:
    packages = ("torch", "numpy", "safetensors", "pillow", "matplotlib")
    found = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    return f"earl {earl.__version__}, Python {platform.python_version()}, {found}"


def device() -> str:
    capability = torch.backends.cpu.get_cpu_capability()
    name = torch.cuda.get_device_name() if best_device() == "cuda" else "CPU"
    return f"{name}; {torch.get_num_threads()} threads, {capability}, oneDNN's limit: {limit()}"


def disk() -> str:
    free = shutil.disk_usage(Path.cwd()).free
    if free < LEAST_FREE:
        raise EarlError(f"only {free / 1e9:.1f} GB free in {Path.cwd()}; snapshots need room")
    return f"{free / 1e9:.0f} GB free in {Path.cwd()}"


def geometry() -> str:
    W = SimplexETF(64, seed=0).vectors(torch.arange(65))
    error = float((W @ W.T - torch.eye(65).double() * 65 / 64 + 1 / 64).abs().max())
    if error > 1e-12:
        raise EarlError(f"the 65 vectors in 64 dimensions miss their angles by {error:.1e}")
    return f"65 vectors in 64 dimensions, equal angles to {error:.0e}"


def learning() -> str:
    hits = 0
    with thread_count(1):
        few = {"per_class": 20}
        experiment = Experiment(method="earl", dataset="shapes", stream="disjoint", settings=few)
        built = experiment.build(best_device())
        for x, y in built.stream:
            hits += int((built.learner.predict(x) == y).sum())
            built.learner.observe(x, y)
    return f"{len(built.stream)} samples learned, {hits} of them right before"


def saving() -> str:
    experiment = Experiment(method="er", dataset="shapes", stream="gaussian")
    with tempfile.TemporaryDirectory() as place:
        run = RunDirectory(Path(place) / "run", experiment)
        moments = run.run(device="cpu", threads=1)
        for _, moment in zip(range(20), moments, strict=False):
            step = moment.step
        moments.close()
        once, twice = run.learner(), run.learner()
    if digest(once.state_dict()) != digest(twice.state_dict()):
        raise EarlError("a learner does not come back as it was saved")
    return f"stopped after {step} samples, saved, and read back the same"
