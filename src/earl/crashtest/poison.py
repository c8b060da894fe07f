"""C12: what one source has taught can be taken out again, as if it had never been there."""

import os
import random
import shutil
from pathlib import Path

from earl.crashtest.auth import outcome_of
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import ask_child, ended, fork, pause
from earl.crashtest.sabotage import put
from earl.crashtest.serving import Server, operations, replayed, saved
from earl.crashtest.small import Samples, ready, stream
from earl.service import rebuild
from earl.service.operations import Operation

POISON, HONEST = "x", ("camera", "phone", "desk")
SHARE = 0.1  # of the samples have the wrong label
KILLS = 100  # samples to one kill of the command
LONGEST = 1.0  # seconds of a command that is killed


def poison_removal(trial: Trial) -> Found:
    """Serve with and without a source that lies, and forget it; the sabotage keeps one sample."""
    ready()
    samples, rng = stream(trial.count), trial.rng
    lies = set(rng.sample(range(trial.count), max(1, round(SHARE * trial.count))))
    found = trial.found(samples=trial.count, poison=len(lies), kills=0)
    poisoned, clean = trial.place / "poisoned", trial.place / "clean"
    before = served(poisoned, samples, lies, leave_out=False)
    wanted = served(clean, samples, lies, leave_out=True)
    found.expect(before != wanted, "the poison has changed nothing: there is nothing to remove")
    for number in range(trial.count // KILLS):
        cut_off(poisoned, trial.place / f"copy-{number}", rng, (before, wanted), found)
    told = ask_child(lambda: forgotten(poisoned, sabotaged=trial.sabotage))
    found.expect(told is not None and told[0] == 0, f"`earl forget` ended with {told}")
    after = ask_child(lambda: saved(poisoned))[0]
    found.figures["identical"] = int(after == wanted)
    found.expect(after == wanted, f"the state is {after} and not {wanted}")
    again = ask_child(lambda: replayed(poisoned))
    found.expect(again == wanted, "the journal is not that of the state")
    left = sum(one.source == POISON for one in operations(poisoned))
    found.figures["left"] = left
    found.expect(left == 0, f"{left} samples of the source are left")
    return found


def served(folder: Path, samples: Samples, lies: set[int], *, leave_out: bool) -> str:
    """Serve all samples, some of them with wrong labels, or without those; return the digest."""
    server = Server(folder).start()
    kinds = sorted(set(samples.labels))
    for place, (image, label) in enumerate(zip(samples.images, samples.labels, strict=True)):
        source = HONEST[place % len(HONEST)]
        if place in lies:
            if leave_out:
                continue
            label, source = kinds[kinds.index(label) - 1], POISON
        status, answer = server.learn(image, label, source=source)
        assert status == 202, answer
        if place % 500 == 499:
            server.settle()
    server.settle()
    assert server.stop() == 0
    digest: str = ask_child(lambda: saved(folder))[0]
    return digest


def forgotten(folder: Path, *, sabotaged: bool = False) -> tuple[int, str]:
    """Carry out `earl forget`; return its exit code, and what it said."""
    if sabotaged:
        put(rebuild, "without_source", all_but_one)
    return outcome_of(["forget", "--state", str(folder), "--source", POISON])


def cut_off(
    folder: Path, copy: Path, rng: random.Random, states: tuple[str, str], found: Found
) -> None:
    """Kill the command at a random moment: the state is the old one or the new one, and whole."""
    shutil.copytree(folder, copy)
    child = fork(lambda: forgotten(copy)[0])
    pause(LONGEST * rng.random() ** 2 + 0.02)
    try:
        os.kill(child, 9)
    finally:
        ended(child)
    found.figures["kills"] += 1
    server = Server(copy).start()  # what was begun is finished here
    server.settle()
    found.expect(server.stop() == 0, "it did not end in peace")
    digest, _ = ask_child(lambda: saved(copy))
    found.expect(digest in states, f"after a kill the state is {digest}, which is neither")
    shutil.rmtree(copy)


def all_but_one(sources: dict[str, int], source: str) -> object:
    """The sabotage: the first sample of the source stays."""
    met: list[int] = []

    def leaves_out(one: Operation) -> bool:
        if one.source == source:
            met.append(one.seq)
        return one.source == source and len(met) > 1

    return leaves_out
