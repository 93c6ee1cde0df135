"""Trees of any size for tests of looms."""

from __future__ import annotations

from acs_jupyter.log import events as ev
from acs_jupyter.log.session import Session


def grown(nodes: int, tokens: int) -> Session:
    """A tree of generated nodes, three children each."""
    session = Session(clock=lambda: 1.0)
    session.apply([ev.RunOpened("p", {"prompt": "Once"}), ev.NodeOpened("root", "p", text="Once <b>\n")])
    session.apply([ev.RunClosed("p", "done")])
    ids = ["root"]
    for i in range(nodes):
        run, parent = f"r{i}", ids[i // 3]
        words = tuple(f" w{(i + k) % 97}" for k in range(tokens))
        tops = tuple({word: -0.7, " other": -1.2, " third": -3.0} for word in words)
        session.apply([ev.RunOpened(run, {"model": "m"}), ev.NodeOpened(f"n{i}", run, parent, 0)])
        session.apply([ev.TokensArrived(f"n{i}", "".join(words), words, (-0.7,) * tokens, tops)])
        session.apply([ev.Finished(f"n{i}", "length"), ev.RunClosed(run, "done")])
        ids.append(f"n{i}")
    return session
