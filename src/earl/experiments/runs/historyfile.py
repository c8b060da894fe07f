"""The history of a run that goes on, as the file of one process and of no other."""

import hashlib
from pathlib import Path

from earl.errors import TakenOver
from earl.evaluation.history import Evaluation, read_lines, to_line
from earl.experiments.runs.seals import seal
from earl.storage.files import append, replace_text
from earl.storage.manifest import Json


class HistoryFile:
    """history.jsonl while a run goes on.

    A lock should keep other processes out. Where it does not, they are noticed here: before a line
    is added, and before a snapshot counts on the lines, the file must be what this process left.
    """

    def __init__(self, path: Path, begun: bytes) -> None:
        """Begin with the lines that a snapshot counts on; the file is cut back to them."""
        replace_text(path, begun.decode())
        self.path = path
        self.evaluations = begun.count(b"\n")
        self._size, self._sha256 = len(begun), hashlib.sha256(begun)

    def append(self, evaluation: Evaluation) -> None:
        """Add a line, durably; TakenOver if another process has written to the file."""
        line = to_line(evaluation).encode()
        try:
            append(self.path, line, self._size)
        except ValueError as error:
            raise self.taken_over(f"{self.path.name} has {error}") from None
        self.evaluations += 1
        self._size += len(line)
        self._sha256.update(line)

    def seal(self) -> dict[str, Json]:
        """Return the seal of the file as it is on disk; TakenOver if this process left another."""
        found = seal(read_lines(self.path))
        if found != {"bytes": self._size, "sha256": self._sha256.hexdigest()}:
            raise self.taken_over(f"{self.path.name} has been changed")
        return found

    def check_beginning(self, begun: dict[str, Json]) -> None:
        """Raise TakenOver unless the file begins with what had this seal; it may have grown."""
        size = int(str(begun["bytes"]))
        if seal(read_lines(self.path)[:size]) != begun:
            raise self.taken_over(f"{self.path.name} has been changed")

    def taken_over(self, found: str) -> TakenOver:
        """Return the error that tells what was found that this process has not written."""
        return TakenOver(
            f"another process works in {self.path.parent}, where locks do not keep it out: "
            f"{found}. This one has stopped and spoilt nothing; once the other has ended, go on "
            f"with: earl resume {self.path.parent}"
        )
