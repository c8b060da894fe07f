"""The few kinds of error that earl raises on purpose; each message says what to do."""

import difflib
from collections.abc import Collection


class EarlError(Exception):
    """Base of everything earl raises on purpose. The command line prints it as one line."""


class UnknownName(EarlError, KeyError):
    """A method, data set, stream, metric or setting of that name does not exist."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0])


class InvalidInput(EarlError, ValueError):
    """Images or labels break the contract of `observe` or `predict`; nothing was learned."""


class InvalidSetting(EarlError, ValueError):
    """A setting has a value it cannot have."""


class BackboneError(EarlError):
    """A pretrained network cannot be had: something is missing, damaged, or gives no features."""


class TooLarge(InvalidSetting):
    """A setting asks for more memory than there is; nothing was allocated."""


class NotFitted(EarlError, ValueError, AttributeError):
    """An estimator was asked before it had learned anything."""


class ClassCapacityError(EarlError, ValueError):
    """A new class arrived and there is no room for it; nothing was learned."""


class NotFinite(EarlError, ArithmeticError):
    """Learning has led to numbers that are inf or nan; nothing can be learned or answered."""


class NoProgress(NotFinite):
    """Many steps in a row were not finite and were undone; the learner is as it was before them."""


class DataNotFound(EarlError, FileNotFoundError):
    """A data set is not where it should be."""


class BrokenImage(EarlError, ValueError):
    """An image file cannot be decoded."""


class UnsafeArchive(EarlError):
    """An archive or a downloaded file is not what it should be; nothing of it was kept."""


class SnapshotError(EarlError):
    """A snapshot is missing, damaged, from another experiment or from a newer version."""


class DirectoryInUse(EarlError):
    """Another process works in this run directory."""


class StorageError(EarlError):
    """A file or folder could not be read or written; what was saved before is still there."""


class TakenOver(EarlError):
    """Another process has gone on with this run; this one stopped, and spoiled nothing."""


class DamagedRun(EarlError):
    """Files of a run are not what was written; no number is taken from them."""


class RunConflict(EarlError):
    """The run directory holds another experiment than the one asked for."""


class StreamFileError(EarlError, ValueError):
    """A stream file is damaged, of another version, or does not fit the data set."""


class SweepFileError(EarlError, ValueError):
    """A sweep file is not what it should be; nothing was run."""


class MixedRuns(EarlError):
    """Runs that cannot be compared, or one run twice, would stand in one table."""


class ContractBroken(EarlError):
    """A method does not keep what every method must."""


def require(holds: bool, message: str) -> None:
    """Raise InvalidSetting unless a setting's value is one it can have."""
    if not holds:
        raise InvalidSetting(message)


def require_one_of(name: str, value: str, known: Collection[str]) -> None:
    """Raise UnknownName unless a setting's value is one of those that exist."""
    if value not in known:
        raise UnknownName(f"{name} = {value!r} does not exist; {suggest(value, known)}")


def suggest(name: str, known: Collection[str]) -> str:
    """Return the end of an error message: the nearest known name, or all of them."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(sorted(known))}"
