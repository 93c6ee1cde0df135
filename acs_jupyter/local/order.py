"""What one forwarded request asks of an upstream, and whom to tell how it went.

Owns this one value. It must not know how it is carried out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .counts import Counts

if TYPE_CHECKING:
    from collections.abc import Callable

    OnUsage = Callable[[int | None, int], None]
    OnEnd = Callable[[int], None]
    OnLeave = Callable[[], tuple[int, int]]


class Order(NamedTuple):
    """What to ask of an upstream. ``drop_usage``: the usage frame was asked for here, not by the client.

    ``on_usage`` is called once with prompt and completion tokens as the upstream reports them, but never more than
    ``most``. Without a report that can be true it is told ``None`` and how many tokens there were at least: the content
    frames of a stream, a guess from the bytes of a body; not at all when nothing was generated.
    ``known``: tokens of the prompts, as far as they were counted; ``prompts`` and ``fan_out``: how many choices come.
    ``on_end`` is called once behind it with 200 or the status of an error, before the client can know; not at all when
    the client leaves. ``on_leave`` is called when the client leaves a stream and waits for its bill, and gives it;
    ``tells`` says whether the client asked for usage of any kind. ``window``: seconds the upstream may take, 0 for no
    limit.
    """

    body: bytes
    request_id: str
    streamed: bool
    headers: dict[str, str]
    drop_usage: bool = False
    on_usage: OnUsage | None = None
    on_end: OnEnd | None = None
    on_leave: OnLeave | None = None
    tells: bool = False
    window: float = 840.0
    most: Counts = Counts(2**53, 2**53)
    known: int = 0
    prompts: int = 1
    fan_out: int = 1
