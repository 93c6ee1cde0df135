"""A completion as a static page part: no kernel, no script, nothing but its text, tints and titles.

Owns the HTML and the plain text that stay in a saved notebook. It must not know widgets. It reads well where
the style sheet is taken away too (untrusted notebooks): the text is all there, inline tints and titles stay.
Alternatives stand in ``title`` only, never in child elements, which such a view would spill into the text.
Model text is escaped text everywhere; characters that HTML cannot carry or that would steer the view are
named by their code points (``text/plain`` has them as they are).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from .reading import INVISIBLE, Piece, align, code_point, level_of, percent, quoted, ranked
from .words import clamp_words, error_words, figures, finish_words, model_name, outcome_words

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from ..session import Node, Run, Session

_HUE = "#d66a0c"
_ALPHA = ("", "0f", "1c", "2b", "3b", "4a", "5c", "70")
_INK = "border-bottom:{} rgb(214,106,12)"
_STYLE = f"""
.acs-static{{font:13px/1.7 var(--jp-code-font-family,ui-monospace,monospace);
color:var(--jp-content-font-color1,inherit)}}
.acs-static.acs-static pre{{margin:0;font:inherit;line-height:1.7;color:inherit;background:none;
overflow-wrap:anywhere;word-break:normal;unicode-bidi:plaintext}}
.acs-static .acs-grid{{display:grid;gap:10px;
grid-template-columns:repeat(auto-fit,minmax(min(100%,18rem),1fr))}}
.acs-static .acs-grid>div{{border:1px solid rgba(128,128,128,.35);border-radius:4px;padding:6px 10px}}
.acs-static .acs-line,.acs-static .acs-name{{
font:12px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);opacity:.75}}
.acs-static .acs-line{{margin-top:6px}}
.acs-static .acs-error{{opacity:1;border-left:3px solid #c62828;padding-left:10px}}
.acs-static .k{{border-radius:2px;padding-top:1px}}
.acs-static .k3{{{_INK.format("1px dotted")}}}
.acs-static .k4,.acs-static .k5{{{_INK.format("1px solid")}}}
.acs-static .k6{{{_INK.format("2px solid")}}}
.acs-static .k7{{{_INK.format("3px double")}}}
.acs-static i.n{{font-style:normal;user-select:none}}.acs-static i.n::before{{content:"↵";opacity:.5}}
.acs-static .k:hover{{outline:1px solid #888}}
.acs-static .k:hover::after{{content:attr(title);
position:fixed;margin:1.8em 0 0 -1em;z-index:99;white-space:pre;
pointer-events:none;font:12px/1.5 ui-monospace,monospace;padding:6px 9px;border-radius:4px;
unicode-bidi:isolate;color:var(--jp-content-font-color1,#222);
background:var(--jp-layout-color1,#fff);border:1px solid #8888;
box-shadow:0 3px 14px rgba(0,0,0,.22)}}
@supports (anchor-name:--a) and (position-try-fallbacks:flip-block){{
.acs-static .k:hover{{anchor-name:--acs-k}}
.acs-static .k:hover::after{{position-anchor:--acs-k;inset:auto;top:anchor(bottom);left:anchor(left);
margin:4px 0;position-try-fallbacks:flip-block,flip-inline,flip-block flip-inline}}}}
""".strip()
_BESIDE = """
.jp-OutputArea:has(.acs-live) .acs-beside{display:none}
.jp-OutputArea-child:has(.jupyter-widgets):has(+ .jp-OutputArea-child .acs-beside):not(:has(.acs-live))
{display:none}
""".strip()

_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;"}


def static_html(session: Session, run: str, *, beside_window: bool = False, show_prompt: bool = False) -> str:
    """One run as script-free HTML.

    ``beside_window``: it hides itself where a live window shows the same. ``show_prompt``: what stands before it, too.
    """
    here = session.runs[run]
    style = _STYLE + ("\n" + _BESIDE if beside_window else "")
    parts = [f'<style>\n{style}\n</style><div class="acs-static{" acs-beside" if beside_window else ""}">']
    nodes = [session.nodes[node] for node in here.nodes]
    for prompt, choices in _by_prompt(nodes):
        if show_prompt and prompt is not None:
            before = _text(session.text_to(prompt)).replace("\n", '<i class="n"></i>\n')
            parts.append(f'<pre style="white-space:pre-wrap;word-break:normal;opacity:.7">{before}</pre>')
        if len(nodes) > 1 and prompt is not None and _prompts(nodes) > 1:
            parts.append(f'<div class="acs-name">{_text(_label(session, prompt))}</div>')
        many = len(nodes) > 1
        parts.append('<div class="acs-grid">' if many else "")
        parts += [
            _choice(node, here, place, len(choices), many) for place, node in enumerate(choices, start=1)
        ]
        parts.append("</div>" if many else "")
    lines = (("acs-line acs-error", error_words(here)), ("acs-line", clamp_words(here)))
    for name, line in (*lines, ("acs-line", _status(session, here))):
        if line:
            parts.append(f'<div class="{name}">{_text(line)}</div>')
    parts.append("</div>")
    return "".join(parts)


def plain_text(session: Session, run: str) -> str:
    """The text of a run: of one choice exactly as it came, of several each under a line that names it."""
    nodes = [session.nodes[node] for node in session.runs[run].nodes]
    if len(nodes) == 1:
        return nodes[0].text
    several = _prompts(nodes) > 1
    blocks = []
    for number, (prompt, choices) in enumerate(_by_prompt(nodes), start=1):
        for place, node in enumerate(choices, start=1):
            name = f"prompt {number} ({_label(session, prompt)}), " if several and prompt else ""
            blocks.append(f"--- {name}continuation {place} of {len(choices)} ---\n{node.text}")
    return "\n".join(blocks)


def bench_bundle(session: Session, runs: list[str]) -> dict[str, str]:
    """What stays of a workbench: the last of its runs with its prompt, and how many there are before it."""
    last = session.runs[runs[-1]]
    nodes = last.nodes
    html = static_html(session, last.id, beside_window=True, show_prompt=True)
    if len(runs) > 1:
        html = html.removesuffix("</div>")
        html += f'<div class="acs-line">{len(runs) - 1} earlier in this output\'s record: acs_jupyter.load</div></div>'
    text = session.text_to(nodes[0]) if len(nodes) == 1 else plain_text(session, last.id)
    return {"text/plain": text, "text/html": html}


def mimebundle(session: Session, run: str) -> dict[str, str]:
    """What to display beside a window, once the run has ended: the exact text, and the static view."""
    return {
        "text/plain": plain_text(session, run),
        "text/html": static_html(session, run, beside_window=True),
    }


def _by_prompt(nodes: list[Node]) -> Iterator[tuple[str | None, list[Node]]]:
    groups: dict[str | None, list[Node]] = {}
    for node in nodes:
        groups.setdefault(node.parent, []).append(node)
    yield from groups.items()


def _prompts(nodes: list[Node]) -> int:
    return len({node.parent for node in nodes})


def _label(session: Session, prompt: str) -> str:
    node = session.nodes[prompt]
    if not node.text and node.ids is not None:
        return f"{len(node.ids)} token ids"
    text = node.text if len(node.text) <= 90 else f"…{node.text[-90:]}"
    return text.replace("\n", "↵").replace("\t", "⇥")


def _choice(node: Node, run: Run, place: int, of: int, many: bool) -> str:
    body = "".join(_piece(node, piece) for piece in align(node.text, node.tokens))
    text = f'<pre style="white-space:pre-wrap;word-break:normal">{body}</pre>'
    if not many:
        return text
    name = f"{place} of {of}"
    finish = finish_words(node, run)
    return f'<div><div class="acs-name">{_text(f"{name} · {finish}" if finish else name)}</div>{text}</div>'


def _piece(node: Node, piece: Piece) -> str:
    text = _text(piece.text).replace("\n", '<i class="n"></i>\n')
    if piece.first < 0:
        return f"<span>{text}</span>"
    step = level_of(node, piece)
    tint = f' style="background:{_HUE}{_ALPHA[step]}"' if step else ""
    name = f"k k{step}" if step and step > 2 else "k"
    return f'<span class="{name}" title="{_title(node, piece)}"{tint}>{text}</span>'


def _title(node: Node, piece: Piece) -> str:
    lines = []
    if piece.last > piece.first:
        lines.append(f"{piece.last - piece.first + 1} tokens make this text")
    for index in range(piece.first, piece.last + 1):
        token, logprob = node.tokens[index], node.logprobs[index]
        if logprob is None:
            lines.append(f"{quoted(token)} no probability")
            continue
        lines.append(f"{quoted(token)} {percent(logprob)} logprob {logprob:.2f}")
        found, other = ranked(token, logprob, node.top[index])
        if len(found) > 1:
            lines += [_alternative(one.token, one.logprob, one.sampled) for one in found]
            lines.append(f"  {other * 100:.1f}% other" if other >= 0.0005 else "")
    return _text("\n".join(lines).rstrip("\n"))


@lru_cache(maxsize=65_536)
def _alternative(token: str, logprob: float, sampled: bool) -> str:
    return f"{'▸' if sampled else ' '} {percent(logprob)} {quoted(token)}"


def _status(session: Session, run: Run) -> str:
    ended = (
        run.closed_at
        if run.closed_at is not None
        else (session.since(len(session) - 1)[0][0] if len(session) else 0.0)
    )
    nodes = [session.nodes[node] for node in run.nodes]
    words = outcome_words(run)
    if len(nodes) == 1 and run.outcome == "done":
        words = finish_words(nodes[0], run) or words
    parts = [words, model_name(run), *figures(session, run, ended)]
    request_id = run.request_id or run.completion_id
    return " · ".join([*parts, f"request {request_id}"] if request_id else parts)


def _text(text: str) -> str:
    """Escaped; what cannot be seen or would steer the view is named, joiners inside words stay."""
    return INVISIBLE.sub(_named, text.translate(_ESCAPES))


def _named(found: re.Match[str]) -> str:
    character = found[0]
    return character if character in "\u200c\u200d" else f"⟨{code_point(character)}⟩"
