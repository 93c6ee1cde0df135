"""What is called by a name that is not there, or given in another form: one line that names the right way."""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from acs_jupyter import AsyncClient, Client, Loom, difference, rollout
from acs_jupyter.amounts import budget_of
from acs_jupyter.errors import InvalidRequest
from tests.support.servers import Running

BASE, KEY = "http://127.0.0.1:9/v1", "k"


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lambda: Client(base="x"), r"Client has no parameter 'base'\. Did you mean base_url\?"),  # type: ignore[arg-type]
        (lambda: AsyncClient(zzz=1), r"AsyncClient has no parameter 'zzz'\. There are: base_url, api_key, model"),  # type: ignore[arg-type]
        (lambda: Client(BASE, KEY).chat, r"Client has no 'chat'\. Base models have no chat: complete"),  # type: ignore[attr-defined]
        (lambda: Client(BASE, KEY).compl, r"Did you mean complete\?"),  # type: ignore[attr-defined]
        (lambda: Loom("x").search("the"), r"Loom has no 'search'\. find\(TEXT\)"),  # type: ignore[attr-defined]
        (lambda: difference("a", "b"), r"difference takes two scores, not str: difference\(score\("),  # type: ignore[arg-type]
        (lambda: budget_of("2x"), r"budget='2x': a number of tokens above 0 is needed, such as 50000, 50k"),
        (lambda: rollout(["a"], budget="none", max_tokens=1, into="none.acs.db"), r"budget='none': a number"),
    ],
)  # fmt: skip
def test_one_line_names_the_right_way(act: Callable[[], Any], told: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        act()
    assert re.search(told, str(caught.value))
    assert "\n" not in str(caught.value)


def test_for_python_such_a_name_is_an_attribute_that_is_missing() -> None:
    client = Client(BASE, KEY)
    assert not hasattr(client, "chat")
    assert getattr(client, "_nothing", None) is None
    assert hasattr(copy.copy(Loom("x")), "grow")


def test_budgets_are_written_as_the_option_takes_them(scripted_server: Running, tmp_path: Any) -> None:
    assert [budget_of(one) for one in ("2k", "1.5m", "2_000", 7, None)] == [2000, 1_500_000, 2000, 7, None]
    with Client(scripted_server.base, scripted_server.key) as client:
        run = rollout(
            ["#scripted tokens=2"], max_tokens=2, budget="2k", client=client, into=tmp_path / "a.acs.db"
        )
    assert len(run.frame()) == 1


def test_a_text_without_an_end_is_said_once(
    scripted_server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "acs_jupyter"),
        Client(scripted_server.base, scripted_server.key) as client,
    ):
        client.complete("#scripted tokens=2", max_tokens=2)
        client.complete("#scripted tokens=2", max_tokens=None)
        assert caplog.messages == []
        client.complete("#scripted tokens=2")
        for _ in client.stream("#scripted tokens=2"):
            pass
    (line,) = caplog.messages
    assert line.startswith("max_tokens is not set")


def test_a_loom_grows_as_its_window_does(scripted_server: Running) -> None:
    with Client(scripted_server.base, scripted_server.key) as client:
        loom = Loom("#scripted tokens=3", client=client)
        first, second = loom.grow(loom.roots[0], 2)
        runs = {loom.session.nodes[node].run for node in (first, second)}
        assert [loom.session.runs[run].request["max_tokens"] for run in runs] == [128]
