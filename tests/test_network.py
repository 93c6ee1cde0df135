"""Between client and server: certificates are checked, proxies are used, and neither learns the key by mistake."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trustme
import uvicorn

from acs_jupyter import AsyncClient, Client, errors
from acs_jupyter.local.app import create_app
from acs_jupyter.local.scripted import ScriptedEngine
from tests.support.desks import until
from tests.support.player import Player, frames, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KEY = "acs-bm-0123abcd-of-the-network-tests"


def complete_sync(base: str) -> str:
    with Client(base, KEY, retries=0) as client:
        return client.complete("Hi", model="scripted", max_tokens=2).text


def complete_async(base: str) -> str:
    async def go() -> str:
        async with AsyncClient(base, KEY, retries=0) as client:
            return (await client.complete("Hi", model="scripted", max_tokens=2)).text

    return asyncio.run(go())


both = pytest.mark.parametrize("complete", [complete_sync, complete_async])


@contextmanager
def encrypted(folder: Path) -> Iterator[tuple[str, Path, list[Any]]]:
    """A server with a certificate of an authority nobody knows; its base, the authority's file, requests seen."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(folder / "chain.pem", append=True)
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    authority.cert_pem.write_to_path(folder / "authority.pem")
    seen: list[Any] = []
    app = create_app(ScriptedEngine(), KEY, hosts=None)

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])
        await app(scope, receive, send)

    config = uvicorn.Config(
        watched, port=0, log_level="critical", lifespan="off",
        ssl_certfile=folder / "chain.pem", ssl_keyfile=folder / "key.pem",
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"https://127.0.0.1:{port}/v1", folder / "authority.pem", seen
    finally:
        server.should_exit = True
        thread.join(10)


@both
def test_an_unknown_certificate_is_refused(complete: Callable[[str], str], tmp_path: Path) -> None:
    with encrypted(tmp_path) as (base, _, seen):
        with pytest.raises(errors.ConnectionFailed) as refused:
            complete(base)
        assert "its certificate is not trusted; SSL_CERT_FILE can name" in str(refused.value)
        assert "\n" not in str(refused.value)
        assert KEY not in str(refused.value)
        assert seen == []  # nothing was sent


@both
def test_an_authority_of_ones_own_is_trusted_when_named(
    complete: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with encrypted(tmp_path) as (base, authority, seen):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert complete(base)
        assert seen == ["http"]


@both
def test_a_proxy_of_the_environment_is_used(
    complete: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Player([stream(*frames([" a", " b"]))]) as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.base.removesuffix("/v1"))
        for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert complete("http://service.invalid/v1") == " a b"
        assert proxy.requests[0].line.startswith("POST http://service.invalid/v1/completions ")


@both
def test_loopback_needs_no_proxy(complete: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Player([stream(*frames([" a", " b"]))]) as server:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        assert complete(server.base) == " a b"
