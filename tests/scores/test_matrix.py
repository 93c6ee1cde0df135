"""Whole distributions: numbers out of bytes, bodies into matrices, and the arithmetic on them."""

from __future__ import annotations

import json
import math
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acs_jupyter.errors import InvalidRequest
from acs_jupyter.scores import digits, matrix_reader
from acs_jupyter.scores.digits import MARGIN, Text
from acs_jupyter.scores.distribution import Distribution, Distributions
from acs_jupyter.scores.matrix_reader import Matrix, MatrixReader, Unreadable
from acs_jupyter.scores.vocabulary import Vocabulary
from tests.benchmarks.bench_matrix import pieces

SIZE = 1000
NASTY = [
    '"',
    "}}]",
    '":{"logprob":',
    "{",
    "}",
    "]",
    "\\",
    "\n",
    "é",
    "🦊",
    "",
    "\ufffd",
    '},"7":{"logprob":-1.5,',
    "\x00",
    " {",
]


def texts(size: int = SIZE) -> list[str]:
    return [NASTY[i] if i < len(NASTY) else f" token{i}" for i in range(size)]


def logs(rows: int, size: int = SIZE, seed: int = 1) -> Any:
    values = np.random.default_rng(seed).normal(size=(rows, size)) * 4
    return (values - np.log(np.exp(values).sum(1, keepdims=True))).astype(np.float32)


def positions(matrix: Any, own: list[int], words: list[str]) -> list[Any]:
    """As vLLM writes them: the text's own token first, then by rank."""
    found: list[Any] = [None]
    for row, first in zip(matrix, own, strict=True):
        order = np.argsort(-row, kind="stable").tolist()
        ranks = {token: rank for rank, token in enumerate(order, 1)}
        tokens = [first, *(token for token in order if token != first)]
        found.append(
            {
                str(token): {
                    "logprob": max(float(row[token]), -9999.0), "rank": ranks[token], "decoded_token": words[token]
                }
                for token in tokens
            }
        )  # fmt: skip
    return found


def body(lists: list[Any], **dump: Any) -> bytes:
    choices = [
        {
            "index": i,
            "text": 'x"prompt_logprobs":[',
            "logprobs": None,
            "prompt_logprobs": each,
            "finish_reason": "length",
        }
        for i, each in enumerate(lists)
    ]
    answer = {"id": "c", "choices": choices, "usage": {"prompt_tokens": 4}}
    return json.dumps(answer, **({"separators": (",", ":"), "ensure_ascii": False} | dump)).encode()


def read(data: bytes, step: int) -> tuple[dict[str, Any], list[Matrix]]:
    reader = MatrixReader()
    rest = b"".join(reader.feed(data[i : i + step]) for i in range(0, len(data), step)) + reader.end()
    return json.loads(rest), reader.matrices


@given(
    st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False)
        | st.floats(-30, 0, width=32)
        | st.sampled_from([0.0, -0.0, -9999.0, -1.1920928955078125e-07, -12345678.5]),
        min_size=1,
    ),
    st.sampled_from([repr, "{:.6f}".format, "{:.17g}".format, "{:d}".format]),
)
@example([0.0010000000474974513], repr)
@settings(max_examples=150)
def test_numbers_are_what_float_reads(values: list[float], form: Any) -> None:
    written = [form(int(value) if form == "{:d}".format else value) for value in values]
    data, places = b" " * MARGIN, []
    for index, text in enumerate(written):
        places.append(len(data) + 1)
        data += b":" + text.encode() + (b"," if index % 2 else b"}")
    found = Text(data + b" " * MARGIN).numbers(np.array(places))
    expected = np.array([float(text) for text in written])
    assert np.allclose(found, expected, rtol=1e-14, atol=1e-16)  # digits behind the sixteenth are left out
    with np.errstate(over="ignore"):
        assert (found.astype(np.float32) == expected.astype(np.float32)).all()


def test_digits_are_counted_alike_with_and_without_a_popcount(monkeypatch: pytest.MonkeyPatch) -> None:
    below = np.array([2 ** (8 * count) - 1 for count in range(9)], np.uint64)
    assert digits._bytes_of(below).tolist() == list(range(9))
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert digits._bytes_of(below).tolist() == list(range(9))


