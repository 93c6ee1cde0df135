"""The budget ledger of this machine: what every client holds, what was spent, and which limits stand.

Every ``Client``, ``AsyncClient``, cell, job and rollout asks it before a socket opens. The API, for callers in this
package:

    from acs_jupyter.ledger import ledger

    book = ledger()                                      # this process's book on the shared file, opened on first use

    with book.scope("rollout", "my run", limit=200_000) as scope:
        client.complete(...)                             # counts against the month, the session and this scope

    scope = book.scope("rollout", "my run", limit=200_000)
    client.meter = client.meter.within(scope)            # the same without ``with``: for threads and long-lived clients
    scope.spent, scope.held, scope.left, scope.limit     # tokens; read from the file

A scope is found again by kind and name, also by another process: a rollout that is resumed goes on where its count
was. ``limit=None`` keeps the limit that is stored, ``limit=0`` takes it away. Names are shown in reports: no prompt
and no key belongs into one. ``with`` uses a context variable, which ``asyncio`` tasks and ``loop.call_soon*`` inherit
and new threads do not.

Over any limit ``reserve`` raises :class:`acs_jupyter.errors.BudgetRefused` (a ``BudgetExceeded`` that never left this
machine). A client without a ledger: ``Client(meter=None)``; for all: ``ACS_LEDGER=off``. ``ACS_LEDGER=FILE`` names
the file (a relative name: in the folder where it was first asked for); else it is ``ledger.sqlite3`` in the user's data
folder.

Owns the process-wide book. It must not know clients, HTTP, IPython or widgets.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..machine.forking import Lock
from ..machine.patience import Busy, is_hurried
from ..secret import Secret

if TYPE_CHECKING:
    from .book import Ledger
    from .meter import KeyMeter

_open: dict[str, Ledger] = {}
_opening = Lock()
_NAMES = ("ACS_LEDGER", "XDG_DATA_HOME", "HOME")
_known: dict[tuple[str | None, ...], Ledger] = {}
"""The same by what names the file: finding a folder takes longer than a commit."""


def ledger() -> Ledger:
    """This process's book on the file that the settings name. Raises :class:`LedgerFailed` when it cannot be used."""
    from .book import Ledger  # noqa: PLC0415  # sqlite3 loads with the first request
    from .place import setting  # noqa: PLC0415

    named = tuple(map(os.environ.get, _NAMES))
    found = _known.get(named)
    if found is not None:
        return found
    where = setting()
    if is_hurried():
        raise Busy  # opening may wait for others who open it
    with _opening:
        if where not in _open:
            _open[where] = Ledger.at(where)
        _known[named] = _open[where]
        return _open[where]


def meter_for(secret: Secret, base_url: str) -> KeyMeter | None:
    """What a client asks by default; ``None`` when the ledger is switched off. Opens nothing yet."""
    from .meter import KeyMeter  # noqa: PLC0415  # only with a client
    from .place import OFF, setting  # noqa: PLC0415

    return None if setting() == OFF else KeyMeter(secret, base_url)


def of_environment() -> KeyMeter | None:
    """The ledger's view of the key in ``ACS_API_KEY``, if there is one and the ledger is on."""
    base, key = os.environ.get("ACS_API_BASE", ""), os.environ.get("ACS_API_KEY", "")
    return meter_for(Secret(key), base) if base and key else None


def close() -> None:
    """Close every file this process has open; the next use opens them again."""
    _known.clear()
    while _open:
        _open.popitem()[1].close()
