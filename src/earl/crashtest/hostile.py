"""D1: hostile snapshots, whose hashes are right: they are refused, and nothing they say is done."""

import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from earl.crashtest import hostile_files as evil
from earl.crashtest.bombs import memory_of
from earl.crashtest.forging import forge
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import ask_child, in_child
from earl.crashtest.sabotage import put
from earl.crashtest.small import ready
from earl.crashtest.subjects import ModelSubject, silent
from earl.errors import EarlError
from earl.estimator import EARLClassifier
from earl.storage import state
from earl.storage.snapshot import read_newest, write_snapshot

FORBIDDEN: tuple[str, ...] = (
    "pickle.find_class",
    "exec",
    "compile",
    "os.system",
    "os.exec",
    "os.posix_spawn",
)
FORBIDDEN += ("subprocess.Popen", "socket.connect", "marshal.loads", "import", "ctypes.dlopen")
LONGEST, MOST = 1.0, 64.0  # seconds of work and MB, of each refusal
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def hostile(trial: Trial) -> Found:
    """Load hostile snapshots and models under an audit hook; the sabotage rebuilds any state."""
    ready()
    in_child(lambda: make_all(trial))
    if trial.sabotage:
        put(state, "_arranged", lambda tensor, spec, path: tensor)
    answer = ask_child(lambda: feed_all(trial.place / "cases", trial.place / "good"))
    found = Found(answer["figures"], answer["wrong"]) if answer else trial.found(cases=0)
    found.expect(found.figures["cases"] == trial.count, "the process that reads them has died")
    found.expect(not (trial.place / "harm").exists(), "something was carried out")
    return found


# ---- making them


def make_all(trial: Trial) -> None:
    """Make a folder for each hostile case; all hashes fit, so parsing is what they try."""
    good, model = trial.place / "good", trial.place / "model"
    write_snapshot(good, 3, {"w": torch.zeros(3, 4)}, about={})
    ModelSubject(model, 6, every=6).live(silent)
    for number, make in enumerate(of_both(trial.rng, good, model)):
        if number == trial.count:
            return
        make(trial.place / "cases" / f"{number}")


def of_both(rng: random.Random, good: Path, model: Path) -> Iterator[Callable[[Path], object]]:
    """Yield what makes a hostile copy of a snapshot, or without end of a model."""
    for data in evil.hostile_tensors():
        yield partial(put_tensors, good, data)
    for data in evil.hostile_manifests():
        yield partial(put_manifest, good, data)
    for way, text in evil.hostile_fields():
        yield partial(put_field, good, way, text)
    while True:
        seed = rng.random()
        yield partial(spoil, model, random.Random(seed))


def newest(folder: Path) -> Path:
    return max(folder.glob("snap-*"))


def put_tensors(good: Path, data: bytes, to: Path) -> None:
    forge(newest(shutil.copytree(good, to)), data=data)


def put_manifest(good: Path, data: bytes, to: Path) -> None:
    (newest(shutil.copytree(good, to)) / "manifest.json").write_bytes(data)


def put_field(good: Path, way: list[str], text: str, to: Path) -> None:
    edit, rewrite = evil.putting(way, text)
    forge(newest(shutil.copytree(good, to)), edit, text=rewrite)


def spoil(model: Path, rng: random.Random, folder: Path) -> None:
    """Rewrite a model whose snapshot is in order, but whose state is that of no learner."""
    found = read_newest(shutil.copytree(model, folder))
    assert found is not None
    spoiled, path = found.state, found.path
    network = spoiled["model"]["learner"]["network"]
    weight = rng.choice([name for name, value in network.items() if value.is_floating_point()])
    shutil.rmtree(path)
    rng.choice(SPOILS)(spoiled, network, weight, rng)
    write_snapshot(folder, found.step, spoiled, about=dict(found.about))


Spoil = Callable[[Any, Any, str, random.Random], object]
ODD: tuple[Any, ...] = (
    "_target_",
    "__reduce__",
    "../../etc/passwd",
    "os.system",
    -1,
    10**12,
    1.5,
    None,
    [],
    {},
)
SPOILS: tuple[Spoil, ...] = (
    lambda state, net, name, rng: net[name].fill_(rng.choice([torch.nan, torch.inf])),
    lambda state, net, name, rng: net.pop(name),
    lambda state, net, name, rng: net.update({f"{name}.more": torch.zeros(3)}),
    lambda state, net, name, rng: net.update({name: net[name].double()[..., None]}),
    lambda state, net, name, rng: net.update({name: "text"}),
    lambda state, net, name, rng: state.pop(rng.choice(["parameters", "model"])),
    lambda state, net, name, rng: state["model"].pop(rng.choice(list(state["model"]))),
    lambda state, net, name, rng: state["parameters"].pop(rng.choice(["method", "image_size"])),
    lambda state, net, name, rng: state["parameters"].update({rng.choice(list("xyz")): 1}),
    lambda state, net, name, rng: state["parameters"].update(
        {rng.choice(["method", "image_size", "memory_size"]): rng.choice(ODD)}
    ),
    lambda state, net, name, rng: state["parameters"]["settings"].update(_target_="os.system"),
    lambda state, net, name, rng: state["parameters"]["settings"].update(width=10**9),
)


# ---- feeding them


def feed_all(cases: Path, good: Path) -> dict[str, Any]:
    """Load each case under an audit hook that sees every dangerous act."""
    seen: list[str] = []
    watching = False

    def watch(event: str, args: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(args[2], int) and args[2] & WRITES
        if watching and (event in FORBIDDEN or writes):
            seen.append(f"{event} {str(args)[:100]}")

    sys.addaudithook(watch)
    read_newest(good)  # and has imported what it needs
    figures = {"cases": 0, "refused": 0, "acts": 0, "seconds": 0.0, "mb": 0.0}
    wrong: list[str] = []
    for case in sorted(cases.iterdir(), key=lambda path: int(path.name)):
        used, held, watching = time.process_time(), memory_of("self"), True
        try:
            loaded(case)
            wrong.append(f"{case.name} is loaded")
        except EarlError as refusal:
            figures["refused"] += 1
            wrong += [f"{case.name}: {refusal}"] if "\n" in str(refusal) else []
        except Exception as error:
            wrong.append(f"{case.name}: {type(error).__name__}: {error}")
        finally:
            watching = False
        figures["cases"] += 1
        figures["seconds"] = max(figures["seconds"], round(time.process_time() - used, 2))
        figures["mb"] = max(figures["mb"], round(memory_of("self") - held, 1))
    figures["acts"] = len(seen)
    wrong += [f"an act: {act}" for act in seen]
    wrong += [f"a refusal took {figures['seconds']} s"] if figures["seconds"] >= LONGEST else []
    wrong += [f"a refusal took {figures['mb']} MB"] if figures["mb"] >= MOST else []
    return {"figures": figures, "wrong": wrong}


def loaded(case: Path) -> None:
    """Load a case as what it says it is."""
    model = case / "LOCK"  # who saves a model locks its folder
    if model.exists():
        EARLClassifier.load(case)
    else:
        read_newest(case)
