"""The help texts of ``%acs help``.

Owns the words. It must know no more of the package than its options and where it keeps files.
"""

from __future__ import annotations

from collections.abc import Callable

from . import examples
from . import topics_keeping as more
from .options import BUDGET, FLAGS, HELP, JOB_FLAGS, SHORT

_START = """\
%%acs [options]            the cell's body is the prompt, exactly as typed; the model continues it
    The capital of France is

%acs models                the models the server offers
%acs set NAME VALUE        a default for the cells that follow; %acs set alone shows them all
%acs doctor                what a blank or a cut word at the end, \\r\\n or a second BOS does to the next token
%acs jobs                  the completion jobs of this key, live; %acs help jobs
%acs budget                what was spent, held and is left; limits, export: %acs help budget
%acs last [NAME]           the last completion, or a named one, once more with its branches, saved with the notebook
%acs recover               what had come when a kernel was killed, as a copy that the notebook saves; all, forget
%acs local                 start the embedded server, no key and no network needed
%acs settings              every setting, its value and where that came from: %acs help settings
%acs debug                 the last error with its traceback; on, off: %acs help errors
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
    result.to_frame()                  one row a token; rank is <NA> for one not among the returned likeliest
    result.choices[0].prompt_tokens    with --prompt-logprobs: the prompt's own tokens, scored
    result.replay()                    send it again and say where the two part
    result.branches                    what was branched from it in the live cell; each has origin, source, branches

In the live cell, click a token (or go to it and press Enter), then an alternative: a branch with that token, beside the
old text. "resample from here" and "edit and continue" stand there too. A branch goes by text; exact sends token ids
instead, which one more request, of about the text's length, finds out."""

_JOBS = """\
%%acs --job submits the cell as a completion job and returns at once. No connection is needed for it to run, and none is
lost by closing the lid: the same cell, run again, also after a restart of the kernel, finds the same job and pays once.
A changed cell, or another --job-tag, is another job. -o NAME keeps the job:

    job.wait(600), job.completion()    what it gave, waiting for it or not; raises how it ended
    job.cancel(), job.id               end it; its id

%acs jobs                              all of them, live: state, result, cancel, open, ids for a bug report
%acs jobs ID | cancel ID               one as a completion; end one

A job has no stream, no alternatives (--logprobs 0 gives each token's own log-probability; a cell's default is dropped),
no prompt_logprobs, and at most 4,096 tokens: leave out --job for these. It waits at most 24 hours, its result is kept
for 24 hours after its end, and seven days later the service forgets it: from then on the same cell is new, paid work.
Submitted jobs are in a private file on this machine, with their prompts; ACS_JOURNAL=off keeps none."""


_CONTINUE = """\
%%acs --in NAME goes on where NAME ended: a completion kept with -o or made by a Client, one of its choices, or a
session (its last run). The cell's body follows that text byte for byte; prompt, continuation and body are sent as one.

    %%acs --in story -o more
     and then

Without a body it continues at the very end. With several choices name one, counted from 1: --in story:2. A stopped or
interrupted one goes on from what came; a running one must end first. Model and sampling are those of the run before,
but n, echo and prompt_logprobs; options of this cell go over them. The new run joins the same session, as a child of
what it continues; nothing is changed above it. Text is sent, not token ids: the last word may be tokenised anew."""


_BUDGET = """\
Every request is held at its worst case (prompt + choices x max_tokens) before it is sent, and settled by the usage
the server reports. One file for all kernels of this machine; the key is not in it.

%acs budget                        this key: spent, held, left; a frame over all keys, by month, model, notebook, cell
%acs budget --limit 3m             tokens a month (UTC) for the key in use; none takes the limit away
%acs budget --limit 200k --session of this kernel's session
%acs budget --export spent.csv     every request, as .csv or .jsonl; never a text or a key; --overwrite replaces a file
%acs budget settle                 end what is held by processes that are gone, at all that was held; --as estimate
                                   counts the prompt and what was seen of the text, --as nothing nothing
%acs budget settle --elsewhere     also what is held out of sight: by another machine or container, or before a restart
%acs budget --reset                the server has raised a budget that it had called used up

A stream that is stopped costs what the server says when it is left; without an answer, what was counted and can have
been made until it noticed. One that breaks off by itself counts at max_tokens. Both are flagged as estimates.

Over a limit a request is refused before it is sent. %%acs --budget N limits one cell. In Python:

    from acs_jupyter import BudgetMeter
    BudgetMeter()                      # moves while tokens stream

ACS_LEDGER names another file; ACS_LEDGER=off, or Client(meter=None), works without."""


_ROLLOUT = """\
A rollout sends thousands of prompts into one file and goes on where it was, whatever happened in between:

    from acs_jupyter import rollout
    run = rollout(["One", "Two"], seeds=range(3), grid={"temperature": [0.7, 1.0]}, max_tokens=64, into="run.acs.db")
    run.frame()                        one row a choice, failures too; tokens=True: one row a token

    prompts        list, Series, generator, .jsonl file, or a DataFrame with column="..."; what else it holds is kept
    what           models=[...], seeds=[...], grid={...}, and every field of a request under its own name
    again          the same call sends only what has not ended; retry_failed=True what failed; another plan is refused
    how fast       in_flight=16, starts=590 a minute, per_model=4; slower by itself when the server says so
    stop           budget=TOKENS; the stop button finishes what is in flight, a second time drops it
    bg=True        returns at once: run.stop(), run.wait(), run.frame() while it runs
    batch=8        several prompts a request where that gives the same; cache=True reuses deterministic answers
    results        run.frame(), run.completions(), run.failures; run.to_parquet("run.parquet")
                   needs pyarrow: %pip install pyarrow
    later          acs_jupyter.Rollout("run.acs.db") reads a file and sends nothing"""


