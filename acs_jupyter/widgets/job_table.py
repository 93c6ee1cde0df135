"""Jobs as rows: for the browser, as a static table, as lines of text.

Owns what a row tells and the markup of the static table. It must not know kernels, clients or journals. Prompts and
results are escaped text; the static table is script-free and reads without its style sheet too.
"""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from ..jobs.entry import Entry, expires, expiry, kind_of, line, span, words
from .reading import INVISIBLE, code_point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..jobs.entry import Shown

_STYLE = """
.acs-jobs-static{font:12px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);
color:var(--jp-content-font-color1,inherit)}
.acs-jobs-static.acs-jobs-static table{border-collapse:collapse;width:100%;margin:0;font-size:12px}
.acs-jobs-static caption{text-align:left;padding:0 0 4px;opacity:.75}
.acs-jobs-static.acs-jobs-static :is(th,td){vertical-align:top;padding:3px 12px 3px 0;max-width:none;
border-bottom:1px solid rgba(128,128,128,.35);font-weight:400;overflow-wrap:anywhere}
.acs-jobs-static.acs-jobs-static tr{background:none}
.jp-OutputArea:has(.acs-jobs) .acs-jobs-static{display:none}
.jp-OutputArea-child:has(+ .jp-OutputArea-child .acs-jobs-static):not(:has(.acs-jobs)){display:none}
""".strip()

_LEFT = ' style="text-align:left"'
"""In the tag, since an untrusted page drops the style sheet and its own rules align to the right."""
_HEAD = ("State", "Job", "Submitted", "Prompt", "Result")


def browser_rows(rows: Sequence[Shown]) -> list[dict[str, Any]]:
    """The rows as the browser gets them; ages and countdowns are its own."""
    return [_browser_row(row) for row in rows]


def _browser_row(row: Shown) -> dict[str, Any]:
    entry = row.entry
    told = {
        "n": row.number,
        "job": entry.job,
        "request": entry.request_id,
        "name": entry.name,
        "model": entry.model,
        "prompt": entry.prompt,
        "tag": entry.tag,
        "kind": kind_of(entry),
        "state": _state(entry),
        "words": words(entry),
        "since": entry.created_at or entry.submitted_at,
        "ended": entry.ended_at,
        "expires": expires(entry),
        "preview": row.preview,
        "cancel": entry.open and entry.job is not None and not entry.cancel_requested,
        "read": entry.outcome == "succeeded",
    }
    return {name: _marked(value) for name, value in told.items() if value is not None}


def _state(entry: Entry) -> str:
    if entry.open and entry.job is None:
        return "not confirmed"
    if entry.open and entry.cancel_requested:
        return "cancelling"
    return (entry.outcome or entry.state).replace("_", " ")


def plain_text(rows: Sequence[Shown], now: float) -> str:
    """A line a job."""
    if not rows:
        return "No jobs yet: %%acs --job submits one."
    return "\n".join(line(row.entry, now) for row in rows)


def static_html(rows: Sequence[Shown], now: float) -> str:
    """A table of the jobs as they were at ``now``; it hides itself where a live board shows them."""
    parts = [f'<style>\n{_STYLE}\n</style><div class="acs-jobs-static">']
    if rows:
        head = "".join(f'<th scope="col"{_LEFT}>{name}</th>' for name in _HEAD)
        caption = f"Completion jobs as they stood at {_moment(now)}"
        parts.append(f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>")
        parts += [_static_row(row, now) for row in rows]
        parts.append("</tbody></table>")
    else:
        parts.append("<p>No jobs yet: <code>%%acs --job</code> submits one.</p>")
    return "".join([*parts, "</div>"])


def _static_row(row: Shown, now: float) -> str:
    entry = row.entry
    ids = entry.job or entry.name
    if entry.request_id:
        ids += f", request {entry.request_id}"
    result = " ".join(filter(None, [words(entry), _until(entry, now)]))
    if row.preview:
        result += f" “{row.preview}”"
    cells = (
        _state(entry),
        f"{ids}, {entry.model}",
        _moment(entry.created_at or entry.submitted_at),
        entry.prompt + (f" (tag {entry.tag})" if entry.tag else ""),
        result,
    )
    return "<tr>" + "".join(f"<td{_LEFT}>{_text(cell)}</td>" for cell in cells) + "</tr>"


def _until(entry: Entry, now: float) -> str:
    at = expires(entry)
    if at is None or not expiry(entry, now):
        return ""
    what = "expires unrun" if entry.open else "result kept until"
    return f"({what} {_moment(at)}, in {span(at - now)})" if at > now else "(result gone)"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _marked(value: Any) -> Any:
    """A text whose invisible characters are named: they would steer the view around them."""
    if not isinstance(value, str):
        return value
    return INVISIBLE.sub(lambda found: f"⟨{code_point(found.group())}⟩", value)


def _text(text: str) -> str:
    return escape(_marked(text))
