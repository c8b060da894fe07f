"""Label Studio's protocol for models: suggestions to annotators, who teach with every label.

Label Studio asks for suggestions about its tasks and tells of annotations that were made, changed
or deleted. A project must have a `Choices` tag about an `Image` tag. Images come inside the task,
as `data:` addresses, or lie in a folder that the service may read. No address on a network is ever
fetched: whoever posts a task must not choose what the service connects to.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

from earl.service.http.bodies import decoded
from earl.service.labels import checked_text
from earl.service.operations import Wish
from earl.service.refusals import Refused
from earl.service.service import Service
from earl.service.tokens import Token
from earl.storage.reading import read_regular

TASKS = 256  # of one question
CONFIG = 1 << 20  # characters of a labelling interface
TAUGHT = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED")
DELETED = ("ANNOTATION_DELETED", "ANNOTATIONS_DELETED")


@dataclass(frozen=True)
class Interface:
    """What a project asks its annotators: a choice about an image."""

    control: str  # the name of its Choices tag
    image: str  # the name of its Image tag
    field: str  # of a task's data, which holds the image
    labels: frozenset[str]  # that can be chosen; empty if tasks bring their own

    @classmethod
    def of(cls, config: object) -> "Interface":
        """Return what a labelling interface, written in XML, asks; Refused if that is not ours."""
        if not isinstance(config, str) or len(config) > CONFIG or "<!doctype" in config.lower():
            raise Refused(422, "bad_label_config", "the labelling interface is missing or unfit")
        try:
            root = ElementTree.fromstring(config)
        except (ElementTree.ParseError, ValueError):
            raise Refused(422, "bad_label_config", "the labelling interface is no XML") from None
        images = {tag.get("name"): tag.get("value", "") for tag in root.iter("Image")}
        for control in root.iter("Choices"):
            name, image = control.get("name"), control.get("toName")
            if name and image and images.get(image, "").startswith("$"):
                chosen = (tag.get("alias") or tag.get("value") for tag in control.iter("Choice"))
                labels = frozenset(label for label in chosen if label)
                return cls(name, image, images[image][1:], labels)
        detail = "the project needs a Choices tag about an Image tag whose value begins with $"
        raise Refused(422, "bad_label_config", detail)

    def chosen(self, annotation: Mapping[str, Any]) -> str | None:
        """Return the one label that an annotation chooses; None if it chooses none or several."""
        results = annotation.get("result")
        if annotation.get("was_cancelled") or not isinstance(results, list):
            return None
        for one in results:
            if isinstance(one, dict) and one.get("from_name") == self.control:
                value = one.get("value")
                choices = value.get("choices") if isinstance(value, dict) else None
                if isinstance(choices, list) and len(choices) == 1:
                    return checked_text(choices[0], "label")
        return None

    def suggestion(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return an answer as a prediction: the likeliest label that can be chosen, if any."""
        for one in answer["probabilities"]:
            if not self.labels or one["label"] in self.labels:
                value = {"choices": [one["label"]]}
                names = {"from_name": self.control, "to_name": self.image, "type": "choices"}
                result = [{**names, "value": value, "score": one["p"]}]
                return {"result": result, "score": one["p"]}
        return nothing()


def nothing() -> dict[str, Any]:
    """Return the prediction that suggests nothing."""
    return {"result": [], "score": 0.0}


def image_of(task: object, field: str, folder: Path | None, most: int) -> bytes:
    """Return the image of a task, of at most so many bytes; Refused says why there is none."""
    data = task.get("data") if isinstance(task, dict) else None
    address = data.get(field) if isinstance(data, dict) else None
    if not isinstance(address, str):
        raise Refused(422, "no_image", f"the task has no data named {field[:40]}")
    if address.startswith("data:"):
        kind, _, text = address.partition(",")
        if not kind.endswith(";base64"):
            raise Refused(422, "no_image", "an image inside a task must be in base64")
        return decoded(text)
    place = place_of(address)
    if folder is None or place is None:
        detail = "images are taken from tasks as data: addresses, or from --label-studio-files"
        raise Refused(422, "not_fetched", detail)
    root = folder.resolve()
    file = (root / place).resolve()
    try:
        if not file.is_relative_to(root):
            raise FileNotFoundError
        return read_regular(file, most)
    except (OSError, ValueError):
        detail = "the task's image is no file below --label-studio-files, or too large"
        raise Refused(404, "no_image", detail) from None


