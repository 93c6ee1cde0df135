"""The ledger's rules on a real file: what is held, counted, refused, remembered and resolved."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import errors
from acs_jupyter.checks import build_request, unchecked
from acs_jupyter.ledger import report, resolve
from acs_jupyter.ledger.book import Ledger
from acs_jupyter.ledger.rows import Origin
from acs_jupyter.ledger.store import Store
from acs_jupyter.ledger.terms import Worst, projected, worst_case
from acs_jupyter.ledger.words import _held
from acs_jupyter.secret import Secret
from tests.support.ledgers import Clock, hold

# -- what a request can cost ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "prompt", "completion", "exact"),
    [
        ({"prompt": "Hello", "max_tokens": 7}, 6, 7, False),
        ({"prompt": "é🎉", "max_tokens": 1}, 7, 1, False),
        ({"prompt": [1, 2, 3], "max_tokens": 10, "n": 4}, 3, 40, True),
        ({"prompt": ["a", "bb"], "max_tokens": 5, "n": 3}, 5, 30, False),
        ({"prompt": [[1], [2, 3]], "max_tokens": 5}, 3, 10, True),
        ({"prompt": "x"}, 2, 32_000, False),
    ],
)
def test_the_worst_case_of_a_request(
    fields: dict[str, Any], prompt: int, completion: int, exact: bool
) -> None:
    worst = worst_case(build_request(fields))
    assert (worst.prompt, worst.completion, worst.exact) == (prompt, completion, exact)
    assert worst.total == prompt + completion


def test_what_nobody_judged_is_held_too() -> None:
    assert worst_case(unchecked({"prompt": "ab", "max_tokens": 10**30})).completion == 10**15
    assert worst_case(unchecked({"prompt": "ab", "max_tokens": -3})).total == 3
    assert worst_case(unchecked({"prompt": 7, "max_tokens": "many"})).completion == 32_000


def test_a_projection_is_what_the_month_comes_to_at_this_pace() -> None:
    assert projected(100, "2026-11", Clock(2026, 11, 16)()) == 200
    assert projected(100, "2026-11", Clock(2026, 11, 1, 0, 5)()) == 3000  # less than a day counts as one
    assert projected(100, "2026-11", Clock(2026, 12, 5)()) == 100


# -- holds and limits -----------------------------------------------------------------------------


def test_what_was_given_back_is_counted_when_it_has_cost_something_after_all(book: Ledger) -> None:
    ticket, other, job = hold(book, 100), hold(book, 100), hold(book, 100, kind="job")
    book.name_job(job, "j")
    for one in (ticket, other, job):
        book.end(one)
    book.end(ticket, 8, 5, "usage")
    book.end(ticket, 8, 6, "usage")
    book.end(other, 8, 50, "estimate")
    assert book.month(1).used == 13 + 58
    late = book.job(1, "j")
    assert late is not None
    book.end(late, 50, 50, "estimate")  # of a job only the server's count
    assert book.month(1).used == 13 + 58
    book.end(late, 2, 2, "usage")
    assert (book.month(1).used, book.month(1).held) == (13 + 58 + 4, 0)
    assert book.job(1, "j") is None


def test_a_hold_becomes_what_was_used(book: Ledger) -> None:
    ticket = hold(book, 100)
    assert (book.month(1).used, book.month(1).held, book.session.held) == (0, 100, 100)
    book.end(ticket, 8, 5, "usage")
    book.end(ticket, 8, 5, "usage")  # a second end counts nothing
    assert (book.month(1).used, book.month(1).held) == (13, 0)
    assert (book.session.spent, book.session.held) == (13, 0)
    other = hold(book, 100)
    book.end(other)
    assert (book.month(1).used, book.month(1).held) == (13, 0)
    states = [(e["state"], e["source"], e["prompt_tokens"]) for e in report.entries(book)]
    assert states == [("settled", "usage", 8)]  # what was given back unsent is no request


def test_over_a_limit_one_line_says_what_is_left_asked_and_to_do(book: Ledger) -> None:
    first = hold(book, 600)
    book.set_month_limit(1, 1000)
    with pytest.raises(errors.BudgetExceeded) as caught:
        hold(book, 401)
    line = str(caught.value)
    assert "\n" not in line
    assert "acs-bm-0123abcd for 2026-11 leaves 400 of 1,000 tokens (0 spent, 600 held)" in line
    assert "may take 401" in line
    assert "%acs budget --limit N" in line
    book.end(first, 500, 0, "usage")
    second = hold(book, 500)  # exactly what is left
    book.end(second, 600, 0, "usage")  # more than was held: the truth counts, and left is never below 0
    assert (book.month(1).used, book.month(1).left) == (1100, 0)
    book.set_month_limit(1, None)
    hold(book, 10**9)


def test_session_cell_and_rollout_have_limits_of_their_own(book: Ledger) -> None:
    book.scope("session", book.session.state.name, 1000)
    with book.scope("cell", "n [3]", 50) as cell:
        kept = hold(book, 50)
        with pytest.raises(errors.BudgetRefused, match="--budget of this cell leaves 0 of 50"):
            hold(book, 1)
        book.end(kept, 20, 0, "usage")
    assert (cell.spent, cell.held, cell.left, cell.limit) == (20, 0, 30, 50)
    run = book.scope("rollout", "r", limit=100)
    book.end(book.hold(Origin(1, "m", "x"), Worst(0, 90, exact=True), (run.account,)), 90, 0, "usage")
    again = book.scope("rollout", "r")
    assert (again.spent, again.left) == (90, 10)
    with pytest.raises(errors.BudgetRefused, match="limit of rollout 'r' leaves 10"), again:
        hold(book, 11)
    assert cell.spent == 20  # what began outside is not the cell's
    with pytest.raises(errors.BudgetRefused, match="limit of this session leaves 890"):
        hold(book, 891)
    assert book.scope("rollout", "r", limit=0).limit is None


def test_a_refused_request_is_held_against_none_of_its_limits(book: Ledger) -> None:
    book.scope("session", book.session.state.name, 10)
    with book.scope("cell", "c", 1000) as cell, pytest.raises(errors.BudgetRefused):
        hold(book, 20)
    assert (cell.held, book.session.held) == (0, 0)
    assert book.month(1).held == 0


def test_a_refusal_names_the_fix_that_helps(book: Ledger) -> None:
    book.scope("session", book.session.state.name, 100)
    hold(book, 90)
    with pytest.raises(errors.BudgetRefused) as held:
        hold(book, 50)  # would fit, but for what is held
    assert "`%acs budget settle`" in held.value.hint
    with pytest.raises(errors.BudgetRefused) as large:
        hold(book, 101)  # would not fit an empty account
    assert "settle" not in large.value.hint
    assert large.value.hint.startswith("Lower max_tokens or n")


def test_equal_holds_are_one_line() -> None:
    def one(entry: int, held: int) -> resolve.Hold:
        return resolve.Hold(entry, 0.0, 1, "k", "m", "roll.py", "", 7, held, held, (0, 0), resolve.GONE, None)

    lines = _held(
        [*(one(i, 36) for i in range(16)), one(16, 40), *(one(100 + i, 100 + i) for i in range(14))]
    )
    assert lines[2] == "  16 x 36 held (process gone), since 01 Jan 00:00 UTC: m roll.py"
    assert lines[3] == "  40 held (process gone), since 01 Jan 00:00 UTC: m roll.py"
    assert len(lines) == 2 + 12 + 2
    assert lines[14] == "  ... and 4 more"


def test_scopes_reach_tasks_and_not_threads(book: Ledger) -> None:
    import asyncio

    async def inside() -> None:
        await asyncio.create_task(asyncio.to_thread(hold, book, 5))

    with book.scope("cell", "c") as cell:
        asyncio.run(inside())
        thread = threading.Thread(target=hold, args=(book, 7))
        thread.start()
        thread.join()
    assert cell.held == 5


def test_a_month_begins_anew_on_the_1st_utc(tmp_path: Path) -> None:
    clock = Clock(2026, 11, 30, 23, 59)
    book = Ledger(Store(str(tmp_path / "l.sqlite3")), clock=clock)
    ticket = hold(book, 100)
    book.set_month_limit(1, 100)
    book.exhaust(1, "2026-11")
    with pytest.raises(errors.BudgetRefused):
        hold(book, 1)
    clock.now += 120
    assert (book.month(1).name, book.month(1).left) == ("2026-12", 100)
    book.end(hold(book, 60), 60, 0, "usage")
    book.end(ticket, 30, 0, "usage")  # belongs to the month it began in
    assert book.month(1).used == 60
    months = {s.name: s.tokens for s in report.sums(book, ("month",))}
    assert months == {"2026-12": 60, "2026-11": 30}
    clock.now += 500 * 86_400
    book.close()
    later = Ledger(Store(str(tmp_path / "l.sqlite3")), clock=clock)
    assert report.entries(later) == []  # rows go in time; the sums of months stay
    assert later.store.rows("SELECT used FROM accounts WHERE kind = 'month' ORDER BY name")[:2] == [
        (30,),
        (60,),
    ]
    later.close()


def test_a_limit_holds_for_later_months_that_are_there_already(tmp_path: Path) -> None:
    """A clock that was ahead has made them."""
    clock = Clock(2027, 1, 3)
    book = Ledger(Store(str(tmp_path / "l.sqlite3")), clock=clock)
    book.set_month_limit(1, 100)
    book.end(hold(book, 60), 60, 0, "usage")
    clock.now -= 40 * 86_400
    book.set_month_limit(1, 50)
    assert book.month(1).most == 50
    clock.now += 40 * 86_400
    assert (book.month(1).name, book.month(1).most) == ("2027-01", 50)
    book.close()


def test_a_servers_no_is_believed_until_told_otherwise(book: Ledger) -> None:
    hold(book, 1)
    book.exhaust(1, "2026-11")
    with pytest.raises(
        errors.BudgetRefused, match=r"server said .* acs-bm-0123abcd for 2026-11 is used up"
    ) as no:
        hold(book, 1)
    assert "--reset" in str(no.value)
    other = book.key(Secret("another key that is long"), "host")
    hold(book, 1, key=other)
    assert report.glance(book, 1).level == "over"
    assert resolve.reset(book, 1)
    assert not resolve.reset(book, 1)
    hold(book, 1)


def test_running_usage_is_spent_while_it_streams(book: Ledger) -> None:
    ticket = hold(book, 100)
    book.set_month_limit(1, 1000)
    book.running(ticket, 10, 5)
    seen = report.glance(book, 1)
    assert (seen.spent, seen.held, seen.left, seen.running) == (15, 85, 900, 1)
    assert book.store.rows("SELECT seen_prompt FROM entries") == [(None,)]  # not in the file at every token
    ticket.noted = 0.0
    book.running(ticket, 10, 6)
    assert book.store.rows("SELECT seen_prompt, seen_completion FROM entries") == [(10, 6)]


def test_a_job_that_is_submitted_again_is_held_once(book: Ledger) -> None:
    first = hold(book, 50, kind="job")
    again = hold(book, 50, kind="job")
    assert (again.entry, again.found, again.settled) == (first.entry, True, False)
    assert book.month(1).held == 50
    book.name_job(again, "job_1")
    found = book.job(1, "job_1")
    assert found is not None
    book.end(found, 4, 3, "usage")
    assert book.job(1, "job_1") is None
    book.set_month_limit(1, 7)
    later = hold(book, 50, kind="job")  # its result can be read although nothing is left
    assert later.settled
