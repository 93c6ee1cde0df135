"""What a rollout is going to ask, as values: variants, content keys, and how two plans differ.

Owns the order of requests (item by item, each in every variant), the canonical form that a key is made from, and the
words in which a changed plan is told. It must not know files, clocks or sockets.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from ..checks import build_request
from ..errors import InvalidRequest
from ..notebook.options import nearest
from ..plain import has_utf8
from ..wire import SAMPLING_FIELDS, CompletionRequest

PLANNED = (*SAMPLING_FIELDS, "user")
"""Fields that a rollout may set; model, prompt and the way of sending are its own."""
_canonical = msgspec.json.Encoder(order="sorted")


@dataclass(frozen=True)
class Variant:
    """One way in which every prompt is asked: a model and the fields that are sent. ``varied``: those that differ."""

    model: str | None
    fields: Mapping[str, Any]
    varied: Mapping[str, Any]

    def request(self, prompt: Any) -> CompletionRequest:
        """The checked request for a prompt (or a batch of them), as it is sent: streamed where it can be."""
        if type(prompt) is str and prompt and has_utf8(prompt):  # all else was judged with any text
            return msgspec.structs.replace(self._checked, prompt=prompt)
        return self._built(prompt)

    @cached_property
    def _checked(self) -> CompletionRequest:
        return self._built("a")

    def _built(self, prompt: Any) -> CompletionRequest:
        fields = dict(self.fields)
        if fields.get("prompt_logprobs") is None:
            fields |= {
                "stream": True,
                "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            }
        return build_request({"prompt": prompt, "model": self.model, **fields})

    @property
    def deterministic(self) -> bool:
        """Whether the same request gives the same answer: temperature 0, or a seed."""
        return self.fields.get("temperature") == 0 or self.fields.get("seed") is not None

    @property
    def batches(self) -> bool:
        """Whether several prompts may share a request and get the answers that each would get alone.

        A batch needs ``max_tokens``. A seed counts from each prompt anew, so it changes nothing. Repeated prompts, and
        those scored with alternatives, go alone, since their answers are larger than the prompts.
        """
        named = self.fields.get("prompt_logprobs") in (None, 0) and not self.fields.get("echo")
        return named and isinstance(self.fields.get("max_tokens"), int)


@dataclass(frozen=True)
class Plan:
    """All variants of a rollout, in order. Request ``number`` is ``item * len(variants) + variant``."""

    variants: tuple[Variant, ...]

    @property
    def models(self) -> list[str | None]:
        """The models asked, in order."""
        return list(dict.fromkeys(variant.model for variant in self.variants))

    def described(self) -> list[dict[str, Any]]:
        """The variants as plain values, for the journal."""
        return [{"model": v.model, "fields": dict(v.fields), "varied": dict(v.varied)} for v in self.variants]

    @classmethod
    def restored(cls, described: Iterable[Mapping[str, Any]]) -> Plan:
        """The plan that :meth:`described` describes."""
        return cls(tuple(Variant(d["model"], d["fields"], d["varied"]) for d in described))


def make_plan(
    fields: Mapping[str, Any],
    *,
    models: str | Sequence[str] | None = None,
    default_model: str | None = None,
    seeds: Iterable[int] | None = None,
    grid: Mapping[str, Iterable[Any]] | None = None,
) -> Plan:
    """The plan of these arguments. ``fields`` are the same for all; ``grid`` holds lists, of which every
    combination is asked, by every model, once a seed. Raises :class:`InvalidRequest`.
    """
    same = {name: value for name, value in fields.items() if value is not None}
    axes = _axes(grid or {}, same)
    named = _models(models, default_model)
    seeded = _seeds(seeds, same, axes)
    combinations = [
        dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())
    ]  # one empty combination without a grid
    variants = []
    for model, varied, seed in itertools.product(named, combinations, seeded):
        own = varied if seed is None else {**varied, "seed": seed}
        variant = Variant(model, {**same, **own}, own)
        variant.request("a")  # tells what cannot be sent before anything is
        variants.append(variant)
    if len({_canonical.encode([v.model, _meant(v.fields)]) for v in variants}) < len(variants):
        raise InvalidRequest("models, seeds or grid name the same value twice; leave one of them out.")
    return Plan(tuple(variants))


def _meant(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields so that what asks for the same is equal, however it is written: 0 and 0.0, one stop text alone."""
    meant = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in fields.items()
    }
    if isinstance(meant.get("stop"), str):
        meant["stop"] = [meant["stop"]]
    return meant


