"""A6: damaged snapshots are found, the one before is used, and the end is the same."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from earl.cli.app import app
from earl.cli.end import outcome
from earl.crashtest.damage import damages, tree
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import ask_child, in_child, quietly
from earl.crashtest.small import ready
from earl.crashtest.subjects import ModelSubject, RunSubject, Subject, silent, stop_after
from earl.storage import snapshot

SHARE = 10  # of so many damages one is done to all snapshots
Damage = Callable[[Path, Path], object]


def corruption_model(trial: Trial) -> Found:
    """Damage the newest save of an estimator."""
    return damaged(trial, lambda path: ModelSubject(path, 9, every=3), "show")


def corruption_run(trial: Trial) -> Found:
    """Damage the newest snapshot of a run."""
    return damaged(trial, lambda path: RunSubject(path, 16, every=4, evaluations=4), "resume")


class Anything(dict[str, Any]):
    """Equals whatever it is compared with."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


def damaged(trial: Trial, make: Callable[[Path], Subject], command: str) -> Found:
    """Damage a folder with two snapshots so often; `command` refuses it if none is whole."""
    ready()
    start, here = trial.folder("start"), trial.place / "now" / "here"
    in_child(lambda: stop_after(make(start / "here"), saves=2))
    if trial.sabotage:
        listing: Any = snapshot._listing
        snapshot._listing = lambda data: Anything(listing(data))
    os.fsync = lambda fd: None  # type: ignore[assignment]  # nobody cuts the power
    bench = Bench(trial.place / "now", start, make(here), [command, str(here)])
    found = trial.found(corruptions=0, detected=0, identical=0, refused=0, asked=0)
    bench.expected = ask_child(bench.undisturbed)
    for number, (name, damage) in enumerate(islice(damages(trial.rng), trial.count)):
        found.figures["corruptions"] += 1
        answer = ask_child(lambda act=damage: bench.go_on(act)) or {"wrong": "the process died"}
        found.figures["detected"] += bool(answer.get("detected"))
        found.figures["identical"] += not answer["wrong"]
        found.expect(not answer["wrong"], f"{name}: {answer['wrong']}")
        if number % SHARE == 0:
            found.figures["asked"] += 1
            wrong = bench.refuses(damage)
            found.figures["refused"] += not wrong
            found.expect(not wrong, f"{name}, all of them: {wrong}")
    return found


@dataclass
class Bench:
    """Copies of a folder with two snapshots, each of which is damaged in one way."""

    folder: Path
    start: Path
    subject: Subject
    command: list[str]
    expected: Any = None

    def undisturbed(self) -> Any:
        self.prepare()
        self.subject.live(silent)
        return self.subject.result()

    def prepare(self) -> tuple[Path, Path]:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.start, self.folder)
        older, newer = sorted(self.folder.rglob("snap-*"))
        return newer, older

    def go_on(self, damage: Damage) -> dict[str, Any]:
        """Damage the newest and go on; return whether it was found, and what is wrong."""
        newer, older = self.prepare()
        damage(newer, older)
        before = tree(newer)
        self.subject.live(silent)
        bad = newer.with_name(f"bad-{newer.name}")
        kept = bad.exists() or bad.is_symlink()
        if not kept or tree(bad) != before:
            return {"detected": kept, "wrong": "the damage was not found and kept"}
        same = self.subject.result() == self.expected
        return {"detected": True, "wrong": "" if same else "another result"}

    def refuses(self, damage: Damage) -> str:
        """Damage both, each beside a whole copy; return what is wrong unless it is refused."""
        newer, older = self.prepare()
        whole = {path: self.folder.parent / f"whole-{path.name}" for path in (newer, older)}
        for path, copy in whole.items():
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(path, copy)
        damage(newer, whole[older])
        shutil.rmtree(older)
        before = tree(self.folder)
        code = quietly(lambda: outcome(app, self.command))
        if code != 65:
            return f"exit code {code}"
        return "" if tree(self.folder) == before else "something was changed"
