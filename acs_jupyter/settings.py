"""What a client is given, judged: address, key, seconds, counts. A bad one is told in one line.

Owns the checks and the names under which settings are spoken of. It must not open sockets, nor show a key.
"""

from __future__ import annotations

import math
import os
from numbers import Integral, Real
from typing import Any
from urllib.parse import urlsplit

import httpx

from .errors import NotConfigured
from .secret import HIDDEN, Secret

READ_TIMEOUT = 900.0
"""Seconds without a byte: a cold boot may take most of it, and the service itself gives up at 840."""
RETRIES = 3
EMBEDDED: set[str] = set()
"""Where embedded servers of this process answer, or have answered."""
EMBEDDED_GONE = "It was the embedded server: %acs local starts it again."
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def normal_base(base: str, name: str = "ACS_API_BASE") -> str:
    """A base URL that ends in ``/v1``, however it was written. Raises :class:`NotConfigured`."""
    text = base.strip()
    if "@" in text or HIDDEN in text:
        raise NotConfigured(
            f"{name} holds a key, a user name or a password.",
            advice="Put the key into ACS_API_KEY instead.",
        )
    try:
        if "://" not in text:
            host = urlsplit(f"//{text}").hostname
            text = f"{'http' if host in LOOPBACK else 'https'}://{text}"
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        httpx.URL(text)
    except (ValueError, httpx.InvalidURL):
        good = False
    if not good:
        raise NotConfigured(
            f"{name} is {base.strip()!r}, which is not an http(s) address.",
            advice="It looks like https://host/v1.",
        )
    path = parts.path.rstrip("/")
    if not path.endswith("/v1"):
        path += "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def secret_of(given: object) -> Secret:
    """The key that was given, else that of ``ACS_API_KEY``."""
    if isinstance(given, Secret):
        return given
    if given is not None and not isinstance(given, str):
        kind = type(given).__name__
        raise NotConfigured(f"api_key is of type {kind}; it must be a text.", advice="Or leave it out.")
    return Secret(str(given)) if given else Secret(os.environ.get("ACS_API_KEY", ""))


def address_of(given: object, secret: Secret) -> str:
    """The address that was given, else that of ``ACS_API_BASE``, without anything secret in it."""
    if given is not None and not isinstance(given, str):
        raise NotConfigured(f"base_url={given!r}: expected a text.", advice="It looks like https://host/v1.")
    user, at, rest = secret.redact(str(given or os.environ.get("ACS_API_BASE", ""))).rpartition("@")
    return f"{HIDDEN if user else ''}{at}{rest}"


def names_of(address: str, secret: Secret) -> dict[str, str]:
    """What settings are to be called in messages: those that the environment does not hold, by their parameters."""
    names = {}
    if address != os.environ.get("ACS_API_BASE", ""):
        names["ACS_API_BASE"] = "base_url"
    if secret.reveal() != os.environ.get("ACS_API_KEY", ""):
        names["ACS_API_KEY"] = "api_key"
    return names


def usable(secret: Secret, name: str = "ACS_API_KEY") -> Secret:
    """The key without white space around it. Raises :class:`NotConfigured` when no header can carry it."""
    text = secret.reveal().strip()
    good = text.isascii() and text.isprintable() and " " not in text
    del text  # a verbose traceback shows a frame's names with their values
    if not good:
        raise NotConfigured(f"{name} holds characters that a key cannot have.", advice="Copy it again.")
    return Secret(secret.reveal().strip())


def whole(name: str, value: object) -> int:
    """A count from 0 on."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
        raise NotConfigured(f"{name}={value!r}: expected a whole number from 0 on.", advice="")
    return int(value)


def seconds(name: str, value: object, *, zero: bool = False) -> float:
    """Seconds above 0, or from 0 on."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not (0 < number < math.inf or (zero and number == 0)):
        least = "from 0 on" if zero else "above 0"
        raise NotConfigured(f"{name}={value!r}: expected seconds, {least}.", advice="")
    return number


def number_of(name: str, value: object) -> float | int:
    """``timeout``, ``retries`` or ``longest_wait``, from a number or from text. Raises :class:`NotConfigured`."""
    kind = int if name == "retries" else float
    if isinstance(value, str):
        try:
            value = kind(value)
        except ValueError:
            what = "a whole number from 0 on" if kind is int else "seconds"
            raise NotConfigured(f"{name}={value!r}: expected {what}.", advice="") from None
    return _judged(name, value)


def _judged(name: str, value: object) -> float | int:
    return whole(name, value) if name == "retries" else seconds(name, value, zero=name == "longest_wait")


def told(name: str, given: object, default: float | None) -> Any:
    """What was given, else what the environment says (``ACS_TIMEOUT``), else the default, judged."""
    variable = f"ACS_{name.upper()}"
    if given is None and (text := os.environ.get(variable, "").strip()):
        try:
            return number_of(name, text)
        except NotConfigured as problem:
            raise NotConfigured(
                f"{variable}: {problem.message}", advice="Correct it, or take it away."
            ) from None
    return default if given is None else _judged(name, given)


def workload_of(value: object) -> str:
    """The value of a header."""
    if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
        raise NotConfigured(f"workload={value!r}: expected 'interactive' or 'batch'.", advice="")
    return value
