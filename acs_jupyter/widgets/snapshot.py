"""A completion as a static page part: no kernel, no script, nothing but its text, tints and titles.

Owns the HTML and the plain text that stay in a saved notebook, and how large they may be. It must not know widgets.
It reads well where the style sheet is taken away too (untrusted notebooks): the text is all there, titles and the
underlines of unlikely tokens stay. Alternatives stand in ``title`` only, never in child elements, which such a view
would spill into the text. Model text is escaped text everywhere; characters that HTML cannot carry or that would
steer the view are named by their code points (``text/plain`` has them as they are).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..log.branching import descendants
from .roads import branch_name, leaving_words, seam_words, source_name
from .tinted import on_file, text_of, tinted
from .words import clamp_words, error_words, figures, finish_words, model_name, outcome_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..log.session import Node, Run, Session

FULL = 2_000
"""Tokens of a run that are saved with everything; see :func:`most_saved`."""

_HUE = "#d66a0c"
_TINTS = ("0f", "1c", "2b", "3b", "4a", "5c", "70")
_INKS = {3: "1px dotted", 4: "1px solid", 5: "1px solid", 6: "2px solid", 7: "3px double"}
_LEVELS = "".join(
    f".k{i}{{background:{_HUE}{tint}" + (f";border-bottom:{_INKS[i]} {_HUE}}}" if i in _INKS else "}")
    for i, tint in enumerate(_TINTS, start=1)
)
_STYLE = f"""
.acs-static{{font:13px/1.7 var(--jp-code-font-family,ui-monospace,monospace);
color:var(--jp-content-font-color1,inherit)}}
.acs-static.acs-static pre{{margin:0;font:inherit;line-height:1.7;color:inherit;background:none;
overflow-wrap:anywhere;word-break:normal;unicode-bidi:plaintext}}
.acs-static .acs-grid{{display:grid;gap:10px;
grid-template-columns:repeat(auto-fit,minmax(min(100%,18rem),1fr))}}
.acs-static .acs-grid>div{{border:1px solid #80808059;border-radius:4px;padding:6px 10px}}
.acs-static .acs-line,.acs-static .acs-name{{
font:12px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);opacity:.75;margin-top:6px}}
.acs-static .acs-error{{opacity:1;border-left:3px solid #c62828;padding-left:10px}}
.acs-static u{{text-decoration:none}}
.acs-static{{{_LEVELS}}}
.acs-static i{{font-style:normal;user-select:none}}.acs-static i::before{{content:"↵";opacity:.5}}
.acs-static [title]:hover{{outline:1px solid #888}}
.acs-static [title]:hover::after{{content:attr(title);
position:fixed;margin:1.8em 0 0 -1em;z-index:99;width:min-content;white-space:normal;word-break:keep-all;
overflow-wrap:normal;
pointer-events:none;font:12px/1.5 ui-monospace,monospace;padding:6px 9px;border-radius:4px;
unicode-bidi:isolate;color:var(--jp-content-font-color1,#222);
background:var(--jp-layout-color1,#fff);border:1px solid #8888}}
@supports (anchor-name:--a) and (position-try-fallbacks:flip-block){{
.acs-static [title]:hover{{anchor-name:--acs-k}}
.acs-static [title]:hover::after{{position-anchor:--acs-k;inset:auto;top:anchor(bottom);left:anchor(left);
margin:4px 0;position-try-fallbacks:flip-block,flip-inline,flip-block flip-inline}}}}
""".replace("\n", "")
_BESIDE = """
.jp-OutputArea:has(.acs-live) .acs-beside{display:none}
.jp-OutputArea-child:has(.jupyter-widgets):has(+ .jp-OutputArea-child .acs-beside):not(:has(.acs-live))
{display:none}
""".replace("\n", "")


def most_saved(tokens: int) -> int:
    """Bytes that a run of so many tokens may take in a notebook file, with its record and the state of its window."""
    return 40_000 + 150 * min(tokens, FULL) + 40 * max(0, tokens - FULL)


def static_html(
    session: Session,
    run: str,
    *,
    beside_window: bool = False,
    show_prompt: bool = False,
    spent: int = 0,
    part: bool = False,
) -> str:
    """One run as script-free HTML.

    ``beside_window``: it hides itself where a live window shows the same. ``show_prompt``: what stands before it, too.

    ``spent``: bytes that the run takes elsewhere in the file. What then is left of :func:`most_saved` is the room
    for titles and tints; where it ends, the text goes on without.

    ``part``: it is written while the run still comes; a window that sees it knows that it is not the whole.
    """
    here = session.runs[run]
    nodes = family_nodes(session, run)
    tokens = sum(len(node.tokens) for node in nodes)
    bare = on_file(_page(session, here, beside_window, show_prompt, {})) + on_file(plain_text(session, run))
    room = (most_saved(tokens) - spent - bare) / max(1, tokens)
    texts = {node.id: tinted(node, room * len(node.tokens)) for node in nodes}
    page = _page(session, here, beside_window, show_prompt, texts)
    return page.replace('class="acs-static', 'class="acs-static acs-part', 1) if part else page


def sheet() -> str:
    """The style sheet of a static view that stands beside a window and hides while that shows the same."""
    return f"<style>{_STYLE + _BESIDE}</style>"


def page(markup: str, line: str) -> str:
    """A text of its own, its tokens marked up already, over one line; it hides itself beside a window."""
    return framed(
        f'<pre style="white-space:pre-wrap;word-break:normal">{markup}</pre>'
        f'<div class="acs-line">{text_of(line)}</div>'
    )


def room_left(session: Session, run: str, bundle: dict[str, str], spent: int) -> int:
    """Bytes that are left of :func:`most_saved` beside a bundle and what is spent elsewhere."""
    tokens = sum(len(node.tokens) for node in family_nodes(session, run))
    return most_saved(tokens) - spent - sum(map(on_file, bundle.values()))


def family_nodes(session: Session, run: str) -> list[Node]:
    """The continuations of a run and, of its branches, what is their own."""
    nodes = [session.nodes[node] for node in session.runs[run].nodes]
    for branch in descendants(session, run):
        nodes += [_own(session.nodes[node]) for node in session.runs[branch].nodes]
    return nodes


def _page(session: Session, run: Run, beside_window: bool, show_prompt: bool, texts: dict[str, str]) -> str:
    return framed(run_parts(session, run, texts, show_prompt=show_prompt), beside_window=beside_window)


def framed(inside: str, *, beside_window: bool = True) -> str:
    """Markup with the style of static views around it."""
    style = _STYLE + (_BESIDE if beside_window else "")
    return f'<style>{style}</style><div class="acs-static{" acs-beside" if beside_window else ""}">{inside}</div>'


def run_parts(session: Session, run: Run, texts: dict[str, str], *, show_prompt: bool = False) -> str:
    """A run's texts, whose tokens are marked up in ``texts`` by node, its lines and its branches."""
    parts = []
    nodes = [session.nodes[node] for node in run.nodes]
    many = len(nodes) > 1
    for prompt, choices in _by_prompt(nodes):
        if show_prompt and prompt is not None:
            before = text_of(session.text_to(prompt)).replace("\n", '<i class="n"></i>\n')
            parts.append(f'<pre style="white-space:pre-wrap;word-break:normal;opacity:.7">{before}</pre>')
        if many and prompt is not None and _prompts(nodes) > 1:
            parts.append(f'<div class="acs-name">{text_of(_label(session, prompt))}</div>')
        parts.append('<div class="acs-grid">' if many else "")
        for place, node in enumerate(choices, start=1):
            text = texts.get(node.id, "")
            parts.append(_choice(node, run, f"{place} of {len(choices)}" if many else "", text))
        parts.append("</div>" if many else "")
    lines = (("acs-line acs-error", error_words(run)), ("acs-line", clamp_words(run)))
    for name, line in (*lines, ("acs-line", _status(session, run))):
        if line:
            parts.append(f'<div class="{name}">{text_of(line)}</div>')
    return "".join([*parts, *_branches(session, run.id, texts)])


def plain_text(session: Session, run: str) -> str:
    """The text of a run: of one choice exactly as it came, of several, and of branches, each under its name."""
    nodes = [session.nodes[node] for node in session.runs[run].nodes]
    branches = descendants(session, run)
    if len(nodes) == 1 and not branches:
        return nodes[0].text
    several = _prompts(nodes) > 1
    blocks = []
    for number, (prompt, choices) in enumerate(_by_prompt(nodes), start=1):
        for place, node in enumerate(choices, start=1):
            name = f"prompt {number} ({_label(session, prompt)}), " if several and prompt else ""
            blocks.append(f"--- {name}continuation {place} of {len(choices)} ---\n{node.text}")
    for branch in branches:
        text = session.nodes[session.runs[branch].nodes[0]].text
        blocks.append(f"--- {_branch_line(session, branch)} ---\n{text}")
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


def mimebundle(session: Session, run: str, *, spent: int = 0, part: bool = False) -> dict[str, str]:
    """What to display beside a window: the exact text, and the static view. ``part``: the run still comes."""
    return {
        "text/plain": plain_text(session, run),
        "text/html": static_html(session, run, beside_window=True, spent=spent, part=part),
    }


def _branches(session: Session, run: str, texts: dict[str, str]) -> Iterator[str]:
    """Each branch under its name: what it kept as plain text, what was sampled on as ``texts`` has it."""
    branches = descendants(session, run)
    if not branches:
        return
    yield '<div class="acs-grid" style="margin-top:10px">'
    for branch in branches:
        here = session.runs[branch]
        node = session.nodes[here.nodes[0]]
        kept = text_of(node.text[: len(node.text) - len(_own(node).text)]).replace("\n", "&#10;")
        yield f'<div><div class="acs-name">{text_of(_branch_line(session, branch))}</div>'
        yield '<pre style="white-space:pre-wrap;word-break:normal">'
        yield f'<span style="opacity:.65">{kept}</span>{texts.get(node.id, "")}</pre>'
        for name, line in (
            ("acs-line acs-error", error_words(here)),
            ("acs-line", clamp_words(here)),
            ("acs-line", f"{_status(session, here)} · {seam_words(session, branch)}"),
        ):
            if line:
                yield f'<div class="{name}">{text_of(line)}</div>'
        yield "</div>"
    yield "</div>"


def _own(node: Node) -> Node:
    """What a branch has of its own, the token put in place included: all of a node that is no branch."""
    if node.origin is None:
        return node
    kept = node.kept - bool(node.kept and node.origin.text)
    text = node.text[sum(map(len, node.tokens[:kept])) :]
    tokens, logprobs, top = node.tokens[kept:], node.logprobs[kept:], node.top[kept:]
    return replace(node, parts=[text], joined=(0, ""), tokens=tokens, logprobs=logprobs, top=top)


def _branch_line(session: Session, branch: str) -> str:
    return f"{branch_name(session, branch)}, from {source_name(session, branch)}: {leaving_words(session, branch)}"


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


def _choice(node: Node, run: Run, name: str, markup: str) -> str:
    text = f'<pre style="white-space:pre-wrap;word-break:normal">{markup}</pre>'
    if not name:
        return text
    finish = finish_words(node, run)
    return f'<div><div class="acs-name">{text_of(f"{name} · {finish}" if finish else name)}</div>{text}</div>'


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
