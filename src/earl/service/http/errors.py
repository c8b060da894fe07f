"""How errors are answered: a code, a short sentence, and the id of the request; never the input."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Match, Route

from earl.service.refusals import Refused

MOST = 200  # characters of a detail
WORDS = {404: "not_found", 405: "method_not_allowed", 422: "bad_request"}


def answer(refusal: Refused, request_id: str) -> JSONResponse:
    """Return the answer to a request that is refused."""
    content = {"error": refusal.code, "detail": refusal.detail[:MOST], "request_id": request_id}
    headers = {}
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(refusal.retry_after)
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if refusal.status == 408:
        headers["Connection"] = "close"  # the rest of the body is not wanted
    return JSONResponse(content, refusal.status, headers)


async def on_refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    return answer(error, request.state.request_id)


async def on_http_error(request: Request, error: Exception) -> JSONResponse:
    """Answer what the framework refuses; its words may hold parts of the input."""
    assert isinstance(error, HTTPException)
    code = WORDS.get(error.status_code, "bad_request")
    known = {404: "there is no such thing here", 405: "this cannot be done here"}
    detail = known.get(error.status_code, "the request cannot be understood")
    made = answer(Refused(error.status_code, code, detail), request.state.request_id)
    if error.status_code == 405:
        made.headers["Allow"] = ", ".join(methods_of(request))
    return made


def methods_of(request: Request) -> list[str]:
    """Return what can be done at the path of a request; the framework names one route's alone."""
    routes: list[Route] = request.app.state.routes
    found = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in found for method in route.methods or ()}) or ["GET"]


async def on_invalid(request: Request, error: Exception) -> JSONResponse:
    """Answer a path or a query that is not as it should be."""
    detail = "a parameter is missing, unknown, or out of its range"
    return answer(Refused(422, "bad_request", detail), request.state.request_id)
