"""HTML as a host that trusts no notebook shows it."""

from __future__ import annotations

import nh3

# What GitHub lets through of a notebook's HTML: no style, no class, no id.
ALLOWED = """
a abbr b bdo blockquote br caption cite code dd del details dfn div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 h7 h8
hr i img ins kbd li mark ol p pre q rp rt ruby s samp small span strike strong sub summary sup table tbody td tfoot th
thead time tr tt ul var wbr
"""


def sanitised(markup: str) -> str:
    """As GitHub would show it."""
    return nh3.clean(
        markup, tags={*ALLOWED.split()}, attributes={"*": {"title", "lang", "dir"}, "a": {"href"}}
    )
