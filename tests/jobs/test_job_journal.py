"""The journal: on disk before anything is sent, private, without keys, shared by kernels, forgetting in time."""

from __future__ import annotations

import sqlite3
import stat
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import Client, errors
from acs_jupyter.checks import build_request
from acs_jupyter.jobs import journal as job_journal
from acs_jupyter.jobs.entry import ended, seen, submitted, words
from acs_jupyter.jobs.journal import DAY, Journal, Pages
from acs_jupyter.machine.folder import mark, new_salt, setting, user_folder
from acs_jupyter.secret import Secret
from acs_jupyter.wire import Job, encode_request
from tests.support.player import CLOSE, HANG, Player, Step, whole

KEY = "acs-bm-testtest-do-not-show-me-anywhere"
ASK = {"model": "m", "max_tokens": 4}
NOW = 1_800_000_000.0
REQUEST = build_request({"prompt": "written down", **ASK})


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal file of this test's own."""
    path = tmp_path / "new" / "jobs.sqlite3"
    monkeypatch.setenv("ACS_JOURNAL", str(path))
    return path


def opened(path: Path | None, now: list[float] | None = None) -> Journal:
    clock = now or [NOW]
    return Journal(path, lambda: clock[0])


def put(journal: Journal, key: str = "k", digest: str = "d", owner: str = "o") -> int:
    entry = submitted(REQUEST, key, None, NOW)
    return journal.begin("http://h/v1", owner, digest, entry, encode_request(REQUEST)).number