@pytest.mark.parametrize("step", [1013, 65_536, 10**9])
@pytest.mark.parametrize(
    "form", [{}, {"ensure_ascii": True}, {"separators": (", ", ": ")}], ids=["usual", "ascii", "spaced"]
)
def test_a_body_becomes_a_matrix_whatever_its_slices(step: int, form: dict[str, Any]) -> None:
    matrix = logs(5)
    matrix[2, 17] = -np.inf
    own = [3, 900, 2, 2, 12]
    answer, [found] = read(body([positions(matrix, own, texts())], **form), step)
    assert (found.logprobs == matrix).all()
    assert (found.ids, found.first) == (own, 1)
    assert list(found.vocabulary) == texts()
    [choice] = answer["choices"]
    assert choice["prompt_logprobs"] is None
    assert choice["text"] == 'x"prompt_logprobs":['
    assert answer["usage"] == {"prompt_tokens": 4}


def test_several_choices_and_none() -> None:
    one, two = logs(2, seed=1), logs(3, seed=2)
    lists = [positions(one, [1, 2], texts()), None, positions(two, [3, 4, 5], texts()), [None]]
    answer, found = read(body(lists), 4096)
    assert [len(each.logprobs) for each in found] == [2, 3, 0]
    assert (found[1].logprobs == two).all()
    assert [choice["prompt_logprobs"] for choice in answer["choices"]] == [None] * 4


def test_a_body_without_scores_passes() -> None:
    data = body([None])
    assert read(data, 7) == (json.loads(data), [])
    assert read(b'{"error":{"message":"x"}}', 3) == ({"error": {"message": "x"}}, [])


@pytest.mark.parametrize("cut", [0.3, 0.9, 0.999])
@pytest.mark.parametrize("form", [{}, {"separators": (", ", ": ")}])
def test_what_is_cut_or_uneven_is_said(cut: float, form: dict[str, Any]) -> None:
    data = body([positions(logs(4), [1, 2, 3, 4], texts())], **form)
    inside = data.rindex(b"]")
    with pytest.raises(Unreadable):
        read(data[: int(inside * cut) - 40], 4096)


@pytest.mark.parametrize("form", [{}, {"separators": (", ", ": ")}])
def test_what_a_position_does_not_tell_is_not_known(form: dict[str, Any]) -> None:
    matrix = logs(3)
    uneven = positions(matrix, [1, 2, 3], texts())
    del (
        uneven[1]["999"],
        uneven[2]["500"],
    )  # the first position lacks the last id: the matrix grows wider later
    _, [found] = read(body([uneven], **form), 4096)
    expected = matrix.copy()
    expected[0, 999] = expected[1, 500] = np.nan
    assert np.array_equal(found.logprobs, expected, equal_nan=True)
    assert found.vocabulary[998] == " token998"
    assert found.vocabulary[999] == ""


def test_a_text_longer_than_a_piece_is_read() -> None:
    words = texts()
    words[3], words[4] = "x" * 65_535, "{" * 65_535
    answer, [found] = read(body([positions(logs(2), [3, 4], words)]), 8192)
    assert list(found.vocabulary) == words
    assert (found.logprobs == logs(2)).all()
    assert answer["usage"] == {"prompt_tokens": 4}
    words[3] += "x"
    with pytest.raises(ValueError, match="65,536 bytes"):
        read(body([positions(logs(2), [3, 4], words)]), 8192)


@pytest.mark.parametrize("form", [{}, {"separators": (", ", ": ")}])
@pytest.mark.parametrize("step", [977, 4096, 10**9])
def test_a_position_of_which_nothing_is_told_is_no_other_one(
    form: dict[str, Any], step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix_reader, "PIECE", min(step, 98_304))
    for place in (2, 3):
        told = positions(logs(3), [1, 2, 3], texts())
        told.insert(place, None)
        with pytest.raises(Unreadable, match="nothing of some position"):
            read(body([told], **form), step)
    _, [found] = read(body([[None, None, *positions(logs(3), [1, 2, 3], texts())[1:]]], **form), step)
    assert (found.first, len(found.logprobs)) == (2, 3)


def test_only_a_piece_is_held() -> None:
    data = body([positions(logs(90), [0] * 90, texts())])
    reader = MatrixReader()
    largest = 0
    for start in range(0, len(data), 8192):
        reader.feed(data[start : start + 8192])
        largest = max(largest, len(reader._rest))
    reader.end()
    assert largest < 100_000 < len(data) / 50


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from Linux")
def test_reading_takes_little_more_memory_than_what_it_gives() -> None:
    """Of 8 positions of a vocabulary of 49,152: the matrix, its texts, and less than a third of the matrix for work."""
    command = [sys.executable, "-m", "tests.benchmarks.bench_matrix", "read", "8"]
    body = b"".join(pieces(8))
    peaks = []
    for _ in range(5):  # what a loaded machine adds to so small a matrix comes and goes
        done = subprocess.run(
            command, input=body, capture_output=True, check=True, cwd=Path(__file__).parents[2]
        )
        found = re.search(r"without texts ([\d.]+)", done.stdout.decode())
        assert found is not None, done
        peaks.append(float(found[1]))
    assert min(peaks) <= 1.3, peaks