def prompt_digest(prompt: Any) -> bytes:
    """16 bytes that stand for a prompt."""
    return hashlib.blake2b(_canonical.encode(prompt), digest_size=16).digest()


def variant_digest(variant: Variant) -> bytes:
    """16 bytes that stand for a model and its parameters."""
    return hashlib.blake2b(_canonical.encode([variant.model, variant.fields]), digest_size=16).digest()


def content_key(variant: bytes, prompt: bytes, twin: int = 0) -> bytes:
    """The key of a request: model, parameters with the seed, prompt, and its number among equal prompts."""
    return hashlib.blake2b(variant + prompt + twin.to_bytes(8, "big"), digest_size=16).digest()


def differences(before: Plan, now: Plan) -> list[str]:
    """How two plans differ, a line each; empty when they ask the same."""
    if before == now:
        return []
    lines = []
    if before.models != now.models:
        lines.append(f"models: {_listed(before.models)} -> {_listed(now.models)}")
    old, new = _values(before), _values(now)
    lines += [
        f"{name}: {_listed(old.get(name))} -> {_listed(new.get(name))}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
    return lines or ["the order of the variants differs"]


def _values(plan: Plan) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for variant in plan.variants for name in variant.fields)
    return {
        name: [json.loads(v) for v in dict.fromkeys(json.dumps(x.fields.get(name)) for x in plan.variants)]
        for name in names
    }


def _listed(values: Sequence[Any] | None) -> str:
    if values is None:
        return "not sent"
    shown = ", ".join("not sent" if value is None else json.dumps(value) for value in values[:6])
    return shown + (f", ... ({len(values)})" if len(values) > 6 else "")


def _models(models: str | Sequence[str] | None, default: str | None) -> list[str | None]:
    if models is None:
        return [default]
    named = [models] if isinstance(models, str) else list(models)
    if not named or not all(isinstance(name, str) and name for name in named):
        raise InvalidRequest(f"models={models!r}: a model's id, or a list of them, is needed.")
    return list(named)


def _seeds(seeds: Any, same: Mapping[str, Any], axes: Mapping[str, Any]) -> list[int | None]:
    if seeds is None:
        return [None]
    if isinstance(seeds, (int, str)) or not isinstance(seeds, Iterable):
        raise InvalidRequest(
            f"seeds={seeds!r}: a list is needed, such as range(5); one seed for all is seed=5."
        )
    if "seed" in same or "seed" in axes:
        raise InvalidRequest("seed and seeds are both given; leave one of them out.")
    found = [_plain(seed) for seed in seeds]
    if not found:
        raise InvalidRequest("seeds=[]: at least one is needed; leave it out for none.")
    return found


def _axes(grid: Mapping[str, Iterable[Any]], same: Mapping[str, Any]) -> dict[str, list[Any]]:
    axes = {}
    for name, values in grid.items():
        if name == "model":
            raise InvalidRequest("grid has 'model': name the models with models=[...].")
        if name in same:
            raise InvalidRequest(f"{name} is given twice, alone and in grid; leave one of them out.")
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise InvalidRequest(f"grid[{name!r}]={values!r}: a list of values is needed.")
        axes[name] = [_plain(value) for value in values]
        if not axes[name]:
            raise InvalidRequest(f"grid[{name!r}] is empty: at least one value is needed.")
    for name in (*same, *axes):
        if name not in PLANNED:
            raise InvalidRequest(f"A rollout has no field '{name}'.{nearest(name, list(PLANNED))}")
    return axes


def _plain(value: Any) -> Any:
    """A number of numpy as a number of Python."""
    return value.item() if hasattr(value, "item") and not isinstance(value, (str, bytes)) else value


def numbers_of(item: int, plan: Plan) -> Iterator[int]:
    """The numbers of an item's requests."""
    first = item * len(plan.variants)
    yield from range(first, first + len(plan.variants))
