"""Opens the port: engine, application and uvicorn, from settings to a clean end.

Owns sockets, signals and the two lines on stdout. It must not know requests.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from .keys import new_key

if TYPE_CHECKING:
    from .desk import Desk
    from .engine import Engine
    from .fleet import Fleet
    from .job_store import JobStore
    from .store import Store

EXTRA = "pip install 'acs-jupyter[local]'"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class BadSetting(Exception):
    """A setting cannot be used; the message is one line."""


@dataclass(frozen=True)
class Settings:
    """How to serve. Port 0 picks a free one; ``rate`` is the scripted engine's, in tokens a second.

    ``data`` is the folder of keys and usage, ``budget`` that of the server's own key; for the names from
    ``active`` on, see :class:`acs_jupyter.local.desk.Limits`.
    """

    gguf: str | None = None
    scripted: bool = False
    host: str = "127.0.0.1"
    port: int = 8000
    model: str | None = None
    key: str | None = None
    context: int | None = None
    threads: int | None = None
    rate: float = 0.0
    until_stdin_closes: bool = False
    data: str | None = None
    budget: int = 0
    active: int = 16
    waiting: int = 64
    starts: int = 600
    reads: int = 60
    window: float = 840.0
    window_tokens: int = 15_600
    refuse_infeasible: bool = True
    body_wait: float = 60.0
    job_workers: int = 4
    upstream: tuple[str, ...] = ()
    upstream_key_env: str | None = None
    upstream_set: tuple[str, ...] = ()


def serve(settings: Settings) -> int:
    """Serve until a signal comes; the exit code. Raises :class:`BadSetting` before anything is opened."""
    _check_extras(settings)
    _check(settings)
    key = _key(settings)
    place = _bind(settings)
    with place:
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
        store = _store(settings)
        try:
            jobs = _job_store(settings)
            engine = _engine(settings)
            try:
                _run(engine, settings, key, place, desk=_desk(settings, store, key), jobs=jobs)
            finally:
                engine.close()
                jobs.close()
        finally:
            store.close()
    return 0


def _run(
    engine: Engine | Fleet, settings: Settings, key: str, place: socket.socket, *, desk: Desk, jobs: JobStore
) -> None:
    import uvicorn

    from .app import create_app
    from .faults import Faults
    from .guard import LOOPBACK
    from .malformed import protocol

    hosts = LOOPBACK if settings.host in _LOOPBACK else None
    app = create_app(
        engine,
        key,
        hosts=hosts,
        disturb=Faults() if settings.scripted else None,
        desk=desk,
        jobs=jobs,
        workers=settings.job_workers,
    )
    config = uvicorn.Config(
        app,
        http=protocol(),
        ws="none",  # an upgrade is answered like any other request
        log_level="critical",
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=1,
    )

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                if settings.host not in _LOOPBACK:
                    _say(f"Other machines can reach {settings.host}: every request needs the key below.")
                print(f"ACS_API_BASE={_base(settings.host, place)}\nACS_API_KEY={key}", flush=True)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await super().shutdown(sockets)
            if not hasattr(engine, "generate"):
                await engine.aclose()

    # uvicorn raises the signal again after its own shutdown; then nothing is left to do.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    if settings.until_stdin_closes:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    Announcing(config).run(sockets=[place])


def _end_with_stdin() -> None:
    """A parent that dies, however it dies, closes the pipe; then this server has nobody to serve."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _check_extras(settings: Settings) -> None:
    embedded = not settings.scripted and not settings.upstream
    needed = ["starlette", "uvicorn"] + (["xllamacpp"] if embedded else [])
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise BadSetting(f"The local server needs {', '.join(missing)}: {EXTRA}")


def _check(settings: Settings) -> None:
    if settings.upstream_key_env and not settings.upstream:
        raise BadSetting("--upstream-key-env needs an --upstream: there is nothing to send the key to.")
    if settings.model is not None and not (settings.model.strip() and settings.model.isprintable()):
        raise BadSetting("--model must be an id of printable characters.")