_SCORE = """\
    from acs_jupyter import score, logprob, choose, perplexity, distributions, next_token
    from acs_jupyter import Inspector, Compare, difference, Surgery, calibration

    score(text, top=5)                 token ids, logprobs (nats), surprisal (bits), ranks; .to_frame()
    score([text, text])                several, in batches; score_async beside an AsyncClient
    logprob(text, given=context)       of a continuation: .logprob, .per_token, .per_byte, .seam
      seam="nearest"|"boundary"|"ids"  how to cut where no token ends at the seam; or "refuse"
    choose(context, texts, by="token") candidates, likeliest first; by sum, token or byte
    perplexity(texts)                  a number for a text, a frame for several (a list, Series or DataFrame, column=)
      into="x.acs.db"                  through a file: the same call goes on, nothing is paid twice; budget=
    next_token(text)                   the whole distribution of what follows: .top(5), .entropy, .of(" a").rank
    distributions(text)                one at each position: d[3].kl(other), .js(other), d.ranks(" a"), d.save(file)
    Inspector(text)                    the text in colours, the distribution at each token; a score or completion too
    difference(score1, score2)         bits by bytes between models or texts: drawn, .largest(5), .to_frame()
    Surgery(prompt, target).run()      what each sentence does for the target, in nats; .worst before; into=, budget=
    Compare(prompt, [{...}, {...}])    lanes side by side: .run(), .stop("B"), .frame(); .grid(prompts, models=...)
    calibration(completions)           stated probability against sampled frequency
    .plot()                            of a score, a distribution, a calibration (matplotlib)
    result.with_ids()                  a completion's token ids, by one scoring request

Every text costs its own tokens and one. The first token of a text has no score: nothing stands in front of it."""


_LOOM = """\
A loom is a tree of continuations, kept as it grows. As a cell's last line it is a window:

    from acs_jupyter import Loom
    loom = Loom("Once upon a time", max_tokens=40)     from a text, a session, a completion or one of its choices
    loom

In the window, arrows or hjkl move, 1 to 9 grow that many, g grows with other parameters, e edits (a sibling; the
original stays), s splits at a token, m merges, Del deletes, u and r undo and redo, / searches, o hoists, ? shows all.
loom.show(keys={"delete": "d"}) changes keys. Keys count only while the focus is in it; Tab leaves it.

    loom.keep("story.loom")            every change is appended; Loom.open goes on; Loom.load reads other files
    loom.select(loom.where("logprob < -5")); loom.selected      lit nodes, both ways; what can be asked: %acs help where
    loom.frame(), loom.tokens_frame(), loom.logprob(node)       as data
    loom.trie(node).to_frame()         where its samples part: counts, intervals, what the model said (key T)
    loom.diff(a, b).to_frame()         two nodes token by token (key D)
    loom.multiverse(node, budget=2000) what may follow, as areas of probability (key M); .to_frame(); again: goes on
    loom.expand(node, scorer, budget=5000, width=3)             grows where your function is highest; again: goes on
    loom.grow(node, 4), loom.edit(node, text), loom.undo()      the same from Python"""


def _options() -> str:
    rows = [
        (f"{SHORT[name] + ', ' if name in SHORT else ''}--{name.replace('_', '-')}", HELP[name])
        for name in HELP
    ]
    rows += [
        ("-o, --out NAME", "store the completion"),
        ("--in NAME[:K]", "continue a stored completion (its K-th choice) or a session"),
        ("--budget N", BUDGET),
        *FLAGS.items(),
        *JOB_FLAGS.items(),
    ]
    return "\n".join(f"{left:<26} {right}" for left, right in rows)


def _privacy() -> str:
    from ..doctor.kept import kept  # noqa: PLC0415  # only when somebody asks

    lines = []
    for one in kept():
        lines.append(f"    {one.name}: {one.path or 'switched off'} ({one.variable})")
        lines.append(f"        {one.holds}; to erase: {one.erase}")
    return more.PRIVACY.format(files="\n".join(lines))


_TEXTS: dict[str, str | Callable[[], str]] = {
    "budget": _BUDGET,
    "compare": more.COMPARE,
    "continue": _CONTINUE,
    "errors": more.ERRORS,
    "inspect": more.INSPECT,
    "jobs": _JOBS,
    "loom": _LOOM,
    "options": _options,
    "privacy": _privacy,
    "prompt": _PROMPT,
    "python": more.PYTHON,
    "result": _RESULT,
    "rollout": _ROLLOUT,
    "saved": more.SAVED,
    "score": _SCORE,
    "settings": more.SETTINGS,
    "where": more.WHERE,
    "workbench": more.WORKBENCH,
}


def names() -> list[str]:
    """The topics there are."""
    return list(_TEXTS)


def text(topic: str) -> tuple[str, bool]:
    """The text of a topic with its examples, and whether there is such a topic; ``""`` is the first page."""
    if not topic:
        return _START.format(topics=", ".join(names())), True
    found = _TEXTS.get(topic)
    if found is None:
        return "", False
    return (found if isinstance(found, str) else found()) + examples.of(topic), True
