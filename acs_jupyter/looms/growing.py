"""How a node grows: which request goes on from it, where its choices hang, and the step they are.

Owns the plan of a growth. It must not know clients beyond the exchange they make.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..connection import streamed_if_possible
from ..errors import InvalidRequest
from ..log import revising, standing
from ..log.events import AnyEvent, NodeOpened, Origin
from ..log.session import Session
from ..notebook.continuing import Place
from ..notebook.defaults import CELL_DEFAULTS

_SEEDS = 2**63
USUAL: dict[str, Any] = {name: CELL_DEFAULTS[name] for name in ("max_tokens", "logprobs")}
"""What a loom grows with where neither it nor the node says: without ``max_tokens`` a text has no end."""
Sink = Callable[[list[AnyEvent]], None]


@dataclass(frozen=True)
class Growth:
    """A request that is not sent yet."""

    fields: dict[str, Any]
    parents: list[str]
    origin: Origin | None
    opened: list[str]

    @property
    def unnamed(self) -> bool:
        """Whether no model is asked for: the client is to learn which one answers."""
        return self.fields.get("model") is None

    def as_usual(self) -> Growth:
        """The same; what it does not say is :data:`USUAL`."""
        return replace(self, fields={**USUAL, **self.fields})

    def exchange(self, client: Any) -> Any:
        """The run of a client that it makes; nothing is sent. Raises ``InvalidRequest``."""
        return client.exchange(client.request(**self.fields), parents=self.parents, origin=self.origin)

    def sink(self, session: Session) -> Sink:
        """Folds the run's events in; the step stands in the same batch as the nodes it opens."""

        def take(events: list[AnyEvent]) -> None:
            self.opened.extend(_choices(events))
            session.apply(with_step(events))

        return take

    def result(self, exchange: Any) -> list[str]:
        """The ids of the new nodes; raises what ended the run, with the nodes kept."""
        if exchange.error is not None:
            raise exchange.error
        return list(self.opened)


def with_step(events: list[AnyEvent]) -> list[AnyEvent]:
    """A run's events, and behind the nodes that they open the step which these are."""
    return [*events, revising.grown(events)] if _choices(events) else events


def _choices(events: list[AnyEvent]) -> list[str]:
    return [event.node for event in events if isinstance(event, NodeOpened) and event.choice is not None]


def continuation(session: Session, node: str, n: int | None, sampling: dict[str, Any]) -> Growth:
    """Children of a node: the text up to its end, sampled ``n`` times."""
    readable(session, node)
    fields = _fields(session, node, n, sampling, len(_runs_below(session, node)))
    return Growth({**fields, "prompt": session.text_to(node)}, [node], None, [])


def alternative(
    session: Session, node: str, place: tuple[int, str], n: int | None, sampling: dict[str, Any]
) -> Growth:
    """Siblings of a generated node that keep its tokens before a place, then have a text there."""
    token, text = place
    here = readable(session, node)
    if here.choice is None or here.parent is None:
        raise InvalidRequest(f"Node {node} was not generated here; split it, and grow from its first part.")
    fields = _fields(session, node, n, sampling, 0)
    try:
        fork = session.fork(node, token=token, replacement=text)
    except (ValueError, IndexError) as error:
        raise InvalidRequest(str(error)) from None
    return Growth({**fields, "prompt": fork.request.prompt}, [here.parent], fork.origin, [])


def readable(session: Session, node: str) -> Any:
    """The node, if its text is whole and known as text; raises :class:`InvalidRequest` when it cannot go on."""
    here = standing.existing(session, node)
    if standing.is_coming(session, node):
        raise InvalidRequest(f"Node {node} is still being generated: stop it, or wait.")
    if any(step.ids is not None for step in session.path(node)):
        raise InvalidRequest(
            f"Node {node} follows token ids whose text is not known; it cannot go on as text. Begin with a text prompt."
        )
    return here


def _fields(
    session: Session, node: str, n: int | None, sampling: dict[str, Any], earlier: int
) -> dict[str, Any]:
    kept = {**Place(session, node).fields, **(session.arrangement.mark(node, "sampling") or {})}
    if isinstance(kept.get("seed"), int):
        kept["seed"] = (kept["seed"] + earlier) % _SEEDS  # the same seed would give the same text again
    given = {"max_tokens": CELL_DEFAULTS["max_tokens"], **kept, **({} if n is None else {"n": n}), **sampling}
    return streamed_if_possible(given)


def _runs_below(session: Session, node: str) -> set[str]:
    children = [session.nodes[child] for child in session.nodes[node].children]
    return {child.run for child in children if child.choice is not None}
