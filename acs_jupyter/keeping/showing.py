"""A window and the copy below it that is read where no kernel is: two outputs of one cell, in this order.

Owns how both are put out. It must not know what either shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .late import Place, placed


def show(window: Any, copy: Mapping[str, str] | None = None, *, place: str | None = None) -> Place:
    """Put both out; the place of the copy, where it can be written again. Without ``copy`` it is empty as yet.

    ``place`` is one name for all outputs that show the window: what is written later goes to each of them.
    """
    from IPython.display import display  # noqa: PLC0415  # only where something is shown

    # Not the window itself, which may show itself by this very function.
    bundle = window._repr_mimebundle_()
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
    display({**data, "text/plain": ""}, raw=True, metadata=metadata)  # the copy is its text
    return placed(copy, name=place)


def show_or_print(
    window: Any, line: str, copy: Mapping[str, str] | None = None, *, place: str | None = None
) -> Place | None:
    """The same in a kernel; elsewhere the line is printed, and there is no place."""
    if in_kernel():
        return show(window, copy, place=place)
    print(line)
    return None


def in_kernel() -> bool:
    """Whether there are pages that could show a window."""
    from IPython.core.getipython import get_ipython  # noqa: PLC0415  # only where something is shown

    return getattr(get_ipython(), "kernel", None) is not None
