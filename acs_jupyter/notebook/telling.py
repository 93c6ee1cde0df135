"""How an error is told in a notebook: one line, and the whole story for who asks.

Owns that line, the last error, and whether tracebacks are wanted (``%acs debug``). It must not know what went wrong.
IPython asks an exception for its own rendering (``_render_traceback_``) before it writes a traceback.
"""

from __future__ import annotations

import linecache
import textwrap
import traceback
from collections.abc import Callable
from typing import Any

from ..errors import AcsError, InvalidRequest, NotConfigured
from ..errors.base import one_line

WIDTH = 80
"""Characters in a line of an error on a page. JupyterLab, and pages made of a notebook, break longer ones in a word."""
STOPPED = "KeyboardInterrupt: stopped; what came is kept."


class Telling:
    """The errors of one kernel. ``redact`` takes keys out of what is shown; as a context it is around a magic.

    ``page``: they are shown on a page, which gets its lines broken at spaces; a terminal wraps by itself.
    """

    def __init__(self, redact: Callable[[str], str], *, page: bool = False) -> None:
        self.last: BaseException | None = None
        self.always = False
        self._redact = redact
        self._width = WIDTH if page else 0

    def begin(self) -> None:
        """From now on every error of this package is told so, wherever in a cell it was raised."""

        def rendered(error: AcsError) -> list[str]:
            return self.lines(error)

        AcsError._render_traceback_ = rendered  # type: ignore[attr-defined]

    def end(self) -> None:
        """As before."""
        if "_render_traceback_" in vars(AcsError):
            del AcsError._render_traceback_  # type: ignore[attr-defined]

    def lines(self, error: BaseException) -> list[str]:
        """What is shown of an error."""
        self.last = error
        if self.always:
            return self.story().splitlines()
        told = STOPPED if isinstance(error, KeyboardInterrupt) else str(error)
        return [*_own_line(error), self._wrapped(self._redact(told))]

    def _wrapped(self, line: str) -> str:
        """At spaces alone: an address, a path or a request id stays in one piece, to be copied."""
        return line if not self._width or len(line) <= self._width else "\n".join(_pieces(line, self._width))

    def story(self) -> str:
        """The last error with its traceback, and its request id on a line of its own."""
        if self.last is None:
            raise InvalidRequest("No error has been shown yet: run this again behind one.", advice="")
        told = "".join(traceback.format_exception(self.last)).rstrip()
        request = getattr(self.last, "request_id", None)
        return self._redact(f"{told}\n\nrequest id: {one_line(request)}" if request else told)

    def command(self, word: str) -> None:
        """``%acs debug [on|off]``."""
        if word not in ("", "on", "off"):
            raise InvalidRequest(f"%acs debug takes nothing, on or off; not {word}.")
        if word:
            self.always = word == "on"
            print(
                "Errors come with their traceback."
                if self.always
                else "Errors are one line; %acs debug tells more."
            )
            return
        print(self.story())

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, KeyboardInterrupt):
            error._render_traceback_ = lambda: self.lines(error)  # type: ignore[attr-defined]


def _pieces(line: str, width: int) -> list[str]:
    kept = line.replace("[request ", "[request\0")  # stays with its id
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    wrapper.expand_tabs = wrapper.replace_whitespace = False
    return [piece.replace("\0", " ") for piece in wrapper.wrap(kept)]


def misconfigured(problem: str) -> AcsError:
    """IPython's configuration holds what no setting takes: an error that is one line before any magic is there."""
    error = NotConfigured(
        problem, advice="Correct c.AcsMagics in ipython_config.py, then load the extension again."
    )
    error._render_traceback_ = lambda: [str(error)]  # type: ignore[attr-defined]
    return error


def _own_line(error: BaseException) -> list[str]:
    """The line of the reader's own cell that led to an error, if Python code did and not a magic."""
    own = [
        (frame.f_code.co_filename, number)
        for frame, number in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == "__main__" and "In" in frame.f_globals
    ]
    text = linecache.getline(*own[-1]).strip() if own else ""
    if not text or text.startswith(("get_ipython()", "%")):
        return []
    return [f"line {own[-1][1]}: {text}"]
