"""Changes that a person asks for, as the events that make them: edit, split, merge, move, delete, mark, undo.

Owns what each operation does to a session's tree, and which are refused. Everything here is pure: it reads a session
and gives one ``Revised``, or raises ``InvalidRequest`` with one line. It must not know who asks, nor files or clients.

Text is never changed: what is written anew is a node of its own, made of pieces of the old ones, which stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from secrets import token_hex
from typing import Any

import msgspec

from ..errors import InvalidRequest
from .arrangement import WHOLE
from .events import AnyEvent, Change, NodeOpened, Piece, Revised, Written
from .session import Node, Session
from .standing import alive, below, check_quiet, existing, is_coming
from .tree import check_place, shared

NewId = Callable[[], str]
FLAGS = frozenset({"bookmark", "unread", "folded"})


def new_id() -> str:
    """A node's id that no other has."""
    return f"w{token_hex(6)}"


# -- writing --------------------------------------------------------------------------------------


def added(session: Session, text: str, parent: str | None, run: str, make: NewId = new_id) -> Revised:
    """A new last child of ``parent``, or a new root."""
    if parent is not None:
        _with_text(session, parent)
    _storable(text)
    what = "new root" if parent is None else "new child"
    return Revised(what, written=(Written(make(), run, parent, (Piece(text=text),)),))


def beside(session: Session, node: str, text: str, make: NewId = new_id) -> Revised:
    """A new sibling, right behind ``node``."""
    here = existing(session, node)
    _storable(text)
    one = Written(make(), here.run, here.parent, (Piece(text=text),))
    return Revised("new sibling", written=(one,), changes=_behind(session, here, one.node))


def edited(session: Session, node: str, text: str, make: NewId = new_id) -> Revised:
    """A sibling with other text, right behind ``node``; the tokens both begin with are kept with what is known."""
    here = _complete(session, node)
    _storable(text)
    if text == session.own_text(here):
        raise InvalidRequest("The text is as it was; nothing was changed.")
    kept = shared(here, text) if _whole_tokens(here) and not session.echoed(here) else 0
    pieces = [Piece(node, 0, kept)] if kept else []
    rest = text[sum(map(len, here.tokens[:kept])) :]
    if rest or not pieces:
        pieces.append(Piece(text=rest))
    one = Written(make(), here.run, here.parent, tuple(pieces), made_of=(node,))
    return Revised("edit", written=(one,), changes=_behind(session, here, one.node))


def cut(
    session: Session, node: str, *, token: int | None = None, at: int | None = None
) -> tuple[Piece, Piece]:
    """A node's own text in two pieces: before its ``token``-th token, or its ``at``-th character.

    A node whose tokens are known is cut between tokens. Raises where no text ends.
    """
    here = _with_text(session, node)
    echoed, text = session.echoed(here), session.own_text(here)
    if token is not None:
        if not _whole_tokens(here):
            raise InvalidRequest(f"The tokens of node {node} are not known; say the character with at=.")
        if not 0 < token < len(here.tokens):
            raise InvalidRequest(
                f"Node {node} has {len(here.tokens)} tokens; it can be split before 1 to the last."
            )
        before = sum(map(len, here.tokens[:token]))
        try:
            check_place(here, token, before <= echoed and echoed > 0)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None
        first = _first_token(here, echoed)
        return Piece(node, first, token), Piece(node, token, len(here.tokens))
    if at is None or not 0 < at < len(text):
        raise InvalidRequest(f"Node {node} has {len(text)} characters; it can be split within them.")
    if _whole_tokens(here):
        count, place = 0, 0
        while place < echoed + at:
            place += len(here.tokens[count])
            count += 1
        if place != echoed + at:
            raise InvalidRequest("This place is within a token; split before or after it.")
        return cut(session, node, token=count)
    return Piece(text=text[:at]), Piece(text=text[at:])


def split(
    session: Session, node: str, *, token: int | None = None, at: int | None = None, make: NewId = new_id
) -> Revised:
    """Two nodes in the place of one: the beginning, and below it the rest with the children. The old one is deleted."""
    here = _with_text(session, node)
    check_quiet(session, node)
    head, tail = cut(session, node, token=token, at=at)
    one = Written(make(), here.run, here.parent, (head,), made_of=(node,))
    two = Written(make(), here.run, one.node, (tail,), here.finish_reason, (node,))
    moved = _children_to(session, here, two.node)
    changes = (*_behind(session, here, one.node), *moved, Change(node, "deleted", True))
    return Revised("split", written=(one, two), changes=changes)


