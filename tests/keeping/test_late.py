"""What another thread wrote is written once more from the main one, the newest alone, and once."""

from __future__ import annotations

import threading
from typing import Any

from acs_jupyter.keeping.late import Place, again


class Handle:
    def __init__(self) -> None:
        self.shown: list[tuple[Any, bool]] = []

    def update(self, bundle: Any, **options: Any) -> None:
        self.shown.append((bundle, threading.current_thread() is threading.main_thread()))


def elsewhere(place: Place, *bundles: str) -> None:
    thread = threading.Thread(target=lambda: [place.update(bundle, raw=True) for bundle in bundles])
    thread.start()
    thread.join()


def test_the_newest_of_another_thread_comes_again_once() -> None:
    handle = Handle()
    elsewhere(Place(handle), "a", "b")
    assert handle.shown == [("a", False), ("b", False)]
    again()
    again()
    assert handle.shown[2:] == [("b", True)]


def test_what_the_main_thread_wrote_since_is_not_overwritten() -> None:
    handle = Handle()
    place = Place(handle)
    elsewhere(place, "old")
    place.update("new")
    again()
    assert [bundle for bundle, _ in handle.shown] == ["old", "new"]


def test_where_there_is_no_display_nothing_is_kept() -> None:
    elsewhere(Place(None), "a")
    again()
