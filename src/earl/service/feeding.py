"""Feeding a service with a folder, a CSV file or a stream, and going on where that had stopped."""

import hashlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from PIL import Image

from earl.data.decode import read_file
from earl.errors import BrokenImage
from earl.service.client import Client, ServiceError

if TYPE_CHECKING:
    from earl.data.dataset import Dataset
    from earl.data.streams import Schedule

SEARCHED = 8  # places that are looked at, for an image that was refused has no sample
REFUSED = (413, 415, 422)  # an image that the service does not take


class Lesson(Protocol):
    """Images with labels in a fixed order; the same lesson has the same name."""

    @property
    def name(self) -> str: ...
    def __len__(self) -> int: ...
    def __getitem__(self, place: int) -> tuple[Callable[[], bytes], str]: ...


@dataclass(frozen=True)
class Files:
    """Image files in the order in which they are to be taught."""

    samples: list[tuple[Path, str]]

    @property
    def name(self) -> str:
        text = "\n".join(f"{path}\t{label}" for path, label in self.samples)
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, place: int) -> tuple[Callable[[], bytes], str]:
        path, label = self.samples[place]
        return lambda: read_file(path), label


@dataclass(frozen=True)
class Scheduled:
    """The training images of a data set in the order of a stream."""

    data: "Dataset"
    schedule: "Schedule"

    @property
    def name(self) -> str:
        order = self.schedule.order.numpy().tobytes()
        return hashlib.sha256(self.data.name.encode() + order).hexdigest()[:24]

    def __len__(self) -> int:
        return len(self.schedule.order)

    def __getitem__(self, place: int) -> tuple[Callable[[], bytes], str]:
        index = self.schedule.order[place : place + 1]
        label = self.data.class_names[int(self.data.train.labels[index])]

        def image() -> bytes:
            pixels = self.data.train.images[index][0].permute(1, 2, 0).numpy()
            file = io.BytesIO()
            Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG")
            return file.getvalue()

        return image, label


@dataclass
class Fed:
    """How far a lesson has come."""

    total: int
    done: int = 0
    before: int = 0  # that the service had already
    seq: int = 0  # of the last one
    refused: list[str] = field(default_factory=list)  # why images were left out


def key_of(lesson: Lesson, place: int) -> str:
    return f"{lesson.name}/{place}"


def already(client: Client, lesson: Lesson) -> int:
    """Return how many images of a lesson the service has: they come in order, so it is halved."""
    low, high = 0, len(lesson)
    while low < high:
        middle = (low + high) // 2
        if any(client.samples(key=key_of(lesson, place)) for place in near(middle, high)):
            low = middle + 1
        else:
            high = middle
    return low


def near(place: int, end: int) -> range:
    """Return this place and a few behind it: an image that was refused has no sample."""
    return range(place, min(end, place + SEARCHED))


def feed(client: Client, lesson: Lesson, source: str | None = None) -> Iterator[Fed]:
    """Teach a lesson image by image; yield first and after each how far it has come.

    Images that the service does not take are left out. Started again, it goes on where it stopped.
    """
    fed = Fed(len(lesson))
    fed.done = fed.before = already(client, lesson)
    yield fed
    while fed.done < fed.total:
        load, label = lesson[fed.done]
        try:
            made = client.learn(load(), label, source=source, key=key_of(lesson, fed.done))
            fed.seq = made["seq"]
        except BrokenImage as error:
            fed.refused.append(str(error))
        except ServiceError as error:
            if error.status not in REFUSED:
                raise
            fed.refused.append(error.detail)
        fed.done += 1
        yield fed
