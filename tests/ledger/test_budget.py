"""The budget from outside: clients on a real socket, ``%acs budget``, ``--budget``, and the command line."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import AsyncClient, BudgetMeter, Client, errors
from acs_jupyter.amounts import tokens
from acs_jupyter.ledger import ledger, report, resolve
from tests.support.player import CLOSE, DONE, Player, stream, whole
from tests.support.servers import Running, environment
from tests.support.shells import KEY, Shell

TEXT = {"index": 0, "text": "yes", "finish_reason": "length"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
ANSWER = {"id": "c", "model": "m", "choices": [TEXT], "usage": USAGE}
STREAM = stream(f"data: {json.dumps(ANSWER)}\n\n".encode(), DONE)


def entries() -> list[dict[str, Any]]:
    return report.entries(ledger())


def month() -> tuple[int, int]:
    used, held = ledger().store.rows("SELECT sum(used), sum(held) FROM accounts WHERE kind = 'month'")[0]
    return used, held


# -- clients --------------------------------------------------------------------------------------


def test_every_kind_of_request_is_held_and_settled() -> None:
    answers = [STREAM, whole(ANSWER), STREAM, STREAM, whole(ANSWER)]
    with Player(answers) as server:
        with Client(server.base, KEY, model="m") as client:
            first = client.complete("a", max_tokens=1)
            client.complete("a", max_tokens=1, stream=False)
            assert len(list(client.stream("a", max_tokens=1))) == 1
            first.replay(client)

        async def go() -> None:
            async with AsyncClient(server.base, KEY, model="m") as other:
                await other.complete("a", max_tokens=1, stream=False)

        asyncio.run(go())
    assert [entry["source"] for entry in entries()] == [
        "continuous",
        "usage",
        "continuous",
        "continuous",
        "usage",
    ]
    assert month() == (20, 0)
    assert {entry["model"] for entry in entries()} == {"m"}
    assert all(entry["request_id"].startswith("acsj-") for entry in entries())


def test_over_the_limit_no_socket_opens() -> None:
    with Player([whole(ANSWER)]) as server:
        with Client(server.base, KEY) as client:
            ledger().set_month_limit(client.meter.key, 50)
            for many in ({}, {"stream": False}, {"n": 2}):
                with pytest.raises(errors.BudgetExceeded, match="leaves 50 of 50"):
                    client.complete("Hello", max_tokens=60, **many)
            with pytest.raises(errors.BudgetRefused):
                client.stream("Hello", max_tokens=60)
            with pytest.raises(errors.BudgetRefused):
                client.jobs.submit("Hello", model="m", max_tokens=60)
            assert server.requests == []
            client.complete("Hello", max_tokens=44, stream=False)
        assert len(server.requests) == 1
    assert month() == (4, 0)


def test_a_client_without_a_ledger_asks_none(monkeypatch: pytest.MonkeyPatch, own_ledger: Path) -> None:
    with Player([whole(ANSWER), whole(ANSWER)]) as server:
        with Client(server.base, KEY, meter=None) as client:
            client.complete("a", max_tokens=1, stream=False)
        monkeypatch.setenv("ACS_LEDGER", "off")
        with Client(server.base, KEY) as client:
            assert client.meter is None
            client.complete("a", max_tokens=1, stream=False)
    assert not own_ledger.exists()


def test_a_servers_refusal_ends_the_month_and_a_clamp_is_kept() -> None:
    clamp = "requested=9,applied=1,reason=budget,source=client"
    refusal = whole({"error": {"code": "budget_exceeded", "message": "no"}}, "429 Too Many Requests")
    answers = [whole(ANSWER, X_Acs_Max_Tokens_Clamped=clamp), refusal, whole(ANSWER)]
    with Player(answers) as server, Client(server.base, KEY) as client:
        client.complete("a", max_tokens=9, stream=False)
        with pytest.raises(errors.BudgetExceeded) as said:
            client.complete("a", max_tokens=9, stream=False)
        assert not isinstance(said.value, errors.BudgetRefused)
        with pytest.raises(errors.BudgetRefused, match="server said"):
            client.complete("a", max_tokens=1, stream=False)
        assert len(server.requests) == 2
        resolve.reset(ledger(), client.meter.key)
        client.complete("a", max_tokens=1, stream=False)
    assert [(e["clamp"], e["error"], e["state"]) for e in entries()] == [
        (clamp, None, "settled"),
        (None, "budget_exceeded", "released"),
        (None, None, "settled"),
    ]
    assert report.clamped(ledger()) == 1


def test_a_ledger_that_cannot_be_used_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "l").write_text("certainly not a database, and longer than its header would be" * 9)
    monkeypatch.setenv("ACS_LEDGER", str(tmp_path / "l"))
    with Player([]) as server, Client(server.base, KEY) as client:
        with pytest.raises(errors.LedgerFailed):
            client.complete("a", max_tokens=1)
        assert server.requests == []


def test_a_lost_submission_stays_held_until_it_is_found(scripted_server: Running) -> None:
    """The answer to a submission is lost; submitting again finds the job, holds nothing twice, and settles it."""
    with Player([[CLOSE]]) as server, Client(server.base, scripted_server.key, retries=0) as client:
        with pytest.raises(errors.ConnectionFailed):
            client.jobs.submit("#scripted tokens=4\nx", model="scripted", max_tokens=9, tag="lost")
        assert [hold.state for hold in resolve.holds(ledger())] == ["running"]
        held = month()
        with pytest.raises(errors.ConnectionFailed):
            client.jobs.submit("#scripted tokens=4\nx", model="scripted", max_tokens=9, tag="lost")
        assert month() == held
    assert held[1] > 9


# -- in a shell -----------------------------------------------------------------------------------


def test_the_magic_tells_limits_exports_and_settles(shell: Shell, connect: Any, tmp_path: Path) -> None:
    assert "not_configured" in shell.run("%acs budget --limit 5k").out
    connect(STREAM)
    assert "has a limit of 5,000 tokens a month; 0 are spent" in shell.run("%acs budget --limit 5k").out
    assert "This session has a limit of 900 tokens" in shell.run("%acs budget --limit 900 --session").out
    assert shell.run("%%acs -m m --max-tokens 8\nHello").ok
    ran = shell.run("%acs budget")
    assert "4 tokens spent in " in ran.out
    assert "896 of this session's 900 left (4,996 of the month's 5,000)" in ran.out
    assert "(this key: key 1)" in ran.out.splitlines()[0]
    assert "4 tokens in this session (limit 900)" in ran.out
    assert "All keys in this ledger: 4 tokens today (UTC), 4 in " in ran.out
    assert "by model" not in ran.out  # the frame has the tables
    assert set(ran.result["by"]) == {"month", "today", "key", "model", "notebook", "cell"}
    assert ran.result.set_index("by").loc["model", "tokens"] == 4
    refused = shell.run("%%acs -m m --max-tokens 1000\nHello")
    assert refused.out.startswith("budget_refused: The limit of this session leaves 896 of 900 tokens")
    assert refused.out.count("\n") == 1
    cell = shell.run("%%acs -m m --max-tokens 100 --budget 50\nHello")
    assert "The --budget of this cell leaves 50 of 50 tokens" in cell.out
    assert "no limit" in shell.run("%acs budget --limit none").out
    assert "1 entries" in shell.run(f"%acs budget --export {tmp_path}/out.jsonl").out
    [line] = (tmp_path / "out.jsonl").read_text().splitlines()
    assert json.loads(line)["completion_tokens"] == 1
    assert KEY not in (tmp_path / "out.jsonl").read_text()
    assert "No hold of a process that is gone." in shell.run("%acs budget settle").out
    assert "has not called" in shell.run("%acs budget --reset").out


@pytest.mark.parametrize("whose", ["the same", "another", "none"])
def test_a_shell_tells_the_limit_of_every_key_as_a_notebook_does(
    shell: Shell,
    connect: Any,
    whose: str,
) -> None:
    connect(STREAM)
    shell.run("%acs budget --limit 5k")
    assert shell.run("%%acs -m m --max-tokens 8\nHello").ok
    env = {"ACS_API_BASE": os.environ["ACS_API_BASE"], "ACS_API_KEY": os.environ["ACS_API_KEY"]}
    keys = {"the same": env, "another": env | {"ACS_API_KEY": "acs-bm-another-key-of-this-test"}, "none": {}}
    ran = subprocess.run(
        [sys.executable, "-m", "acs_jupyter", "budget"], env=environment(**keys[whose]),
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    told = ran.stdout.splitlines()
    assert "4,996 of 5,000 left" in (told[0] if whose == "the same" else told[1])
    assert "4,996 of 5,000 left" in shell.run("%acs budget").out
    if whose != "the same":
        assert told[1].startswith("Another key: key 1 has spent 4 tokens in ")
        assert "no limit" not in told[1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%acs budget --limit much", "--limit much: a number of tokens above 0 is needed"),
        ("%acs budget --limit 0", "above 0"),
        ("%acs budget --session", "--session goes with --limit N"),
        ("%acs budget --session 300", "--limit 300 --session"),
        ("%acs budget --session=2k", "--limit 2k --session"),
        ("%acs budget --zzz", "%acs help budget"),
        ("%acs budget settle --as maybe", "invalid choice"),
        ("%acs budget --export x.txt", ".csv or .jsonl"),
        ("%acs budget --export /nowhere/x.csv", "No such file"),
        ("%%acs --budget few\nHello", "budget='few': a number of tokens above 0"),
    ],
)
def test_bad_input_gets_one_line(shell: Shell, connect: Any, line: str, said: str) -> None:
    connect()
    ran = shell.run(line)
    assert said in ran.out
    assert ran.out.count("\n") == 1
    assert "Traceback" not in ran.out


def test_numbers_of_tokens() -> None:
    assert [tokens(t) for t in ("5", "5_000", "1,234", "50k", "1.5m", "2B")] == [
        5, 5000, 1234, 50_000, 1_500_000, 2 * 10**9,
    ]  # fmt: skip
    for bad in ("", "-1", "0", "1e3", "k", "1.5.2", "9" * 30):
        with pytest.raises(ValueError, match="above 0"):
            tokens(bad)


def test_a_cell_with_a_budget_may_use_it(shell: Shell, connect: Any) -> None:
    connect(STREAM)
    assert shell.run("%%acs -m m --max-tokens 8 --budget 50\nHello").ok
    rows = ledger().store.rows("SELECT used, held, most FROM accounts WHERE kind = 'cell'")
    assert rows == [(4, 0, 50)]


def test_a_cell_is_booked_under_the_number_the_notebook_shows(shell: Shell, connect: Any) -> None:
    connect(STREAM)
    shown = [shell.shell.run_cell("1 + 1", store_history=True).execution_count]
    shown += [shell.shell.run_cell("%%acs -m m --max-tokens 8\nHello", store_history=True).execution_count]
    assert shown == [1, 2]
    assert [entry["cell"] for entry in entries()] == ["[2]"]


def test_the_meter_in_a_terminal_is_one_line(shell: Shell, connect: Any) -> None:
    connect(STREAM)
    assert shell.run("%%acs -m m --max-tokens 8\nHello").ok
    ran = shell.run("from acs_jupyter import BudgetMeter\nmeter = BudgetMeter()\nmeter")
    assert "4 tokens spent in " in ran.out
    meter: BudgetMeter = shell["meter"]
    assert json.loads(meter.seen)["spent"] == 4
    html = meter.plain()["text/html"]
    assert "4 tokens spent" in html
    assert "<script" not in html
    meter.close()


def test_a_sessions_limit_that_is_used_up_is_told_everywhere(shell: Shell, connect: Any) -> None:
    connect(STREAM)
    shell.run("%acs budget --limit 3m")
    assert shell.run("%acs budget --limit 10 --session").ok
    assert shell.run("%%acs -m m --max-tokens 2\nH").ok
    meter = BudgetMeter()
    assert (json.loads(meter.seen)["level"], json.loads(meter.seen)["tightest"]) == ("ok", "session")
    assert "6 of this session's 10 left" in meter.line
    shell.run("%acs budget --limit 5 --session")
    meter.refresh()
    assert json.loads(meter.seen)["level"] == "warn"
    assert "80% of this session's limit is spent or held" in meter.line
    assert 'data-level="warn"' in meter.plain()["text/html"]
    shell.run("%acs budget --limit 3 --session")
    meter.refresh()
    seen = json.loads(meter.seen)
    assert (seen["level"], seen["free"], seen["warning"]) == ("over", 0, "this session's limit is reached")
    copy = meter.plain()["text/html"]
    assert 'data-level="over"' in copy
    assert "0 of this session&#x27;s 3 left" in copy
    assert re.search(r"as it stood at \d{4}-\d\d-\d\d \d\d:\d\d UTC", copy)
    assert "this session's limit is reached" in shell.run("%acs budget").out.splitlines()[0]
    shell.run("%acs budget --limit none --session")
    meter.refresh()
    assert (json.loads(meter.seen)["level"], "of 3,000,000 left" in meter.line) == ("ok", True)
    meter.close()


def test_a_month_near_its_end_warns_beside_a_small_session() -> None:
    glance = report.glance(ledger())
    month = replace(
        glance, limit=1_000_000, spent=990_000, left=10_000, session_limit=5_000, session_spent=10
    )
    assert (month.tightest, month.level) == ("month", "warn")
    assert replace(month, spent=0, left=1_000_000).tightest == "session"
    assert replace(month, session_spent=5_000).level == "over"


# -- on the command line --------------------------------------------------------------------------


def command(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "acs_jupyter", "budget", *words]
    return subprocess.run(
        line, check=False, capture_output=True, text=True, env=environment(**more), timeout=60
    )


def test_the_command_says_the_same(scripted_server: Running, tmp_path: Path) -> None:
    where = {"ACS_API_BASE": scripted_server.base, "ACS_API_KEY": scripted_server.key}
    with Client(scripted_server.base, scripted_server.key) as client:
        client.complete("Hello", max_tokens=3)
        client.jobs.submit("#scripted tokens=2\nfrom here", model="scripted", max_tokens=3)
    assert "has a limit of 1,000" in command("--limit", "1000", **where).stdout
    shown = command(**where)
    assert "of 1,000 left" in shown.stdout
    assert "held (job)" in shown.stdout
    assert "by cell" in shown.stdout
    assert "(no cell)" in shown.stdout  # the tables of one month add up to the same
    assert "1 entries" not in command("--export", str(tmp_path / "o.csv"), **where).stdout
    for _ in range(20):
        settled = command("settle", **where).stdout
        if "1 job settled by what the server said." in settled:
            break
    assert month()[1] == 0
    assert {entry["source"] for entry in entries()} == {"usage"}
    cut = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m acs_jupyter budget | true; echo ${{PIPESTATUS[0]}}"],
        check=True, capture_output=True, text=True, env=environment(**where), timeout=60,
    )  # fmt: skip
    assert (cut.stdout.strip() in ("0", "1"), cut.stderr) == (True, "")
    bad = command("--session", "--limit", "5", **where)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "notebook's session" in bad.stderr
    assert command("--limit", "5").returncode == 2
