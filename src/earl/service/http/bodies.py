"""What requests bring: images with labels, as forms or as JSON, read within limits."""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from earl.service.labels import checked_text
from earl.service.operations import Wish
from earl.service.refusals import Refused
from earl.service.tokens import Token
from earl.storage.manifest import parse_json

FORM, JSON = "multipart/form-data", "application/json"


class Form(dict[str, list[str | bytes]]):
    """The fields of a form: each a list, with the bytes of files."""


async def read(request: Request, most: int, seconds: float | None = None) -> Form | dict[str, Any]:
    """Return the form or the JSON object that a request brings; Refused says what is wrong.

    It may take so many seconds, or what the service allows that the request came to.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (FORM, JSON):
        raise Refused(415, "unsupported_media_type", f"send {FORM} or {JSON}")
    if seconds is None:
        seconds = float(request.app.state.service.limits.deadlines.body)
    try:
        async with asyncio.timeout(seconds):
            if kind == FORM:
                async with request.form(max_files=most, max_fields=2 * most + 1) as form:
                    return await whole(form)
            return json_object(await request.body())
    except TimeoutError:
        raise Refused(408, "too_slow", f"the request took longer than {seconds:.0f} s") from None
    except ClientDisconnect:
        raise Refused(400, "cut_short", "the request was cut short") from None
    except HTTPException as error:
        if error.status_code == 413:
            raise
        raise Refused(400, "bad_form", "the form cannot be read") from None


async def whole(form: FormData) -> Form:
    """Return a form with its files read."""
    found = Form()
    for name, value in form.multi_items():
        content = await value.read() if isinstance(value, UploadFile) else value
        found.setdefault(name, []).append(content)
    return found


def json_object(data: bytes) -> dict[str, Any]:
    try:
        found = parse_json(data)
    except ValueError:
        raise Refused(400, "bad_json", "the request is no JSON") from None
    if not isinstance(found, dict):
        raise Refused(422, "bad_json", "the request must be a JSON object")
    return found


def only(found: Mapping[str, Any], *names: str) -> None:
    """Raise Refused if there are other fields than these."""
    if set(found) - set(names):
        raise Refused(422, "unknown_field", f"the fields are: {', '.join(names)}")


def decoded(text: object) -> bytes:
    """Return what base64 stands for."""
    if not isinstance(text, str):
        raise Refused(422, "no_image", "the image is missing, or no text in base64")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Refused(422, "bad_base64", "the image is not base64") from None


def files(form: Form, name: str, most: int) -> list[bytes]:
    """Return the files of a form under one name."""
    found = [value for value in form.get(name, []) if isinstance(value, bytes)]
    if not 1 <= len(found) <= most or len(found) != len(form[name]):
        raise Refused(422, "no_image", f"send 1 to {most} files named {name}")
    return found


def single(body: Form | dict[str, Any], name: str) -> object:
    """Return a field that may come once; None if it is missing."""
    value = body.get(name)
    if not isinstance(body, Form):
        return value
    if value is not None and len(value) > 1:
        raise Refused(422, f"bad_{name}", f"send the {name} once")
    return value[0] if value else None


async def images(request: Request, most: int, seconds: float | None = None) -> list[bytes]:
    """Return the images of a question."""
    body = await read(request, most, seconds)
    if isinstance(body, Form):
        only(body, "image")
        return files(body, "image", most)
    only(body, "images")
    listed = body.get("images")
    if not isinstance(listed, list) or not 1 <= len(listed) <= most:
        raise Refused(422, "no_image", f"send 1 to {most} images in a list")
    return [decoded(text) for text in listed]


async def sample(request: Request, token: Token) -> Wish:
    """Return the one sample that a request brings."""
    body, key = await read(request, 1), key_of(request)
    only(body, "image", "label", "source")
    image = files(body, "image", 1)[0] if isinstance(body, Form) else decoded(body.get("image"))
    return wish(image, single(body, "label"), single(body, "source"), token, key)


async def samples(request: Request, token: Token, most: int) -> list[Wish]:
    """Return the samples of a batch; each has a key if the request has one."""
    body, key = await read(request, most), key_of(request)
    keys = [None if key is None else f"{key}#{place}" for place in range(most)]
    if isinstance(body, Form):
        only(body, "image", "label", "source")
        data, labels, source = (
            files(body, "image", most),
            body.get("label", []),
            single(body, "source"),
        )
        if len(data) != len(labels):
            raise Refused(422, "bad_batch", "a batch has as many labels as images")
        rows = zip(data, labels, keys, strict=False)
        return [wish(image, label, source, token, k) for image, label, k in rows]
    only(body, "samples")
    listed = body.get("samples")
    if not isinstance(listed, list) or not 1 <= len(listed) <= most:
        raise Refused(422, "bad_batch", f"a batch has 1 to {most} samples")
    return [from_object(one, token, k) for one, k in zip(listed, keys, strict=False)]


def from_object(one: object, token: Token, key: str | None) -> Wish:
    if not isinstance(one, dict):
        raise Refused(422, "bad_batch", "a sample is an object with image and label")
    only(one, "image", "label", "source", "key")
    own = one.get("key")
    key = key if own is None else checked_text(own, "key")
    return wish(decoded(one.get("image")), one.get("label"), one.get("source"), token, key)


def wish(image: bytes, label: object, source: object, token: Token, key: str | None) -> Wish:
    return Wish(
        kind="learn",
        image=image,
        label=checked_text(label, "label"),
        source=token.name if source is None else checked_text(source, "source"),
        token=token.name,
        key=key,
    )


def key_of(request: Request) -> str | None:
    """Return the key under which a wish is granted once."""
    key = request.headers.get("idempotency-key")
    return None if key is None else checked_text(key, "key")
