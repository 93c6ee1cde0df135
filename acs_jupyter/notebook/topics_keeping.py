"""More of the help texts: what is kept and where, settings, errors, the views beside the cell.

Owns these words; `topics.py` has the others and hands all of them out. It must know no more than its options.
"""

from __future__ import annotations

SETTINGS = """\
%acs settings              every setting with its value and where that came from
%acs set NAME VALUE        for the cells that follow; none: not sent; default: as without %acs set

A setting is looked for in this order; the first place that has it counts:

    1  the cell's own option           %%acs --max-tokens 40
    2  %acs set                        %acs set max_tokens 40
    3  the environment                 ACS_MAX_TOKENS=40, set before Jupyter starts
    4  IPython's configuration         c.AcsMagics.max_tokens = 40 in ipython_config.py, or %config
    5  the default                     max_tokens 128, logprobs 5, notes on, timeout 900, retries 3

What is set nowhere is not sent, and the server's own default holds: temperature 1, top_p 1, top_k off (in vLLM, unless
the model's generation config says otherwise). With none an option is not sent either: %%acs --logprobs none.
Every field of a request can be set under its own name, and notes (on, off), timeout, retries, longest_wait (seconds).
A cell that continues another (--in) takes that one's sampling before 2. Server and key come from ACS_API_BASE and
ACS_API_KEY, or %acs local; a key is in no configuration and is never shown. In Python an argument goes over the
variable: Client(timeout=60), ACS_TIMEOUT, 900. Files: ACS_LEDGER, ACS_JOURNAL, ACS_UNSAVED, each a name or off."""

PRIVACY = """\
Prompts and texts are in the notebook, in the kernel's memory, and wherever ACS_API_BASE points. Nothing else is sent
anywhere. The key is read from the environment and written nowhere. On this machine, readable by you alone:

{files}

A rollout, a surgery or perplexity with into= writes the file that you named, with prompts and texts; so do loom.keep,
session.save and an export. `acs-jupyter strip --records x.ipynb` takes completions out of a notebook; its outputs you
clear yourself. The service keeps a job's prompt and result for 24 hours, and usage without text.
`acs-jupyter doctor` shows which of these files are there."""

ERRORS = """\
An error is one line: a code, what happened, what to do, and the request id at its end, to quote in a bug report.

%acs debug                 the last error with its traceback, and its request id on a line of its own
%acs debug on              every error with its traceback from now on; off: one line again

A refused request (budget, a field out of bounds) cost nothing: nothing was sent. What came before an answer broke off
is kept, in the cell and as error.completion. `acs-jupyter doctor` in a terminal checks server, key, versions, widgets
and files, and prints what a bug report needs, without secrets. In Python errors are types: acs_jupyter.errors."""

SAVED = """\
The saved notebook keeps every completion whole; it reads without a kernel, in any viewer.

    acs_jupyter.load("x.ipynb")                  all completions, tokens and alternatives too, branches behind them
    acs-jupyter export x.ipynb --to x.jsonl      in a terminal: as JSONL, .txt, .csv or .parquet; --tokens
    acs-jupyter strip x.ipynb                    widget state out; --records the completions too

%acs last [NAME]           a completion once more with its branches, as a copy that the notebook saves
%acs recover               what had come when a kernel was killed; all: of other notebooks too; forget, forget all:
                           remove it"""

WORKBENCH = """\
A form instead of cells: a prompt box that keeps every byte, parameters with bounds, Run (Ctrl+Enter), Continue, and a
history of all that was run. As a cell's last line:

    Workbench(prompt="...", temperature=0.8)     fields under their own names
    Workbench(Session.load("x.jsonl"))           goes on from a file that it exported"""

COMPARE = """\
Up to six lanes side by side, each a model or its own settings; one that is refused or breaks stops no other.

    Compare(prompt, [{...}, {...}], max_tokens=40)     lanes: models' names or mappings of fields
    Compare.grid(prompts, models=[...], temperatures=[...])     up to 16
    board.run("B"), board.stop("B"), board.frame(), board["B"]  one lane; one row a choice; a lane's completion"""

INSPECT = """\
Inspector(text) shows a text token by token in the cell's colours; click one for its distribution. It takes a Score, a
Completion with logprobs, or token ids too. Whole distribution asks for all of it; its cost stands on the button.

Surgery(prompt, target) takes parts of a prompt out and says in nats what each did for the target: .worst tells what it
can cost before anything is sent, run(budget=N) stops in time, run(into="x.acs.db") goes on in another kernel."""

PYTHON = """\
Client and AsyncClient have the same methods: complete, stream, models, status, jobs. Fields are checked before anything
is sent; a ``None`` is not sent. An error after the first token keeps what came: error.completion.

    Client(timeout=900, retries=3, longest_wait=600)    seconds without a byte; sent again; longest Retry-After"""

WHERE = """\
loom.where(...), and the window's search with "predicate" chosen, find nodes of which something holds:

    loom.where("logprob < -5")                         any one of its tokens is that unlikely (nats)
    loom.where('finish == "length" and tokens > 20')   cut by max_tokens, and long
    loom.where('text contains "ship" or bookmark')     a name alone: it is there, and is not 0, empty or false

of any one token    token, logprob (nats), surprisal (bits), rank (1 = most likely)
of its text         text, tokens, chars (counts), total, mean, path (logprobs: its own, a token, from the prompt on)
of how it came      model, generated, finish, stopped_by, outcome, run, id; and each field it was sampled with, such as
                    temperature, top_p or seed
of its place        depth, children
of what you marked  tags, note, rating, bookmark, unread, folded

operators           == != < <= > >= contains, joined by and, or, not and brackets
values              a number, "text", true, false, none; what is not known fits only == none and !="""
