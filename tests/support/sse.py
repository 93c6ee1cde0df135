"""The smallest reader of a finished stream, for tests that look at the server and not at the client."""

from __future__ import annotations

import json
from typing import Any


def chunks(body: str) -> list[dict[str, Any]]:
    """The chunks of a stream that ended well; the end mark must be its last frame."""
    frames = [frame for frame in body.split("\n\n") if frame]
    assert frames[-1] == "data: [DONE]", frames[-1]
    return [json.loads(frame.removeprefix("data: ")) for frame in frames[:-1]]


def text_of(body: str, index: int = 0) -> str:
    """The text of one choice of a stream."""
    return "".join(c["text"] for chunk in chunks(body) for c in chunk["choices"] if c["index"] == index)
