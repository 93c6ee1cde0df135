"""What a window asks for, in the imperative: the only way back from a browser.

Owns the intent types and their strict decoding. It must not know what carries an intent out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Position = Annotated[int, Meta(ge=0)]
"""A token of a node, from 0."""


class Intent(Struct, frozen=True, tag_field="type", tag=True, forbid_unknown_fields=True):
    """Base of all intents; ``type`` in JSON is the class name."""


class Cancel(Intent, frozen=True):
    """Stop a run and keep what came; ``None`` stops every open run of the window.

    ``node``: one of its choices alone; the others go on.
    """

    run: str | None = None
    node: str | None = None


class Resync(Intent, frozen=True):
    """Send the whole state again: the window saw no message, or a gap after ``seen``."""

    seen: int = 0


class Confirm(Intent, frozen=True):
    """Count a copy as delivered: the page's notebook has it. Without a name: a page shows the window."""

    copy: str = ""


class Fetch(Intent, frozen=True):
    """Send the window's script: the page has none of that ``digest``."""

    digest: str


class Read(Intent, frozen=True):
    """Send the contents of nodes of which the page has the outline alone."""

    nodes: Annotated[list[str], Meta(min_length=1, max_length=1000)]


class CancelJob(Intent, frozen=True):
    """Cancel a completion job."""

    job: str


class OpenJob(Intent, frozen=True):
    """Show what a completion job gave."""

    job: str


class Fork(Intent, frozen=True):
    """Begin a branch beside ``node``: its first ``token`` tokens, then ``text`` in the next one's place, sampled on.

    ``exact`` sends token ids instead of text; finding them costs one more request.
    """

    node: str
    token: Position
    text: Annotated[str, Meta(min_length=1)]
    exact: bool = False


class Resample(Intent, frozen=True):
    """Begin a branch that keeps the first ``token`` tokens of ``node`` and samples from there once more."""

    node: str
    token: Position
    exact: bool = False


class Edit(Intent, frozen=True):
    """Begin a branch that keeps the first ``token`` tokens of ``node``, then ``text``, and goes on from its end."""

    node: str
    text: str
    token: Position = 0


class Locate(Intent, frozen=True):
    """Ask the server which of the tokens that a text branch kept it reads otherwise. It costs a request."""

    node: str


Branching = Fork | Resample | Edit
"""The intents that lead to a new run."""


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


class Weigh(Intent, frozen=True):
    """Ask for the whole distribution of the ``position``-th token of an inspected text. It can cost a request."""

    position: Position


class Find(Intent, frozen=True):
    """Say the rank of one token at every position of an inspected text."""

    token: Annotated[str, Meta(min_length=1)]


class LaneDraft(Struct, frozen=True, forbid_unknown_fields=True):
    """A lane's form: its own fields as text, and its own prompt, ``None`` for the shared one."""

    fields: dict[str, str] = {}
    prompt: str | None = None


class RunLanes(Intent, frozen=True):
    """Send one lane of a comparison, or all of them; ``prompt`` is what the lanes without their own share, ``drafts``
    what stands in the lanes' forms (``None``: as they were told last)."""

    prompt: str
    lane: Position | None = None
    drafts: list[LaneDraft] | None = None


class Grow(Intent, frozen=True):
    """Continue a node of a loom ``n`` times by one request. ``fields``: sampling to use, and to remember there."""

    node: str
    n: Annotated[int, Meta(ge=1, le=16)] = 1
    fields: dict[str, str] = {}


class Rewrite(Intent, frozen=True):
    """Put a sibling with another text beside a node; nothing is sampled, the node stays."""

    node: str
    text: str


class Write(Intent, frozen=True):
    """Add a text of a person's own: below ``parent``, beside a node, or, without both, as a new root."""

    text: str
    parent: str | None = None
    beside: str | None = None


class Split(Intent, frozen=True):
    """Make two nodes of one, before its ``token``-th token or its ``at``-th character (of its own text)."""

    node: str
    token: Position | None = None
    at: Position | None = None


class Merge(Intent, frozen=True):
    """Make one node of a node and its parent."""

    node: str


class Move(Intent, frozen=True):
    """Hang a node, with all below it, under another parent (``None``: as a root)."""

    node: str
    parent: str | None = None
    before: str | None = None


class Shift(Intent, frozen=True):
    """Move a node ``by`` places down among its siblings, up when negative."""

    node: str
    by: int


class Delete(Intent, frozen=True):
    """Put tombstones on nodes."""

    nodes: Annotated[list[str], Meta(min_length=1)]


class Undo(Intent, frozen=True):
    """Take the last step back."""


class Redo(Intent, frozen=True):
    """Do the last step that was taken back once more."""


class Mark(Intent, frozen=True):
    """Set marks of a node; those that are left out stay."""

    node: str
    tags: list[str] | UnsetType = UNSET
    note: str | None | UnsetType = UNSET
    bookmark: bool | UnsetType = UNSET
    rating: Annotated[int, Meta(ge=1, le=5)] | None | UnsetType = UNSET
    unread: bool | UnsetType = UNSET


class Visit(Intent, frozen=True):
    """The window's cursor rests on a node: it is read."""

    node: str


class Fold(Intent, frozen=True):
    """Fold a node's children away, or show them. How a tree is looked at is no step."""

    node: str
    folded: bool


class Hoist(Intent, frozen=True):
    """Show a node as the root; ``None`` goes back one."""

    node: str | None = None


class Search(Intent, frozen=True):
    """Find nodes of a loom by a text, or by a predicate."""

    text: str
    predicate: bool = False


class Measure(Intent, frozen=True):
    """Measure a loom's node and show it: where its samples part (``trie``), how it differs from ``other`` (``diff``),
    or what may follow it (``map``, of at most so many more ``tokens``; 0: as far as it is kept). ``stop`` ends a
    map."""

    node: str
    what: Literal["trie", "diff", "map"]
    other: str | None = None
    tokens: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    depth: Annotated[int, Meta(ge=1, le=100)] = 8
    stop: bool = False


class Follow(Intent, frozen=True):
    """Make a node of a cell of a node's map."""

    node: str
    cell: Position


class Light(Intent, frozen=True):
    """Nodes that are lit up: the window's selection."""

    nodes: list[str]


class Store(Intent, frozen=True):
    """Keep a loom in a file of the kernel's machine from now on."""

    path: Annotated[str, Meta(min_length=1)]


Tending = (
    Grow | Rewrite | Write | Split | Merge | Move | Shift | Delete | Undo | Redo | Mark | Visit | Fold | Hoist | Search
    | Light | Store | Measure | Follow
)  # fmt: skip
"""The intents of a window on a loom, beside Cancel and the branching ones."""


AnyIntent = (
    Cancel
    | Resync
    | Confirm
    | Fetch
    | Read
    | CancelJob
    | OpenJob
    | Fork
    | Resample
    | Edit
    | Locate
    | Run
    | Continue
    | Keep
    | Export
    | Weigh
    | Find
    | RunLanes
    | Tending
)


def decode_intent(content: Any) -> AnyIntent:
    """A message from a window to an intent; raises ``msgspec.ValidationError`` on anything else."""
    intent: AnyIntent = msgspec.convert(content, AnyIntent)
    return intent
