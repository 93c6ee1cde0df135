"""What is worked out from scores."""

from __future__ import annotations

import math

import pytest

from acs_jupyter.scores.values import perplexity_of


def test_a_perplexity_that_no_number_holds_is_infinite() -> None:
    assert perplexity_of(-9999.0 * 3, 3) == math.inf
    assert math.isnan(perplexity_of(0.0, 0))
    assert perplexity_of(-2.0, 2) == pytest.approx(math.e)
