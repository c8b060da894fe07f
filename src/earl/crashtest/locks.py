"""A8: a second process on a folder is refused at once; after a kill nothing is in the way."""

import errno
import os
import resource
import time
from pathlib import Path

import numpy as np
from PIL import Image

from earl.cli.app import app
from earl.cli.end import outcome
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import Life, Tell, ended, fork, in_child, quietly
from earl.crashtest.small import ready
from earl.crashtest.subjects import ModelSubject, RunSubject, silent
from earl.storage import files as durable

IN_USE = 73
SOON = 1.0  # second of work, after which the second process must have given up


def locks(trial: Trial) -> Found:
    """Start a run, or a save, twice; kill the first; start again. The sabotage locks nothing."""
    ready()
    if trial.sabotage:
        durable._take = lambda fd, path: None
    found = trial.found(rounds=0, refused=0, restarted=0, wall_s=0.0, cpu_s=0.0)
    image = trial.place / "image.png"
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(image)
    for number in range(trial.count):
        if number % 2:
            second_run(trial.folder(f"{number}") / "run", found)
        else:
            second_save(trial.folder(f"{number}") / "model", image, found)
    rounds = found.figures["rounds"]
    found.expect(found.figures["refused"] == rounds, "a second process was not refused with 73")
    found.expect(found.figures["restarted"] == rounds, "after a kill something was in the way")
    used = found.figures["cpu_s"]
    found.expect(used < SOON, f"the second process calculated for {used} s until it gave up")
    return found


def second_run(path: Path, found: Found) -> None:
    """Resume a run while it goes on."""
    subject = RunSubject(path, 24, every=4)

    def slowly(tell: Tell) -> None:
        def wait(kind: bytes, number: int) -> None:
            tell(kind, number)
            if number >= 8:
                time.sleep(60)

        subject.live(wait)

    first = Life.begin(slowly)
    first.hear(7)
    note_refusal(["resume", str(path)], found)
    first.kill()
    found.figures["restarted"] += in_child(lambda: subject.live(silent)) == 0


def second_save(path: Path, image: Path, found: Found) -> None:
    """Teach a model while another process saves it, and does not come to an end."""
    subject = ModelSubject(path, 6, every=3)
    in_child(lambda: ModelSubject(path, 3, every=3).live(silent))
    begun, saving = os.pipe()

    def stuck() -> int:
        os.fsync = lambda fd: (os.write(saving, b"."), time.sleep(60))  # type: ignore[assignment]
        subject.live(silent)
        return errno.EIO

    first = fork(stuck)
    os.read(begun, 1)
    note_refusal(["learn", str(path), str(image), "--label", "class 0"], found)
    os.kill(first, 9)
    ended(first)
    os.close(begun)
    os.close(saving)
    found.figures["restarted"] += in_child(lambda: subject.live(silent)) == 0


def note_refusal(words: list[str], found: Found) -> None:
    """Carry out a command, and note whether it is refused, and after how long."""
    begun, used = time.monotonic(), of_children()
    code = quietly(lambda: outcome(app, words))
    for name, seconds in (("wall_s", time.monotonic() - begun), ("cpu_s", of_children() - used)):
        found.figures[name] = max(found.figures[name], round(seconds, 2))
    found.figures["rounds"] += 1
    found.figures["refused"] += code == IN_USE


def of_children() -> float:
    """Return the seconds that children have calculated; a loaded machine does not change it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
