"""Where samples of one text part: the trie of their tokens, counted, beside what the model said there.

Owns the counting. It must not know how it is drawn, nor who asked for the samples.

A *fork* is a place where samples that were the same so far go different ways; the end of a text by the model's own
choice (or at a stop string) is a way too. A sample that was cut off there, by ``max_tokens``, a stop of the user's or
an error, chose nothing: it is left out of that fork's count and told apart (``cut``). The interval is Wilson's (1927)
of 95 %, of the share that was observed; it takes samples as independent, which those of temperature 0 or of one seed
are not.

``probability`` is what the model stated, before temperature, top_p and the other settings, which change what is
sampled; ``sampled`` is what the settings of these samples leave of it (``sampling.py``): the stated value itself at
temperature 1 without ``top_p``, ``top_k`` and ``min_p``, else a number only where tokens that were not returned cannot
change it, and where no sample took what the settings would have cut. Compare the share with that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..completion import Choice, Completion
from ..errors import InvalidRequest
from ..log.ranking import asked_of
from ..log.session import Node, Session
from ..log.standing import is_deleted
from ..scores.calibrating import wilson
from .sampling import Settings, left_of, settings_of
from .units import Unit, text_units, token_units, tokens_known

if TYPE_CHECKING:
    import pandas as pd

_BEFORE = 60


@dataclass(frozen=True)
class Sample:
    """One text: its node, its units, whether it ended by itself, what it was sampled with.

    ``asked``: how many alternatives were asked for, ``None`` where that is not known.
    """

    node: str
    units: tuple[Unit, ...]
    ended: bool
    settings: Settings
    asked: int | None = None
    last: Unit | None = None


@dataclass
class TrieNode:
    """A way from a fork, as far as all that took it are the same.

    ``token`` is the first of ``tokens``; ``None`` is the end of the text. ``position``: how many units (tokens, or
    characters where tokens are unknown) stand before it. ``count`` of ``of`` samples that chose at this fork went
    here; ``share`` is their part, surely (95 %) between ``low`` and ``high``. ``probability`` and ``sampled``: see
    the module; ``None`` where it was not told. ``cut``: samples of these that were cut off before the next fork.
    ``samples``: their nodes. ``untaken``: what the model weighed at the fork behind these tokens and no sample took,
    count 0.
    """

    token: str | None
    tokens: tuple[str, ...]
    position: int
    count: int
    of: int
    samples: tuple[str, ...]
    probability: float | None = None
    sampled: float | None = None
    cut: int = 0
    children: list[TrieNode] = field(default_factory=list)
    untaken: list[TrieNode] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The tokens as one text."""
        return "".join(self.tokens)

    @property
    def share(self) -> float:
        """``count / of``."""
        return self.count / self.of

    @property
    def low(self) -> float:
        """The lower end of the share's interval."""
        return wilson(self.count, self.of)[0]

    @property
    def high(self) -> float:
        """The upper end of the share's interval."""
        return wilson(self.count, self.of)[1]

    @property
    def parts(self) -> bool:
        """Whether samples go different ways behind these tokens."""
        return len(self.children) > 1

    def __repr__(self) -> str:
        return f"TrieNode({self.token!r}, {self.count} of {self.of})"


