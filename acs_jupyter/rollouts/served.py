"""What a server says of its models, put into a rollout's limits.

Owns that one step. Pure; it must not know how the list of models was asked for.
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import InvalidRequest
from ..notebook.options import nearest
from ..wire import Model
from .flow import Limits
from .plan import Plan


def adapted(limits: Limits, plan: Plan, known: dict[str, Model], *, stored_in: str = "") -> Limits:
    """Limits no wider than the models' own. Raises :class:`InvalidRequest` for a model the server does not have.

    ``stored_in``: the file whose plan named the model, when it was not the caller.
    """
    own = dict(limits.per_model)
    starts = limits.starts
    for model in plan.models:
        if not known or model is None:
            continue
        if model not in known:
            hint = nearest(model, list(known)) or f" There are: {', '.join(known)}."
            where = f", which the plan in {stored_in} names" if stored_in else ""
            other = " Name another file to ask another model." if stored_in else ""
            raise InvalidRequest(
                f"The server has no model '{model}'{where}.{hint}{other} Nothing was sent; `%acs models` lists them."
            )
        told = known[model].capabilities
        if told.max_inflight_per_key:
            own[model] = min(own.get(model, limits.in_flight), told.max_inflight_per_key)
        if told.rate_limit_per_minute and starts:
            starts = min(starts, max(1, told.rate_limit_per_minute - 10))
    return replace(limits, per_model=own, starts=starts)
