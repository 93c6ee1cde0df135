"""The static view: exact text, escaped markup, small, and without a kernel's help."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

from acs_jupyter.log import events as ev
from acs_jupyter.log.session import Session
from acs_jupyter.log.tree import Node
from acs_jupyter.widgets.reading import INVISIBLE, align, level, percent, quoted, visible
from acs_jupyter.widgets.snapshot import mimebundle, plain_text, static_html
from acs_jupyter.widgets.tinted import on_file, tinted
from acs_jupyter.wire import CompletionRequest
from tests import make_golden as golden
from tests.support.texts import session_of as session_with

HOSTILE = [
    "</script>", "<img src=x onerror=alert(1)>", "</pre></style>", '" onmouseover="alert(1)', "'", "&lt;",
    "\u202e", "\x00", "\r", "<!--", "]]>", "\n", "\t", "&#60;", "\u2066", "\ufeff",
]  # fmt: skip


CLASSES = {"k", *(f"k{level}" for level in range(1, 8))}


class Reading(HTMLParser):
    """What a page would make of it: tags with attributes, and the text of the texts."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.titles: list[str] = []
        self._inside = False
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.titles += [value or "" for name, value in attrs if name == "title"]
        if tag == "pre":
            self._inside = True
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "pre"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[-1] += data


def session_of(
    tokens: list[str], *, n: int = 1, prompt: Any = "P", close: bool = True, **fields: Any
) -> Session:
    session = Session(clock=lambda: 0.0)
    request = CompletionRequest(prompt=prompt, model="m", n=n, logprobs=2, **fields)
    session.apply(ev.opening("r", request))
    for node in session.runs["r"].nodes:
        tops: list[ev.Top | None] = [{token: -2.0, "<b>": -1.0} for token in tokens]
        session.apply([ev.TokensArrived(node, "".join(tokens), tokens, [-2.0] * len(tokens), tops)])
        session.apply([ev.Finished(node, "length")])
    if close:
        session.apply([ev.RunClosed("r", "done")])
    return session


@pytest.mark.parametrize("name", golden.names())
def test_recorded_text_reads_the_same(name: str) -> None:
    session = golden.session_of(golden.events_of(name))
    texts = [session.nodes[node].text for node in session.runs["g"].nodes]
    assert Reading(static_html(session, "g")).texts == texts
    if len(texts) == 1:
        assert mimebundle(session, "g")["text/plain"] == texts[0]


def test_hostile_text_makes_no_tag_and_no_attribute() -> None:
    read = Reading(static_html(session_of(HOSTILE), "r"))
    assert {tag for tag, _ in read.tags} == {"style", "div", "pre", "span", "i"}
    assert {name for _, attrs in read.tags for name in attrs} <= {"class", "title", "style"}
    assert all(attrs.get("class", "k") in CLASSES for tag, attrs in read.tags if tag in {"u", "span", "i"})
    assert read.texts == ["".join(HOSTILE).replace("\u202e", "⟨U+202E⟩").replace("\x00", "⟨U+0000⟩")
        .replace("\r", "⟨U+000D⟩").replace("\u2066", "⟨U+2066⟩").replace("\ufeff", "⟨U+FEFF⟩")]  # fmt: skip
    assert len(read.titles) == len(HOSTILE)
    assert plain_text(session_of(HOSTILE), "r") == "".join(HOSTILE)


def test_hostile_names_and_errors_are_text() -> None:
    session = session_of(["x"], close=False)
    session.apply(
        [ev.Served("r", "<b>model</b>", None, '"><img src=x>', {"x-acs-max-tokens-clamped": "reason=<u>"})]
    )
    session.apply([ev.Failed("r", "<i>code</i>", "<script>alert(1)</script>"), ev.RunClosed("r", "failed")])
    markup = static_html(session, "r")
    assert {tag for tag, _ in Reading(markup).tags} == {"style", "div", "pre", "span"}
    for word in ("<b>model", "<img", "<u>", "<i>code", "<script"):
        assert word not in markup


def test_titles_are_short_and_hold_no_blank_within_an_entry() -> None:
    session = Session(clock=lambda: 0.0)
    session.apply(ev.opening("r", CompletionRequest(prompt="P", logprobs=5)))
    top = {" the": -1.8, "'a b'": -0.9, "\n": -4.0, "<": -5.4, "\xa0": -6.0, " never": -8.0}
    session.apply([ev.TokensArrived("r.0", " the\n", [" the", "\n"], [-1.8, -7.9], [top, {"\n": -7.9}])])
    session.apply([ev.RunClosed("r", "done")])
    read = Reading(static_html(session, "r"))
    assert read.titles == [
        "''a·b''\xa041%, this\xa016.5%, '↵'\xa02%",
        "this\xa0'↵'\xa00.037%",
    ]
    assert [tag for tag, _ in read.tags if tag in {"span", "u", "i"}] == ["span", "u", "i"]


