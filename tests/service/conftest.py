"""One running service for all tests that only look at its answers."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from earl.service.service import Service
from earl.service.tokens import SCOPES
from serving import bearer, png, running, service_of


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    return service_of(tmp_path_factory.mktemp("service"))


@pytest.fixture(scope="session")
def url(service: Service) -> Iterator[str]:
    with running(service) as url:
        yield url


@pytest.fixture(scope="session")
def secret(service: Service) -> str:
    assert service.tokens is not None
    return service.tokens.add("first", SCOPES)


@pytest.fixture(scope="session")
def client(url: str, secret: str) -> Iterator[httpx2.Client]:
    """A client with all scopes, of a service that knows the classes a and b."""
    with httpx2.Client(base_url=url, headers=bearer(secret), timeout=30) as client:
        for number in range(8):
            files = {"image": png(number)}
            made = client.post("/learn", files=files, data={"label": "ab"[number % 2]})
            assert made.status_code == 202, made.text
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"
