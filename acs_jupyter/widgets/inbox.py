"""What a page asks for, taken once: a page sends an intent again until it is acknowledged.

Owns the numbers that were seen and the acknowledgement. It must not know what an intent leads to.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from ..log.intents import AnyIntent, decode_intent

KEPT = 1000
"""Numbers remembered: a page sends one again for seconds, or for as long as the kernel is busy."""

_log = logging.getLogger(__name__)


class Inbox:
    """Decodes and acknowledges: ``post({"ack": "Cancel", "ask": number})``.

    A message without a number is taken as often as it comes.
    """

    def __init__(self, post: Callable[[dict[str, Any]], None]) -> None:
        self._post = post
        self._seen: OrderedDict[str, None] = OrderedDict()

    def take(self, content: Any) -> AnyIntent | None:
        """The intent, or ``None`` when it was taken before or is none at all."""
        ask, intent = self._read(content)
        if intent is None:
            return None
        known = ask in self._seen
        if ask:
            self._seen[ask] = None
            if len(self._seen) > KEPT:
                self._seen.popitem(last=False)
        self._post({"ack": type(intent).__name__, **({"ask": ask} if ask else {})})
        return None if known else intent

    def _read(self, content: Any) -> tuple[str, AnyIntent | None]:
        ask = ""
        if isinstance(content, dict) and isinstance(content.get("ask"), str):
            ask = content["ask"][:64]
            content = {key: value for key, value in content.items() if key != "ask"}
        try:
            return ask, decode_intent(content)
        except msgspec.ValidationError:
            _log.debug("ignored a message that is no intent")
            return ask, None
