"""A completion as a static page part: no kernel, no script, nothing but its text, tints and titles.

Owns the HTML and the plain text that stay in a saved notebook, and how large they may be. It must not know widgets.
It reads well where the style sheet is taken away too (untrusted notebooks): the text is all there, titles and the
underlines of unlikely tokens stay. Alternatives stand in ``title`` only, never in child elements, which such a view
would spill into the text. Model text is escaped text everywhere; characters that HTML cannot carry or that would
steer the view are named by their code points (``text/plain`` has them as they are).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..log.branching import descendants
from .branch_static import branch_markup, branch_plain, further, own_part
from .reading import HUE
from .tinted import on_file, text_of, tinted
from .words import clamp_words, error_words, finish_words, status_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..log.session import Node, Run, Session

FULL = 2_000
"""Tokens of a run that are saved with everything; see :func:`most_saved`."""

_GRID = 60
"""Bytes around the branches of a view."""

_TINTS = ("0f", "1c", "2b", "3b", "4a", "5c", "70")
_INKS = {3: "1px dotted", 4: "1px solid", 5: "1px solid", 6: "2px solid", 7: "3px double"}
_LEVELS = "".join(
    f".k{i}{{background:{HUE}{tint}" + (f";border-bottom:{_INKS[i]} {HUE}}}" if i in _INKS else "}")
    for i, tint in enumerate(_TINTS, start=1)
)
_STYLE = f"""
.acs-static{{font:13px/1.7 var(--jp-code-font-family,ui-monospace,monospace);
color:var(--jp-content-font-color1,inherit)}}
.acs-static.acs-static pre{{margin:0;font:inherit;color:inherit;background:none;
overflow-wrap:anywhere;unicode-bidi:plaintext}}
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
COMING = (
    "This text was still coming when the notebook was saved. While its kernel runs, %acs last writes it here; "
    "%acs recover does when the kernel has ended."
)
_HOLDERS = ":is(.jp-OutputArea,.cell_container,#output-area)"
"""What holds one cell's outputs: in Jupyter's front ends, in VS Code, in Colab's frames."""
_BESIDE = f"""
{_HOLDERS}:has(.acs-live) .acs-beside{{display:none}}
.jp-OutputArea-child:has(.jupyter-widgets):has(+ .jp-OutputArea-child .acs-beside):not(:has(.acs-live))
{{display:none}}
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
    name: str = "",
) -> str:
    """One run as script-free HTML.

    ``beside_window``: it hides itself where a live window shows the same. ``show_prompt``: what stands before it, too.

    ``spent``: bytes that the run takes elsewhere in the file. What then is left of :func:`most_saved` is the room
    for titles and tints; where it ends, the text goes on without.

    ``part``: it is written while the run still comes; a window that sees it knows that it is not the whole.
    ``name``: by which a page knows the copy (:func:`named`).
    """
    here = session.runs[run]
    nodes = family_nodes(session, run)
    tokens = sum(len(node.tokens) for node in nodes)
    least = {node.id: tinted(node, -1) for node in nodes}
    most = branches_shown(session, run, spent)

    def drawn(texts: dict[str, str]) -> str:
        inside = run_parts(session, here, texts, show_prompt=show_prompt, most=most)
        return framed(inside, beside_window=beside_window)

    first = on_file(drawn(least))
    bare = first - sum(map(on_file, least.values())) + on_file(plain_text(session, run, most))
    room = (most_saved(tokens) - spent - bare) / max(1, tokens)
    texts = {node.id: tinted(node, room * len(node.tokens)) for node in nodes}
    fits = sum(map(on_file, texts.values())) <= room * tokens
    page = drawn(texts if fits else least)
    return named(page.replace('class="acs-static', 'class="acs-static acs-part', 1) if part else page, name)


def coming_html() -> str:
    """What stands in the place of a copy until there is one: seen where a notebook was saved before, and no window is.

    It waits a moment, so that it does not flash before its window is drawn.
    """
    return (
        f"<style>{_HOLDERS}:has(.acs-live) .acs-wait{{display:none}}"
        "@keyframes acs-wait{from{visibility:hidden;height:0}}.acs-wait{animation:acs-wait 3s step-end}</style>"
        f'<div class="acs-wait">{COMING}</div>'
    )


def named(markup: str, name: str) -> str:
    """The markup of a copy with a name in it, for which a page looks."""
    return markup.replace('class="acs-static', f'class="acs-static acs-copy-{name}', 1) if name else markup


def folded_html(session: Session, run: str, *, spent: int = 0) -> str:
    """The same behind one line, for a place where the text itself stands already."""
    page = static_html(session, run, spent=spent)
    return f"<details><summary>probabilities and alternatives</summary>{page}</details>"


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
        nodes += [own_part(session.nodes[node]) for node in session.runs[branch].nodes]
    return nodes


def branches_shown(session: Session, run: str, spent: int) -> int:
    """How many branches of a run have room in its static view and plain text; the record has all of them.

    ``spent`` as for :func:`static_html`. Each costs its name and status lines, however short it is.
    """
    branches = descendants(session, run)
    if not branches:
        return 0
    nodes = family_nodes(session, run)
    least = {node.id: tinted(node, -1) for node in nodes}
    here = session.runs[run]
    room = most_saved(sum(len(node.tokens) for node in nodes)) - spent
    room -= (
        on_file(framed(run_parts(session, here, least, most=0)))
        + on_file(plain_text(session, run, 0))
        + _GRID
    )
    for place, branch in enumerate(branches):
        room -= on_file(branch_markup(session, branch, least)) + on_file(f"\n{branch_plain(session, branch)}")
        if room < 0:
            return place
    return len(branches)


def framed(inside: str, *, beside_window: bool = True) -> str:
    """Markup with the style of static views around it."""
    style = _STYLE + (_BESIDE if beside_window else "")
    return f'<style>{style}</style><div class="acs-static{" acs-beside" if beside_window else ""}">{inside}</div>'


def run_parts(
    session: Session,
    run: Run,
    texts: dict[str, str],
    *,
    show_prompt: bool = False,
    most: int | None = None,
) -> str:
    """A run's texts, whose tokens are marked up in ``texts`` by node, its lines and at ``most`` so many branches."""
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
    for name, line in (*lines, ("acs-line", status_words(session, run))):
        if line:
            parts.append(f'<div class="{name}">{text_of(line)}</div>')
    return "".join([*parts, *_branches(session, run.id, texts, most)])


