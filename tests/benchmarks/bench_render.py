"""How the live cell draws: ``python -m tests.benchmarks.bench_render [page] [lab]``, both without arguments.

page: 32,000 tokens with five alternatives in one window, in Chromium alone with a model that is only a table:
first paint and when all is drawn, beside the floor (the same tokens as bare coloured elements, one paragraph a line,
no tables read), the longest task meanwhile, while scrolling and while recolouring, memory.
lab: 20,000 tokens with five alternatives in JupyterLab with its default limits, at 1,000 a second, 5,000 a
second and as fast as the kernel can: how far the screen is behind the kernel, how busy the main thread is,
whether any token is lost. Everything shares this machine's cores; a row is one run. On a machine that is busy with
other things "busy" is mostly waiting for a core; the time on a processor tells what the cell costs.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acs_jupyter.log import events as ev
from acs_jupyter.log.session import Session
from acs_jupyter.widgets.base import STATIC
from acs_jupyter.widgets.feed import Feed
from acs_jupyter.wire import CompletionRequest
from tests.benchmarks.bench_window_bytes import made
from tests.browser.cells import SETUP
from tests.browser.labkit import FINISHED, Notebook, chromium, lab, write_notebook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playwright.sync_api import Browser, CDPSession, Page

TOKENS = 32_000
STREAMED = 20_000
VIEW = {"width": 1200, "height": 900}

OPEN = """async ({ source, style, snapshot, boxed }) => {
  document.head.append(Object.assign(document.createElement("style"), { textContent: style }));
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { default: make } = await import(url);
  const model = { get: name => (name === "snapshot" ? snapshot : undefined), on() {}, off() {}, send() {} };
  const widget = make();
  const began = performance.now();
  widget.initialize({ model });
  widget.render({ model, el: document.querySelector("#here") });
  const drawn = performance.now();
  if (!boxed) document.querySelector(".acs-text").style.maxHeight = "none";
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  const painted = performance.now();
  while (document.querySelector(".acs-run").dataset.outcome === "open") await new Promise(requestAnimationFrame);
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return [drawn - began, painted - began, performance.now() - began];
}"""
BARE = """async ({ texts, boxed }) => {
  const began = performance.now();
  const box = document.createElement("div");
  if (boxed) box.style.cssText = "max-height: 420px; overflow-y: auto";
  const line = () => {
    const paragraph = document.createElement("p");
    paragraph.style.cssText = "white-space: pre-wrap; content-visibility: auto; contain-intrinsic-size: auto 60px";
    return box.appendChild(paragraph);
  };
  let paragraph = line();
  texts.forEach((text, place) => {
    const token = document.createElement("span");
    token.className = "acs-t acs-p" + (place % 7);
    token.textContent = text;
    paragraph.append(token);
    if (text === "\\n") paragraph = line();
  });
  document.body.append(box);
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}"""
WATCH = """() => {
  window.tasks = [];
  new PerformanceObserver(list => tasks.push(...list.getEntries().map(e => e.duration))).observe({ type: "longtask" });
}"""
SCROLL = """async boxed => {
  const box = boxed ? document.querySelector(".acs-text") : document.scrollingElement;
  const frames = [];
  let last = performance.now();
  for (let i = 0; i < 200; i++) {
    box.scrollTop += i < 100 ? 120 : box.scrollHeight / 100;
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - last);
    last = performance.now();
  }
  box.scrollTop = 0;
  return frames.sort((a, b) => a - b)[Math.floor(frames.length * 0.95)];
}"""
RECOLOUR = """async view => {
  const select = document.querySelector("select");
  const count = document.querySelectorAll(".acs-t").length;
  const by = view === "probability" ? "acs-t:not([class*=acs-by])" : `acs-t.acs-by-${view}`;
  const began = performance.now();
  select.value = view;
  select.dispatchEvent(new Event("change"));
  do await new Promise(go => setTimeout(go, 100)); // rarely: looking costs time too
  while (document.querySelectorAll(`.${by}`).length !== count);
  return performance.now() - began;
}"""


WHAT_IF = """async () => {
  const top_k = document.querySelectorAll(".acs-dial input[type=number]")[2];
  const before = document.querySelector(".acs-whatif-whole").textContent;
  top_k.value = "3";
  top_k.dispatchEvent(new Event("input"));
  do await new Promise(go => setTimeout(go, 100));
  while (document.querySelector(".acs-whatif-whole").textContent === before);
}"""
NUMBERS = """async () => {
  const began = performance.now();
  document.querySelector("[aria-label^=Numbers]").click();
  do await new Promise(requestAnimationFrame);
  while (!document.querySelector(".acs-numbered"));
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}"""


def session_of(count: int, paragraphs: bool) -> Session:
    """One completion of ``count`` tokens; with ``paragraphs``, a line ends every 60 or so."""
    session, rng = Session(), random.Random(3)
    request = CompletionRequest(prompt="Once", model="m", max_tokens=count, logprobs=5, stream=True)
    session.apply(ev.opening("r", request))
    for token, logprob, top in made(count):
        text = "\n" if paragraphs and rng.random() < 1 / 60 else token
        session.apply([ev.TokensArrived("r.0", text, (text,), (logprob,), ({**top, text: logprob},))])
    session.apply([ev.Finished("r.0", "length"), ev.Spent("r", 1, count), ev.RunClosed("r", "done")])
    return session


def floor(browser: Browser, texts: Sequence[str], boxed: bool) -> float:
    """Milliseconds until the texts, an element each, are painted by a page that does nothing else."""
    page = browser.new_page(viewport=VIEW)  # type: ignore[arg-type]
    page.set_content("<!doctype html>")
    page.add_style_tag(content=(STATIC / "live.css").read_text())
    took: float = page.evaluate(BARE, {"texts": list(texts), "boxed": boxed})
    page.close()
    return took


def page_rows(browser: Browser) -> None:
    """Without Jupyter."""
    for name, paragraphs, boxed in (
        ("lines of 60", True, True),
        ("lines of 60, full length", True, False),
        ("one line", False, True),
    ):
        session = session_of(TOKENS, paragraphs)
        bare = statistics.median(floor(browser, session.nodes["r.0"].tokens, boxed) for _ in range(3))
        page = browser.new_page(viewport=VIEW)  # type: ignore[arg-type]
        page.set_content("<!doctype html><div id=here></div>")
        page.evaluate(WATCH)
        drawn, painted, whole = page.evaluate(
            OPEN,
            {
                "source": (STATIC / "live.js").read_text(),
                "style": (STATIC / "live.css").read_text(),
                "snapshot": Feed(session, ["r"], lambda message: None).packed(),
                "boxed": boxed,
            },
        )
        print(
            f"page, {TOKENS:,} tokens, {name}: script {drawn:.0f} ms, first paint {painted:.0f} ms, "
            f"{painted / bare:.2f} of the floor's {bare:.0f} ms for all; all drawn after {whole:.0f} ms, "
            f"longest task {_tasks(page):.0f} ms"
        )
        frame = page.evaluate(SCROLL, boxed)
        print(f"  scrolling: frame p95 {frame:.0f} ms, longest task {_tasks(page):.0f} ms")
        for view in ("rank", "entropy", "surprisal", "probability"):
            took = page.evaluate(RECOLOUR, view)
            print(f"  recolouring by {view}: {took:.0f} ms, longest task {_tasks(page):.0f} ms")
        page.evaluate("document.querySelector('.acs-whatif').open = true")
        page.evaluate(WHAT_IF)
        print(f"  what if, {page.locator('.acs-cut').count():,} struck: longest task {_tasks(page):.0f} ms")
        page.evaluate("document.querySelector('.acs-whatif').open = false")
        took = page.evaluate(NUMBERS)
        assert page.locator("[data-n]").count() == TOKENS
        print(f"  numbers: {took:.0f} ms, longest task {_tasks(page):.0f} ms")
        memory = _metrics(page.context.new_cdp_session(page))["JSHeapUsedSize"]
        print(f"  script heap {memory / 1e6:.0f} MB, renderer {_resident(browser)} MB resident")
        page.close()


def _tasks(page: Page) -> float:
    """The longest task since last asked."""
    page.wait_for_timeout(200)
    longest: float = page.evaluate("Math.max(0, ...tasks.splice(0))")
    return longest


def _metrics(cdp: CDPSession, clock: str = "timeTicks") -> dict[str, float]:
    """The browser's figures, in seconds that passed or, by the clock ``threadTicks``, in seconds of processor."""
    cdp.send("Performance.enable", {"timeDomain": clock})
    return {one["name"]: one["value"] for one in cdp.send("Performance.getMetrics")["metrics"]}