@dataclass(frozen=True)
class Trie:
    """Samples, merged. ``root``: what all begin with; ``by``: ``tokens`` or ``text``; ``notes``: lines about it."""

    root: TrieNode
    by: str
    notes: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        """How many there are."""
        return self.root.count

    @property
    def common(self) -> str:
        """What all samples begin with."""
        return self.root.text

    def walk(self) -> Iterator[tuple[TrieNode, TrieNode | None, str]]:
        """Every node, its parent, and the text before it from where the samples begin; parents first."""
        waiting: list[tuple[TrieNode, TrieNode | None, str]] = [(self.root, None, "")]
        while waiting:
            here = waiting.pop()
            yield here
            before = here[2] + here[0].text
            waiting += [(child, here[0], before) for child in reversed(here[0].children)]

    @property
    def forks(self) -> list[TrieNode]:
        """The nodes behind which samples part, in reading order."""
        return [node for node, _, _ in self.walk() if node.parts]

    def to_frame(self, *, untaken: bool = True) -> pd.DataFrame:
        """One row a way from a fork; with ``untaken`` also what the model weighed there and no sample took.

        ``fork``: number, in reading order; ``depth``: forks before it; ``position``: units before it; ``before``: the
        last 60 characters before it; ``token`` (``None``: the end); ``text``: as far as the samples of this way stay
        the same; ``count``, ``of``: samples; ``share``, ``low``, ``high`` (Wilson, 95 %), ``probability`` (before
        sampling settings), ``sampled`` (after them): 0 to 1; ``cut``: samples of ``count`` cut off before the next
        fork; ``nodes``: ids. ``attrs`` hold ``samples``, ``by`` and ``notes``.
        """
        from .measure_frames import TRIE_COLUMNS, frame_of  # noqa: PLC0415  # pandas loads only when a frame is asked for

        about = {"samples": self.samples, "by": self.by, "notes": list(self.notes)}
        return frame_of(self._rows(untaken), TRIE_COLUMNS, **about)

    def _rows(self, untaken: bool) -> Iterator[list[Any]]:
        depths: dict[int, int] = {}
        number = 0
        for node, parent, before in self.walk():
            depth = 0 if parent is None else depths[id(parent)] + parent.parts
            depths[id(node)] = depth
            if not node.parts:
                continue
            behind = (before + node.text)[-_BEFORE:]
            for way in [*node.children, *(node.untaken if untaken else ())]:
                yield [
                    number, depth, way.position, behind, way.token, way.text, way.count, way.of, way.share, way.low,
                    way.high, way.probability, way.sampled, way.cut, list(way.samples),
                ]  # fmt: skip
            number += 1

    def __repr__(self) -> str:
        return f"Trie({self.samples} samples, {len(self.forks)} forks, by {self.by})"

    def _repr_html_(self) -> str:
        from ..widgets.measures import trie_html  # noqa: PLC0415  # drawn only when shown

        return trie_html(self)


# -- samples --------------------------------------------------------------------------------------


def samples_below(session: Session, node: str) -> list[Node]:
    """The samples of a node: its generated children as they were generated.

    One that was split or merged since counts whole; one that was deleted, or that began as a copy of another, does not.
    """
    remade = {
        old
        for made, marks in session.arrangement.marks.items()
        for old in marks.get("made_of", ())
        if made in session.nodes and not is_deleted(session, made)
    }
    children = [session.nodes[child] for child in session.nodes[node].children]
    return [
        child for child in children
        if child.choice is not None and not child.kept and child.origin is None
        and (child.id in remade or not session.arrangement.mark(child.id, "deleted"))
    ]  # fmt: skip


def trie(source: Completion | Choice | Iterable[Completion | Choice]) -> Trie:
    """Where the choices of completions part: all must go on from one text. See the module and :class:`Trie`."""
    given = [source] if isinstance(source, (Completion, Choice)) else list(source)
    choices: list[Choice] = []
    for one in given:
        if isinstance(one, Choice):
            choices.append(one)
        elif isinstance(one, Completion):
            choices += one.choices
        else:
            raise InvalidRequest(f"A trie takes completions or their choices, not {type(one).__name__}.")
    if len({_before(one) for one in choices}) > 1:
        raise InvalidRequest("These choices do not go on from one text; give samples of the same prompt.")
    return trie_of([(one.session, one._node) for one in choices if not one.kept])


def _before(one: Choice) -> Any:
    parent = one._node.parent
    ids = one.session.nodes[parent].ids if parent else None
    return one.prompt if ids is None else tuple(ids)


def trie_of(nodes: Sequence[tuple[Session, Node]]) -> Trie:
    """The trie of nodes. Raises :class:`InvalidRequest` when there is none to count."""
    if not nodes:
        raise InvalidRequest("There are no samples here: grow some, then see where they part.")
    by_tokens = all(tokens_known(session, node) for session, node in nodes)
    samples = [_sample(session, node, by_tokens) for session, node in nodes]
    root = TrieNode("", (), 0, len(samples), len(samples), tuple(one.node for one in samples))
    waiting = [(root, samples, 0)]
    while waiting:
        waiting += _grown(*waiting.pop())
    found = Trie(root, "tokens" if by_tokens else "text")
    return replace(found, notes=tuple(_notes(samples, found)))


def _sample(session: Session, node: Node, by_tokens: bool) -> Sample:
    ended = node.finish_reason == "stop"
    settings = settings_of(session.runs[node.run].request)
    if not by_tokens:
        return Sample(node.id, tuple(text_units(session, node)), ended, settings)
    units, last = token_units(session, node)
    asked = asked_of(session, node, len(node.tokens))
    return Sample(node.id, tuple(units), ended, settings, asked, last)