# -- arithmetic -----------------------------------------------------------------------------------


@pytest.fixture
def found() -> Distributions:
    return Distributions(logs(3), [5, 900, 14], first=1, vocabulary=Vocabulary.of(texts()), model="m")


def test_what_can_be_asked_of_a_distribution(found: Distributions) -> None:
    one = found[1]
    p = one.probabilities
    assert p.sum() == pytest.approx(1, abs=1e-4)
    assert one.entropy == pytest.approx(-(p * np.log2(p)).sum())
    top = one.top(5)
    assert [each.rank for each in top] == [1, 2, 3, 4, 5]
    assert [each.id for each in top] == np.argsort(-one.logprobs)[:5].tolist()
    assert one.of(" token900") == one.of(900)
    assert one.of(900).rank == int((one.logprobs > one.logprobs[900]).sum()) + 1
    assert math.fsum(one.to_frame()["probability"]) == pytest.approx(1, abs=1e-4)
    assert one.kl(one) == 0
    assert one.js(found[2]) == pytest.approx(found[2].js(one))
    assert 0 < one.js(found[2]) <= math.log(2)
    q = found[2].probabilities
    assert one.kl(found[2]) == pytest.approx((p * np.log(p / q)).sum())


def test_positions_count_from_the_text(found: Distributions) -> None:
    assert [each.position for each in found] == [1, 2, 3]
    assert found[-1].position == 3
    for outside in (0, 4, -4):
        with pytest.raises(IndexError, match=r"1\.\.3"):
            found[outside]
    assert found.texts == ["]", " token900", " {"]
    assert found.ranks(" token20") == [each.rank(20) for each in found]
    frame = found.to_frame()
    assert frame["logprob"].tolist() == pytest.approx([float(each.logprobs[each.own]) for each in found])


def test_probability_zero_and_what_was_not_told() -> None:
    values = np.log(np.array([0.5, 0.5, 0.0, 0.0]), where=[True, True, False, False], out=np.full(4, -np.inf))
    values[3] = np.nan
    words = Vocabulary.of(["a", "b", "c", "d"])
    one = Distribution(values.astype(np.float32), words, position=1, own=None)
    assert one.entropy == pytest.approx(1)
    assert one.of("d").logprob == -math.inf
    even = Distribution(np.full(4, math.log(0.25), np.float32), words, position=1, own=None)
    assert even.kl(one) == math.inf
    assert one.kl(even) == pytest.approx(math.log(2))
    with pytest.raises(InvalidRequest, match="different vocabularies"):
        one.kl(Distribution(even.logprobs, Vocabulary.of(["a", "b", "c", "e"]), position=1, own=None))
    with pytest.raises(InvalidRequest, match="not in the vocabulary"):
        one.of("zebra")


def test_what_was_read_can_be_sent_to_another_process() -> None:
    _, [kept] = read(body([positions(logs(2), [3, 4], texts())]), 4096)
    again = pickle.loads(
        pickle.dumps(Distributions(kept.logprobs, kept.ids, first=1, vocabulary=kept.vocabulary))
    )
    assert again.vocabulary == kept.vocabulary
    assert hash(again.vocabulary) == hash(kept.vocabulary)
    assert again[1].kl(Distributions(kept.logprobs, kept.ids, first=1, vocabulary=kept.vocabulary)[1]) == 0


def test_kept_in_a_file_to_the_bit(found: Distributions, tmp_path: Path) -> None:
    path = found.save(tmp_path / "kept")
    again = Distributions.load(path)
    assert path.name == "kept.npz"
    assert (again.logprobs == found.logprobs).all()
    assert (again.ids, again.first, again.model) == (found.ids, 1, "m")
    assert again.vocabulary == found.vocabulary
    (tmp_path / "other.npz").write_bytes(b"no zip")
    with pytest.raises(ValueError, match="no file of distributions"):
        Distributions.load(tmp_path / "other.npz")
