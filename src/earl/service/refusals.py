"""What the service refuses: a status, a code for programs and a sentence for people."""

from earl.errors import EarlError


class Refused(EarlError):
    """A wish that cannot be granted; nothing has changed."""

    def __init__(
        self, status: int, code: str, detail: str, *, retry_after: int | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail
        self.retry_after = retry_after


class StorageFailed(Refused):
    """The disk has failed: nothing can be acknowledged until the service is started again."""

    def __init__(self, why: str) -> None:
        detail = f"the journal cannot be written ({why}); check the disk, then start again"
        super().__init__(503, "storage_failed", detail[:200])


class StorageFull(Refused):
    """There is no room for another sample; it may be tried again when there is."""

    def __init__(self, detail: str) -> None:
        super().__init__(507, "storage_full", detail)
