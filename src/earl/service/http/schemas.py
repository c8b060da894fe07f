"""The shapes of requests and answers, for the description at /openapi.json."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel

Id = Annotated[int, Path(ge=1, le=2**63 - 1, description="The id of a sample.")]


class Error(BaseModel):
    """Why a request was refused."""

    error: str
    detail: str
    request_id: str


class Accepted(BaseModel):
    """A sample that is on the disk."""

    id: int
    seq: int
    label: str
    source: str
    duplicate: bool


class Changed(BaseModel):
    """A change that is on the disk."""

    id: int
    seq: int
    label: str | None = None


class Batch(BaseModel):
    """Samples that are on the disk."""

    accepted: list[Accepted]


class Share(BaseModel):
    """A label and its probability."""

    label: str
    p: float


class Neighbour(BaseModel):
    """A remembered sample that corrected an answer."""

    id: int
    label: str
    weight: float


class Answer(BaseModel):
    """What an image shows; `unknown` is 0 at a taught class and 1 far from all."""

    label: str | None
    unknown: float
    probabilities: list[Share]
    neighbours: list[Neighbour]


class Predicted(BaseModel):
    """Answers of one published model."""

    model_seq: int
    answers: list[Answer]


class Sample(BaseModel):
    """What is known of a sample."""

    id: int
    label: str
    taught: str
    source: str
    state: str
    predicted: str | None
    right: bool | None
    bytes: int
    error: str | None


class Samples(BaseModel):
    """Samples, the newest first."""

    samples: list[Sample]


class Class(BaseModel):
    """A class, and how well it is learned: the mean cosine of its samples with its vector."""

    label: str
    samples: int
    remembered: int
    accuracy: float
    recent: float
    learned: float | None
    since: int | None


class Classes(BaseModel):
    """The classes in the order of their arrival."""

    classes: list[Class]


class Status(BaseModel):
    """How learning goes; accuracies are of answers given before learning."""

    version: str
    method: str
    backbone: str
    frozen: bool  # images are seen through a network that does not learn
    model_seq: int
    acknowledged: int
    applied: int
    waiting: int
    limit_waiting: int
    catching_up: bool
    samples: int
    accuracy: float
    recent: float
    curve: list[list[float]]
    rate: float
    classes: int
    capacity: int | None
    memory: dict[str, int]
    bytes: dict[str, int]
    collapse: dict[str, float] | None
    skipped_steps: int
    health: str
    reasons: list[str]


class Health(BaseModel):
    """Whether all is well, and what is not."""

    status: str
    reasons: list[str]


Responses = dict[int | str, dict[str, Any]]


def answers(model: type[BaseModel], *also: int, code: int = 200) -> Responses:
    """Return the description of an answer, and of the ways in which it may be refused."""
    refused = sorted({400, 401, 403, 408, 413, 415, 422, 429, *also})
    return {code: {"model": model}, **{status: {"model": Error} for status in refused}}


def taught(model: type[BaseModel], *also: int) -> Responses:
    """Return the same for what changes the model."""
    return answers(model, 409, 503, 507, *also, code=202)


HEALTH: Responses = {200: {"model": Health}, 503: {"model": Health}, 400: {"model": Error}}
IMAGE: Responses = {
    200: {"content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}},
    **{status: {"model": Error} for status in (400, 401, 403, 404, 422, 429)},
}
EVENTS: Responses = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
    **{status: {"model": Error} for status in (400, 401, 403, 429)},
}
METRICS: Responses = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
    **{status: {"model": Error} for status in (400, 401, 403, 429)},
}
FILE = {"type": "string", "format": "binary"}
TEXT = {"type": "string", "minLength": 1, "maxLength": 128}
OPTIONAL = {"type": ["string", "null"], "minLength": 1, "maxLength": 128}
BASE64 = {"type": "string", "contentEncoding": "base64"}
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same request under the same key is carried out once.",
    "schema": TEXT,
}
PIXEL = (  # a red dot
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)


def body(form: Mapping[str, Any], json: Mapping[str, Any], example: Any) -> dict[str, Any]:
    """Return the description of a body that may be a form or JSON."""
    content = {
        "multipart/form-data": {"schema": shape(form)},
        "application/json": {"schema": shape(json), "example": example},
    }
    return {"required": True, "content": content}


def shape(fields: Mapping[str, Any]) -> dict[str, Any]:
    needed = [name for name in fields if name not in ("source", "key")]
    closed = {"required": needed, "additionalProperties": False}
    return {"type": "object", "properties": dict(fields), **closed}


def many(item: Mapping[str, Any], most: int) -> dict[str, Any]:
    return {"type": "array", "items": dict(item), "minItems": 1, "maxItems": most}


SAMPLE = {"image": BASE64, "label": TEXT, "source": OPTIONAL}
ONE = {"image": PIXEL, "label": "dot"}
LEARN = {
    "parameters": [KEY],
    "requestBody": body(
        {"image": FILE, "label": TEXT, "source": TEXT}, SAMPLE, {**ONE, "source": "camera-2"}
    ),
}
BATCH = {
    "parameters": [KEY],
    "requestBody": body(
        {"image": many(FILE, 256), "label": many(TEXT, 256), "source": TEXT},
        {"samples": many(shape({**SAMPLE, "key": OPTIONAL}), 256)},
        {"samples": [ONE, {**ONE, "key": "2"}]},
    ),
}
PREDICT = {
    "requestBody": body(
        {"image": many(FILE, 64)}, {"images": many(BASE64, 64)}, {"images": [PIXEL]}
    )
}
RELABEL = {
    "parameters": [KEY],
    "requestBody": body({"label": TEXT}, {"label": TEXT}, {"label": "point"}),
}
