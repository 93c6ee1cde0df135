"""Thousands of prompts in one durable run; see :func:`rollout`."""

from .handle import Rollout
from .run import async_rollout, rollout

__all__ = ["Rollout", "async_rollout", "rollout"]
