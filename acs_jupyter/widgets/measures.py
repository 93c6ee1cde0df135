"""What was measured of a loom, drawn: the trie of samples, a diff, a multiverse map; and the same as data for a window.

Owns the rows that are drawn, which of them give way where there are many, and the script-free pages. It must not know
how anything is counted. Text only ever goes in escaped. A page is readable without its style sheet: the trie and the
diff are tables, and the map has a table of its cells beside the drawing.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .reading import HUE, level, visible

if TYPE_CHECKING:
    from ..looms.diff import Block, Diff
    from ..looms.multiverse import Cell, Multiverse
    from ..looms.trie import Trie, TrieNode
    from ..looms.units import Unit

MOST_ROWS = 400
"""Ways of a trie that are drawn: those of the first forks."""
MOST_CELLS = 600
"""Cells of a map that are drawn, the largest."""
MOST_UNTAKEN = 3
"""Of what nobody took at a fork, so many are listed."""
MOST_TOKENS = 60
"""Of a run of tokens that both sides of a diff have, the ends are shown above so many."""
_TEXT = 80
_STYLE = """<style>
.acs-measure{font:13px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);color:var(--jp-content-font-color1,inherit)}
.acs-measure.acs-measure table{border-collapse:collapse;color:inherit;
font:12px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);
font-variant-numeric:tabular-nums;margin:4px 0}
.acs-measure.acs-measure :is(td,th){padding:1px 12px 1px 0;text-align:right;font-weight:400;border:0;
white-space:nowrap;background:none}
.acs-measure.acs-measure tr{background:none;border:0}
.acs-measure.acs-measure :is(td,th).t{text-align:left;white-space:pre-wrap;overflow-wrap:anywhere;
font-family:var(--jp-code-font-family,ui-monospace,monospace)}
.acs-measure.acs-measure th,.acs-measure em{opacity:.75;font-family:var(--jp-ui-font-family,system-ui,sans-serif)}
.acs-measure.acs-measure th.t{font-family:inherit}
.acs-measure.acs-measure td.t :is(span,u){display:inline-block;max-width:100%;vertical-align:baseline}
.acs-measure.acs-measure td.f{text-align:left;padding-top:6px;opacity:.75;white-space:pre-wrap;overflow-wrap:anywhere}
.acs-measure.acs-measure tr.z{opacity:.75}
.acs-measure p{margin:4px 0}
.acs-measure b{font-weight:600}
.acs-measure svg{display:block;max-width:100%;font:12px var(--jp-code-font-family,ui-monospace,monospace)}
.acs-measure text.r{paint-order:stroke;stroke:var(--jp-layout-color0,transparent);stroke-width:3px}
.acs-measure summary{cursor:pointer}
</style>""".replace("\n", "")


def shown(text: str | None) -> str:
    """A token for people: what cannot be seen is written out; ``None`` is the end of a text."""
    return "end of text" if text is None else "".join(map(visible, text.replace("\n", "↵")))


def percent(value: float | None) -> str:
    """0 to 1 as a percentage, ``–`` where it is not known, ``<0.01 %`` for less than two digits show."""
    if value is not None and 0 < value < 0.0001:
        return "<0.01 %"
    return (
        "–"
        if value is None
        else f"{value * 100:.{0 if value >= 0.0995 else 1 if value >= 0.00995 else 2}f} %"
    )


# -- rows, for pages and windows ------------------------------------------------------------------


def trie_rows(found: Trie) -> list[dict[str, Any]]:
    """A row a way: ``depth``, ``before`` (only the first of a fork), ``token``, ``text``, ``count``, ``of``, ``low``,
    ``high``, ``p`` (stated), ``q`` (after the settings), ``cut``, ``nodes``."""
    rows: list[dict[str, Any]] = []
    depths: dict[int, int] = {}
    for node, parent, before in found.walk():
        depth = 0 if parent is None else depths[id(parent)] + parent.parts
        depths[id(node)] = depth
        if not node.parts or len(rows) >= MOST_ROWS:
            continue
        head: str | None = (before + node.text)[-_TEXT:]
        for way in [*node.children, *node.untaken[:MOST_UNTAKEN]]:
            rows.append(_way(way, depth, head))
            head = None
    return rows


def _way(way: TrieNode, depth: int, before: str | None) -> dict[str, Any]:
    text = way.text if len(way.text) <= _TEXT else way.text[:_TEXT] + "…"
    return {
        "depth": depth, "before": before, "token": way.token, "text": text, "count": way.count, "of": way.of,
        "low": way.low, "high": way.high, "p": way.probability, "q": way.sampled, "cut": way.cut,
        "nodes": list(way.samples),
    }  # fmt: skip


def trie_line(found: Trie) -> str:
    """What was counted, in a line."""
    unit = "tokens" if found.by == "tokens" else "characters"
    first = found.root.children
    where = "from the start" if not found.root.tokens else f"after {_counted(len(found.root.tokens), unit)}"
    if len(found.forks) == 0:
        return " ".join([f"{_counted(found.samples, 'samples')}, one and the same.", *found.notes])
    forks = len(found.forks)
    words = f"{found.samples} samples part {where if len(first) > 1 else 'later'}; {forks} fork{'s' * (forks > 1)}."
    return " ".join([words, *found.notes])


def _counted(count: int, units: str) -> str:
    return f"{count} {units.removesuffix('s') if count == 1 else units}"


def diff_rows(found: Diff) -> list[dict[str, Any]]:
    """A row a block: ``op``, and ``a`` and ``b`` as lists of token and logprob. A long common run is shortened: where
    tokens are left out stands ``None`` and how many."""
    return [{"op": b.op, "a": _side(b, b.a), "b": _side(b, b.b)} for b in found.blocks]


def _side(block: Block, units: tuple[Unit, ...]) -> list[list[Any]]:
    listed: list[list[Any]] = [[unit.text, unit.logprob] for unit in units]
    if block.op in ("common", "same") and len(listed) > MOST_TOKENS:
        half = MOST_TOKENS // 2
        return [*listed[:half], [None, len(listed) - 2 * half], *listed[-half:]]
    return listed


def diff_line(found: Diff) -> str:
    """Where two texts part, in a line."""
    if found.parts_at is None:
        return "Both texts are one and the same."
    a, b = found.logprobs()
    tails = ""
    if a is not None and b is not None:
        tails = f" From there on the logprobs are {a:.2f} and {b:.2f} nats.".replace("-", "−")
    return f"They part after {_counted(found.parts_at, found.by)}.{tails}"


def map_cells(found: Multiverse) -> list[dict[str, Any]]:
    """The largest cells, each behind its parent: ``cell``, ``parent``, ``depth``, ``kind``, ``token``, ``text``,
    ``area``, ``p``, ``top`` (where its area begins, 0 to 1) and ``rest``."""
    tops = _tops(found)
    largest = sorted(found.cells, key=lambda cell: (-cell.area, cell.number))[:MOST_CELLS]
    kept = {cell.number for cell in largest}
    return [
        {
            "cell": cell.number, "parent": cell.parent, "depth": cell.depth, "kind": cell.kind, "token": cell.token,
            "text": cell.text[-_TEXT:], "area": cell.area, "top": tops[cell.number], "rest": cell.rest,
            "p": cell.area / found.cells[cell.parent].area if cell.parent is not None else 1.0,
        }
        for cell in _ordered(found)
        if cell.number in kept
    ]  # fmt: skip


def _ordered(found: Multiverse) -> Iterator[Cell]:
    """Cells in reading order: each before the ones behind it."""
    waiting = [0]
    while waiting:
        cell = found.cells[waiting.pop()]
        yield cell
        waiting += reversed(cell.children)


def _tops(found: Multiverse) -> list[float]:
    tops = [0.0] * len(found.cells)
    for cell in found.cells:
        place = tops[cell.number]
        for child in cell.children:
            tops[child] = place
            place += found.cells[child].area
    return tops


def map_line(found: Multiverse, *, busy: bool = False) -> str:
    """What a map tells and what it does not, in a line. ``busy``: it still grows, so nothing is said of its end."""
    if not found.by:
        return "Mapping…" if busy else "Nothing was asked yet."
    why = {
        "budget": "It stopped at its budget.", "requests": "It stopped at its number of requests.",
        "stopped": "It was stopped.",
    }.get("" if busy else found.stopped, "")  # fmt: skip
    counted = f"{found.spent:,} tokens in {found.requests} requests."
    open_mass = percent(max(0.0, found.unexpanded - found.unnamed))
    mass = f"{percent(found.unnamed)} lies in tokens the server did not return; {open_mass} in tokens not followed yet."
    words = ["Mapping…" if busy else "", f"{len(found.cells) - 1} cells.", mass, counted, why, *found.notes]
    return " ".join(word for word in words if word)


# -- pages ----------------------------------------------------------------------------------------


def trie_html(found: Trie) -> str:
    """The trie as a table: what stands before each fork, then its ways."""
    body = []
    for row in trie_rows(found):
        if row["before"] is not None:
            body.append(f'<tr><td class="f" colspan="7">{_indent(row)}{_before(row["before"])}</td></tr>')
        share = "–" if not row["count"] else percent(row["count"] / row["of"])
        interval = f"{percent(row['low'])} to {percent(row['high'])}"
        cells = [f"{row['count']} of {row['of']}", share, interval, percent(row["p"]), percent(row["q"])]
        empty = ' class="z"' if not row["count"] else ""
        token = _indent(row) + _escaped(row["token"])
        rest = _escaped(row["text"][len(row["token"] or "") :])
        body.append(
            f'<tr{empty}><td class="t"><b>{token}</b>{rest}</td>{"".join(f"<td>{c}</td>" for c in cells)}</tr>'
        )
    heads = ["count", "share", "95 % interval", "model stated", "after settings"]
    table = _table(["token", *heads], body) if body else ""
    return _page(trie_line(found), table)


def diff_html(found: Diff) -> str:
    """Two texts side by side, a row a block, each token with its logprob as a title."""
    body = []
    for row in diff_rows(found):
        sides = [f'<td class="t">{_tokens(row[side], row["op"])}</td>' for side in "ab"]
        body.append(f"<tr><td>{_escaped(row['op'])}</td>{''.join(sides)}</tr>")
    return _page(diff_line(found), _table(["tokens", found.a, found.b], body, texts=3))


def map_html(found: Multiverse) -> str:
    """The map as a drawing, from left to right, and its largest cells as a table."""
    cells = map_cells(found)
    body = [
        f'<tr><td class="t">{"&#160;" * 2 * (c["depth"] - 1)}{_escaped(c["token"])}</td><td>{percent(c["area"])}</td>'
        f"<td>{percent(c['p'])}</td><td>{_escaped(c['kind'])}</td></tr>"
        for c in cells[1:121]
    ]
    table = (
        f"<details><summary>Cells</summary>{_table(['token', 'area', 'probability', 'kind'], body)}</details>"
    )
    drawn = f"{_drawing(cells)}<p>{_LEGEND}</p>{table}" if body else _drawing(cells)
    return _page(map_line(found), drawn)


_TINTS = (0.0, 0.06, 0.11, 0.17, 0.23, 0.29, 0.36, 0.44)
"""How strong a cell's tint is at each level, as ``js/src/parts/measure/multiverse.ts`` has it: plain is likely."""
_LEGEND = (
    "Height: how likely the way there is. Tint: plain is a likely token in its place, orange an unlikely one."
)
_WIDE, _HIGH, _COLUMN, _LINE = 900, 420, 110, 12


