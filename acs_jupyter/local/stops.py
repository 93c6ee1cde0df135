"""Stop strings: finds them as text arrives and holds back only what might become one.

Owns the search. It must not know tokens, engines or HTTP.
"""

from __future__ import annotations


class StopFinder:
    """Watches the text of one choice. Empty ``stops`` means that everything passes at once."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""

    def feed(self, text: str) -> tuple[str, str | None]:
        """Add text; what may be shown now, and the stop string that was met (then nothing follows)."""
        if not self._stops:
            return text, None
        window = self._held + text
        met = min(
            ((window.find(stop), rank) for rank, stop in enumerate(self._stops) if stop in window),
            default=None,
        )
        if met is not None:
            self._held = ""
            return window[: met[0]], self._stops[met[1]]
        keep = max(_overlap(window, stop) for stop in self._stops)
        self._held = window[len(window) - keep :]
        return window[: len(window) - keep], None

    def rest(self) -> str:
        """What was held back and did not become a stop string, at the end of the text."""
        held, self._held = self._held, ""
        return held


def _overlap(window: str, stop: str) -> int:
    # Longest end of the window that is a beginning of the stop string.
    for size in range(min(len(stop) - 1, len(window)), 0, -1):
        if window.endswith(stop[:size]):
            return size
    return 0
