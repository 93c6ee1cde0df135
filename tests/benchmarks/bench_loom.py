"""A loom of 10,000 nodes: ``python -m tests.benchmarks.bench_loom [nodes]``.

Each node has 100 tokens with five alternatives. In Python: the kernel's memory, the file, what a node's save costs, how
long the outline takes that a window opens with, and the contents that follow. In Chromium alone, with a model that is
only a table: how long the window takes to open when the outline is there, the longest task while the contents come, a
key, a fold and the graph (median and 95th percentile, to the painted frame; one after the other, and with a rest
between, when the texts are drawn at once), and the longest task while 16 siblings come at 50 tokens a second each. Half
the nodes are measured too: everything should be linear.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
import time
from pathlib import Path

from acs_jupyter import Loom
from acs_jupyter.log import events as ev
from acs_jupyter.log.revising import grown
from acs_jupyter.log.session import Session
from acs_jupyter.widgets.base import STATIC
from acs_jupyter.widgets.feed import Feed
from acs_jupyter.widgets.outline import Outline
from tests.browser.labkit import chromium

NODES, TOKENS = 10_000, 100
OPEN = """async ({ source, style, snapshot }) => {
  document.head.append(Object.assign(document.createElement("style"), { textContent: style }));
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { default: make } = await import(url);
  window.model = { get: name => (name === "snapshot" ? snapshot : undefined), off() {}, send() {},
    on(name, act) { if (name === "msg:custom") window.receive = act; } };
  const widget = make();
  const began = performance.now();
  widget.initialize({ model });
  widget.render({ model, el: document.querySelector("#here") });
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  document.querySelector(".acs-loom-row").focus();
  window.tasks = [];
  new PerformanceObserver(list => tasks.push(...list.getEntries().map(e => e.duration))).observe({ type: "longtask" });
  return performance.now() - began;
}"""
FILL = """async batches => {
  tasks.length = 0;
  for (const contents of batches) {
    receive({ contents });
    await new Promise(go => setTimeout(go, 5));
  }
  await new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)));
  return Math.max(0, ...tasks);
}"""
PAN = """async () => {
  const sheet = document.querySelector(".acs-graph-sheet");
  const took = [];
  const at = (type, clientX, clientY) =>
    sheet.dispatchEvent(new PointerEvent(type, { clientX, clientY, pointerId: 1, bubbles: true }));
  sheet.setPointerCapture = () => {};
  sheet.hasPointerCapture = () => true;
  const { left, top } = sheet.getBoundingClientRect();
  at("pointerdown", left + 200, top + 100);
  for (let i = 0; i < 60; i++) {
    const began = performance.now();
    at("pointermove", left + 200, top + 100 + (i % 2 ? 40 : -40) * (i % 7));
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    took.push(performance.now() - began);
  }
  took.sort((a, b) => a - b);
  return [took[30], took[56], Number(document.querySelector(".acs-graph").dataset.drawn)];
}"""
PRESS = """async ({ keys, times, rest }) => {
  const took = [];
  for (let i = 0; i < times; i++) {
    if (rest) await new Promise(go => setTimeout(go, rest));
    const began = performance.now();
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: keys[i % keys.length], bubbles: true }));
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    took.push(performance.now() - began);
  }
  took.sort((a, b) => a - b);
  return [0.5, 0.95].map(share => took[Math.floor(took.length * share)]);
}"""
STREAM = """async ({ root, seconds }) => {
  const names = Array.from({ length: 16 }, (_, i) => `new.${i}`);
  let seq = SEQ;
  const send = events => receive({ seq: ++seq, at: 2, events });
  send([{ type: "RunOpened", run: "new", request: { n: 16 } },
    ...names.map((node, choice) => ({ type: "NodeOpened", node, run: "new", parent: root, choice })),
    { type: "Revised", what: "grow", opened: names, changes: [] }]);
  tasks.length = 0;
  const began = performance.now();
  let sent = 0;
  while (performance.now() - began < seconds * 1000) {
    await new Promise(go => setTimeout(go, 33));
    const due = Math.floor((performance.now() - began) / 20);
    const words = Array.from({ length: due - sent }, (_, i) => ` word${(sent + i) % 50}`);
    sent = due;
    const top = words.map(word => ({ [word]: -0.5, " a": -2, " b": -3, " c": -4, " d": -5 }));
    send(names.map(node => ({ type: "TokensArrived", node, tokens: words, logprobs: words.map(() => -0.5), top })));
  }
  await new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)));
  return [document.querySelectorAll(".acs-loom-children .acs-t").length, sent * 16, Math.max(0, ...tasks)];
}"""


def made(nodes: int) -> Session:
    """A tree of generated nodes, three children each, as a loom's growth makes it."""
    session, rng = Session(clock=lambda: 1.0), random.Random(5)
    words = [f" {''.join(rng.choices('etaoinshrdlu', k=rng.randint(2, 7)))}" for _ in range(4000)]
    session.apply([ev.RunOpened("p", {}), ev.NodeOpened("root", "p", text="Once"), ev.RunClosed("p", "done")])
    ids = ["root"]
    for i in range(nodes):
        run, node = f"r{i}", f"r{i}.0"
        tokens = tuple(rng.choices(words, k=TOKENS))
        logprobs = tuple(round(-rng.expovariate(0.8), 4) for _ in tokens)
        tops = tuple(
            {token: logprob, **{w: round(logprob - k, 4) for k, w in enumerate(rng.choices(words, k=5))}}
            for token, logprob in zip(tokens, logprobs, strict=True)
        )
        opened = ev.NodeOpened(node, run, ids[i // 3], 0)
        session.apply([ev.RunOpened(run, {"model": "m", "logprobs": 5}), opened, grown([opened])])
        session.apply([ev.TokensArrived(node, "".join(tokens), tokens, logprobs, tops)])
        session.apply([ev.Finished(node, "length"), ev.RunClosed(run, "done")])
        ids.append(node)
    return session


def memory() -> float:
    """Megabytes that this process holds."""
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def in_python(nodes: int) -> tuple[str, int, list[str]]:
    """Print what the kernel pays; the outline, its number, and the contents that follow."""
    before = memory()
    session = made(nodes)
    print(f"{nodes:,} nodes of {TOKENS} tokens: {memory() - before:.0f} MB in the kernel", end="")
    began, before = time.perf_counter(), memory()
    outline = Outline()
    feed = Feed(session, None, lambda message: None, pack=outline.pack)
    packed = feed.packed()
    took = time.perf_counter() - began
    print(f", {memory() - before:.0f} MB more with a window", end="")
    print(f"; its outline {len(packed) / 1e6:.1f} MB, made in {took:.2f} s", end="")
    began = time.perf_counter()
    contents: list[str] = []
    while (some := outline.some(session)) is not None:
        contents.append(some)
    took = time.perf_counter() - began
    size = sum(map(len, contents)) / 1e6
    print(f"; {len(contents)} messages of contents, {size:.1f} MB in {took:.1f} s of a thread's time")
    seq = feed._seq
    feed.close()
    with tempfile.TemporaryDirectory() as folder:
        loom = Loom(session)
        began = time.perf_counter()
        path = loom.keep(Path(folder) / "a.loom")
        size = path.stat().st_size
        print(f"  file {size / 1e6:.1f} MB, written in {time.perf_counter() - began:.1f} s", end="")
        began = time.perf_counter()
        for _ in range(20):
            loom.new_child("root", " x")
        each = (time.perf_counter() - began) / 20
        print(f"; a node's save {each * 1000:.1f} ms, {(path.stat().st_size - size) / 20:.0f} bytes")
        loom.close()
    return packed, seq, contents


def in_chromium(packed: str, seq: int, contents: list[str]) -> None:
    """Print what the reader waits for."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_content("<!doctype html><div id=here></div>")
        source, style = ((STATIC / f"loom.{kind}").read_text() for kind in ("js", "css"))
        opened = page.evaluate(OPEN, {"source": source, "style": style, "snapshot": packed})
        print(
            f"  opens in {opened:.0f} ms; longest task while the contents come {page.evaluate(FILL, contents):.0f} ms"
        )
        for name, keys, times, rest in (
            ("down, held", ["ArrowDown"], 100, 0),
            ("down, with a rest", ["ArrowDown"], 40, 300),
            ("to the child and back", ["ArrowLeft", "ArrowRight"], 20, 300),
            ("page down, held", ["PageDown"], 60, 0),
            ("end and home", ["End", "Home"], 20, 300),
            ("fold", ["f"], 20, 300),
            ("with the graph: shown and put away", ["G"], 11, 300),
            ("with the graph: down, with a rest", ["ArrowDown"], 20, 300),
            ("with the graph: fold", ["f"], 20, 300),
            ("in the graph: zoom out", ["-"], 30, 0),
            ("in the graph: down", ["ArrowDown"], 40, 0),
        ):
            if name.startswith("in the graph"):
                page.evaluate("document.querySelector('.acs-graph').focus()")
            median, p95 = page.evaluate(PRESS, {"keys": keys, "times": times, "rest": rest})
            print(f"    {name}: {median:.0f} ms, p95 {p95:.0f} ms")
        median, p95, drawn = page.evaluate(PAN)
        print(f"    in the graph, all of it: pan {median:.0f} ms, p95 {p95:.0f} ms, {drawn} things drawn")
        page.evaluate("document.querySelector('.acs-loom-row[tabindex=\"0\"]').focus()")
        page.evaluate(PRESS, {"keys": ["Home"], "times": 2, "rest": 300})
        page.evaluate("tasks.length = 0")
        shown, sent, longest = page.evaluate(STREAM.replace("SEQ", str(seq)), {"root": "root", "seconds": 5})
        print(
            f"  16 siblings at 50 tokens a second each: {shown:,} of {sent:,} shown, longest task {longest:.0f} ms"
        )


if __name__ == "__main__":
    most = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    for count in (most // 2, most):
        in_chromium(*in_python(count))
