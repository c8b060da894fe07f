"""Routes that teach: one sample, many, another label, and undo."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from earl.service.http import bodies, schemas
from earl.service.http.access import MayLearn, TheService
from earl.service.labels import checked_text
from earl.service.operations import Receipt, Wish

router = APIRouter()
ACCEPTED = 202


@router.post(
    "/learn",
    status_code=ACCEPTED,
    openapi_extra=schemas.LEARN,
    responses=schemas.taught(schemas.Accepted),
)
async def learn(request: Request, service: TheService, token: MayLearn) -> JSONResponse:
    """Teach one image; answered when it is on the disk, learned soon after."""
    service.session.check_can_learn()
    wish = await bodies.sample(request, token)
    await service.check([wish.image or b""])
    (receipt,) = await service.learn([wish], token)
    return JSONResponse(shown(receipt), ACCEPTED)


@router.post(
    "/learn/batch",
    status_code=ACCEPTED,
    openapi_extra=schemas.BATCH,
    responses=schemas.taught(schemas.Batch),
)
async def learn_batch(request: Request, service: TheService, token: MayLearn) -> JSONResponse:
    """Teach many images, all or none."""
    service.session.check_can_learn()
    wishes = await bodies.samples(request, token, service.limits.batch)
    await service.check([wish.image or b"" for wish in wishes])
    receipts = await service.learn(wishes, token)
    return JSONResponse({"accepted": [shown(receipt) for receipt in receipts]}, ACCEPTED)


@router.patch(
    "/samples/{sample}",
    status_code=ACCEPTED,
    openapi_extra=schemas.RELABEL,
    responses=schemas.taught(schemas.Changed, 404, 410),
)
async def relabel(
    sample: schemas.Id, request: Request, service: TheService, token: MayLearn
) -> JSONResponse:
    """Give a sample another label: it is unlearned as far as it can be, and learned with that."""
    body = await bodies.read(request, 1)
    bodies.only(body, "label")
    label, key = checked_text(bodies.single(body, "label"), "label"), bodies.key_of(request)
    wish = Wish(kind="relabel", sample=sample, label=label, token=token.name, key=key)
    (receipt,) = await service.learn([wish], token)
    return JSONResponse({**shown(receipt), "label": label}, ACCEPTED)


@router.delete(
    "/samples/{sample}", status_code=ACCEPTED, responses=schemas.taught(schemas.Changed, 404)
)
async def forget(
    sample: schemas.Id, request: Request, service: TheService, token: MayLearn
) -> JSONResponse:
    """Withdraw a sample; doing so again changes nothing."""
    key = bodies.key_of(request)
    wish = Wish(kind="forget", sample=sample, token=token.name, key=key)
    (receipt,) = await service.learn([wish], token)
    return JSONResponse({"id": receipt.id, "seq": receipt.seq}, ACCEPTED)


def shown(receipt: Receipt) -> dict[str, Any]:
    return {
        "id": receipt.id,
        "seq": receipt.seq,
        "label": receipt.label,
        "source": receipt.source,
        "duplicate": receipt.duplicate,
    }
