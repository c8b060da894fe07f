"""A service: a session or a replica, and all that stands between it and its clients."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from earl.service.events import Broker
from earl.service.images import checked
from earl.service.limits import THREADS, InFlight, Limits, Quota, Rates
from earl.service.operations import Receipt, Wish
from earl.service.published import Published
from earl.service.refusals import Refused
from earl.service.replica import Replica
from earl.service.session import Session
from earl.service.tokens import Token, Tokens

PENDING = 64  # jobs that wait for a thread, at most

T = TypeVar("T")


class Pool:
    """A few threads for one kind of work, and few jobs that wait for them."""

    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(THREADS[name], f"earl-{name}")
        self.pending = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Do some work in a thread; Refused if too much waits already."""
        if self.pending >= PENDING:
            raise Refused(429, "busy", "too many requests at a time; try again", retry_after=1)
        self.pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self.pending -= 1

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)


@dataclass
class Service:
    """What the routes need."""

    told: Session | Replica
    tokens: Tokens | None  # None: nobody is asked for one
    broker: Broker
    limits: Limits = field(default_factory=Limits)
    hosts: frozenset[str] = frozenset()
    closing: bool = False

    def __post_init__(self) -> None:
        self.in_flight = InFlight(self.limits.in_flight)
        self.quota, self.rates = Quota(self.limits.new_classes), Rates()
        self.decoding = Pool("decode")
        self.asking = Pool("ask")
        self.reading = Pool("read")

    @property
    def session(self) -> Session:
        """The session, where something can be taught."""
        if isinstance(self.told, Session):
            return self.told
        raise Refused(403, "read_only", "this is a replica, which only answers; teach the writer")

    def count(self, token: Token) -> None:
        """Count a request; Refused if a token has sent too many."""
        rate = token.requests
        if rate is None and "admin" not in token.scopes:
            rate = self.limits.requests
        if rate is not None and (wait := self.rates.take(token.name, rate)):
            detail = f"this token may send {rate:,} requests in a minute; try again in {wait} s"
            raise Refused(429, "too_many_requests", detail, retry_after=wait)

    async def learn(self, wishes: Sequence[Wish], token: Token) -> list[Receipt]:
        """Have wishes written; returns when they are on the disk."""
        if self.closing:
            raise Refused(503, "stopping", "the service is being stopped", retry_after=5)
        answer = self.session.learn(wishes, lambda new: self._admit(new, token))
        return await asyncio.wrap_future(answer)

    def _admit(self, new: Sequence[str], token: Token) -> None:
        """Raise Refused if a token may not bring so many new labels."""
        if not new or "admin" in token.scopes:
            return
        if not token.may("learn:new-class"):
            raise Refused(403, "no_new_classes", "this token may teach known classes only")
        if len(new) > self.quota.left(token.name):
            detail = f"this token may bring {self.quota.most} new classes in an hour"
            wait = self.quota.wait(token.name)
            raise Refused(429, "too_many_new_classes", detail, retry_after=wait)
        self.quota.take(token.name, len(new))

    async def check(self, images: Sequence[bytes]) -> None:
        """Decode images that are to be learned, one by one; Refused says what is wrong with one."""
        size, limits = self.told.image_size, self.limits.images

        def work() -> None:
            for data in images:
                checked(data, size, limits)

        await self.decoding.run(work)

    async def predict(
        self, images: Sequence[bytes], *, top: int, explain: bool, unknown_below: float
    ) -> tuple[int, list[dict[str, Any]]]:
        """Return the operation that the model knows of, and its answers.

        A model is held only by the few questions that are being answered, not by those that wait.
        """
        size, limits = self.told.image_size, self.limits.images

        def work() -> tuple[int, list[dict[str, Any]]]:
            pixels = [checked(data, size, limits) for data in images]
            model: Published = self.told.published
            found = model.answer(pixels, top=top, explain=explain, unknown_below=unknown_below)
            return model.seq, found

        return await self.asking.run(work)

    async def wait_for(self, seq: int, seconds: float) -> None:
        """Wait until operation `seq` is in the published model; Refused if that takes too long."""
        if self.told.published.seq >= seq:
            return
        try:
            await self.broker.published(seq, seconds)
        except TimeoutError:
            if self.told.published.seq < seq:
                detail = f"operation {seq} is not learned yet; the model is at "
                detail += str(self.told.published.seq)
                raise Refused(412, "not_learned_yet", detail, retry_after=1) from None

    def close(self) -> None:
        """Refuse to teach, and end all streams of events."""
        self.closing = True
        self.broker.close()

    def end(self) -> None:
        """Finish, save, and let go."""
        for pool in (self.decoding, self.asking, self.reading):
            pool.close()
        self.told.stop()
