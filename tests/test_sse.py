"""Any slicing, any line end, comments and split characters: the same payloads."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acs_jupyter import sse

payloads = st.lists(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1), max_size=6
)


def decode(data: bytes, cuts: list[int]) -> list[bytes | sse.Comment]:
    decoder, found, start = sse.Decoder(), [], 0
    for cut in [*sorted(cuts), len(data)]:
        found += decoder.feed(data[start:cut])
        start = max(start, cut)
    return found + decoder.flush()


@given(payloads, st.lists(st.sampled_from([b"\n", b"\r", b"\r\n"]), min_size=1), st.randoms(), st.booleans())
def test_any_slicing_and_any_line_end(
    texts: list[str], ends: list[bytes], rng: random.Random, bom: bool
) -> None:
    data = b"\xef\xbb\xbf" if bom else b""
    expected: list[bytes | sse.Comment] = []
    for text in texts:
        if rng.random() < 0.5:
            data += b": keep alive" + rng.choice(ends)
            expected.append(sse.Comment("keep alive"))
        data += b"data: " + text.encode() + rng.choice(ends)
        # A lone CR before a lone LF would be one CRLF, so an event's two ends are of one kind.
        end = rng.choice(ends)
        data = data[: data.rfind(text.encode()) + len(text.encode())] + end + end
        expected.append(text.encode())
    whole = decode(data, [])
    assert whole == expected
    cuts = [rng.randrange(len(data) + 1) for _ in range(8)]
    assert decode(data, cuts) == expected
    assert decode(data, list(range(len(data)))) == expected


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"data:x\n\n", [b"x"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"event: ping\nid: 3\nretry: 9\ndata: x\n\n", [b"x"]),
        (b"data\n\n", [b""]),
        (b"\n\n\n", []),
        (b"data: whole\n", [b"whole"]),
        (b'data: {"cut', [b'{"cut']),  # whoever reads it sees that it is cut
        ("data: é\r\rdata: 🦊\r\n\r\n".encode(), ["é".encode(), "🦊".encode()]),
        (b": [##..] loading \xc2\xb7 4m32s   \r\ndata: x\n\n", [sse.Comment("[##..] loading · 4m32s"), b"x"]),
        (b": boot\r: boot more\r\ndata: x\n\n", [sse.Comment("boot"), sse.Comment("boot more"), b"x"]),
    ],
)
def test_forms(data: bytes, found: list[bytes]) -> None:
    assert decode(data, []) == found
    assert decode(data, list(range(len(data)))) == found
