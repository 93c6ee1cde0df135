"""The help texts of ``%acs help``.

Owns the words and the examples; every example runs as it stands. It must know no more of the package than
its options.
"""

from __future__ import annotations

from .options import BUDGET, FLAGS, HELP, SHORT

_START = """\
%%acs [options]            the cell's body is the prompt, exactly as typed; the model continues it
    The capital of France is

%acs models                the models the server offers
%acs set NAME VALUE        a default for the cells that follow; %acs set alone shows them all
%acs doctor                what a blank at the prompt's end, \\r\\n or a second BOS does to the next token
%acs budget                what was spent, held and is left; limits, export: %acs help budget
%acs last                  the last completion once more, saved with the notebook
%acs local                 start the embedded server, no key and no network needed
%acs help TOPIC            topics: {topics}

In a terminal, end a cell with Esc and then Enter; empty lines at its end are no part of the prompt."""

_PROMPT = """\
The prompt is everything below the %%acs line, byte for byte: nothing is stripped, filled in or templated.
To end the prompt in a newline, end the cell in an empty line. With --fmt, @@{name} is filled with the text of a
variable, and only that: {braces}, $dollars and %percents stay. For a prompt made in Python:

    from acs_jupyter import Client
    completion = Client().complete("a\\nb\\n", max_tokens=32)"""

_RESULT = """\
%%acs -o result stores what came, also when it was stopped. str(result) is the text.

    result.text, result.texts          the first choice's text (so is str); all choices' texts
    result.tokens[0].alternatives      what the model weighed, most likely first
    result.usage, result.request_id    tokens spent; the id to quote in a bug report
    result.to_frame()                  one row a token; rank counts what was returned, so the last is a lower bound
    result.choices[0].prompt_tokens    with --prompt-logprobs: the prompt's own tokens, scored
    result.replay()                    send it again and say where the two part"""


_BUDGET = """\
Every request is held at its worst case (prompt + choices x max_tokens) before it is sent, and settled by the usage
the server reports. One file for all kernels of this machine; the key is not in it.

%acs budget                        spent, held, left; today, by month, key, model, notebook and cell; also as a frame
%acs budget --limit 3m             tokens a month (UTC) for the key in use; none takes the limit away
%acs budget --limit 200k --session of this kernel's session
%acs budget --export spent.csv     every request, as .csv or .jsonl; never a text or a key
%acs budget settle                 end what is held by processes that are gone, as an estimate: the prompt and what was
                                   seen of the text; --as held counts all that was held, --as nothing nothing
%acs budget --reset                the server has raised a budget that it had called used up

Over a limit a request is refused before it is sent. %%acs --budget N limits one cell. In Python:

    from acs_jupyter import BudgetMeter
    BudgetMeter()                      # moves while tokens stream

ACS_LEDGER names another file; ACS_LEDGER=off, or Client(meter=None), works without."""


def _options() -> str:
    rows = [
        (f"{SHORT[name] + ', ' if name in SHORT else ''}--{name.replace('_', '-')}", HELP[name])
        for name in HELP
    ]
    rows += [("-o, --out NAME", "store the completion"), ("--budget N", BUDGET), *FLAGS.items()]
    return "\n".join(f"{left:<26} {right}" for left, right in rows)


def names() -> list[str]:
    """The topics there are."""
    return ["options", "prompt", "result", "budget"]


def text(topic: str) -> tuple[str, bool]:
    """The text of a topic, and whether there is such a topic; ``""`` is the first page."""
    known = {
        "": _START.format(topics=", ".join(names())),
        "budget": _BUDGET,
        "options": _options(),
        "prompt": _PROMPT,
        "result": _RESULT,
    }
    return (known[topic], True) if topic in known else ("", False)
