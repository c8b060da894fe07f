"""Who may do what: the token of a request, and the scope that a route asks for."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from earl.service.refusals import Refused
from earl.service.service import Service
from earl.service.tokens import ANYBODY, Scope, Token

bearer = HTTPBearer(auto_error=False, description="A token of `earl serve` or `earl token add`.")


async def service_of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


def asks(scope: Scope) -> Callable[..., Awaitable[Token]]:
    """Return what lets a request pass if its token has a scope."""

    async def check(
        service: Annotated[Service, Depends(service_of)],
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    ) -> Token:
        if service.tokens is None:
            return ANYBODY
        token = None if given is None else service.tokens.find(given.credentials)
        if token is None:
            raise Refused(401, "no_token", "send a known token: Authorization: Bearer ...")
        if not token.may(scope):
            raise Refused(403, "wrong_scope", f"this token may not do that; it needs {scope}")
        service.count(token)
        return token

    return check


TheService = Annotated[Service, Depends(service_of)]
MayPredict = Annotated[Token, Depends(asks("predict"))]
MayLearn = Annotated[Token, Depends(asks("learn"))]
