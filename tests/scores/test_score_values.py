"""What is worked out from scores, and how one is shown."""

from __future__ import annotations

import html
import math
import re
from types import SimpleNamespace

import IPython
import pytest
from IPython.core.formatters import DisplayFormatter

from acs_jupyter.completion import Alternative
from acs_jupyter.scores.values import Score, ScoredToken, perplexity_of
from acs_jupyter.wire import Usage
from tests.support.html_texts import Texts

HOSTILE = "</pre><script>alert(1)</script>\u202e\n"


def scored() -> Score:
    top = (Alternative(" fox", -0.25), Alternative("<img src=x onerror=alert(1)>", -3.0))
    tokens = [
        ScoredToken(0, "The", 0),
        ScoredToken(1, " fox", 3, 7, -0.25, 1, top),
        ScoredToken(2, HOSTILE, 7, 9, -7.0, 400),
        ScoredToken(3, " off", 7 + len(HOSTILE), 9, -math.inf, None),
    ]
    return Score(f"The fox{HOSTILE} off", tokens, "some/model", False, Usage(4, 1, 5))


def test_a_perplexity_that_no_number_holds_is_infinite() -> None:
    assert perplexity_of(-9999.0 * 3, 3) == math.inf
    assert math.isnan(perplexity_of(0.0, 0))
    assert perplexity_of(-2.0, 2) == pytest.approx(math.e)


def test_a_score_that_ends_a_cell_is_drawn_and_its_text_is_exact() -> None:
    one = scored()
    shown, _ = DisplayFormatter().format(one)
    assert set(shown) == {"text/plain", "text/html"}
    assert shown["text/plain"] == one.text
    page = shown["text/html"]
    (drawn,) = re.findall("<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    text = html.unescape(re.sub("<[^>]*>", "", drawn))
    assert text == one.text.replace("\u202e", "⟨U+202E⟩")
    assert re.search(r"<span title=[^>]*> fox<", drawn)  # likely: no tint, its alternatives in the title
    assert re.search(r"<u class=k7[^>]*>&lt;/pre&gt;", drawn)  # below one in a thousand
    assert "'<img" not in page
    assert "4 tokens, 3 scored · logprob −inf nats" in page
    assert "some/model" in page
    parsed = Texts()
    parsed.feed(page)
    assert set(parsed.tags) <= {"style", "div", "pre", "u", "span", "i"}
    assert "acs-beside" not in page  # it stands for itself: no window hides it


def test_a_list_of_scores_and_a_terminal_tell_them_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    one = scored()
    shown, _ = DisplayFormatter().format([one, one])
    assert shown == {"text/plain": f"[{one!r},\n {one!r}]"}

    class TerminalInteractiveShell(SimpleNamespace):
        pass

    monkeypatch.setattr(IPython, "get_ipython", TerminalInteractiveShell)
    assert one._repr_mimebundle_() == {"text/plain": repr(one)}