def merged(session: Session, node: str, make: NewId = new_id) -> Revised:
    """A node and its parent as one, with the node's children; both old ones are deleted.

    The parent stays when it has other children: then the new node stands beside it.
    """
    here = _with_text(session, node)
    if here.parent is None:
        raise InvalidRequest(
            f"Node {node} is a root; there is nothing to merge it with. Name a node below it."
        )
    parent = session.nodes[here.parent]
    only = alive(session, parent.id) == [node]
    _complete(session, parent.id)
    check_quiet(session, node)
    pieces = (own_piece(session, parent), own_piece(session, here))
    one = Written(make(), here.run, parent.parent, pieces, here.finish_reason, (parent.id, node))
    changes = [*_behind(session, parent, one.node), *_children_to(session, here, one.node)]
    changes += [Change(old, "deleted", True) for old in ([node, parent.id] if only else [node])]
    return Revised("merge", written=(one,), changes=tuple(changes))


def own_piece(session: Session, node: Node) -> Piece:
    """A node's whole own text as a piece: its tokens where they are known to make it up."""
    echoed = session.echoed(node)
    if _whole_tokens(node):
        first = _first_token(node, echoed)
        if sum(map(len, node.tokens[:first])) == echoed:
            return Piece(node.id, first, len(node.tokens))
    return Piece(text=session.own_text(node))


# -- arranging ------------------------------------------------------------------------------------


def moved(session: Session, node: str, parent: str | None, before: str | None = None) -> Revised:
    """The node and all below it under another parent, before one of its children or at the end."""
    here = existing(session, node)
    check_quiet(session, node)
    if parent is not None:
        existing(session, parent)
        if any(step.id == node for step in session.path(parent)):
            raise InvalidRequest(f"Node {node} cannot hang below itself: name another parent.")
    if before is not None and (existing(session, before).parent != parent or before == node):
        raise InvalidRequest(
            f"Node {before} is not another child of the parent that was named: name one of its children."
        )
    if parent != here.parent and any(session.nodes[step].echo for step in below(session, node)):
        raise InvalidRequest(
            "A text that the server repeated (echo) stands here; it can only be below its prompt: leave it there."
        )
    what = "reorder" if parent == here.parent else "move"
    return Revised(what, changes=(Change(node, "place", [parent, before]),))


def shifted(session: Session, node: str, by: int) -> Revised | None:
    """The node ``by`` places down among its living siblings (up when negative); ``None`` when it is at the end."""
    here = existing(session, node)
    siblings = alive(session, here.parent)
    now = siblings.index(node)
    then = min(max(now + by, 0), len(siblings) - 1)
    if then == now:
        return None
    siblings.remove(node)
    return moved(session, node, here.parent, siblings[then] if then < len(siblings) else None)


def deleted(session: Session, nodes: list[str]) -> Revised:
    """Tombstones for nodes, and so for all below them."""
    for node in nodes:
        existing(session, node)
        check_quiet(session, node)
    if not nodes:
        raise InvalidRequest("No node was named: give at least one.")
    return Revised("delete", changes=tuple(Change(node, "deleted", True) for node in dict.fromkeys(nodes)))


def marked(session: Session, node: str, **fields: Any) -> Revised | None:
    """Marks of a node: tags, note, bookmark, rating, unread, folded, sampling. ``None`` when all are so already."""
    existing(session, node)
    marks = session.arrangement.marks.get(node, {})
    changes = []
    for field, value in fields.items():
        given = msgspec.to_builtins(value)
        _whole_words(field, given)
        if (marks.get(field) or None) != (given or None) or (given == 0 and marks.get(field) is None):
            changes.append(Change(node, field, given))
    changes = [c for c in changes if not (c.value is False and c.field not in marks)]
    return Revised(", ".join(change.field for change in changes), changes=tuple(changes)) if changes else None


def visited(session: Session, node: str) -> Revised | None:
    """Somebody reads the node: it is no longer unread, and each one above remembers its way here. Not a step."""
    existing(session, node)
    marks = session.arrangement
    changes = [Change(node, "unread", False)] if marks.mark(node, "unread") else []
    path = session.path(node)
    for above, here in pairwise(path):
        if marks.mark(above.id, "visited") != here.id:
            changes.append(Change(above.id, "visited", here.id))
    return Revised("visit", "view", changes=tuple(changes)) if changes else None


