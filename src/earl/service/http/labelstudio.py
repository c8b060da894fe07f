"""Routes of Label Studio's protocol for models, below /label-studio."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from fastapi.security import (
    HTTPAuthorizationCredentials,
    HTTPBasic,
    HTTPBasicCredentials,
)
from starlette.datastructures import FormData

from earl.service.http import bodies
from earl.service.http.access import TheService, asks, bearer
from earl.service.labelstudio import LabelStudio
from earl.service.refusals import Refused
from earl.service.service import Service
from earl.service.tokens import Scope, Token

basic = HTTPBasic(auto_error=False, description="Any name, and a token as the password.")


def asks_either(scope: Scope) -> Callable[..., Awaitable[Token]]:
    """Return what lets a request pass whose token has a scope, also one sent as a password.

    Label Studio knows no bearer tokens for models, but a name and a password.
    """

    async def check(
        service: TheService,
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
        login: Annotated[HTTPBasicCredentials | None, Depends(basic)],
    ) -> Token:
        if given is None and login is not None:
            given = HTTPAuthorizationCredentials(scheme="Bearer", credentials=login.password)
        return await asks(scope)(service, given)

    return check


MayPredict = Annotated[Token, Depends(asks_either("predict"))]
MayLearn = Annotated[Token, Depends(asks_either("learn"))]


async def message(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request brings."""
    body = await bodies.read(request, 1)
    if isinstance(body, FormData):
        raise Refused(415, "unsupported_media_type", f"send {bodies.JSON}")
    return body


Message = Annotated[dict[str, Any], Depends(message)]


def routes(service: Service, folder: Path | None = None) -> APIRouter:
    """Return the routes; images that tasks name by a path may be read below the folder."""
    studio, router = LabelStudio(service, folder), APIRouter(prefix="/label-studio")

    @router.get("/health")
    async def health() -> JSONResponse:
        """Tell Label Studio that there is a model."""
        return JSONResponse({"status": "DEGRADED" if service.told.reasons() else "UP"})

    @router.post("/setup")
    async def setup(token: MayPredict, body: Message) -> JSONResponse:
        """Tell whether the model fits a project, and how far it has learned."""
        return JSONResponse(studio.setup(body))

    @router.post("/predict")
    async def predict(token: MayPredict, body: Message) -> JSONResponse:
        """Suggest a label for each task."""
        return JSONResponse(await studio.predict(body))

    @router.post("/webhook")
    async def webhook(token: MayLearn, body: Message) -> JSONResponse:
        """Learn from an annotation that was made, changed or deleted."""
        found = await studio.webhook(body, token)
        return JSONResponse(found, 201 if found["status"] == "ok" else 200)

    return router