@pytest.mark.parametrize("kind", ["text", "han", "markup"])
def test_a_text_without_room_is_whole_and_keeps_some_tints(kind: str) -> None:
    node = (session := session_with(400, kind)).nodes[session.runs["r"].nodes[0]]
    full = Reading(f"<pre>{tinted(node)}</pre>")
    lean = tinted(node, 0)
    half = tinted(node, (on_file(tinted(node)) + on_file(lean)) / 2)
    named = INVISIBLE.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", node.text)
    for markup, titles in ((lean, range(1)), (half, range(100, 300))):
        read = Reading(f"<pre>{markup}</pre>")
        assert read.texts == full.texts == [named]
        assert len(read.titles) in titles
        assert {attrs["class"] for tag, attrs in read.tags if tag == "u"} == {"k3", "k4", "k5", "k6", "k7"}
        assert read.titles == full.titles[: len(read.titles)]
    assert on_file(half) <= (on_file(tinted(node)) + on_file(lean)) / 2
    assert re.search(r"<u class=k(\d)>[^<]*</u><u class=k\1>", lean) is None


def test_only_the_view_beside_a_window_hides_anything() -> None:
    session = session_of(["x"])
    assert "display:none" not in static_html(session, "r")
    beside = mimebundle(session, "r")["text/html"]
    assert "#output-area):has(.acs-live) .acs-beside{display:none}" in beside
    assert 'class="acs-static acs-beside"' in beside


def test_several_choices_are_named_in_both_forms() -> None:
    session = session_of(["x\n", "y"], n=2, prompt=["Roses", "A\nhaiku"])
    assert plain_text(session, "r").split("\n") == [
        "--- prompt 1 (Roses), continuation 1 of 2 ---", "x", "y",
        "--- prompt 1 (Roses), continuation 2 of 2 ---", "x", "y",
        "--- prompt 2 (A↵haiku), continuation 1 of 2 ---", "x", "y",
        "--- prompt 2 (A↵haiku), continuation 2 of 2 ---", "x", "y",
    ]  # fmt: skip
    markup = static_html(session, "r")
    assert Reading(markup).texts == ["x\ny"] * 4
    assert markup.count("1 of 2 · reached max_tokens") == 2


def test_a_stopped_run_keeps_its_part_and_says_so() -> None:
    session = session_of(["part"], close=False)
    session.apply([ev.RunClosed("r", "stopped")])
    markup = static_html(session, "r")
    assert Reading(markup).texts == ["part"]
    assert "stopped" in re.findall(r'<div class="acs-line">(.*?)</div>', markup)[-1]


def test_a_failed_run_without_text_says_why() -> None:
    session = Session(clock=lambda: 0.0)
    session.apply(ev.opening("r", CompletionRequest(prompt="P")))
    session.apply([ev.Failed("r", "queue_full", "Too many.", 429, "req-1"), ev.RunClosed("r", "failed")])
    markup = static_html(session, "r")
    assert "queue_full (429): Too many." in markup
    assert "request req-1" in markup
    assert plain_text(session, "r") == ""


def test_it_needs_no_widget_library() -> None:
    others = {"anywidget", "ipywidgets", "httpx", "pandas", "IPython"}
    code = f"import sys, acs_jupyter.widgets.snapshot; print(sorted({others} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_reading() -> None:
    assert [piece.text for piece in align("one", ["one", "\n", "Q"])] == ["one"]
    assert align("a版", ["a", "", "版"])[1] == ("版", 1, 2)
    assert "".join(piece.text for piece in align("quite another", ["x", "y"])) == "quite another"
    assert [level(value) for value in (0.0, -1.0, -20.0, None)] == [0, 1, 7, None]
    assert [percent(value) for value in (0.0, -5.0, -9.0, -20.0)] == ["100.0%", "0.67%", "0.012%", "<0.001%"]
    assert quoted(" the") == "'·the'"
    assert visible("\u202e\n") == "⟨U+202E⟩↵"


def test_a_probability_above_one_is_drawn_as_one() -> None:
    """Nothing that a server says keeps a text out of the notebook."""
    node = Node("n", "r", None, 0, parts=["a"], tokens=["a"], logprobs=[-1.0], top=[{" b": 1e5, "a": -1.0}])
    assert tinted(node) == "<span class=k1 title=\"'·b'\xa0100%, this\xa036.8%\">a</span>"