def test_it_is_private_and_knows_no_key(book: Path) -> None:
    with (
        Player([whole({"id": "j1", "status": "queued"}, "202 Accepted")]) as server,
        Client(server.base, KEY) as c,
    ):
        c.jobs.submit("written down", **ASK)
    assert stat.S_IMODE(book.parent.stat().st_mode) == 0o700
    files = list(book.parent.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    kept = b"".join(file.read_bytes() for file in files)
    assert b"written down" in kept
    assert KEY.encode() not in kept
    assert KEY.removeprefix("acs-bm-testtest-").encode() not in kept
    assert b"acs-bm-testtest:" in kept


def test_a_key_is_known_by_prefix_and_salted_hash() -> None:
    salt = new_salt()
    shown = mark(Secret(KEY), salt)
    assert shown == mark(Secret(KEY), salt)
    assert shown.startswith("acs-bm-testtest:")
    assert shown != mark(Secret(KEY), new_salt())
    assert mark(Secret("my own key"), salt).startswith("key:")
    assert mark(Secret("acs-bm-short123"), salt).startswith("key:")


def test_the_row_is_there_before_the_request_is_sent(book: Path) -> None:
    seen_before: list[Any] = []
    accepted = whole({"id": "j1", "status": "queued"}, "202 Accepted")
    with Player([accepted]) as server, Client(server.base, KEY) as c:
        send = c.jobs._carry

        def look_first(flow: Any) -> None:
            with sqlite3.connect(book) as db:
                seen_before.extend(db.execute("SELECT job, open, request FROM jobs"))
            send(flow)

        c.jobs._carry = look_first  # type: ignore[method-assign]
        c.jobs.submit("written down", **ASK)
    assert seen_before == [(None, 1, encode_request(REQUEST))]
    with sqlite3.connect(book) as db:
        assert db.execute("SELECT job, open FROM jobs").fetchall() == [("j1", 1)]


def refusal(code: str, status: str) -> list[Step]:
    return whole({"error": {"code": code, "message": "x"}}, status)


@pytest.mark.parametrize(
    ("answer", "is_open", "word"),
    [
        ([CLOSE], True, "not confirmed"),
        (refusal("internal_error", "500 Oops"), True, "not confirmed"),
        (refusal("job_store_full", "429 No"), False, "refused, 429"),
        (refusal("idempotency_conflict", "409 No"), False, "conflict, 409"),
        (refusal("bad_request", "400 No"), False, "refused, 400"),
    ],
)
def test_how_a_submission_was_answered(book: Path, answer: list[Step], is_open: bool, word: str) -> None:
    with Player([answer]) as server, Client(server.base, KEY, retries=0) as c:
        with pytest.raises(errors.AcsError):
            c.jobs.submit("x", **ASK)
        [row] = c.jobs.notes.rows()
    assert row.entry.open is is_open
    assert words(row.entry).startswith(word)


def test_a_lost_answer_is_found_again_by_another_process(book: Path) -> None:
    found = whole({"id": "j1", "status": "running"})
    with Player([[CLOSE], found]) as server:
        with Client(server.base, KEY, retries=0) as c, pytest.raises(errors.ConnectionFailed):
            c.jobs.submit("x", **ASK, tag="a")
        job_journal.close()
        with Client(server.base, KEY) as c:
            [row] = c.jobs.notes.rows()
            request = c.jobs.notes.request_of(row)
            assert request is not None
            assert row.entry.job is None
            c.jobs.submit_request(request, idempotency_key=row.entry.key, tag=row.entry.tag)
            [row] = c.jobs.notes.rows()
        first, second = server.requests
    assert row.entry.job == "j1"
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.body == second.body


def test_a_refusal_says_nothing_of_the_job_that_is_there(book: Path) -> None:
    answers = [whole({"id": "j1", "status": "running"}, "202 Accepted"), refusal("rate_limited", "429 No")]
    with Player(answers) as server, Client(server.base, KEY, retries=0) as c:
        c.jobs.submit("x", **ASK)
        with pytest.raises(errors.RateLimited):
            c.jobs.submit("x", **ASK)
        [row] = c.jobs.notes.rows()
    assert (row.entry.job, row.entry.open) == ("j1", True)


def test_jobs_belong_to_a_key_at_a_server(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    mine = Pages(journal, "http://h/v1", Secret(KEY))
    other = Pages(journal, "http://h/v1", Secret(KEY + "x"))
    elsewhere = Pages(journal, "http://i/v1", Secret(KEY))
    for pages in (mine, other, elsewhere):
        row = pages.begin("d", submitted(REQUEST, "k", None, NOW), b"{}")
        journal.change(row.number, lambda entry: seen(entry, Job(id="j1", status="queued")))
    assert [len(pages.rows()) for pages in (mine, other, elsewhere)] == [1, 1, 1]
    assert len({pages.of_job("j1").number for pages in (mine, other, elsewhere)}) == 3  # type: ignore[union-attr]
    assert len(journal.rows()) == 3


def test_a_request_goes_with_the_services_memory_and_a_row_later(tmp_path: Path) -> None:
    now = [NOW]
    journal = opened(tmp_path / "j", now)
    plain, held = put(journal, "plain"), put(journal, "held")
    for number, pending in ((plain, False), (held, True)):
        job = Job(id=f"j{number}", status="failed", usage_pending=pending)
        journal.change(number, lambda entry, job=job: seen(entry, job))
        journal.change(number, lambda entry: ended(entry, errors.JobInterrupted("x"), NOW))
    journal.close()
    for days, kept in ((7.9, [True, True]), (8.1, [False, True]), (61, [])):
        now[0] = NOW + days * DAY
        again = opened(tmp_path / "j", now)
        assert [again.request(row.number) is not None for row in reversed(again.rows())] == kept
        again.close()


def test_many_threads_and_two_kernels_write_one_row(tmp_path: Path) -> None:
    journals = [opened(tmp_path / "j"), opened(tmp_path / "j")]
    assert journals[0].salt == journals[1].salt
    numbers: list[int] = []

    def work(journal: Journal, digest: str) -> None:
        numbers.append(number := put(journal, "k", digest))
        journal.change(number, lambda entry: seen(entry, Job(id=f"j-{digest}", status="running")))

    threads = [threading.Thread(target=work, args=(journals[i % 2], str(i // 8))) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(numbers) == 16
    assert len(set(numbers)) == 2
    assert [row.entry.job for row in journals[0].rows()] == ["j-1", "j-0"]
    for journal in journals:
        journal.close()


@pytest.mark.parametrize("fault", ["folder", "no sqlite"])
def test_a_journal_that_cannot_be_used_costs_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    broken = tmp_path / "file"
    broken.write_bytes(b"not a database, but long enough to be looked at as one" * 40)
    monkeypatch.setenv("ACS_JOURNAL", str(broken / "jobs" if fault == "folder" else broken))
    with (
        Player([whole({"id": "j1", "status": "queued"}, "202 Accepted")]) as server,
        Client(server.base, KEY) as c,
    ):
        with pytest.warns(UserWarning, match="ACS_JOURNAL names another file") as told:
            assert c.jobs.submit("x", **ASK).id == "j1"
        assert len(told) == 1
        assert [row.entry.job for row in c.jobs.notes.rows()] == ["j1"]
    assert broken.read_bytes().startswith(b"not a database")


def test_switched_off_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACS_JOURNAL", "off")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    with (
        Player([whole({"id": "j1", "status": "queued"}, "202 Accepted")]) as server,
        Client(server.base, KEY) as c,
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            c.jobs.submit("x", **ASK)
        assert [row.entry.job for row in c.jobs.notes.rows()] == ["j1"]
    assert list(home.iterdir()) == []
    monkeypatch.setenv("ACS_JOURNAL", "")
    assert setting("ACS_JOURNAL", "jobs.sqlite3") == user_folder() / "jobs.sqlite3"


def test_a_deadline_holds_for_the_submission_too(book: Path) -> None:
    with Player([[HANG]] * 3) as server, Client(server.base, KEY) as c:
        with pytest.raises(errors.JobPending):
            c.jobs.submit("x", **ASK, deadline=1.2)
        [row] = c.jobs.notes.rows()
    assert (row.entry.open, row.entry.job) == (True, None)


def test_nothing_is_opened_before_a_job(book: Path) -> None:
    with Client("http://127.0.0.1:9", KEY) as c:
        assert c.jobs.notes is not None
    assert not book.exists()


def test_a_locked_journal_is_tried_again_and_misses_nothing(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_journal, "BUSY_SECONDS", 0.1)
    made = [whole({"id": f"job_{i}", "status": "queued"}, "202 Accepted") for i in range(4)]
    with Player(made) as server, Client(server.base, KEY) as client:
        client.jobs.submit("prompt 0", **ASK)
        with sqlite3.connect(book, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.warns(UserWarning, match="locked by another program"):
                client.jobs.submit("prompt 1", **ASK)
            other.execute("COMMIT")
        other.close()
        client.jobs.submit("prompt 2", **ASK)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            client.jobs.submit("prompt 3", **ASK)
    found = [(row.entry.job, row.entry.prompt) for row in opened(book).rows()]
    assert sorted(found) == [(f"job_{i}", f"prompt {i}") for i in range(4)]