def _drawing(cells: list[dict[str, Any]]) -> str:
    deepest = max((c["depth"] for c in cells), default=0)
    column = min(_COLUMN, _WIDE / max(1, deepest + 1))
    parts = [_HATCH]
    for cell in cells:
        if cell["depth"]:
            parts.append(_rect(cell, (cell["depth"] - 1) * column, column))
        if cell["rest"] and cell["rest"] * _HIGH >= 1:
            top = cell["top"] + cell["area"] - cell["rest"]
            parts.append(_rest(cell, cell["depth"] * column, column, top))
    wide = max(1.0, (deepest + 1) * column)
    return (
        f'<svg viewBox="0 0 {wide:.0f} {_HIGH}" width="{wide:.0f}" height="{_HIGH}" role="img" '
        f'aria-label="Multiverse map: {len(cells) - 1} cells">{"".join(parts)}</svg>'
    )


_HATCH = (
    '<defs><pattern id="acs-rest" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">'
    '<rect width="1.5" height="6" fill="currentColor" fill-opacity=".45"></rect></pattern></defs>'
)


def _rect(cell: dict[str, Any], left: float, wide: float) -> str:
    high = cell["area"] * _HIGH
    if high < 0.7:  # less than a pixel cannot be seen
        return ""
    top, strength = (
        cell["top"] * _HIGH,
        _TINTS[level(math.log(cell["p"])) or 0] if cell["p"] > 0 else _TINTS[-1],
    )
    label = f"“{shown(cell['text'])}” · {percent(cell['area'])} (token {percent(cell['p'])})"
    place = f'x="{left:.1f}" y="{top:.1f}" height="{max(0.5, high - 0.7):.1f}"'
    rect = (
        f'<rect {place} width="{wide - 1:.1f}" fill="{HUE}" fill-opacity="{strength:.2f}" stroke="currentColor" '
        f'stroke-opacity=".35" stroke-width=".5"><title>{_escaped(label, False)}</title></rect><rect {place} '
        'width="2" fill="currentColor" fill-opacity=".5"></rect>'
    )
    room = max(1, int(wide / 7.6) - 1)
    if high < _LINE:
        return rect
    words = shown(str(cell["token"]))
    words = words if len(words) <= room else words[: room - 1] + "…"
    middle = top + high / 2 + 4
    text = f'<text x="{left + 5:.1f}" y="{middle:.1f}" fill="currentColor">{_escaped(words, False)}</text>'
    return rect + text


