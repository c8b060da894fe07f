"""Tokens: who may do what. The file holds their hashes, so that reading it grants nothing."""

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from earl.errors import EarlError, InvalidSetting, UnknownName, suggest
from earl.storage.files import fsync_dir, write_file
from earl.storage.reading import read_bounded

FILE = "tokens.json"
MOST_BYTES = 1 << 20
Scope = Literal["predict", "learn", "learn:new-class", "admin"]
SCOPES: tuple[Scope, ...] = ("predict", "learn", "learn:new-class", "admin")


@dataclass(frozen=True)
class Token:
    """A name, what it may do, and the SHA-256 of the secret that proves it."""

    name: str
    scopes: tuple[str, ...]
    sha256: str
    requests: int | None = None  # in a minute; None: what is usual for its scopes

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or "admin" in self.scopes


ANYBODY = Token("anybody", SCOPES, "")  # where no token is asked for


class Tokens:
    """The tokens of a state directory, read again whenever their file has changed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._read_at: tuple[int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    def all(self) -> tuple[Token, ...]:
        """Return all tokens."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return ()
        if self._read_at != (found.st_mtime_ns, found.st_ino):
            if found.st_mode & 0o077:
                raise EarlError(f"{self.path} can be read by others; say: chmod 600 {self.path}")
            self._tokens = self._read()
            self._read_at = found.st_mtime_ns, found.st_ino
        return self._tokens

    def _read(self) -> tuple[Token, ...]:
        try:
            rows = json.loads(read_bounded(self.path, MOST_BYTES) or b"[]")
            return tuple(
                Token(r["name"], tuple(r["scopes"]), r["sha256"], r.get("requests")) for r in rows
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            raise EarlError(f"{self.path} holds no tokens; remove it to begin anew") from None

    def find(self, secret: str) -> Token | None:
        """Return the token of a secret; the time this takes tells nothing about the secrets."""
        digest = hashed(secret)
        found = None
        for token in self.all():
            if secrets.compare_digest(token.sha256, digest):
                found = token
        return found

    def add(self, name: str, scopes: Sequence[str], requests: int | None = None) -> str:
        """Add a token and return its secret, which is kept nowhere."""
        for scope in scopes:
            if scope not in SCOPES:
                raise UnknownName(f"no scope named {scope!r}; {suggest(scope, SCOPES)}")
        if any(token.name == name for token in self.all()):
            raise InvalidSetting(f"there is a token named {name!r} already; choose another name")
        secret = secrets.token_urlsafe(32)
        self._write((*self.all(), Token(name, tuple(scopes), hashed(secret), requests)))
        return secret

    def remove(self, name: str) -> None:
        """Remove a token: what it was given may be done with it no more."""
        names = [token.name for token in self.all()]
        if name not in names:
            raise UnknownName(f"no token named {name!r}; {suggest(name, names)}")
        self._write(tuple(token for token in self.all() if token.name != name))

    def _write(self, tokens: tuple[Token, ...]) -> None:
        new = self.path.with_name(f".{FILE}.new")
        new.unlink(missing_ok=True)  # left by a kill
        write_file(new, json.dumps([asdict(token) for token in tokens], indent=2).encode())
        new.replace(self.path)
        fsync_dir(self.path.parent)


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
