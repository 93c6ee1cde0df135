"""What a window asks for, in the imperative: the only way back from a browser.

Owns the intent types and their strict decoding. It must not know what carries an intent out.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct


class Intent(Struct, frozen=True, tag_field="type", tag=True, forbid_unknown_fields=True):
    """Base of all intents; ``type`` in JSON is the class name."""


class Cancel(Intent, frozen=True):
    """Stop a run and keep what came; ``None`` stops every open run of the window."""

    run: str | None = None


class Resync(Intent, frozen=True):
    """Send the whole state again: the window saw no message, or a gap after ``seen``."""

    seen: int = 0


class Run(Intent, frozen=True):
    """Send a prompt as a run of its own; ``fields`` are the request's, as text, the way options are written."""

    prompt: str
    fields: dict[str, str] = {}


class Continue(Intent, frozen=True):
    """Go on at the end of a node."""

    node: str
    fields: dict[str, str] = {}


class Keep(Intent, frozen=True):
    """Keep a prompt that was not sent, before another one takes its place in the form."""

    prompt: str
    fields: dict[str, str] = {}


class Export(Intent, frozen=True):
    """Give the whole log, to be saved as a file."""


AnyIntent = Cancel | Resync | Run | Continue | Keep | Export


def decode_intent(content: Any) -> AnyIntent:
    """A message from a window to an intent; raises ``msgspec.ValidationError`` on anything else."""
    intent: AnyIntent = msgspec.convert(content, AnyIntent)
    return intent
