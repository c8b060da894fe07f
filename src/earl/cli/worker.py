"""One run of a sweep as a process: its sweep can stop it, and it does not outlive its sweep.

`python -m earl.cli.worker run …` is `earl run …` that also stops, saved, when its standard input
ends: a pipe whose other end the sweep holds, and loses however it ends.
"""

import os
import signal
import sys
import threading

from earl.cli import app as cli


def main() -> None:
    """Carry out a command of `earl` as a part of a sweep."""
    if sys.platform != "win32":
        # Ctrl-C reaches every process of a terminal. It is the sweep that tells its runs to stop:
        # asked twice they would not wait for their snapshot.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    threading.Thread(target=stop_at_end_of_input, daemon=True).start()
    cli.main()


def stop_at_end_of_input() -> None:
    """Wait until standard input ends, then ask this process to save and stop."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":  # decoding processes import this file again
    main()
