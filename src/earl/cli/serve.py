"""The commands `earl serve` and `earl token`: a service that learns and answers."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earl.cli import model_options as options
from earl.cli.options import Json, Settings, SnapshotSeconds
from earl.cli.serve_bounds import parse_size, tell_bounds, tell_line
from earl.cli.text import answer, say

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from fastapi import APIRouter

    from earl.service.limits import Limits
    from earl.service.service import Service

LOOPBACK = ("127.0.0.1", "::1", "localhost")
GIB = 1 << 30

State = Annotated[Path, typer.Option("--state", help="The folder of the service.")]
Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535)]
AllowHost = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Another name of this service.")
]
WithoutToken = Annotated[
    bool, typer.Option("--without-token", help="Ask nobody for a token; on loopback only.")
]
IsReplica = Annotated[
    bool, typer.Option("--replica", help="Only answer, from the snapshots of another.")
]
Waiting = Annotated[int, typer.Option(min=1, help="Samples that may wait.")]
JournalGib = Annotated[float, typer.Option(min=0.001, help="Cap of the journal, in GiB.")]
Retention = Annotated[
    int | None, typer.Option(min=0, help="Keep so many operations in the journal; all.")
]
NewClasses = Annotated[
    int, typer.Option(min=0, help="New classes an hour of a token that is no admin.")
]
Requests = Annotated[
    int, typer.Option(min=1, help="Requests a minute of a token that is no admin.")
]
OwnRequests = Annotated[
    int | None, typer.Option("--requests", min=1, help="Requests a minute; as `earl serve` says.")
]
MaxMemory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="As 2GB: do not start if more may be needed; all there is."),
]
OnlyCheck = Annotated[
    bool, typer.Option("--check", help="Tell what it may need at most, and do not start.")
]
ForLabelStudio = Annotated[
    bool, typer.Option("--label-studio", help="Answer Label Studio, below /label-studio.")
]
StudioFiles = Annotated[
    Path | None,
    typer.Option("--label-studio-files", help="A folder with images that its tasks may name."),
]


def serve(
    state: State = Path("state"),
    host: Host = "127.0.0.1",
    port: Port = 8765,
    allow_host: AllowHost = None,
    without_token: WithoutToken = False,
    replica: IsReplica = False,
    method: options.Method = None,
    backbone: options.Backbone = None,
    frozen: options.Frozen = None,
    image_size: options.ImageSize = None,
    memory_size: options.MemorySize = None,
    max_classes: options.MaxClasses = None,
    steps_per_sample: options.Steps = None,
    seed: options.Seed = None,
    device: options.Device = None,
    threads: options.Threads = None,
    settings: Settings = None,
    waiting: Waiting = 1024,
    journal_gib: JournalGib = 16.0,
    retention: Retention = None,
    new_classes: NewClasses = 20,
    requests: Requests = 6000,
    snapshot_seconds: SnapshotSeconds = 30.0,
    max_memory: MaxMemory = None,
    check: OnlyCheck = False,
    as_json: Json = False,
    label_studio: ForLabelStudio = False,
    label_studio_files: StudioFiles = None,
) -> None:
    """Start a service that learns from posted images and answers at any moment."""
    start(locals())


def start(asked: dict[str, Any]) -> None:
    """Check what a command line asks for, then be that service until a signal comes."""
    need_extra()
    check_host(asked["host"], asked["without_token"])
    check_studio(asked["label_studio"], asked["label_studio_files"])
    from earl.service.http.server import bound

    given, limits = options.parameters_of(asked), limits_of(asked)
    if asked["check"] or asked["as_json"]:
        tell_bounds(asked["state"], given, limits, asked["replica"], asked["as_json"])
        return
    host, asks = asked["host"], not asked["without_token"]
    names = frozenset(map(str.lower, (*LOOPBACK, host, *(asked["allow_host"] or []))))
    with bound(host, asked["port"]) as listening:
        parameters = None if asked["replica"] else given
        service = opened(asked["state"], parameters, limits, names, asks)
        run(service, host, listening, more_routes(asked, service))


def limits_of(asked: dict[str, Any]) -> "Limits":
    """Return the limits that a command line asks for."""
    from earl.nn.room import room
    from earl.service.limits import Limits

    most = asked["max_memory"]
    memory = (room() or sys.maxsize) if most is None else parse_size(most, "--max-memory")
    same = ("waiting", "retention", "new_classes", "requests", "snapshot_seconds")
    chosen = {name: asked[name] for name in same}
    return Limits(journal=int(asked["journal_gib"] * GIB), memory=memory, **chosen)


def more_routes(asked: dict[str, Any], service: "Service") -> "list[APIRouter]":
    """Return the routes that a command line asks for beside those of every service."""
    from earl.service.http.labelstudio import routes

    return [routes(service, asked["label_studio_files"])] if asked["label_studio"] else []


def check_studio(asked: bool, folder: Path | None) -> None:
    """Raise InvalidSetting if there is no such folder, or nobody who would ask for it."""
    from earl.errors import InvalidSetting

    if folder is not None and not (asked and folder.is_dir()):
        raise InvalidSetting(
            f"--label-studio-files {folder} must be a folder, and needs --label-studio"
        )


def check_host(host: str, without_token: bool) -> None:
    """Raise InvalidSetting if others could reach a service that asks nobody for a token."""
    from earl.errors import InvalidSetting

    if without_token and host not in LOOPBACK:
        raise InvalidSetting(
            f"--host {host} lets others in, so a token must be asked for; leave --without-token out"
        )


def opened(
    state: Path,
    given: dict[str, Any] | None,
    limits: "Limits",
    names: frozenset[str],
    asks: bool,
) -> "Service":
    """Return the service of a folder; without parameters `given` a replica."""
    from earl.service.events import Broker
    from earl.service.replica import Replica
    from earl.service.service import Service
    from earl.service.session import Session
    from earl.service.tokens import Tokens

    broker = Broker(limits.listeners)
    told = (
        Replica(state, limits, broker.tell)
        if given is None
        else Session(state, given, limits, broker.tell)
    )
    return Service(told, Tokens(state) if asks else None, broker, limits, names)


def run(
    service: "Service", host: str, listening: "socket.socket", more: "Sequence[APIRouter]"
) -> None:
    """Listen and answer until a signal comes."""
    from earl.service.http.app import create_app
    from earl.service.http.server import serve
    from earl.service.logs import log_to

    log_to(logging.StreamHandler(sys.stderr))
    number = listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{number}/"

    def ready() -> None:
        greet(service, url)

    serve(create_app(service, more), service, listening, ready)


def greet(service: "Service", url: str) -> None:
    """Print where the service is, and on its first start the token."""
    from earl.service.tokens import SCOPES

    tokens = service.tokens
    if tokens is not None and not tokens.all():
        secret = tokens.add("first", SCOPES)
        say(f"Token (shown only this once): {secret}")
        say(f"The page: {url}#token={secret}")
    tell_line(service)
    say(f"Serving {url}")
    sys.stdout.flush()


def need_extra() -> None:
    """Raise EarlError in one line if the packages of the service are missing."""
    from importlib.util import find_spec

    from earl.errors import EarlError

    names = ("fastapi", "uvicorn", "python_multipart", "prometheus_client", "httpx2")
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise EarlError(
            f'the service needs {", ".join(missing)}; say: pip install "earl-learn[serve]"'
        )


app = typer.Typer(help="Tokens: who may ask and teach a service.", no_args_is_help=True)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="What to call it; the source of its samples.")],
    state: State = Path("state"),
    scope: Annotated[
        list[str] | None,
        typer.Option(help="predict, learn, learn:new-class or admin; the first three."),
    ] = None,
    requests: OwnRequests = None,
    as_json: Json = False,
) -> None:
    """Make a token and print its secret, which is kept nowhere."""
    from earl.service.labels import checked_text
    from earl.service.tokens import SCOPES, Tokens

    secret = Tokens(state).add(checked_text(name, "name"), scope or SCOPES[:3], requests)
    answer(as_json, {"name": name, "token": secret}, secret)


@app.command("list")
def list_tokens(state: State = Path("state"), as_json: Json = False) -> None:
    """List the tokens by name, with what they may do."""
    from earl.service.tokens import Tokens

    tokens, lines = Tokens(state).all(), []
    for token in tokens:
        rate = f"; {token.requests:,} requests a minute" if token.requests else ""
        lines.append(f"{token.name}: {', '.join(token.scopes)}{rate}")
    answer(as_json, {token.name: list(token.scopes) for token in tokens}, *lines)


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="See: earl token list")],
    state: State = Path("state"),
) -> None:
    """Remove a token; a running service knows it no more at once."""
    from earl.service.tokens import Tokens

    Tokens(state).remove(name)
