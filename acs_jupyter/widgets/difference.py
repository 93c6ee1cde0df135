"""Two scores side by side as a static page part: their texts tinted by where they differ, the largest spots listed.

Owns the HTML. It must not know how texts are aligned or scored. Under each stretch stands a line as thick as it
differs, in bits a byte: orange and whole where the second is more surprised, blue and dashed where the first is, so
that nothing hangs on colour. A title tells the numbers.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

from .reading import visible
from .score_static import MINUS
from .tinted import text_of

if TYPE_CHECKING:
    from ..scores.differences import Difference, Spot
    from ..scores.values import Score

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
    """All of both texts, or of the one that both scored; stretches that were not compared are grey and slanted."""
    datas = [_data(score) for score in (found.first, found.second)]
    starts = [[spot.start for spot in found.spots], [spot.other_start for spot in found.spots]]
    same = found.first.model == found.second.model
    names = [one.model or name for one, name in ((found.first, "first"), (found.second, "second"))]
    first, second = ("the first text", "the second") if same else names
    one_text = datas[0] == datas[1]
    drawn = [_drawn(datas[0], found.spots, starts[0])]
    if not one_text:
        drawn.append(_drawn(datas[1], found.spots, starts[1]))
        titles = ("the first text", "the second text") if same else [f"as {name} read it" for name in names]
        drawn = [f"<p>{text_of(title)}</p>{text}" for title, text in zip(titles, drawn, strict=True)]
    compared = sum(spot.bytes for spot in found.spots)
    line = (
        f"Surprisal of {second} less that of {first}: {signed(found.total)} bits over {compared:,} bytes. The line "
        f"under the text: orange where {second} is more surprised, blue and dashed where {first} is; the thicker, the "
        "more bits a byte."
    )
    apart = found.apart, len(datas[1]) - compared - found.unscored
    rest = ""
    if found.unscored or any(apart):
        only = f"{apart[0]:,} bytes that only the first has, {apart[1]:,} that only the second has, "
        rest = f"<p>Not compared: {'' if one_text else only}{found.unscored:,} bytes without a score.</p>"
    return (
        f'{_STYLE}<div class="acs-diff">{"".join(drawn)}<p>{text_of(line)}</p>{rest}'
        f"{_table([spot for spot in found.largest(SPOTS) if abs(spot.difference) >= LEAST])}</div>"
    )


def signed(value: float) -> str:
    """`+1.50`, `−1.50`: two digits, with a minus rather than a hyphen."""
    return f"{value:+.2f}".translate(MINUS)


def effects_html(prompt: str, effects: list[tuple[int, int, float]], line: str) -> str:
    """A prompt, its spans (start, end in characters, nats) tinted by what they do; of two that overlap the first."""
    parts, place = [], 0
    for start, end, nats in sorted(effects):
        if start < place:
            continue
        parts.append(text_of(prompt[place:start]).replace("\n", "&#10;"))
        parts.append(_tint(prompt[start:end], nats, nats, f"{signed(nats)} nats"))
        place = end
    parts.append(text_of(prompt[place:]).replace("\n", "&#10;"))
    return f'{_STYLE}<div class="acs-diff"><pre>{"".join(parts)}</pre><p>{text_of(line)}</p></div>'


def _data(score: Score) -> bytes:
    return "".join(token.text for token in score.tokens).encode("utf-8", "surrogatepass")


def _drawn(data: bytes, spots: list[Spot], starts: list[int]) -> str:
    parts, place = [], 0
    for spot, start in zip(spots, starts, strict=True):
        parts += [_apart(data[place:start]), _spot(spot)]
        place = start + spot.bytes
    parts.append(_apart(data[place:]))
    return f"<pre>{''.join(parts)}</pre>"


def _spot(spot: Spot) -> str:
    told = f"{spot.surprisal:.2f} and {spot.other:.2f} bits, {signed(spot.difference)}"
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
        f"<td>{spot.other:.2f}</td><td>{signed(spot.difference)}</td></tr>"
        for spot in spots
    )
    head = "".join(
        f"<th scope=col>{name}</th>" for name in ("largest", "byte", "first, bits", "second", "difference")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