def _notes(samples: list[Sample], found: Trie) -> Iterator[str]:
    if found.by != "tokens":
        yield "Counted by characters: the tokens of some samples are not known (ask for logprobs)."
    if any(one.settings.penalised for one in samples):
        yield "Penalties change what is sampled; what they leave is not worked out."
    elif any(one.settings != Settings() for one in samples):
        yield "Sampled with settings: compare the share with what they leave, not with what the model stated."
        if any(way.probability is not None and way.sampled is None for way, _, _ in found.walk() if way.of):
            yield (
                "What they leave is told only where tokens that were not returned cannot change it: ask for more "
                "logprobs, or sample with a top_k within them."
            )


# -- counting -------------------------------------------------------------------------------------


def _grown(node: TrieNode, samples: list[Sample], at: int) -> list[tuple[TrieNode, list[Sample], int]]:
    """Follow the samples of a node to where they part or some are cut off, and open the ways there."""
    start, first = at, samples[0]
    while all(at < len(one.units) and one.units[at].text == first.units[at].text for one in samples):
        at += 1
    node.tokens += tuple(unit.text for unit in first.units[start:at])
    ways: dict[str | None, list[Sample]] = {}
    for one in samples:
        if at < len(one.units):
            ways.setdefault(one.units[at].text, []).append(one)
        elif one.ended:
            ways.setdefault(None, []).append(one)
        else:
            node.cut += 1
    chose = [one for group in ways.values() for one in group]
    stated, sampled = _said(chose, at)
    plain = all(one.settings == Settings() for one in chose)
    if any(sampled.get(token) == 0 for token in ways):  # what was drawn speaks against it
        sampled = {}
    for token, group in sorted(ways.items(), key=lambda item: -len(item[1])):
        tokens = () if token is None else (token,)
        names = tuple(one.node for one in group)
        own = _own(group, at)
        left = own if plain else sampled.get(_end(group) if token is None else token)
        way = TrieNode(token, tokens, at, len(group), len(chose), names, own, left)
        node.children.append(way)
    end = _end(ways.get(None, []))
    for text, probability in stated.items():
        if text not in ways and text != end:
            way = TrieNode(
                text, (text,), at, 0, len(chose), (), probability, probability if plain else sampled.get(text)
            )
            node.untaken.append(way)
    return [
        (way, ways[way.token], at + 1) for way in reversed(node.children) if way.token is not None
    ]  # an end has nothing behind it


def _end(ended: list[Sample]) -> str | None:
    """The text of the token that ends these samples, where the server tells it."""
    return next((one.last.text for one in ended if one.last is not None), None)


def _at(one: Sample, at: int) -> Unit | None:
    return one.units[at] if at < len(one.units) else one.last


def _own(group: list[Sample], at: int) -> float | None:
    """What the model stated of the token that these samples took: the mean of what it said each time."""
    known = [unit.logprob for one in group if (unit := _at(one, at)) is not None and unit.logprob is not None]
    return math.fsum(math.exp(min(value, 0.0)) for value in known) / len(known) if known else None


def _complete(one: Sample, at: int) -> int:
    """How many of the alternatives are the likeliest of all: the last of a list may have come for being sampled."""
    unit = _at(one, at)
    listed = len((unit.top if unit is not None else None) or {})
    return max(0, listed - 1) if one.asked is None else min(one.asked, listed)


def _said(chose: list[Sample], at: int) -> tuple[dict[str, float], dict[str | None, float | None]]:
    """The alternatives at a place with what the model stated, likeliest first, and what the settings leave of them."""
    found: dict[str, list[float]] = {}
    for one in chose:
        unit = _at(one, at)
        for text, logprob in ((unit.top if unit is not None else None) or {}).items():
            found.setdefault(text, []).append(logprob)
    complete = max((_complete(one, at) for one in chose), default=0)
    merged = {text: math.fsum(values) / len(values) for text, values in found.items()}
    order = sorted(merged, key=lambda text: -merged[text])
    stated = {text: math.exp(min(merged[text], 0.0)) for text in order}
    left: dict[str | None, float | None] = {}
    if not any(one.settings.penalised for one in chose):
        for settings in {one.settings for one in chose}:
            weight = sum(one.settings == settings for one in chose) / len(chose)
            values = (
                stated.values()
                if settings == Settings()
                else left_of([merged[text] for text in order], complete, settings)
            )
            for text, value in zip(order, values, strict=True):
                sofar = left.get(text, 0.0)
                left[text] = None if sofar is None or value is None else sofar + weight * value
    return {text: stated[text] for text in order if text}, left
