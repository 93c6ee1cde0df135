"""Between engine and answer: stop strings applied, finished choices closed.

Owns the rule that matched text is not shown and that a choice ends once. It must not know JSON or HTTP.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from .stops import StopFinder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .engine import Engine, Step, Task


def stop_strings(task: Task) -> tuple[str, ...]:
    """The stop strings of a request, as a tuple."""
    stop = task.request.stop
    if isinstance(stop, str):
        return (stop,)
    return tuple(stop) if isinstance(stop, list) else ()


async def run(engine: Engine, task: Task) -> AsyncGenerator[list[Step]]:
    """Steps as the client may see them; ends when every choice has a finish reason."""
    stops = stop_strings(task)
    finders = [StopFinder(stops) for _ in range(task.request.choice_count)]
    open_choices = set(range(len(finders)))
    source = cast("AsyncGenerator[list[Step]]", engine.generate(task))
    async with aclosing(source) as bursts:
        async for burst in bursts:
            shown = [_passed(step, finders[step.choice]) for step in burst if step.choice in open_choices]
            for step in shown:
                if step.finish is not None:
                    open_choices.discard(step.choice)
                    task.stopped.add(step.choice)
            if shown:
                yield _once(shown)
            if not open_choices:
                return


def _passed(step: Step, finder: StopFinder) -> Step:
    text, met = finder.feed(step.text)
    if met is not None:
        step.finish, step.stop_reason = "stop", met
    elif step.finish is not None:
        text += finder.rest()
    step.text = text
    return step


def _once(steps: list[Step]) -> list[Step]:
    # A burst may hold steps behind the one that ended their choice; they were never asked for.
    ended: set[int] = set()
    kept = []
    for step in steps:
        if step.choice not in ended:
            kept.append(step)
        if step.finish is not None:
            ended.add(step.choice)
    return kept
