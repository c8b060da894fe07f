"""Routes that ask: predictions, classes, samples, status, metrics, health, events."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from earl.service.facts import classes, status
from earl.service.http import bodies, schemas
from earl.service.http.access import MayPredict, TheService
from earl.service.images import media_type
from earl.service.labels import checked_text
from earl.service.limits import MOST_IMAGES
from earl.service.refusals import Refused
from earl.service.session import Session

LARGEST = 2**63 - 1  # that SQLite takes
PART = 1 << 16  # bytes of an image that are sent at a time

router = APIRouter()
Number = Annotated[int, Query(ge=0, le=LARGEST)]


@router.post(
    "/predict",
    openapi_extra=schemas.PREDICT,
    responses=schemas.answers(schemas.Predicted, 409, 412),
)
async def predict(
    request: Request,
    service: TheService,
    token: MayPredict,
    top: Annotated[int, Query(ge=1, le=100)] = 5,
    min_seq: Number = 0,
    wait: Annotated[float, Query(ge=0, le=10)] = 2.0,
    neighbours: bool = False,
    unknown_below: Annotated[float, Query(ge=0, le=1)] = 0.0,
) -> JSONResponse:
    """Say what images show, by the newest published model; never waits for learning.

    With `min_seq` it waits up to `wait` seconds until that operation is learned.
    """
    images = await bodies.images(request, MOST_IMAGES)
    await service.wait_for(min_seq, wait)
    seq, found = await service.predict(
        images, top=top, explain=neighbours, unknown_below=unknown_below
    )
    return JSONResponse({"model_seq": seq, "answers": found})


@router.get("/classes", responses=schemas.answers(schemas.Classes))
async def get_classes(service: TheService, token: MayPredict) -> JSONResponse:
    """List the classes in the order of their arrival, and how well each is learned."""
    return JSONResponse({"classes": await service.reading.run(lambda: classes(service.told))})


@router.get("/status", responses=schemas.answers(schemas.Status))
async def get_status(service: TheService, token: MayPredict) -> JSONResponse:
    """Tell how learning goes, what waits, and what is wrong."""
    return JSONResponse(await service.reading.run(lambda: status(service.told)))


@router.get("/samples", responses=schemas.answers(schemas.Samples))
async def get_samples(
    service: TheService,
    token: MayPredict,
    after: Annotated[int | None, Query(ge=0, le=LARGEST)] = None,
    before: Annotated[int | None, Query(ge=0, le=LARGEST)] = None,
    label: str | None = None,
    source: str | None = None,
    key: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> JSONResponse:
    """List samples, the newest first."""
    session = service.session
    texts = {"label": label, "source": source, "key": key}
    chosen: dict[str, Any] = {n: checked_text(t, n) for n, t in texts.items() if t is not None}
    chosen |= {n: v for n, v in (("after", after), ("before", before)) if v is not None}
    return JSONResponse(
        {"samples": await service.reading.run(lambda: session.samples(chosen, limit))}
    )


@router.get("/samples/{sample}", responses=schemas.answers(schemas.Sample, 404))
async def get_sample(sample: schemas.Id, service: TheService, token: MayPredict) -> JSONResponse:
    """Tell what is known of a sample."""
    session = service.session
    found = await service.reading.run(lambda: session.sample(sample))
    if found is None:
        raise Refused(404, "no_such_sample", f"there is no sample {sample}")
    return JSONResponse(found)


@router.get("/samples/{sample}/image", responses=schemas.IMAGE, response_class=Response)
async def get_image(
    sample: schemas.Id, request: Request, service: TheService, token: MayPredict
) -> Response:
    """Return the image of a sample as it was posted."""
    session, held = service.session, request.state.held

    def read() -> bytes | None:
        """Return the image, which counts as held until its client has read it, or is gone."""
        service.in_flight.check()
        found = session.journal.image(sample)
        held.hold(len(found or b""))
        return found

    data = await service.reading.run(read)
    if data is None:
        raise Refused(404, "no_such_image", f"there is no image of sample {sample}")
    headers = {"Content-Security-Policy": "default-src 'none'; sandbox"}
    headers["Content-Length"] = str(len(data))
    return StreamingResponse(in_parts(data), media_type=media_type(data), headers=headers)


async def in_parts(data: bytes) -> AsyncIterator[bytes]:
    """Yield some bytes at a time: who does not read must not have all of them copied for him."""
    for start in range(0, len(data), PART):
        yield data[start : start + PART]


@router.get("/metrics", responses=schemas.METRICS, response_class=Response)
async def get_metrics(request: Request, service: TheService, token: MayPredict) -> Response:
    """Return numbers for Prometheus."""
    text = await service.reading.run(request.app.state.metrics.text)
    return Response(text, media_type="text/plain; version=0.0.4")


@router.get("/healthz", responses=schemas.HEALTH)
async def healthz(service: TheService) -> JSONResponse:
    """Tell whether the service is sound; 503 where only a new start helps."""
    reasons, told = service.told.reasons(), service.told
    broken = isinstance(told, Session) and bool(
        told.writer.failed or told.learner.failed or not told.learner.is_alive()
    )
    return health(reasons, 503 if broken else 200)


@router.get("/readyz", responses=schemas.HEALTH)
async def readyz(service: TheService) -> JSONResponse:
    """Tell whether the service can learn and answer now."""
    reasons = service.told.reasons()
    return health(reasons, 503 if reasons else 200)


def health(reasons: list[str], code: int) -> JSONResponse:
    return JSONResponse({"status": "degraded" if reasons else "ok", "reasons": reasons}, code)


@router.get("/events", responses=schemas.EVENTS, response_class=StreamingResponse)
async def get_events(service: TheService, token: MayPredict) -> StreamingResponse:
    """Stream what happens as server-sent events: learned, changed, status."""
    return StreamingResponse(service.broker.subscribe(), media_type="text/event-stream")


async def tell_status(service: Any) -> None:
    """Tell the status twice a second to those who listen, if it has changed."""
    last: dict[str, Any] = {}
    while True:
        await asyncio.sleep(0.5)
        if service.broker.listeners:
            now = await service.reading.run(lambda: status(service.told, curve=False))
            if now != last:
                service.broker.tell("status", now)
                last = now
