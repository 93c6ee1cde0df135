"""A loom measured: where samples part, how two texts differ, what may follow, and growth by a scorer.

Owns the methods and their drivers: steps are asked, a client carries what they ask for. It must not know windows or
files. A multiverse map stands in the loom's log, at its node, apart from the tree: hundreds of nodes of one token would
bury the texts. :meth:`Measuring.follow` makes a node of one of its cells. What a map has cost is kept, whatever ends
it; calling :meth:`Measuring.multiverse` again goes on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..amounts import budget_of
from ..completion import Choice, Completion
from ..errors import InvalidRequest
from ..log import events as ev
from ..log import revising, standing
from ..log.session import Session
from .changing import Changing
from .diff import Diff, diff_of
from .expanding import Expansion, Grow, How, Scorer, Search, has_room, search_steps
from .growing import Growth, continuation, readable
from .mapping import Plan, map_steps
from .multiverse import Multiverse
from .progress import Bar, shown
from .trie import Trie, samples_below, trie, trie_of

if TYPE_CHECKING:
    from pathlib import Path

    from ..connection import Connection

WRITE_AGAIN = 1.5
"""A map is written whole; each time it has grown by so much: all of its writings together are a few times its size."""


class Measuring(Changing):
    """What :class:`~acs_jupyter.Loom` measures."""

    client: Any

    def trie(self, source: str | Iterable[str] | Completion | Choice | Iterable[Completion]) -> Trie:
        """Where samples part, how many went each way, and what the model said there; see :class:`Trie`.

        ``source``: a node, whose generated children are the samples; several nodes, which are the samples themselves;
        or completions of one prompt, which need not be of this loom. Raises :class:`InvalidRequest` without samples.
        """
        if isinstance(source, str):
            self.node(source)
            nodes = samples_below(self.session, source)
            if not nodes:
                raise InvalidRequest(
                    f"Node {source} has no generated children to count; grow some, then try again."
                )
            return trie_of([(self.session, node) for node in nodes])
        given: list[Any] = [source] if isinstance(source, (Completion, Choice)) else list(source)
        if not all(isinstance(one, str) for one in given):
            return trie(given)
        here = [self.node(one) for one in dict.fromkeys(given)]
        if len({node.parent for node in here}) > 1:
            raise InvalidRequest("These nodes are no siblings; give samples of one text.")
        return trie_of([(self.session, node) for node in here])

    def diff(self, a: str, b: str) -> Diff:
        """Two nodes token by token: what both begin with, where they part, the rest aligned; see :class:`Diff`.

        Of siblings their texts; of others the paths from where they part in the tree.
        """
        self.node(a)
        self.node(b)
        return diff_of(self.session, a, b)

    # -- the multiverse ---------------------------------------------------------------------------

    def multiverse(self, node: str, *, progress: bool | None = None, **how: Any) -> Multiverse:
        """What may follow a node, as areas of probability, the likeliest asked first; see :class:`Multiverse`.

        ``budget``: tokens that this call may be billed, ``requests``: how many it may send (one of both is needed; it
        stops before either is exceeded); ``depth`` (8): tokens from the node; ``least`` (0.001): the area below which
        nothing is asked behind a cell; ``width`` (5): tokens asked for behind each; ``batch`` (8): cells a request and
        ``in_flight`` (4): requests side by side, 1 and 1 for the likeliest first to the letter; ``exact``: by token
        ids, which are found first (one request), or by text (``False``); where they can be had and the text is short
        unless told. Calling again goes on. Without a bound (neither ``budget`` nor ``requests``) it gives the map as
        far as it is kept. ``progress``: a bar or none; unless told there is one in a notebook and in a terminal.

        It stands apart from the tree; :meth:`follow` makes a node of a cell. Raises :class:`AcsError`; what came is
        kept.
        """
        with self._mapped(node, how, progress) as (here, steps, done):
            if steps is not None:
                from ..scores.scoring import run_steps  # noqa: PLC0415  # numpy loads with the first score
                from .clients import sync_client  # noqa: PLC0415  # httpx loads with the first request

                with sync_client(self.client) as client:
                    client.learn()
                    with self._kept(done, client):
                        run_steps(steps, client)
        return here

    async def multiverse_async(self, node: str, *, progress: bool | None = None, **how: Any) -> Multiverse:
        """The same, to be awaited."""
        with self._mapped(node, how, progress) as (here, steps, done):
            if steps is not None:
                from ..scores.scoring import run_steps_async  # noqa: PLC0415  # as above
                from .clients import async_client  # noqa: PLC0415  # as above

                async with async_client(self.client) as client:
                    await client.learn()
                    with self._kept(done, client):
                        await run_steps_async(steps, client)
        return here

    def follow(self, found: Multiverse, cell: int) -> str:
        """A cell of a map as a child of its node, with the tokens, logprobs and alternatives of the way to it."""
        self._check_writable()
        node = standing.existing(self.session, found.node)
        path = found.path(cell)
        if not path or any(one.kind == "piece" for one in path):
            raise InvalidRequest("This cell has no text of its own; choose one behind it.")
        path = [one for one in path if one.kind != "end"]
        if not path:
            raise InvalidRequest(
                "The text is over there; there is nothing to follow. Choose an earlier place."
            )
        tops = [
            {found.cells[c].token: found.cells[c].logprob for c in found.cells[one.parent or 0].children}
            for one in path
        ]
        tokens = tuple(one.token for one in path)
        logprobs = tuple(one.logprob for one in path)
        made = revising.new_id()
        opened = ev.NodeOpened(made, node.run, node.id)
        came = ev.TokensArrived(made, "".join(tokens), tokens, logprobs, tuple(tops))
        with self._lock:
            self.session.apply([opened, came, ev.Revised("follow", opened=(made,))])
        return made

    @contextlib.contextmanager
    def _mapped(
        self, node: str, how: dict[str, Any], progress: bool | None
    ) -> Iterator[tuple[Multiverse, Any, Callable[[bool], None]]]:
        how |= {"budget": budget_of(how["budget"])} if "budget" in how else {}
        with shown("map", how, progress) as bar:
            work = self._map(node, how, bar.mapped)
            bar.begin(work[0])
            yield work

    def _map(
        self, node: str, how: dict[str, Any], came: Callable[[Multiverse], None] | None = None
    ) -> tuple[Multiverse, Any, Callable[[bool], None]]:
        """The map as it is kept, the steps that go on with it (``None``: nothing is to be sent), and what writes it.

        ``came`` is called behind each answer.
        """
        here = readable(self.session, node)
        found = self._kept_map(node)
        if how.get("budget") is None and how.get("requests") is None:
            if found.by and not how:
                return found, None, lambda _: None
            Plan().check()
        like = {k: v for k, v in self.session.runs[here.run].request.items() if k != "prompt"}
        try:
            plan = Plan(**how, like=like, tokens=[] if self.session.echoed(here) else list(here.tokens))
        except TypeError as error:
            raise InvalidRequest(
                f"A map has no such option: {str(error).rpartition(' ')[2]}; leave it out."
            ) from None
        plan.check()
        self._check_writable()
        written = [len(found.cells)]

        def write(at_last: bool) -> None:
            if came is not None and not at_last:
                came(found)
            if found.by and (at_last or len(found.cells) >= WRITE_AGAIN * written[0]):
                written[0] = len(found.cells)
                change = ev.Change(node, "map", found.packed())
                with self._lock:
                    self.session.apply([ev.Revised("map", "view", changes=(change,))])

        text = self.session.text_to(node)
        return found, map_steps(found, text, plan, lambda: write(False)), write

    def _kept_map(self, node: str) -> Multiverse:
        """A node's map as far as it is kept; an empty one when there is none of the text it has now."""
        text = self.text(node)
        return Multiverse.unpacked(node, self.session.arrangement.mark(node, "map"), text)

    @contextlib.contextmanager
    def _kept(self, write: Callable[[bool], None], client: Any) -> Iterator[None]:
        """What comes is written, whatever ends it, and counted under the loom's name in ``%acs budget``."""
        with self._accounted(client):
            try:
                yield
            finally:
                write(True)

    # -- growing by a scorer ----------------------------------------------------------------------

    def expand(self, node: str, scorer: Scorer, *, progress: bool | None = None, **how: Any) -> Expansion:
        """Grow on from a node, the best first, by a scorer of one's own; see :class:`Candidate` and :class:`Expansion`.

        ``scorer``: a function of a candidate; the larger its number, the sooner the node grows, ``None`` never.
        ``width`` (3): children of each node that grows; ``depth`` (4): growths from the node; ``how``: ``best-first``
        over all of the tree, or ``beam``, level by level, of which ``keep`` (``width``) go on; ``budget``: tokens
        that this call may be billed, ``requests``: how many it may send (one of both is needed). All else is sampling,
        as for :meth:`grow`; ``max_tokens`` (16) is the length of a node. A budget counts a request at the most it can
        cost, a prompt of text at its bytes. ``progress``: a bar or none; unless told there is one in a notebook and
        in a terminal.

        Scores are kept under the scorer's name, or under ``name``. A kept score is taken again for the same text by
        the same scorer: an edited function, another lambda and a node that was moved are scored anew. What a function
        uses from around it counts where it is a plain value or a function; a change in other objects is not seen, and
        a lambda or an object without a name that uses them is asked each time. With ``name`` the name alone counts.

        It stops before a bound is exceeded. Nothing that came is lost, and calling it again, also after a restart, goes
        on. Raises :class:`AcsError`, and :class:`InvalidRequest` when the scorer fails.
        """
        search, here, sampling = self._search(node, scorer, how)
        from .clients import sync_client  # noqa: PLC0415  # as above

        with (
            sync_client(self.client) as client,
            self._accounted(client),
            shown("expand", how, progress) as bar,
        ):
            for growth, grown in self._growths(search, here, sampling, client, bar):
                if growth.unnamed:
                    client.learn()
                exchange = growth.exchange(client)
                with grown(exchange):
                    for _ in client.drive(exchange, growth.sink(self.session)):
                        pass
                    growth.result(exchange)
        return here

    async def expand_async(
        self, node: str, scorer: Scorer, *, progress: bool | None = None, **how: Any
    ) -> Expansion:
        """The same, to be awaited."""
        search, here, sampling = self._search(node, scorer, how)
        from .clients import async_client  # noqa: PLC0415  # as above

        async with async_client(self.client) as client:
            with self._accounted(client), shown("expand", how, progress) as bar:
                for growth, grown in self._growths(search, here, sampling, client, bar):
                    if growth.unnamed:
                        await client.learn()
                    exchange = growth.exchange(client)
                    with grown(exchange):
                        async for _ in client.drive(exchange, growth.sink(self.session)):
                            pass
                        growth.result(exchange)
        return here

    def _search(
        self, node: str, scorer: Scorer, how: dict[str, Any]
    ) -> tuple[Search, Expansion, dict[str, Any]]:
        self._check_writable()
        standing.existing(self.session, node)
        fields = ("width", "depth", "how", "keep", "budget", "requests", "name")
        how |= {"budget": budget_of(how["budget"])} if "budget" in how else {}
        own = {name: how[name] for name in fields if name in how}
        own.setdefault("keep", own.get("width", 3))
        search = Search(node, scorer, **own)
        search.check()
        sampling = {"max_tokens": 16, **{name: value for name, value in how.items() if name not in fields}}
        return search, Expansion(self.session, node), sampling

    def _growths(
        self, search: Search, here: Expansion, sampling: dict[str, Any], client: Connection, bar: Bar
    ) -> Generator[tuple[Growth, Callable[[Any], Any]], None, None]:
        for wish in search_steps(self.session, search, here):
            growth = self._growth(wish, sampling)
            request = client.request(**growth.fields)
            if not has_room(search, here, request):
                break
            bar.expanded(here)
            yield growth, lambda exchange: _counted(self.session, here, exchange)
        bar.expanded(here)

    def _growth(self, wish: Grow, sampling: dict[str, Any]) -> Growth:
        return continuation(self.session, wish.node, wish.n, sampling)

    # -- the client -------------------------------------------------------------------------------

    @property
    def file(self) -> Path | None:
        """Where the loom is kept, if it is."""
        raise NotImplementedError

    @contextlib.contextmanager
    def _accounted(self, client: Any) -> Iterator[None]:
        """What is sent in here stands under the loom's name in ``%acs budget`` too."""
        from ..ledger import ledger  # noqa: PLC0415  # sqlite3 loads with the first request
        from ..ledger.meter import KeyMeter  # noqa: PLC0415  # as above

        if not isinstance(getattr(client, "meter", None), KeyMeter):
            yield
            return
        with ledger().scope("loom", self.file.name if self.file is not None else "not kept"):
            yield


@contextlib.contextmanager
def _counted(session: Session, here: Expansion, exchange: Any) -> Iterator[None]:
    """A growth counts at the most it can cost until its usage is known."""
    from ..ledger.terms import worst_case  # noqa: PLC0415  # beside its use

    here.sent += 1
    most = worst_case(exchange.request).total
    here.spent += most
    try:
        yield
    finally:
        run = session.runs.get(exchange.run)
        if run is not None and run.usage_source == "usage":
            here.spent += run.prompt_tokens + run.completion_tokens - most


__all__ = ["How", "Measuring"]