def _rest(cell: dict[str, Any], left: float, wide: float, top: float) -> str:
    behind = f"“{shown(cell['text'])}”" if cell["text"] else "the node"
    label = f"not returned behind {behind}: {percent(cell['rest'])}"
    high = cell["rest"] * _HIGH
    rect = (
        f'<rect x="{left:.1f}" y="{top * _HIGH:.1f}" width="{wide - 1:.1f}" height="{high:.1f}" '
        f'fill="url(#acs-rest)"><title>{_escaped(label, False)}</title></rect>'
    )
    if high < _LINE:
        return rect
    place = f'x="{left + wide - 5:.1f}" y="{top * _HIGH + high / 2 + 4:.1f}"'
    return f"{rect}<text {place} class=r text-anchor=end fill=currentColor>{percent(cell['rest'])}</text>"


def _tokens(units: Iterable[list[Any]], op: str) -> str:
    parts = []
    for text, logprob in units:
        if text is None:
            parts.append(f"<em>… {logprob} more …</em>")
            continue
        title = "" if logprob is None else f' title="{logprob:.3f} nats"'
        tag = "span" if op in ("common", "same") else "u"
        parts.append(f"<{tag}{title}>{_escaped(text)}</{tag}>")
    return "".join(parts)


def _before(text: str) -> str:
    return f"after “{_escaped(text)}”" if text else "at the start"


def _indent(row: dict[str, Any]) -> str:
    return "&#160;" * 3 * min(int(row["depth"]), 20)


def _escaped(text: str | None, plain: bool = True) -> str:
    return html.escape(shown(text) if plain else str(text), quote=True)


def _table(heads: list[str], body: list[str], texts: int = 1) -> str:
    """A table of which the first columns hold ``texts``, all others figures."""
    names = "".join(
        f"<th{' class=t' if i < texts else ''}>{_escaped(head, False)}</th>" for i, head in enumerate(heads)
    )
    return f"<table><thead><tr>{names}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _page(line: str, body: str) -> str:
    return f'{_STYLE}<div class="acs-measure"><p>{_escaped(line, False)}</p>{body}</div>'
