"""Replicas on a Ray cluster: the same object that `earl serve --replica` runs, as a deployment."""

import asyncio
from pathlib import Path
from typing import Any

from earl.errors import EarlError
from earl.service.http import bodies
from earl.service.http.errors import answer
from earl.service.images import checked
from earl.service.limits import MOST_IMAGES
from earl.service.refusals import Refused
from earl.service.replica import Replica
from earl.service.tokens import Tokens


class Answering:
    """Answers from the newest snapshot, over HTTP or by `predict` of a handle."""

    def __init__(self, state: str) -> None:
        self.replica, self.tokens = Replica(Path(state)), Tokens(Path(state))
        self.replica.start()

    async def predict(self, images: list[bytes], top: int = 5) -> dict[str, Any]:
        """Return the answers about images, as /predict does."""
        model, limits = self.replica.published, self.replica.limits.images
        size = self.replica.image_size

        def work() -> list[dict[str, Any]]:
            return model.answer([checked(i, size, limits) for i in images], top=top, explain=False)

        return {"model_seq": model.seq, "answers": await asyncio.to_thread(work)}

    async def __call__(self, request: Any) -> Any:
        """Answer a request for /predict that brings a token."""
        try:
            kind, _, secret = request.headers.get("authorization", "").partition(" ")
            token = self.tokens.find(secret) if kind.lower() == "bearer" else None
            if token is None or not token.may("predict"):
                raise Refused(401, "no_token", "send a known token: Authorization: Bearer ...")
            seconds = self.replica.limits.deadlines.body
            return await self.predict(await bodies.images(request, MOST_IMAGES, seconds))
        except Refused as refusal:
            return answer(refusal, "ray")

    def check_health(self) -> None:
        """Raise if it does not follow its writer any more: Ray then starts another."""
        if reasons := self.replica.reasons():
            raise EarlError("; ".join(reasons))


def deployment(state: str | Path, *, replicas: int = 2) -> Any:
    """Return the application for `ray.serve.run`; needs earl-learn[ray-serve]."""
    try:
        from ray import serve
    except ImportError:
        raise EarlError(
            'Ray Serve is not installed; say: pip install "earl-learn[ray-serve]"'
        ) from None
    made = serve.deployment(Answering, num_replicas=replicas)
    return made.bind(str(Path(state).absolute()))
