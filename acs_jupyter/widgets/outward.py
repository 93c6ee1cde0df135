"""Events as they cross to a browser: short, and nothing in them that has no business there.

Owns what is left out or rounded on the way. It must not know how a message travels. Python keeps the full
precision and the whole request; the browser gets four decimals, each prompt once (in its node), and of the
response's headers only those the service defines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..log import events as ev

if TYPE_CHECKING:
    from ..log.events import AnyEvent

DECIMALS = 4
_LOWEST = -9999.0  # JSON has no infinity
_HEADERS = ("x-acs-", "x-request-id", "x-should-retry", "retry-after")


def trimmed(event: AnyEvent) -> AnyEvent:
    """The event without what a browser does not need."""
    if isinstance(event, ev.RunOpened):
        request = {key: value for key, value in event.request.items() if key != "prompt"}
        return msgspec.structs.replace(event, request=request)
    if isinstance(event, ev.Served) and event.headers:
        headers = {k.lower(): v for k, v in event.headers.items() if k.lower().startswith(_HEADERS)}
        return msgspec.structs.replace(event, headers=headers)
    return event


def plain(event: AnyEvent) -> dict[str, Any]:
    """An event as JSON values, without fields that hold their default, or text its tokens join to."""
    if isinstance(event, ev.TokensArrived):
        return _tokens(event)
    values: dict[str, Any] = msgspec.to_builtins(event)
    fields = msgspec.structs.fields(event)
    return {"type": values["type"], **{f.name: values[f.name] for f in fields if values[f.name] != f.default}}


def _tokens(event: ev.TokensArrived) -> dict[str, Any]:
    values: dict[str, Any] = {"type": "TokensArrived", "node": event.node}
    if event.text != "".join(event.tokens):
        values["text"] = event.text
    if event.tokens:
        values["tokens"] = event.tokens
        values["logprobs"] = [None if value is None else _round(value) for value in event.logprobs]
        values["top"] = [top and {text: _round(value) for text, value in top.items()} for top in event.top]
    return values


def _round(logprob: float) -> float:
    return round(max(logprob, _LOWEST), DECIMALS)


def textless(bundle: Any) -> Any:
    """What a widget gives to be shown, without a text of its own: the copy beside it is that, and a second one would
    show where widgets cannot."""
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    if data is not None:
        data["text/plain"] = ""
    return bundle