def folded(session: Session, node: str, yes: bool) -> Revised | None:
    """The node's children are folded away, or shown. How a tree is looked at is no step."""
    existing(session, node)
    if bool(session.arrangement.mark(node, "folded")) is yes:
        return None
    return Revised("fold" if yes else "unfold", "view", changes=(Change(node, "folded", yes),))


def remembered(session: Session, node: str, sampling: dict[str, Any]) -> Revised | None:
    """What the node was grown with last, for the next time. Not a step: the growth is one."""
    if session.arrangement.mark(node, "sampling") == sampling:
        return None
    return Revised("sampling", "view", changes=(Change(node, "sampling", sampling),))


def hoisted(session: Session, node: str | None) -> Revised | None:
    """Show ``node`` as the root; ``None`` goes back to the one before. Gives ``None`` when nothing changes."""
    now = list(session.arrangement.mark(WHOLE, "hoisted", []))
    if node is None:
        return Revised("unhoist", changes=(Change(WHOLE, "hoisted", now[:-1]),)) if now else None
    existing(session, node)
    return None if now[-1:] == [node] else Revised("hoist", changes=(Change(WHOLE, "hoisted", [*now, node]),))


def grown(events: Iterable[AnyEvent]) -> Revised:
    """The step that a request was: its choices are unread, and undo hides all that it opened, its prompt too."""
    opened = [event for event in events if isinstance(event, NodeOpened)]
    unread = tuple(Change(each.node, "unread", True) for each in opened if each.choice is not None)
    return Revised("grow", changes=unread, opened=tuple(each.node for each in opened))


# -- steps ----------------------------------------------------------------------------------------


def undone(session: Session) -> Revised:
    """The event that takes the last step back."""
    if not session.arrangement.done:
        raise InvalidRequest("There is nothing to undo.")
    step = session.arrangement.done[-1]
    return _again(session, step.what, "undo", step.changes)


def redone(session: Session) -> Revised:
    """The event that does the last step taken back once more."""
    if not session.arrangement.undone:
        raise InvalidRequest("There is nothing to redo; undo a step first.")
    step = session.arrangement.undone[-1]
    return _again(session, step.what, "redo", step.changes)


def _again(session: Session, what: str, kind: Any, changes: tuple[Change, ...]) -> Revised:
    for change in changes:
        if change.field == "place" or (change.field == "deleted" and change.value):
            check_quiet(session, change.node)
    return Revised(what, kind, changes=changes)


def _behind(session: Session, here: Node, new: str) -> tuple[Change, ...]:
    siblings = session.roots if here.parent is None else session.nodes[here.parent].children
    after = siblings.index(here.id) + 1
    return (Change(new, "place", [here.parent, siblings[after]]),) if after < len(siblings) else ()


def _children_to(session: Session, here: Node, target: str) -> list[Change]:
    return [Change(child, "place", [target, None]) for child in here.children]


def _with_text(session: Session, node: str) -> Node:
    here = existing(session, node)
    if any(step.ids is not None for step in session.path(node)):
        raise InvalidRequest(
            f"Node {node} follows token ids whose text is not known; it stays as it is. Begin with "
            "a text prompt to change it."
        )
    return here


def _complete(session: Session, node: str) -> Node:
    """A node with a text that no run adds to any more."""
    here = _with_text(session, node)
    if is_coming(session, node):
        raise InvalidRequest(f"Node {node} is still being generated: stop it, or wait.")
    return here


def _whole_tokens(node: Node) -> bool:
    return bool(node.tokens) and "".join(node.tokens) == node.text


def _first_token(node: Node, chars: int) -> int:
    count = 0
    while chars > 0 and count < len(node.tokens):
        chars -= len(node.tokens[count])
        count += 1
    return count


def _whole_words(field: str, value: Any) -> None:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, (list, tuple)):
            waiting += one
        elif isinstance(one, str):
            try:
                one.encode()
            except UnicodeEncodeError:
                what = {"tags": "A tag", "note": "The note"}.get(field, field)
                raise InvalidRequest(
                    f"{what} holds half of a surrogate pair, which cannot be stored: take it out."
                ) from None


def _storable(text: str) -> None:
    if not isinstance(text, str):
        raise InvalidRequest("A node's text must be a text.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            "The text holds half of a surrogate pair, which cannot be stored or sent: take it out."
        ) from None
