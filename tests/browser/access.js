// What a page can be asked about access: controls that are cut off or lie on each other, what moves, which text is not
// isolated from what stands beside it. Each answers a list of complaints in words.
(() => {
  const CONTROLS = "button, input, select, textarea, a[href], summary, [role=meter], [role=slider]";
  const visible = (e) => {
    const box = e.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && e.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  };
  const hidden = (e) => e.closest(".acs-hidden, [hidden], [aria-hidden=true], details:not([open]) > :not(summary)") !== null;
  const name = (e) => `${e.tagName.toLowerCase()}.${e.className} "${(e.getAttribute("aria-label") ?? e.textContent ?? "").trim().slice(0, 40)}"`;
  const controls = (root) => [...root.querySelectorAll(CONTROLS)].filter((e) => visible(e) && !hidden(e));
  const clips = (e) => /hidden|clip/.test(getComputedStyle(e).overflowX + getComputedStyle(e).overflowY);
  const scrolls = (e) => /auto|scroll/.test(getComputedStyle(e).overflowX + getComputedStyle(e).overflowY);

  // The part of a box that can be seen or scrolled to.
  const cut = (e, root) => {
    const box = e.getBoundingClientRect();
    for (let up = e.parentElement; up !== null; up = up.parentElement) {
      if (scrolls(up)) return "";
      if (clips(up)) {
        const frame = up.getBoundingClientRect();
        if (box.right > frame.right + 2 || box.left < frame.left - 2) return `is cut off by ${name(up)}`;
      }
      if (up === root) break;
    }
    return "";
  };
  const overlap = (a, b) => {
    const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    return width > 3 && height > 3;
  };

  window.acsAccess = {
    laidOut(root) {
      const found = [];
      const all = controls(root);
      const inside = (e) => e.closest(".jp-mod-noOverflow, .acs-loom-rows, .acs-m-map, svg, canvas") !== null;
      for (const e of all) {
        const why = cut(e, root);
        if (why) found.push(`${name(e)} ${why}`);
        if (e.tagName === "BUTTON" && clips(e) && e.scrollWidth > e.clientWidth + 2 && getComputedStyle(e).textOverflow !== "ellipsis")
          found.push(`${name(e)}: its words are cut off`);
      }
      for (const [i, a] of all.entries())
        for (const b of all.slice(i + 1))
          if (!a.contains(b) && !b.contains(a) && !inside(a) && overlap(a.getBoundingClientRect(), b.getBoundingClientRect()))
            found.push(`${name(a)} lies on ${name(b)}`);
      for (const e of root.querySelectorAll("*")) {
        const words = [...e.childNodes].some((one) => one.nodeType === Node.TEXT_NODE && one.data.trim());
        if (words && visible(e) && !hidden(e) && clips(e) && !scrolls(e) && e.clientHeight && e.scrollHeight > e.clientHeight + 3)
          found.push(`${name(e)}: its lines are cut off`);
      }
      const rows = [...root.querySelectorAll("[role=treeitem]")].map((e) => e.firstElementChild && [e, e.querySelector(".acs-loom-text")]);
      for (const [row, text] of rows.filter(Boolean))
        if (text && text.getBoundingClientRect().height > row.getBoundingClientRect().height + 1)
          found.push(`${name(row)}: its text is taller than it`);
      const page = root.closest(".jp-OutputArea") ?? root.parentElement;
      if (root.getBoundingClientRect().right > page.getBoundingClientRect().right + 2) found.push(`${name(root)} is wider than its place`);
      return found;
    },

    // Text twice as large, and nothing else, as a browser's "zoom text only" has it.
    enlarge(root) {
      const sizes = [...root.querySelectorAll("*"), root].map((e) => [e, parseFloat(getComputedStyle(e).fontSize)]);
      for (const [e, size] of sizes) e.style.setProperty("font-size", `${2 * size}px`, "important");
    },

    moving(root) {
      const found = [];
      for (const e of [root, ...root.querySelectorAll("*")])
        for (const part of [null, "::before", "::after"]) {
          const style = getComputedStyle(e, part);
          const long = (times) => times.split(",").some((one) => parseFloat(one) > 0.001);
          if (part !== null && style.content === "none") continue;
          if (style.animationName !== "none" && long(style.animationDuration)) found.push(`${name(e)}${part ?? ""} is animated`);
          if (style.transitionProperty !== "none" && long(style.transitionDuration)) found.push(`${name(e)}${part ?? ""} moves over`);
          if (style.scrollBehavior === "smooth") found.push(`${name(e)} scrolls smoothly`);
        }
      return found;
    },

    // Text from right to left in a line with other words, that would be reordered among them.
    entangled(root) {
      const found = [];
      const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
      while (walk.nextNode()) {
        const text = walk.currentNode;
        if (!/[\u0590-\u08ff]/.test(text.data)) continue;
        const parent = text.parentElement;
        if (!visible(parent) || hidden(parent) || parent.closest("select, style, svg")) continue;
        let up = parent;
        for (;;) {
          const style = getComputedStyle(up);
          if (/isolate|plaintext/.test(style.unicodeBidi) || up.tagName === "BDI") break;
          if (!style.display.startsWith("inline") || up.parentElement?.style === undefined) {
            const rest = [...up.textContent].join("").replace(text.data, "");
            if (/[\p{L}\p{N}]/u.test(rest)) found.push(`${name(up)}: "${text.data.slice(0, 20)}" stands among other words`);
            break;
          }
          up = up.parentElement;
        }
      }
      return found;
    },

    rightToLeft: (root) => [root, ...root.querySelectorAll("*")].filter((e) => e.tagName !== "BDI" && getComputedStyle(e).direction === "rtl").map(name),

    async violations(root) {
      const { violations } = await axe.run(root, { resultTypes: ["violations"] });
      return violations.map((v) => `${v.id} (${v.nodes.length}): ${v.nodes[0].html.slice(0, 160)} ${v.nodes[0].failureSummary}`);
    },
  };
})();
