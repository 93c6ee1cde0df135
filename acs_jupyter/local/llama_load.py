"""Loads llama.cpp: threads, slots, memory, and the limits that follow from them.

Owns the settings of the embedded engine. It must not know requests.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..wire import Capabilities

if TYPE_CHECKING:
    from pathlib import Path

SLOTS = 8
"""Choices generated at the same time."""
BATCH = 32
"""Tokens of a prompt read at a time: small, so that reading a long prompt can be cancelled."""
FULL_VOCAB_PROMPT = 32
"""Longest prompt for ``prompt_logprobs=-1``: each position is every token of the vocabulary."""


class EngineFailure(Exception):
    """The engine itself failed; the message holds no text of a prompt."""


def spare_threads() -> int:
    """Threads to compute with: one core less than there are, at most eight.

    The engine's threads wait for each other at every token, so one busy neighbour on a core they need slows
    all of them. Measured on two cores with one busy process beside: two threads 34 tokens/s, one thread 81.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min(8, cores - 1))


def load(path: Path, context: int, threads: int, key: str) -> Any:
    """llama.cpp's server object over a model file; its own listener is on loopback and wants ``key``."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * (context + 256)
    params.kv_unified = False
    params.n_batch = params.n_ubatch = BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = 0
    params.verbosity = 0
    params.ui = False
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    try:
        return xllamacpp.Server(params)
    except Exception as problem:
        raise EngineFailure(f"llama.cpp could not load {path.name}.") from problem


def capabilities(context: int, layers: int | None) -> Capabilities:
    """What ``/v1/models`` says of a model."""
    return Capabilities(
        max_model_len=context,
        max_logprobs=100,
        max_output_work_tokens=32_000,
        max_inflight_per_key=16,
        max_queued_per_key=64,
        rate_limit_per_minute=600,
        logprobs=True,
        prompt_logprobs=True,
        prompt_logprobs_full_vocab=True,
        full_vocab_max_prompt_tokens=FULL_VOCAB_PROMPT,
        n_layers=layers,
    )
