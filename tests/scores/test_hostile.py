"""Texts and lengths that break scorers: what was sent is scored, to the character; interrupts; the context's edge."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from acs_jupyter import Client, Inspector, Surgery, difference, errors, score
from acs_jupyter.scores.scoring import READERS
from tests.support.desks import until
from tests.support.html_texts import Texts
from tests.support.interrupts import interrupt, interrupted
from tests.support.player import Player, whole
from tests.support.scored import KEY, answer, entry
from tests.support.servers import Running, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTILE = {
    "nul": "a\x00b\x00",
    "rtl": "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u202eevil\u202c end",
    "zwj": "A \U0001f468\u200d\U0001f469\u200d\U0001f467 and \U0001f3f4\u200d\u2620\ufe0f \U0001f1eb\U0001f1f7.",
    "combining": "Z\u0351\u036b\u0343\u036a\u0302 e\u0301 \ufb01ne \ufffd \ufeff",
    "line ends": "a\r\nb\rc\n\n\td ",
    "markup": "</script><img src=x onerror=alert(1)> &amp; $x$",
    "han": "\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd\u3067\u3059\u3002\U00020bb7",
    "one character": "a",
    "blanks": "   \t ",
}


@pytest.fixture(params=["smollm_server", "scripted_server"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    running: Running = request.getfixturevalue(request.param)
    with Client(running.base, running.key) as made:
        yield made


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_scored_to_the_character(client: Client, name: str) -> None:
    text = HOSTILE[name]
    one = score(text, client=client, top=3)
    assert one.text == text == "".join(token.text for token in one.tokens)
    places = [token.start for token in one.tokens]
    assert places == sorted(places)
    assert all(text[token.start : token.end] == token.text for token in one.tokens)
    known = [token.logprob for token in one.tokens if token.logprob is not None]
    assert all(value <= 1e-6 for value in known)
    assert one.to_frame()["text"].tolist() == [token.text for token in one.tokens]
    view = Inspector(one)
    parsed = Texts()
    parsed.feed(view.plain()["text/html"])  # no attribute that acts, no element that loads
    assert not {"script", "img"} & set(parsed.tags)
    view.close()
    if one.scored:
        drawn = Texts()
        drawn.feed(difference(one, one)._repr_html_())
        assert difference(one, one).total == 0


def test_bytes_of_a_character_that_span_the_seam(smollm_server: Running) -> None:
    """The fox is three tokens, of which the last has its text: cut behind it the seam is clean."""
    with Client(smollm_server.base, smollm_server.key) as client:
        cut = Surgery("A \U0001f98a ran.", " It was red.", spans=["\U0001f98a"]).run(client=client)
        [effect] = cut.effects
        assert math.isfinite(effect.effect)
        assert effect.text == "\U0001f98a"


def test_a_text_of_exactly_the_context_is_read_in_one_and_one_more_in_windows() -> None:
    with (
        serving("--scripted", "--context", "100", "--starts", "0") as server,
        Client(server.base, server.key) as client,
    ):
        ids = [i % 50 for i in range(100)]
        assert score(ids[:99], client=client).windows == ()  # and the one that must be generated
        longer = score(ids, client=client)
        assert longer.windows != ()
        assert longer.ids == ids
        text = "".join(f" word{i % 7}" for i in range(400))
        low, high = 1, len(text)
        while high - low > 1:  # the longest beginning that is read in one
            middle = (low + high) // 2
            low, high = (middle, high) if not score(text[:middle], client=client).windows else (low, middle)
        edge = score(text[:low], client=client)
        assert edge.usage.prompt_tokens == 99
        over = score(text[:high], client=client)
        assert over.windows
        assert over.text == text[:high]
        assert [token.text for token in over.tokens[:50]] == [token.text for token in edge.tokens[:50]]


def test_a_megabyte_is_read_in_windows_to_the_character() -> None:
    text = "".join(f"Line {i}: all that is here is counted.\n" for i in range(27_000))
    assert len(text) > 1_000_000
    with (
        serving("--scripted", "--context", "32768", "--starts", "0") as server,
        Client(server.base, server.key) as client,
    ):
        one = score(text, client=client, context=64)
    assert one.text == text
    assert one.windows == tuple(sorted(one.windows))
    assert len(one.windows) > 5
    assert one.scored >= len(one) - 1


def test_ids_out_of_the_vocabulary_are_the_servers_one_line(smollm_server: Running) -> None:
    client = Client(smollm_server.base, smollm_server.key)
    for ids in ([1, 10**6], [1, -5], [1, 2**70]):
        with pytest.raises(errors.AcsError) as caught:
            score(ids, client=client)
        assert caught.value.message
        assert "\n" not in caught.value.message
    client.close()


def test_an_interrupt_sends_no_more() -> None:
    """What is under way ends; of a hundred requests those behind are never sent."""
    body = answer([None, entry(" b", -1.0)])
    models = {"/v1/models": whole({"object": "list", "data": []})}
    slow = whole(body)
    with Player([[0.4, *slow]], models) as server, Client(server.base, KEY) as client:

        def once() -> None:
            until(lambda: len(server.requests) > 1)
            interrupt()

        with interrupted(once):
            score(["a b"] * 100, client=client, batch=1)
        sent = len(server.requests)
        assert 0 < sent <= 4 * READERS
        assert score("a b", client=client).logprob == -1.0  # the client is as it was
        assert len(server.requests) == sent + 1
