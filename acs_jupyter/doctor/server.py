"""Base address, key and whether the server answers: as a client of this environment would be told.

Owns those checks. It must not show a key, nor send anything that is billed.
"""

from __future__ import annotations

import os
import time
from urllib.parse import urlsplit

from ..errors import AcsError, NotConfigured
from ..secret import Secret
from ..settings import LOOPBACK, normal_base, usable
from .findings import Finding

SECONDS = 10.0


def look(*, ask: bool) -> list[Finding]:
    """The settings, and with ``ask`` what the server says."""
    base, key = os.environ.get("ACS_API_BASE", ""), Secret(os.environ.get("ACS_API_KEY", ""))
    if not base and not key:
        do = "%acs local in a notebook needs neither; else set both before Jupyter starts"
        return [Finding("note", "server", "ACS_API_BASE and ACS_API_KEY are not set here", do)]
    found = [_base(base), _key(key)]
    if ask and all(each.state != "wrong" for each in found):
        found += _asked(normal_base(base))
    return found


def _base(base: str) -> Finding:
    if not base:
        return Finding("wrong", "server", "ACS_API_BASE is not set", "set it: https://HOST/v1")
    try:
        whole = normal_base(base)
    except NotConfigured as problem:
        return Finding("wrong", "server", problem.message, problem.hint)
    parts = urlsplit(whole)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        do = "use https: over http everybody on the way can read key and prompts"
        return Finding("note", "server", f"{whole} (ACS_API_BASE)", do)
    return Finding("ok", "server", f"{whole} (ACS_API_BASE)")


def _key(key: Secret) -> Finding:
    if not key:
        return Finding("wrong", "key", "ACS_API_KEY is not set", "set it; your keys page makes one")
    do = "copy it again: nothing in front of it, nothing behind it, no quotes"
    try:
        text = usable(key).reveal()
    except NotConfigured as problem:
        return Finding("wrong", "key", problem.message, do)
    if text[:1] in "'\"<" or text.endswith(("…", "...")) or text.lower().startswith("bearer"):
        return Finding("wrong", "key", "ACS_API_KEY has quotes or other signs that are no part of a key", do)
    if not key.prefix:
        return Finding(
            "ok", "key", "set (ACS_API_KEY); not of the service's form, as a key of your own server may be"
        )
    return Finding("ok", "key", f"set and well formed (ACS_API_KEY): {key.prefix}-…")


def _asked(base: str) -> list[Finding]:
    from ..client import Client  # noqa: PLC0415  # httpx loads when somebody is asked

    found = [_health(base)]
    begun = time.perf_counter()
    try:
        with Client(retries=0, timeout=SECONDS, meter=None) as client:
            models = client.models()
    except AcsError as problem:
        return [*found, Finding("wrong", "models", f"{problem.code}: {problem.message}", problem.hint)]
    took = f"{(time.perf_counter() - begun) * 1000:.0f} ms"
    if not models:
        return [*found, Finding("wrong", "models", "the server offers none", "ask whoever runs it")]
    names = [f"{each.id}{' (default)' if each.default else ''}" for each in models]
    told = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    return [*found, Finding("ok", "models", f"{told}; the key is accepted ({took})")]


def _health(base: str) -> Finding:
    import httpx  # noqa: PLC0415  # as above

    where = f"{base.removesuffix('/v1')}/health"
    do = "check ACS_API_BASE, that the server runs, and the network or proxy in between"
    try:
        answer = httpx.get(where, timeout=SECONDS, trust_env=urlsplit(base).hostname not in LOOPBACK)
        said = answer.json() if answer.headers.get("content-type", "").startswith("application/json") else {}
        status = said.get("status") if isinstance(said, dict) else None
    except (httpx.HTTPError, ValueError) as problem:
        return Finding("wrong", "health", f"no answer at {where} ({type(problem).__name__})", do)
    if status in ("ok", "degraded") and answer.status_code == 200:
        rest = said.get("degraded_backends") or []
        told = f"{status}{': ' + ', '.join(map(str, rest[:6])) if rest else ''}"
        return Finding("ok" if status == "ok" else "note", "health", told)
    if status == "down":
        return Finding(
            "wrong", "health", "down: its database does not answer", "try again later, or tell the operator"
        )
    return Finding(
        "note", "health", f"{where} says HTTP {answer.status_code} and no status", "not every server has one"
    )