def _key(settings: Settings) -> str:
    if settings.key == "":
        raise BadSetting("--key is empty: leave it out for a new key at each start.")
    key = settings.key or os.environ.get("ACS_LOCAL_KEY") or new_key()
    if not re.fullmatch(r"[!-~]{8,200}", key):
        raise BadSetting("The key must be 8 to 200 visible ASCII characters without spaces.")
    return key


def _store(settings: Settings) -> Store:
    from .store import Store, StoreFailed, data_folder

    try:
        return Store(data_folder(settings.data))
    except StoreFailed as problem:
        if settings.data or os.environ.get("ACS_LOCAL_DATA"):
            raise BadSetting(str(problem)) from None
        _say(f"{problem} Keys and usage are kept in memory.")
        return Store()


def _job_store(settings: Settings) -> JobStore:
    """Jobs on disk with a data folder, else in memory: prompts are written down only when somebody said where."""
    from .job_store import JobStore, StoreBusy, folder_of

    try:
        return JobStore(folder_of(settings.data), time.time())
    except StoreBusy as problem:
        if settings.data:
            raise BadSetting(str(problem)) from None
        # The variable is a standing default that several servers of one user share; one of them has the jobs.
        _say(f"{problem} Jobs of this server are kept in memory.")
        return JobStore(None, time.time())


def _desk(settings: Settings, store: Store, key: str) -> Desk:
    from .desk import Desk, Limits

    limits = Limits(**{item.name: getattr(settings, item.name) for item in fields(Limits)})
    return Desk(store, key, own_budget=settings.budget, limits=limits)


def _bind(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    place = socket.socket(family, socket.SOCK_STREAM)
    if os.name != "nt":
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind((settings.host, settings.port))
    except OSError as problem:
        place.close()
        reason = getattr(problem, "strerror", None) or str(problem)
        hint = " Try --port 0, which picks a free one." if problem.errno == errno.EADDRINUSE else ""
        raise BadSetting(f"Cannot open {settings.host} port {settings.port}: {reason}.{hint}") from None
    return place


def _base(host: str, place: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{place.getsockname()[1]}/v1"


def _fleet(settings: Settings) -> Fleet:
    from .fleet import BadUpstream, open_fleet
    from .upstream import Patience

    variable = settings.upstream_key_env
    key = os.environ.get(variable) if variable else None
    if variable and not key:
        raise BadSetting(f"--upstream-key-env {variable}: this variable is not set.")
    try:
        patience = Patience.of(settings.upstream_set, deadline=settings.window)
        return open_fleet(settings.upstream, name=settings.model, key=key, patience=patience, say=_say)
    except (BadUpstream, ValueError) as problem:
        raise BadSetting(str(problem)) from None


def _engine(settings: Settings) -> Engine | Fleet:
    if settings.upstream:
        return _fleet(settings)
    if settings.scripted:
        from .scripted import ScriptedEngine

        return ScriptedEngine(name=settings.model, rate=settings.rate, context=settings.context or 65_536)
    from .fetch import FetchFailed, cached_model
    from .gguf import NotGguf
    from .llama import LlamaEngine
    from .llama_load import EngineFailure

    given = settings.gguf or os.environ.get("ACS_GGUF")
    try:
        path = Path(given).expanduser() if given else cached_model(_say)
        engine = LlamaEngine(
            path, name=settings.model, context=settings.context or 2048, threads=settings.threads
        )
    except OSError as problem:
        raise BadSetting(f"The model file {given} cannot be read: {problem.strerror}.") from None
    except (FetchFailed, NotGguf, EngineFailure) as problem:
        raise BadSetting(str(problem)) from None
    own = engine.head.context_length
    if own and settings.context and settings.context > own:
        _say(f"--context {settings.context} is beyond this model's own length: {own} tokens are used.")
    return engine


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
