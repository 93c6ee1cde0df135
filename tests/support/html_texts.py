"""What a browser would show of some HTML: its text and its tags; a handler in an attribute fails at once."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data
