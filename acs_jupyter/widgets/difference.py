"""Two scores side by side as a static page part: the text tinted by where they differ, the largest spots listed.

Owns the HTML. It must not know how texts are aligned or scored. Under each stretch stands a line as thick as it
differs, in bits a byte: orange and whole where the second is more surprised, blue and dashed where the first is, so
that nothing hangs on colour. A title tells the numbers.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

from .reading import visible
from .tinted import text_of

if TYPE_CHECKING:
    from ..scores.differences import Difference, Spot

BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.0)
"""Bits a byte, or nats of an effect, from which a tint gets stronger."""
SPOTS = 8
LEAST = 0.005
"""Bits below which a spot is not listed: it would read as nothing."""
_TINTS = ("18", "2b", "42", "5a", "78")
_STYLE = """<style>
.acs-diff{font:13px/2 var(--jp-code-font-family,ui-monospace,monospace);color:var(--jp-content-font-color1,inherit)}
.acs-diff.acs-diff pre{margin:0;font:inherit;line-height:2;color:inherit;background:none;white-space:pre-wrap;
overflow-wrap:anywhere;unicode-bidi:plaintext}
.acs-diff p{font:12px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);margin:4px 0}
.acs-diff u,.acs-diff span{text-decoration:none;border-radius:2px;padding-top:1px}
.acs-diff table{color:inherit;border-collapse:collapse;margin:4px 0 0;
font:12px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);
font-variant-numeric:tabular-nums}
.acs-diff.acs-diff :is(td,th){padding:1px 14px 1px 0;text-align:right;font-weight:400;border:0}
.acs-diff.acs-diff :is(td,th):first-child{text-align:left;font-family:var(--jp-code-font-family,monospace)}
.acs-diff i{opacity:.6}
</style>""".replace("\n", "")


def html_of(found: Difference) -> str:
    """All of the first text; stretches that were not compared are grey and slanted."""
    data = "".join(token.text for token in found.first.tokens).encode("utf-8", "surrogatepass")
    parts, place = [], 0
    for spot in found.spots:
        parts += [_apart(data[place : spot.start]), _spot(spot)]
        place = spot.start + spot.bytes
    parts.append(_apart(data[place:]))
    names = [one.model or name for one, name in ((found.first, "first"), (found.second, "second"))]
    same = found.first.model == found.second.model
    first, second = ("the first text", "the second") if same else names
    line = (
        f"Surprisal of {second} less that of {first}: {found.total:+.2f} bits over "
        f"{sum(spot.bytes for spot in found.spots):,} bytes. The line under the text: orange where {second} is more "
        f"surprised, blue and dashed where {first} is; the thicker, the more bits a byte."
    )
    rest = ""
    if found.unscored or found.apart:
        rest = f"<p>Not compared: {found.apart:,} bytes that only one text has, {found.unscored:,} without a score.</p>"
    return (
        f'{_STYLE}<div class="acs-diff"><pre>{"".join(parts)}</pre><p>{text_of(line)}</p>{rest}'
        f"{_table([spot for spot in found.largest(SPOTS) if abs(spot.difference) >= LEAST])}</div>"
    )


def effects_html(prompt: str, effects: list[tuple[int, int, float]], line: str) -> str:
    """A prompt, its spans (start, end in characters, nats) tinted by what they do; of two that overlap the first."""
    parts, place = [], 0
    for start, end, nats in sorted(effects):
        if start < place:
            continue
        parts.append(text_of(prompt[place:start]).replace("\n", "&#10;"))
        parts.append(_tint(prompt[start:end], nats, nats, f"{nats:+.2f} nats"))
        place = end
    parts.append(text_of(prompt[place:]).replace("\n", "&#10;"))
    return f'{_STYLE}<div class="acs-diff"><pre>{"".join(parts)}</pre><p>{text_of(line)}</p></div>'


def _spot(spot: Spot) -> str:
    told = f"{spot.surprisal:.2f} and {spot.other:.2f} bits, {spot.difference:+.2f}"
    return _tint(spot.text, spot.per_byte, spot.difference, told)


def _tint(text: str, value: float, sign: float, told: str) -> str:
    """``value``: what the tint's strength says; ``told``: the title, which holds no text of a model."""
    body = text_of(text).replace("\n", "&#10;")
    level = 0 if math.isnan(value) else sum(abs(value) >= bound for bound in BOUNDS)
    if not level:
        return f"<span title='{told}'>{body}</span>"
    hue = "#d66a0c" if sign > 0 else "#2074bc"
    line = f"border-bottom:{level}px {'dashed' if sign < 0 else 'solid'} {hue}"
    tag = "u" if level >= 3 else "span"
    return f"<{tag} style='background:{hue}{_TINTS[level - 1]};{line}' title='{told}'>{body}</{tag}>"


def _apart(data: bytes) -> str:
    if not data:
        return ""
    return f"<i>{text_of(data.decode('utf-8', 'replace'))}</i>".replace("\n", "&#10;")


def _table(spots: list[Spot]) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(visible(spot.text))}</td><td>{spot.start}</td><td>{spot.surprisal:.2f}</td>"
        f"<td>{spot.other:.2f}</td><td>{spot.difference:+.2f}</td></tr>"
        for spot in spots
    )
    head = "".join(
        f"<th scope=col>{name}</th>" for name in ("largest", "byte", "first, bits", "second", "difference")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
