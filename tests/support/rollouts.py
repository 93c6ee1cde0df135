"""A small rollout, and prompts that take a moment."""

from __future__ import annotations

from typing import Any

from acs_jupyter import Client, Rollout, rollout
from acs_jupyter.local.desk import Limits
from tests.support.player import whole

WORDS = [f"word {i}" for i in range(20)]
SLOW = [f"#scripted rate=40 tokens=12\n{i}" for i in range(24)]
NO_LIST = {"/models": whole({"error": {"code": "not_found", "message": "none"}}, "404 Not Found")}
FREE = Limits(starts=0, reads=0)


def run(client: Client, prompts: Any = WORDS, **options: Any) -> Rollout:
    fields = {"max_tokens": 4, "seed": 1, "starts": 0, "progress": False, "into": "run.acs.db"}
    return rollout(prompts, client=client, **(fields | options))
