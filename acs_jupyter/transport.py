"""How a client's httpx is made, and what httpx says when an answer does not come.

Owns timeouts, limits, whom a connection trusts and where the key is written. It must not know requests, budgets or
models. The key stands in the headers given to httpx and nowhere else.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Generator
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from ._version import __version__
from .errors import NotConfigured
from .secret import Secret
from .settings import LOOPBACK
from .wire import WORKLOAD

T = TypeVar("T")
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout)
LOST = (httpx.TransportError, httpx.StreamError, httpx.DecodingError)
KEPT_OPEN = 4.0
"""Seconds after which an idle connection is not used again: many servers close theirs after five, and a request that
meets the closing is lost without anybody knowing whether it ran."""


def options_of(base_url: str, secret: Secret, timeout: float, workload: str) -> dict[str, Any]:
    """What an httpx client is made with; the key is added to each request on its way out."""
    address = urlsplit(base_url)
    loopback = address.hostname in LOOPBACK
    return {
        "timeout": httpx.Timeout(timeout, connect=20.0, write=60.0, pool=None),
        "limits": httpx.Limits(max_connections=64, max_keepalive_connections=32, keepalive_expiry=KEPT_OPEN),
        "auth": _Bearer(secret),
        "headers": {"user-agent": f"acs-jupyter/{__version__}", WORKLOAD: workload},
        # A proxy from the environment cannot reach this machine's own loopback; SSL_CERT_FILE holds there too.
        "trust_env": not loopback,
        **({"verify": _trust(address.scheme)} if loopback else {}),
    }


def made(make: Callable[..., T], options: dict[str, Any]) -> T:
    """An httpx client; a proxy variable that is no address is told in one line."""
    try:
        return make(**options)
    except (ValueError, httpx.InvalidURL, ImportError) as error:
        reason = " ".join(str(error).split())[:200]
    raise NotConfigured(f"No connection can be set up: {reason}.", advice="Check HTTPS_PROXY and its like.")


def reason_of(problem: Exception) -> str:
    """Why a server could not be reached, in one line without a key."""
    text = " ".join(str(problem).split())[:200] or type(problem).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not trusted; SSL_CERT_FILE can name the file of your own authority"
    return text


class _Bearer(httpx.Auth):
    """Writes the key into each request's headers, and is all of a client that knows it."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["authorization"] = f"Bearer {self._secret.reveal()}"
        yield request


def _trust(scheme: str) -> ssl.SSLContext:
    """Whom a connection to this machine itself trusts: nobody where nothing is encrypted, since reading all the
    certificates takes longer than a request."""
    return httpx.create_ssl_context() if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
