"""The application: routes, the page, and the edge around them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.routing import Route

import earl
from earl.service.http import asking, errors, teaching
from earl.service.http.edge import Edge
from earl.service.metrics import Metrics
from earl.service.refusals import Refused
from earl.service.service import Service

PAGE = Path(__file__).parent.parent / "page"


def create_app(service: Service, more: Sequence[APIRouter] = ()) -> FastAPI:
    """Return the application of a service; `more` routes may be added."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.broker.attach()
        telling = asyncio.create_task(asking.tell_status(service))
        yield
        telling.cancel()

    app = FastAPI(
        title="earl serve",
        version=earl.__version__,
        description="Teach it images and ask it, at the same time.",
        lifespan=lifespan,
        docs_url=None,  # its page would load scripts from the network
        redoc_url=None,
    )
    metrics = Metrics(service.told)
    app.state.service, app.state.metrics = service, metrics
    routers = (asking.router, teaching.router, *more)
    for router in routers:
        app.include_router(router)
    app.state.routes = [r for router in routers for r in router.routes if isinstance(r, Route)]
    app.add_api_route("/", page, include_in_schema=False)
    app.mount("/page", StaticFiles(directory=PAGE), name="page")
    app.add_exception_handler(Refused, errors.on_refused)
    app.add_exception_handler(HTTPException, errors.on_http_error)
    app.add_exception_handler(RequestValidationError, errors.on_invalid)
    app.add_middleware(Edge, service=service, metrics=metrics)
    return app


async def page() -> FileResponse:
    """Return the page."""
    return FileResponse(PAGE / "index.html")