def _resident(browser: Browser) -> int:
    """Megabytes of the largest renderer."""
    cdp = browser.new_browser_cdp_session()
    processes = cdp.send("SystemInfo.getProcessInfo")["processInfo"]
    pages = [
        int(Path(f"/proc/{one['id']}/statm").read_text().split()[1]) * 4096
        for one in processes
        if one["type"] == "renderer"
    ]
    return max(pages) // 1_000_000


STREAM = """
import json
made = list(tokens({count}))
session = Session()
window = LiveCell(session, ["a"]); display(window)
session.apply(open_run("a"))
sent, begin = [], time.monotonic()
for i, one in enumerate(made):
    if {rate}:
        wait = begin + i / {rate} - time.monotonic()
        if wait > 0: time.sleep(wait)
    session.apply([arrived("a.0", one)]); sent.append(time.time())
session.apply([ev.RunClosed("a", "done")])
json.dump(sent, open("sent.json", "w"))
"""
SEEN = """() => {
  window.seen = [];
  const shown = document.getElementsByClassName("acs-t");
  // Looked at only when something was drawn, and then after it was painted: a loop of frames would itself be work.
  const painted = new MessageChannel();
  painted.port1.onmessage = () => {
    if (shown.length > (window.seen.at(-1)?.[1] ?? 0)) window.seen.push([Date.now() / 1000, shown.length]);
  };
  const drawn = new MutationObserver(() => painted.port2.postMessage(0));
  drawn.observe(document.body, { childList: true, subtree: true });
}"""


