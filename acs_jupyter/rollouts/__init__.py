"""Thousands of prompts in one durable run; see :func:`rollout`."""

from .handle import Rollout
from .run import rollout, rollout_async

__all__ = ["Rollout", "rollout", "rollout_async"]
