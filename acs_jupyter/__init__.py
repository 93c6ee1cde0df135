"""Work with base language models in notebooks.

    %load_ext acs_jupyter

    %%acs
    The capital of France is

Owns the public names, loaded when they are first used. Importing this package reads nothing, opens nothing and
imports nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .client import AsyncClient, Client
    from .comparing.compare import Compare
    from .completion import Choice, Completion, Token
    from .errors import AcsError
    from .jobs.board import JobBoard
    from .keeping.record import load
    from .keeping.unsaved import recover
    from .ledger.view import BudgetMeter
    from .log.session import Session
    from .looms.loom import Loom
    from .looms.trie import trie
    from .notebook.workbench import Workbench
    from .rollouts import Rollout, rollout, rollout_async
    from .scores.calibrating import Calibration, calibration
    from .scores.differences import Difference, difference
    from .scores.distribution import Distribution, Distributions
    from .scores.inspector import Inspector
    from .scores.scoring import choose, logprob, perplexity, score, score_async
    from .scores.surgery import Surgery
    from .scores.whole import distribution, distributions, next_token

_HOMES = {
    "AcsError": "errors",
    "AsyncClient": "client",
    "BudgetMeter": "ledger.view",
    "Calibration": "scores.calibrating",
    "Choice": "completion",
    "Client": "client",
    "Compare": "comparing.compare",
    "Completion": "completion",
    "Difference": "scores.differences",
    "Distribution": "scores.distribution",
    "Distributions": "scores.distribution",
    "Inspector": "scores.inspector",
    "JobBoard": "jobs.board",
    "Loom": "looms.loom",
    "Rollout": "rollouts",
    "Session": "log.session",
    "Surgery": "scores.surgery",
    "Token": "completion",
    "Workbench": "notebook.workbench",
    "calibration": "scores.calibrating",
    "choose": "scores.scoring",
    "difference": "scores.differences",
    "distribution": "scores.whole",
    "distributions": "scores.whole",
    "load": "keeping.record",
    "logprob": "scores.scoring",
    "next_token": "scores.whole",
    "perplexity": "scores.scoring",
    "recover": "keeping.unsaved",
    "rollout": "rollouts",
    "rollout_async": "rollouts",
    "score": "scores.scoring",
    "score_async": "scores.scoring",
    "trie": "looms.trie",
}

__all__ = [
    "AcsError",
    "AsyncClient",
    "BudgetMeter",
    "Calibration",
    "Choice",
    "Client",
    "Compare",
    "Completion",
    "Difference",
    "Distribution",
    "Distributions",
    "Inspector",
    "JobBoard",
    "Loom",
    "Rollout",
    "Session",
    "Surgery",
    "Token",
    "Workbench",
    "__version__",
    "calibration",
    "choose",
    "difference",
    "distribution",
    "distributions",
    "load",
    "load_ipython_extension",
    "logprob",
    "next_token",
    "perplexity",
    "recover",
    "rollout",
    "rollout_async",
    "score",
    "score_async",
    "trie",
    "unload_ipython_extension",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext acs_jupyter``."""
    importlib.import_module(".notebook.magics", __name__).load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext acs_jupyter``."""
    importlib.import_module(".notebook.magics", __name__).unload(shell)
