"""Several requests held at once, and ends that wait for the next hold."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from acs_jupyter import errors
from acs_jupyter.ledger import returning
from acs_jupyter.ledger.book import Ledger
from acs_jupyter.ledger.refusal import SHARE
from acs_jupyter.ledger.rows import End, Origin
from acs_jupyter.ledger.store import Store
from acs_jupyter.ledger.terms import Worst
from acs_jupyter.machine import processes
from acs_jupyter.machine.processes import this_process
from acs_jupyter.secret import Secret
from tests.support.ledgers import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(Store(str(tmp_path / "l.sqlite3")))
    made.key(Secret(KEY), "host")
    yield made
    made.close()


def asked(count: int, tokens: int = 100) -> list[tuple[Origin, Worst]]:
    return [(Origin(1, "m", f"run {i}"), Worst(0, tokens, exact=True)) for i in range(count)]


def test_several_are_held_at_once_and_each_by_itself(book: Ledger) -> None:
    tickets = book.hold_several(asked(5))
    assert (len(tickets), book.month(1).held, book.session.held) == (5, 500, 500)
    rows = book.store.rows("SELECT run, held, state FROM entries ORDER BY id")
    assert rows == [(f"run {i}", 100, "held") for i in range(5)]


@pytest.mark.parametrize(
    ("limit", "held"), [(None, 5), (100, 1), (1000, 1), (1699, 1), (1700, 2), (4900, 4), (9999, 5)]
)
def test_in_advance_no_more_is_held_than_a_share_of_what_is_left(
    book: Ledger, limit: int | None, held: int
) -> None:
    assert SHARE == 1 / 16
    book.set_month_limit(1, limit)
    assert len(book.hold_several(asked(5))) == held


def test_the_first_is_refused_as_ever_and_what_has_ended_is_written(book: Ledger) -> None:
    book.set_month_limit(1, 100)
    (first,) = book.hold_several(asked(1, 90))
    book.end(first, 60, 0, "usage")
    with pytest.raises(errors.BudgetRefused, match="leaves 40 of 100"):
        book.hold_several(asked(3, 41))
    assert (book.month(1).used, book.month(1).held) == (60, 0)
    assert len(book.hold_several(asked(3, 40))) == 1  # its end made the room


def test_ends_that_the_server_counted_wait_for_the_next_hold(book: Ledger) -> None:
    tickets = book.hold_several(asked(4))
    for ticket in tickets[:2]:
        book.end(ticket, 8, 5, "usage")
    book.end(tickets[2])  # was never sent
    assert (book.month(1).used, book.month(1).held) == (0, 400)
    book.hold(*asked(1)[0])
    assert (book.month(1).used, book.month(1).held) == (26, 200)
    book.end(tickets[3], 9, 9, "usage")
    book.write()
    assert (book.month(1).used, book.month(1).held) == (44, 100)
    book.end(tickets[3], 9, 9, "usage")  # a second end counts nothing
    book.write()
    assert (book.month(1).used, book.session.spent) == (44, 44)


@pytest.mark.parametrize(("source", "error"), [("estimate", None), ("continuous", None), ("usage", "cut")])
def test_any_other_end_waits_for_nobody(book: Ledger, source: str, error: str | None) -> None:
    (ticket,) = book.hold_several(asked(1))
    ticket.facts = {"error": error}
    book.end(ticket, 8, 5, source)
    assert (book.month(1).used, book.month(1).held) == (13, 0)


def test_an_end_after_a_guess_by_hand_corrects_it(book: Ledger) -> None:
    tickets = book.hold_several(asked(2))
    with book.store.writing() as db:
        db.execute(
            "UPDATE entries SET state = 'settled', source = 'resolved', completion_tokens = 100"
            " WHERE id = (SELECT min(id) FROM entries)"
        )
        db.execute("UPDATE accounts SET used = used + 100, held = held - 100")
    for ticket in tickets:
        book.end(ticket, 1, 2, "usage")
    book.write()
    assert (book.month(1).used, book.month(1).held, book.session.spent) == (6, 0, 6)


def test_what_waits_is_written_when_the_book_is_closed(book: Ledger) -> None:
    (ticket,) = book.hold_several(asked(1))
    book.end(ticket, 8, 5, "usage")
    book.close()
    with closing(sqlite3.connect(book.store.where)) as db:
        assert db.execute("SELECT state, completion_tokens FROM entries").fetchall() == [("settled", 5)]


def test_what_a_running_process_holds_is_its_own(book: Ledger) -> None:
    """Whoever has a copy of a journal ends nothing of the rollout that still goes on."""
    mine, other = book.hold_several(asked(2))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        began = processes._began(running.pid)
        with book.store.writing() as db:
            row = (this_process().machine, running.pid, began)
            db.execute(
                "INSERT INTO processes (machine, pid, began, notebook, at) VALUES (?, ?, ?, '', 0)", row
            )
            db.execute("UPDATE entries SET process = last_insert_rowid() WHERE id = ?", (other.entry,))
        ends = [(each.entry, f"run {i}", End()) for i, each in enumerate((mine, other))]
        returning.end_known(book, ends)
        assert held(book) == [other.entry]
        running.communicate(b"\n")
    returning.end_known(book, ends)
    assert held(book) == []


def held(book: Ledger) -> list[int]:
    return [entry for (entry,) in book.store.rows("SELECT id FROM entries WHERE state = 'held'")]


@pytest.mark.parametrize(
    ("limit", "held"), [(None, 5), (50, 0), (100, 0), (1599, 0), (1600, 1), (4799, 2), (8000, 5)]
)
def test_all_in_advance_are_no_more_than_a_share(book: Ledger, limit: int | None, held: int) -> None:
    book.set_month_limit(1, limit)
    if limit == 50:
        with pytest.raises(errors.BudgetRefused):
            book.hold_several(asked(5), all_ahead=True)
    else:
        assert len(book.hold_several(asked(5), all_ahead=True)) == held
    assert book.month(1).held == held * 100
