"""How far a rollout is, as a bar: tqdm's, in a notebook as a widget, in a terminal as a line.

Owns the words beside the bar, and what stands in a notebook in place of the widget when all is over: a file keeps what
a widget was when it was first shown. It must not know journals or sockets; it is shown numbers.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from html import escape
from typing import TYPE_CHECKING, Any

from ..keeping.late import Place

if TYPE_CHECKING:
    from .driver import Stats

_EVERY = 0.25


class Bar:
    """A bar over ``total`` requests; ``start`` of them were there before."""

    def __init__(self, name: str, total: int, start: int, *, shown: bool) -> None:
        tqdm = tqdm_here()

        self._name = name
        widget = shown and _makes_widgets(tqdm)
        self._bar: Any = tqdm(
            total=total,
            initial=start,
            desc=name,
            unit="req",
            disable=not shown,
            mininterval=0,
            dynamic_ncols=True,
            **({"display": False} if widget else {}),
        )
        self._place = _shown(self._bar.container) if widget else None
        self._began = time.monotonic()
        self._last = 0.0

    def show(self, stats: Stats, *, last: bool = False) -> None:
        """Show these numbers, not more than a few times a second."""
        now = time.monotonic()
        if self._bar.disable or (not last and now - self._last < _EVERY):
            return
        self._last = now
        self._bar.n = stats.done + stats.failed
        self._bar.set_postfix_str(words(stats, now - self._began), refresh=False)
        self._bar.refresh()

    def close(self, stats: Stats) -> None:
        """Show the last numbers and leave them standing, in a notebook as text and HTML that a file keeps."""
        self.show(stats, last=True)
        self._bar.close()
        if self._place is not None:
            self._place.update(ended(self._name, stats, time.monotonic() - self._began), raw=True)


def ended(name: str, stats: Stats, seconds: float) -> dict[str, str]:
    """What a notebook keeps of a bar: the numbers at the end, in a line and as a bar that needs no script."""
    ended = stats.done + stats.failed
    share = f"{100 * ended // stats.total} %, " if stats.total else ""
    line = f"{share}{ended:,} of {stats.total:,} requests in {_time(seconds)}, {words(stats, seconds)}"
    bar = f'<progress max="{max(stats.total, 1)}" value="{ended}" aria-label="{escape(name)}"></progress>'
    return {
        "text/plain": f"{name}: {line}",
        "text/html": f"<div><bdi>{escape(name)}</bdi> {bar} {escape(line)}</div>",
    }


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def words(stats: Stats, seconds: float) -> str:
    """``12,345 tokens, 812/s, 16 in flight, 3 failed (interrupted 3)``: what there is to say."""
    parts = ["1 token" if stats.tokens == 1 else f"{stats.tokens:,} tokens"]
    if stats.new_tokens and seconds > 0:
        parts.append(f"{stats.new_tokens / seconds:,.0f} tokens/s")
    if stats.in_flight:
        parts.append(f"{stats.in_flight} in flight")
    if stats.cached:
        parts.append(f"{stats.cached} cached")
    if stats.failed:
        parts.append(f"{stats.failed} failed{_by_code(stats.codes)}")
    if stats.retried:
        parts.append(f"{stats.retried.total()} sent again{_by_code(stats.retried)}")
    if stats.waiting >= 1:
        parts.append(f"waiting {stats.waiting:.0f} s")
    return ", ".join(parts)


def _by_code(codes: Counter[str]) -> str:
    return f" ({', '.join(f'{code} {count}' for code, count in codes.most_common(3))})" if codes else ""


def tqdm_here() -> Any:
    """tqdm's bar for this place. Its own choice goes by what is imported, which in a script may be ipykernel, too."""
    if in_notebook():
        from tqdm.auto import tqdm  # noqa: PLC0415  # looks for a notebook when it is loaded
    else:
        from tqdm.asyncio import tqdm  # noqa: PLC0415  # as above
    return tqdm


def _makes_widgets(tqdm: type) -> bool:
    """Whether tqdm has chosen its widget; in a terminal, and where there are no widgets, it takes the line."""
    notebook = sys.modules.get("tqdm.notebook")
    return notebook is not None and issubclass(tqdm, notebook.tqdm)


def _shown(container: Any) -> Place:
    from IPython.display import display  # noqa: PLC0415  # only in a notebook

    return Place(display(container, display_id=True))


def in_notebook() -> bool:
    """Whether this is a kernel, where a bar of a background thread disturbs nobody's typing."""
    shell = sys.modules.get("IPython")
    get = getattr(shell, "get_ipython", None) if shell else None
    found = get() if get else None
    return found is not None and hasattr(found, "kernel")
