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
    from .budget_view import BudgetMeter
    from .calibrating import Calibration, calibration
    from .client import AsyncClient, Client
    from .compare import Compare
    from .completion import Choice, Completion, Token
    from .differences import Difference, difference
    from .distribution import Distribution, Distributions
    from .errors import AcsError
    from .inspector import Inspector
    from .job_board import JobBoard
    from .loom import Loom
    from .record import load
    from .rollouts import Rollout, rollout, rollout_async
    from .scoring import choose, distributions, logprob, next_token, perplexity, score, score_async
    from .session import Session
    from .surgery import Surgery
    from .unsaved import recover
    from .workbench import Workbench

_HOMES = {
    "AcsError": "errors",
    "AsyncClient": "client",
    "BudgetMeter": "budget_view",
    "Calibration": "calibrating",
    "Choice": "completion",
    "Client": "client",
    "Compare": "compare",
    "Completion": "completion",
    "Difference": "differences",
    "Distribution": "distribution",
    "Distributions": "distribution",
    "Inspector": "inspector",
    "JobBoard": "job_board",
    "Loom": "loom",
    "Rollout": "rollouts",
    "Session": "session",
    "Surgery": "surgery",
    "Token": "completion",
    "Workbench": "workbench",
    "calibration": "calibrating",
    "choose": "scoring",
    "difference": "differences",
    "distributions": "scoring",
    "load": "record",
    "logprob": "scoring",
    "next_token": "scoring",
    "perplexity": "scoring",
    "recover": "unsaved",
    "rollout": "rollouts",
    "rollout_async": "rollouts",
    "score": "scoring",
    "score_async": "scoring",
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
    importlib.import_module(".magics", __name__).load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext acs_jupyter``."""
    importlib.import_module(".magics", __name__).unload(shell)
