"""``rollout(...)``: its arguments judged, its file opened, its run begun, in three forms.

Owns the public signature. It must not know how requests are sent.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..amounts import budget_of
from ..errors import InvalidRequest
from ..ledger import ledger
from ..ledger.meter import KeyMeter
from .cache import Cache, default_path
from .flow import Limits
from .handle import Rollout, Work
from .holds import make_good
from .items import Item, items_of
from .journal import Journal, Unwritable
from .lines import batch_client
from .opening import cannot_write
from .plan import Plan, make_plan
from .progress import Bar, in_notebook
from .results import Results
from .sender import Sender

if TYPE_CHECKING:
    from ..client import AsyncClient, Client


def rollout(prompts: Any, *, bg: bool = False, progress: bool | None = None, **options: Any) -> Rollout:
    """Send every prompt, in every variant, into one file; stop and go on as often as you like.

    ``prompts``: a list, Series, generator or JSON lines file of texts (or lists of token ids), or a DataFrame or
    mappings with the prompt under ``column``; what else they hold is kept and comes back in the frame.

    What is asked: ``models`` (one or several), ``seeds`` (a list: every prompt once a seed), ``grid`` (a dict of lists:
    every combination) and the fields of a request under their own names (``n``, ``max_tokens``, ``temperature``, ...).

    Where: ``into``, a file; without it one named after the plan. The same call goes on with it: what has ended is not
    sent again, and when all has, it returns at once. A file of another plan is refused and says how they differ.
    ``resume=True``/``False``: the file must / must not be there. ``retry_failed=True`` sends failed requests again.

    How fast: ``in_flight`` (16), ``starts`` a minute (590; 0: no limit), ``per_model`` (a number or a dict by model),
    slower by itself when the server says so. ``retries`` (4) for what the server calls retryable; ``burst`` (24): stop
    after so many failures of the server in a row. ``batch`` (1): up to so many prompts in one request, where the
    answers are the same. ``budget``: stop before the run could cost more tokens than this, over all its sessions.
    ``cache=True`` (or a path): take answers of deterministic requests from a file, and put them there.

    ``bg=True`` returns at once; then ``run.wait()``, ``run.stop()``, ``await run``. Otherwise an interrupt finishes
    what is in flight, a second one drops it. ``progress``: a bar or none. ``client``: where to send, else the
    environment.

    Raises :class:`InvalidRequest` before anything is sent. Failed requests are rows, not exceptions.
    """
    run = prepared(prompts, **options)
    shown = progress if progress is not None else (not bg or in_notebook())
    if not run.done:
        run.start(_bar(run, shown), alone=bg)
    return run if bg else run.wait()


async def rollout_async(prompts: Any, *, progress: bool | None = None, **options: Any) -> Rollout:
    """:func:`rollout` on the running event loop. Cancelling the task drops what is in flight and keeps the rest."""
    run = prepared(prompts, **options)
    return run if run.done else await run.carry(_bar(run, progress is not False))


def prepared(
    prompts: Any,
    *,
    column: str | int = "prompt",
    into: str | os.PathLike[str] | None = None,
    models: str | Sequence[str] | None = None,
    seeds: Iterable[int] | None = None,
    grid: Mapping[str, Iterable[Any]] | None = None,
    client: Client | AsyncClient | None = None,
    budget: int | str | None = None,
    in_flight: int = 16,
    starts: int = 590,
    per_model: int | Mapping[str, int] | None = None,
    retries: int = 4,
    burst: int = 24,
    batch: int = 1,
    cache: bool | str | os.PathLike[str] = False,
    resume: bool | None = None,
    retry_failed: bool = False,
    **fields: Any,
) -> Rollout:
    """A rollout whose file is open and of which nothing has been sent; see :func:`rollout`."""
    most = budget_of(budget)
    _positive(in_flight=in_flight, burst=burst, batch=batch, budget=1 if most is None else most)
    _positive(least=0, starts=starts, retries=retries)
    if "model" in fields:
        models = _one_of(models, fields.pop("model"))
    sender = batch_client(client)
    default = sender.model if models is None else None
    stored = _stored_model(into) if models is None and default is None else None
    if models is None and default is None:
        default = stored or _served_model(sender)
    plan = make_plan(fields, models=models, default_model=default, seeds=seeds, grid=grid)
    items: Iterable[Item] = items_of(prompts, column)
    if into is None:
        listed = list(items)
        items, into = listed, _named(plan, listed)
    path = Path(into)
    if not retry_failed and resume is not False and (finished := _finished(path, plan, items)) is not None:
        return finished
    sender.meter = _accounted(sender.meter, path.name)
    journal = Journal.open(path, plan, items, resume=resume, sender=Sender(sender.base_url, sender._secret))
    try:
        make_good(journal, sender.meter)
        journal.recover(retry_failed=retry_failed)
        limits = Limits(in_flight, starts, _per_model(per_model, plan), retries, burst)
        kept = Cache(default_path() if cache is True else Path(cache), sender.base_url) if cache else None
        work = Work(journal, plan, sender, limits, batch, most, kept, named_by_file=stored is not None)
        return Rollout(path, work)
    except BaseException as problem:
        journal.close(refused=True)
        if isinstance(problem, Unwritable):
            raise cannot_write(path, problem.__cause__ or problem) from None
        raise


def _finished(path: Path, plan: Plan, items: Iterable[Item]) -> Rollout | None:
    """The rollout in a file that cannot be written and need not be: all has ended. One of another plan is refused."""
    if not path.is_file() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return None
    run = Rollout(path)
    if run.outcome != "done":
        return None  # told when it is opened
    run.judge(plan, items)
    return run


def _accounted(meter: Any, name: str) -> Any:
    """The ledger's meter, with what the rollout takes under its file's name in ``%acs budget``."""
    return meter.within(ledger().scope("rollout", name)) if isinstance(meter, KeyMeter) else meter


def _bar(run: Rollout, shown: bool) -> Bar:
    stats = run.stats
    return Bar(run.path.name, stats.total, stats.done + stats.failed, shown=shown)


def _positive(*, least: int = 1, **numbers: Any) -> None:
    for name, value in numbers.items():
        if type(value) is not int or value < least:
            raise InvalidRequest(f"{name}={value!r}: a whole number of at least {least} is needed.")


def _one_of(models: Any, model: Any) -> Any:
    if models is not None:
        raise InvalidRequest("model and models are both given; leave one of them out.")
    return model


def _per_model(given: int | Mapping[str, int] | None, plan: Plan) -> dict[str | None, int]:
    if given is None:
        return {}
    found = dict.fromkeys(plan.models, given) if isinstance(given, int) else dict(given)
    for model, most in found.items():
        if model not in plan.models:
            raise InvalidRequest(f"per_model names '{model}', which is not asked; leave it out.")
        _positive(per_model=most)
    return found  # type: ignore[return-value]


def _stored_model(into: str | os.PathLike[str] | None) -> str | None:
    """The model an earlier call found to be the default: a finished rollout needs no server."""
    if into is None or not Path(into).is_file():
        return None
    try:
        models = Results(Path(into)).plan.models
    except InvalidRequest:
        return None  # told when it is opened
    return models[0] if len(models) == 1 else None


def _served_model(sender: Any) -> str | None:
    """The server's default by name: a request without a model would be routed silently."""
    from ..client import Client  # noqa: PLC0415  # only when no model is named
    from ..wire import default_of  # noqa: PLC0415  # as above

    with Client(sender.base_url, sender._secret) as asking:
        return default_of(asking.models())


def _named(plan: Plan, items: list[Item]) -> str:
    digest = hashlib.blake2b(digest_size=5)
    digest.update(msgspec.json.encode(plan.described(), order="sorted"))
    for item in itertools.islice(items, None):
        digest.update(msgspec.json.encode(item.prompt))
    return f"rollout-{digest.hexdigest()}.acs.db"