def place_of(address: str) -> str | None:
    """Return where Label Studio keeps what it shows under an address; None if it does not.

    Files that were uploaded lie in `upload` of its media folder; a local storage is named by `d`.
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme or parts.netloc or "\0" in unquote(address):
        return None
    if parts.path.startswith("/data/upload/"):
        return unquote(parts.path.removeprefix("/data/"))
    if parts.path.rstrip("/") == "/data/local-files":
        return parse_qs(parts.query).get("d", [None])[0]
    return None


@dataclass(frozen=True)
class LabelStudio:
    """Answers what Label Studio asks, and learns from what it tells."""

    service: Service
    folder: Path | None = None  # with images that tasks may name

    def setup(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the version of the model, if it fits a project."""
        Interface.of(body.get("schema"))
        return {"model_version": self.version(self.service.told.published.seq)}

    @staticmethod
    def version(seq: int) -> str:
        """Return a name that changes with all that is learned: tasks are then asked about anew."""
        return f"earl-{seq}"

    async def predict(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a suggestion for every task; one that has no readable image gets none."""
        tasks = body.get("tasks")
        if not isinstance(tasks, list) or len(tasks) > TASKS:
            raise Refused(422, "bad_tasks", f"send at most {TASKS} tasks in a list")
        interface, seq = Interface.of(body.get("label_config")), self.service.told.published.seq
        results = [await self._suggestion(task, interface) for task in tasks]
        version = self.version(seq)
        return {
            "results": [{**result, "model_version": version} for result in results],
            "model_version": version,
        }

    async def _suggestion(self, task: object, interface: Interface) -> dict[str, Any]:
        every = len(self.service.told.published.model.labels)
        try:
            image = await self._image(task, interface)
            _, answers = await self.service.predict(
                [image], top=every, explain=False, unknown_below=0.0
            )
        except Refused as refusal:
            if refusal.status in (429, 503):  # all others mean that there is nothing to say
                raise
            return nothing()
        return interface.suggestion(answers[0])

    async def _image(self, task: object, interface: Interface) -> bytes:
        most, folder = self.service.limits.images.most_bytes, self.folder
        return await self.service.reading.run(lambda: image_of(task, interface.field, folder, most))

    async def webhook(self, body: Mapping[str, Any], token: Token) -> dict[str, Any]:
        """Learn from what Label Studio tells; events that teach nothing are ignored."""
        action, project = body.get("action"), body.get("project")
        number = project.get("id") if isinstance(project, dict) else None
        if action not in (*TAUGHT, *DELETED) or not isinstance(number, int):
            return {"status": "ignored", "detail": "this event teaches nothing"}
        found = []
        if action in DELETED:
            for annotation in listed(body, "annotations", "annotation"):
                found += await self._forget(number, annotation, token)
        else:
            assert isinstance(project, dict)
            interface = Interface.of(project.get("label_config"))
            tasks = listed(body, "task", "tasks")
            annotations = listed(body, "annotation", "annotations")
            for place, annotation in enumerate(annotations):
                task = tasks[place] if place < len(tasks) else {}
                found += await self._teach(number, interface, annotation, task, token)
        if not found:
            return {"status": "ignored", "detail": "the annotation chooses no label"}
        return {"status": "ok", "operations": found}

    async def _teach(
        self,
        project: int,
        interface: Interface,
        annotation: dict[str, Any],
        task: dict[str, Any],
        token: Token,
    ) -> list[int]:
        """Learn an annotation, or correct what was learned of it; return the operations."""
        label = interface.chosen(annotation)
        if label is None:
            return await self._forget(project, annotation, token)
        key, sample = await self._find(project, annotation)
        if sample is not None:
            wish = Wish(kind="relabel", sample=sample, label=label, token=token.name)
        else:
            image = await self._image(task, interface)
            await self.service.check([image])
            source = f"label-studio/{project}"
            wish = Wish(
                kind="learn", image=image, label=label, source=source, token=token.name, key=key
            )
        return [receipt.seq for receipt in await self.service.learn([wish], token)]

    async def _forget(self, project: int, annotation: dict[str, Any], token: Token) -> list[int]:
        """Withdraw what an annotation taught, if it taught anything."""
        _, sample = await self._find(project, annotation)
        if sample is None:
            return []
        wish = Wish(kind="forget", sample=sample, token=token.name)
        return [receipt.seq for receipt in await self.service.learn([wish], token)]

    async def _find(self, project: int, annotation: dict[str, Any]) -> tuple[str, int | None]:
        """Return the key of an annotation and the sample it has now; a free key if it has none.

        A sample that was withdrawn keeps its key, so an annotation that comes back takes the next.
        """
        number, session = annotation.get("id"), self.service.session
        if not isinstance(number, int):
            raise Refused(422, "bad_annotation", "an annotation must have an id")

        def look() -> tuple[str, int | None]:
            for time in itertools.count(1):
                key = checked_text(f"label-studio/{project}/{number}/{time}", "key")
                rows = session.samples({"key": key}, 1)
                if not rows or rows[0]["state"] != "forgotten":
                    break
            return key, int(rows[0]["id"]) if rows else None

        return await self.service.reading.run(look)


def listed(body: Mapping[str, Any], *names: str) -> list[dict[str, Any]]:
    """Return the objects of the first of these names that a message has, one or several."""
    found: Any = next((body[name] for name in names if name in body), [])
    rows = found if isinstance(found, list) else [found]
    return [row for row in rows if isinstance(row, dict)]
