"""The names that users give to data sets and streams, and the folders that runs are named after."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from earl.errors import InvalidSetting
from earl.experiments.catalogue import DATASETS
from earl.experiments.recipes import Value
from earl.storage.printable import slug

FILE = "file:"  # begins the name of a stream that is read from a file
EMBEDDINGS = "embeddings"  # the kind of data sets that were encoded before
OWN = ("folder", "csv", "parquet", EMBEDDINGS)  # kinds of data sets that are followed by a path


@dataclass(frozen=True)
class Name:
    """A data set as a user names it: "cifar10", or "folder:~/photos"."""

    kind: str
    path: str = ""

    @classmethod
    def read(cls, text: str) -> "Name":
        """Return a name whose kind exists; a relative path becomes absolute."""
        kind, colon, path = text.partition(":")
        DATASETS.entry(kind)
        if kind in OWN and not path:
            raise InvalidSetting(f"{kind} needs a path, as in {kind}:~/{example(kind)}")
        if kind not in OWN and colon:
            raise InvalidSetting(f"{kind} takes no path; say where it is with --data-root")
        if path and not path.startswith("~"):
            path = str(Path(path).absolute())
        return cls(kind, path)

    def __str__(self) -> str:
        return f"{self.kind}:{self.path}" if self.path else self.kind


def example(kind: str) -> str:
    return "photos/labels.csv" if kind == "csv" else "photos"


def dataset_label(dataset: str) -> str:
    """Return a short and safe name for a folder of runs; an unknown kind is kept as it is."""
    kind, _, place = dataset.partition(":")
    if not place:
        return kind
    path = Path(place).expanduser()
    return f"{kind}-{slug(path.stem if path.suffix in ('.csv', '.parquet') else path.name)}"


def stream_label(stream: str) -> str:
    """Return the name of a stream for a folder: of a file, its name without path and ending."""
    if not stream.startswith(FILE):
        return stream
    return "file-" + re.sub(r"[^A-Za-z0-9._-]+", "-", Path(stream.removeprefix(FILE)).stem)[:60]


def folder_name(name: str, settings: Mapping[str, Value]) -> str:
    """Return a name for a folder: the name, and each setting that differs, behind commas."""
    texts = (f"{key}={str(value).lower()}" for key, value in settings.items())
    return ",".join([name, *(re.sub(r"[^\w.,=+-]+", "-", text)[:60] for text in texts)])
