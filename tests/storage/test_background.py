"""Work in a second thread: one piece at a time, errors come back, copies are of their own."""

import subprocess
import sys
import time
from threading import Event, get_ident

import pytest
import torch

from earl.storage.background import Background
from earl.storage.state import copied, digest, flatten


def test_work_is_done_by_another_thread_while_the_owner_goes_on() -> None:
    beside, gate, threads = Background(), Event(), []

    def work() -> None:
        gate.wait()
        threads.append(get_ident())

    beside.start(work)
    assert beside.busy and beside.seconds == float("inf") and not threads
    gate.set()
    beside.wait()
    assert not beside.busy and beside.seconds < float("inf") and threads != [get_ident()]


def test_a_second_piece_waits_for_the_first() -> None:
    beside, gate, order = Background(), Event(), []
    beside.start(lambda: (gate.wait(), order.append(1)))
    gate.set()
    beside.start(lambda: order.append(2))
    beside.wait()
    assert order == [1, 2]


@pytest.mark.parametrize("hear", ["check", "wait", "start"])
def test_an_error_is_raised_where_the_owner_is_and_once(hear: str) -> None:
    beside = Background()

    def fail() -> None:
        raise OSError(28, "No space left on device", "some/file")

    beside.start(fail)
    while beside.busy:
        time.sleep(0.001)
    words = (print,) if hear == "start" else ()
    with pytest.raises(OSError, match="No space left"):
        getattr(beside, hear)(*words)
    beside.check()
    beside.wait()


def test_no_error_is_told_while_work_goes_on() -> None:
    beside, gate = Background(), Event()
    beside.start(gate.wait)
    beside.check()
    gate.set()
    beside.wait()


def test_a_process_ends_after_all_that_the_work_held_has_been_let_go() -> None:
    """Tensors that a thread frees while the interpreter ends abort the process."""
    script = """
import time
from functools import partial
from earl.storage.background import Background

class Held:
    def __del__(self):
        time.sleep(0.2)
        print("let go")

beside = Background()
beside.start(partial(id, Held()))
beside.wait()
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "let go\n", "")


def test_a_copy_is_the_same_state_and_stays_so() -> None:
    last = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    state = {"w": last, "rows": [[1, 2], (3.5, None)], 7: {"view": torch.arange(9)[2:5]}}
    before, copy = digest(state), copied(state)
    assert digest(copy) == before and flatten(copy)[1] == flatten(state)[1]
    last.zero_()
    state["rows"][0].append(3)  # type: ignore[index]
    assert digest(copy) == before != digest(state)
