"""The small parts by themselves: stop strings, incomplete characters, swallowed tokens, seeds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acs_jupyter.checks import build_request
from acs_jupyter.local.llama_wire import choice_seed, sampling
from acs_jupyter.local.pieces import Pieces, missing_between
from acs_jupyter.local.stops import StopFinder

TABLE = [bytes([i]) for i in range(256)] + [b" the", "é".encode(), " 東".encode()[:2], b"\xf0\x9f"]
few = st.text("ab\n", max_size=12)


@given(st.lists(few, max_size=8), st.lists(few.filter(bool), min_size=1, max_size=4))
def test_stop_strings(parts: list[str], stops: list[str]) -> None:
    finder = StopFinder(tuple(stops))
    shown, met = "", None
    for part in parts:
        text, met = finder.feed(part)
        shown += text
        if met is not None:
            break
        assert not any(stop in shown for stop in stops)
    whole = "".join(parts)
    if met is None:
        assert shown + finder.rest() == whole
        assert not any(stop in whole for stop in stops)
    else:
        assert whole.startswith(shown + met)
        assert not any(stop in shown for stop in stops)


def test_only_what_might_stop_is_held_back() -> None:
    finder = StopFinder(("END",))
    assert finder.feed("some text E") == ("some text ", None)
    assert finder.feed("N") == ("", None)
    assert finder.feed("ough") == ("ENough", None)
    assert finder.feed(" END") == (" ", "END")


@given(st.text(max_size=20))
def test_texts_of_tokens_join(text: str) -> None:
    pieces = Pieces(TABLE, frozenset())
    parts = [pieces.add(byte) for byte in text.encode("utf-8", "ignore")]
    assert "".join(parts) == text.encode("utf-8", "ignore").decode()
    assert all("\ufffd" not in part for part in parts) or "\ufffd" in text


@given(st.lists(st.integers(0, len(TABLE) - 1), max_size=20))
def test_any_bytes_read_as_the_replacing_decoder_does(tokens: list[int]) -> None:
    pieces = Pieces(TABLE, frozenset())
    shown = "".join(pieces.add(token) for token in tokens)
    whole = b"".join(TABLE[token] for token in tokens)
    assert whole.decode("utf-8", "replace").startswith(shown)
    assert len(whole.decode("utf-8", "replace")) - len(shown) <= 4


def test_open_character_takes_its_space_along() -> None:
    pieces = Pieces(TABLE, frozenset())
    assert pieces.add(258) == ""
    assert pieces.alone(0x9D) == ""
    assert [pieces.add(0x9D), pieces.add(0xB1)] == ["", " 東"]


def test_missing_tokens() -> None:
    table = {piece: token for token, piece in enumerate(TABLE)}
    assert missing_between(table, b"\xf0\x9f\xa6", 2) == [259, 0xA6]
    assert missing_between(table, b"\xf0\x9f\xa6", 3) == [0xF0, 0x9F, 0xA6]
    assert missing_between(table, b"\xf0", 2) is None
    assert missing_between({b"a": 1, b"aa": 2}, b"aaa", 2) is None


@given(st.integers(0, 2**63 - 1), st.integers(0, 15))
def test_seeds_fit_the_engine(seed: int, choice: int) -> None:
    request = build_request({"prompt": "x", "max_tokens": 1, "n": 16, "seed": seed})
    value = choice_seed(request, choice)
    assert 0 <= value < 2**31
    assert value == choice_seed(request, choice + 16)
    assert value != choice_seed(request, choice + 1)


def test_sampling_defaults_change_nothing() -> None:
    fields = sampling(build_request({"prompt": "x"}), 0, 100)
    assert (fields["temperature"], fields["top_k"], fields["top_p"], fields["min_p"]) == (1.0, 0, 1.0, 0.0)
    assert (fields["repeat_penalty"], fields["presence_penalty"], fields["frequency_penalty"]) == (
        1.0,
        0.0,
        0.0,
    )