def lab_rows(browser: Browser) -> None:
    """In JupyterLab."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with lab(root) as base:
            for rate in (1000, 5000, 0):
                name = f"stream-{rate}.ipynb"
                write_notebook(root / name, (SETUP, STREAM.format(count=STREAMED, rate=rate)))
                page = browser.new_page(viewport=VIEW)  # type: ignore[arg-type]
                nb = Notebook(page, base, name).open()
                nb.run(0)
                page.evaluate("document.querySelectorAll('.jp-Notebook .jp-Cell')[1].scrollIntoView()")
                page.evaluate(SEEN)
                _stream_row(nb, root, rate)
                nb.end_kernels()
                page.close()


def _stream_row(nb: Notebook, root: Path, rate: int) -> None:
    page = nb.page
    cdp = page.context.new_cdp_session(page)
    own = page.context.new_cdp_session(page)
    before, own_before = _metrics(cdp), _metrics(own, "threadTicks")
    nb.start(1)
    # Asked in every frame, the page would draw sixty frames a second for the question alone.
    page.wait_for_function(FINISHED, arg=1, timeout=120_000, polling=250)
    page.wait_for_function("document.querySelector('.acs-run')?.dataset.outcome === 'done'")
    page.wait_for_timeout(300)
    after, own_after = _metrics(cdp), _metrics(own, "threadTicks")
    assert page.evaluate(
        "document.querySelector('.acs-text').getBoundingClientRect().top < innerHeight - 200"
    )
    seen: list[list[float]] = page.evaluate("window.seen")
    sent: list[float] = json.loads((root / "sent.json").read_text())
    lags = _lags(sent, seen)
    took = seen[-1][0] - sent[0]
    # The clock of the metrics covers the wait before and after too; busy time is what the stream cost.
    busy = after["TaskDuration"] - before["TaskDuration"]
    processor = own_after["TaskDuration"] - own_before["TaskDuration"]
    passed = after["Timestamp"] - before["Timestamp"]
    parts = ", ".join(
        f"{name} {after[key] - before[key]:.2f}"
        for name, key in (
            ("script", "ScriptDuration"),
            ("style", "RecalcStyleDuration"),
            ("layout", "LayoutDuration"),
        )
    )
    lost = len(sent) - int(seen[-1][1])
    speed = f"{rate:,}/s" if rate else "full speed"
    cuts = statistics.quantiles(lags, n=20)
    print(
        f"lab, {STREAMED:,} tokens at {speed}: sent in {sent[-1] - sent[0]:.2f} s, shown after {took:.2f} s; behind "
        f"p50 {statistics.median(lags) * 1000:.0f} ms, p95 {cuts[18] * 1000:.0f} ms, most {max(lags) * 1000:.0f} ms; "
        f"main thread busy {busy:.2f} s ({busy / passed:.0%}; {parts}), of it on a processor {processor:.2f} s "
        f"({processor / passed:.0%}); lost {lost}"
    )
    assert lost == 0


def _lags(sent: list[float], seen: list[list[Any]]) -> list[float]:
    """For each token, from when the kernel had sent it to when it was on the screen."""
    lags, place = [], 0
    for number, at in enumerate(sent, start=1):
        while place < len(seen) and seen[place][1] < number:
            place += 1
        if place < len(seen):
            lags.append(seen[place][0] - at)
    return lags


def main() -> None:
    """Print the figures."""
    asked = set(sys.argv[1:]) or {"page", "lab"}
    with chromium() as browser:
        if "page" in asked:
            page_rows(browser)
        if "lab" in asked:
            lab_rows(browser)


if __name__ == "__main__":
    main()
