"""What this package keeps on this machine: which file, what stands in it, how it is named elsewhere, how it goes.

Owns that list: the README's section on privacy, `%acs help privacy` and the doctor say the same. It must not open any
of the files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..jobs import journal
from ..keeping import unsaved
from ..ledger import place
from ..machine.folder import setting, user_folder

OFF = "off"


@dataclass(frozen=True)
class Kept:
    """A file or folder. ``path`` is ``None`` when its variable says ``off``; ``holds`` and ``erase``: one line each."""

    name: str
    path: Path | None
    variable: str
    holds: str
    erase: str
    database: bool = False


def kept() -> list[Kept]:
    """Everything, as the environment of this process names it."""
    return [
        Kept(
            "budget ledger", _ledger(), "ACS_LEDGER",
            "counts, ids, times; of a key its public prefix and a salted hash; no text",
            "delete the file: limits and what was spent are forgotten", database=True,
        ),
        Kept(
            "job journal", setting(journal.VARIABLE, journal.FILE), journal.VARIABLE,
            "requests of submitted jobs with their prompts, for eight days; no results",
            "delete the file: a cell no longer finds its job", database=True,
        ),
        Kept(
            "unsaved runs", setting(unsaved.VARIABLE, unsaved.FOLDER), unsaved.VARIABLE,
            "prompts and texts of runs until their notebook has them",
            "%acs recover forget all, or delete the folder",
        ),
        Kept(
            "rollout cache", _cache() / "rollouts.db", "cache=FILE",
            "answers of rollouts that asked for cache=True", "delete the file", database=True,
        ),
        Kept("model", _model(), "ACS_GGUF", "the embedded model's file, 98 MB", "delete it: it is fetched again"),
        Kept(
            "server's keys and use", _local() / "server.sqlite3", "ACS_LOCAL_DATA",
            "keys of your local server as hashes, counts, ids; no text", "delete the file", database=True,
        ),
        Kept(
            "server's jobs", _local() / "jobs.db", "ACS_LOCAL_DATA",
            "jobs of your local server: the prompt until the end, the result for 24 hours; only if a folder is named",
            "delete the file", database=True,
        ),
    ]  # fmt: skip


def _ledger() -> Path | None:
    named = place.setting()
    return None if named in (OFF, place.MEMORY) else Path(named)


def _cache() -> Path:
    from platformdirs import user_cache_dir  # noqa: PLC0415  # only when somebody asks

    return Path(user_cache_dir("acs-jupyter"))


def _model() -> Path:
    named = os.environ.get("ACS_GGUF")
    return Path(named).expanduser() if named else _cache() / "models"


def _local() -> Path:
    named = os.environ.get("ACS_LOCAL_DATA")
    return Path(named).expanduser() if named else user_folder()
