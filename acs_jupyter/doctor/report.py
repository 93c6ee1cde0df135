"""The doctor's page: findings for the reader, and below them what a bug report needs.

Owns what is printed, and that no secret and no name of the user is in it. It must not know how anything is checked.
"""

from __future__ import annotations

import json
import os
import platform
import re
from dataclasses import asdict
from pathlib import Path

from .._version import __version__
from ..secret import FRAGMENT, Secret
from . import server, surroundings
from .findings import Finding, page

_SECRET_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSW", re.IGNORECASE)
_OWN = re.compile(r"ACS_\w+|JUPYTER_\w+|\w+_PROXY", re.IGNORECASE)


def gather(*, ask: bool) -> list[Finding]:
    """All findings, safe to show."""
    found = [*server.look(ask=ask), *surroundings.look()]
    return [Finding(one.state, one.name, safe(one.told), safe(one.do)) for one in found]


def in_shell(*, ask: bool, as_json: bool) -> int:
    """``acs-jupyter doctor``; its exit code."""
    found = gather(ask=ask)
    if as_json:
        print(
            json.dumps(
                {"findings": [asdict(one) for one in found], "report": facts(found)}, ensure_ascii=False
            )
        )
    else:
        print(f"{page(found)}\n\n{_last(found)}\n\n{report(found)}")
    return 1 if any(one.state == "wrong" for one in found) else 0


def _last(found: list[Finding]) -> str:
    wrong = sum(one.state == "wrong" for one in found)
    first = "Nothing is wrong." if not wrong else f"{wrong} to mend: see -> above."
    return f"{first} For a bug report, paste from here on (no key, no prompt and no name of yours is in it):"


def report(found: list[Finding]) -> str:
    """What to paste, as Markdown."""
    told = facts(found)
    rows = [f"{name}: {value}" for name, value in told.items()]
    return "\n".join(["```", *rows, "```"])


def facts(found: list[Finding]) -> dict[str, str]:
    """Versions, platform, which settings there are (never their values), and how each check ended."""
    set_here = sorted(name for name in os.environ if _OWN.fullmatch(name))
    return {
        "acs-jupyter": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": safe(platform.platform()),
        "packages": ", ".join(f"{name} {version}" for name, version in surroundings.versions().items()),
        "variables set": ", ".join(set_here) or "none",
        "checks": ", ".join(f"{one.name} {one.state}" for one in found),
        "wrong": "; ".join(f"{one.name}: {one.told}" for one in found if one.state == "wrong") or "nothing",
    }


def safe(text: str) -> str:
    """The text without any secret of the environment, nor a piece of one, and with ``~`` for the home folder."""
    for hidden in _secrets():
        text = hidden.redact(text)
        text = Secret(hidden.reveal()[len(hidden.prefix) :]).censor(text)
    home = str(Path.home())
    return text if home == "/" else text.replace(home, "~")


def _secrets() -> list[Secret]:
    """What the environment's names say is secret. Short words (``KEYBOARD=us``) and names of files are none."""
    named = [value.strip() for name, value in os.environ.items() if _SECRET_NAMES.search(name)]
    return [Secret(value) for value in named if len(value) >= FRAGMENT and not os.path.exists(value)]