def plain_text(session: Session, run: str, most: int | None = None) -> str:
    """The text of a run: of one choice exactly as it came, of several, and of branches, each under its name.

    A branch is told from a little before the place where it leaves. ``most``: how many of them, as in the static view.
    """
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
    blocks += (branch_plain(session, branch) for branch in branches[:most])
    if rest := branches[len(branches[:most]) :]:
        blocks.append(f"--- {further(len(rest))} ---")
    return "\n".join(blocks)


def bench_bundle(session: Session, runs: list[str], *, name: str = "") -> dict[str, str]:
    """What stays of a workbench: the last of its runs with its prompt, and how many there are before it."""
    last = session.runs[runs[-1]]
    nodes = last.nodes
    html = static_html(session, last.id, beside_window=True, show_prompt=True, name=name)
    if len(runs) > 1:
        html = html.removesuffix("</div>")
        html += f'<div class="acs-line">{len(runs) - 1} earlier in this output\'s record: acs_jupyter.load</div></div>'
    text = session.text_to(nodes[0]) if len(nodes) == 1 else plain_text(session, last.id)
    return {"text/plain": text, "text/html": html}


def mimebundle(
    session: Session, run: str, *, spent: int = 0, part: bool = False, name: str = ""
) -> dict[str, str]:
    """What to display beside a window: the exact text, and the static view. See :func:`static_html`."""
    return {
        "text/plain": plain_text(session, run, branches_shown(session, run, spent)),
        "text/html": static_html(session, run, beside_window=True, spent=spent, part=part, name=name),
    }


def _branches(session: Session, run: str, texts: dict[str, str], most: int | None) -> Iterator[str]:
    branches = descendants(session, run)
    shown = branches[:most]
    if shown:
        yield '<div class="acs-grid" style="margin-top:10px">'
        yield from (branch_markup(session, branch, texts) for branch in shown)
        yield "</div>"
    if rest := len(branches) - len(shown):
        yield f'<div class="acs-line">{further(rest)}</div>'


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
