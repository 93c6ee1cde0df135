"""A widget's script and style sheet as one short module, since every output's saved state holds a copy.

Owns that form: deflate in 91 characters, in a module that unpacks it and puts the style sheet into the page once. It
must not know widgets. It asks of a browser what the bundles ask (``DecompressionStream`` is older than popovers).

A window that is of no use without its kernel needs no copy in the file: its script is :class:`Code`, sent as a message,
and its module is a loader. A page asks for it until it has it (``Fetch``), and keeps it for all its windows. What comes
before the script has been read waits, and is heard by it first.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

_MODULE = """
let p="{packed}",b=[],i=0,n=0,k=0,s,t,d=()=>(s=p.charCodeAt(i++))-35-(s>92);
for(;i<p.length;)for(n|=(d()*91+d())<<k,k+=13;k>7;k-=8,n>>=8)b.push(n&255);
[s,t]=(await new Response(new Blob([new Uint8Array(b).slice(0,{size})]).stream().pipeThrough(
new DecompressionStream("deflate-raw"))).text()).split("\0");
i="acs-style-{digest}";
n=document;n.getElementById(i)||n.head.append(Object.assign(n.createElement("style"),{{id:i,textContent:t}}));
s=URL.createObjectURL(new Blob([s],{{type:"text/javascript"}}));
const m=(await import(s)).default;URL.revokeObjectURL(s);export default m
""".strip().replace("\n", "")

_LOADER = """
const digest = "DIGEST", codes = (globalThis.acsJupyterCodes ??= {});
async function read(data) {
  const plain = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const [script, style] = (await new Response(plain).text()).split("\\0");
  const id = "acs-style-" + digest;
  if (!document.getElementById(id))
    document.head.append(Object.assign(document.createElement("style"), { id, textContent: style }));
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const { default: make } = await import(url);
  URL.revokeObjectURL(url);
  return make;
}
export default () => {
  let mine, inner;
  return {
    initialize({ model }) {
      let early = [], clock, wait = 1000, came;
      const hear = (message, buffers) => {
        if (message.code === digest) came(codes[digest] ??= read(buffers[0]));
        else early.push([message, buffers]);
      };
      const on = (name, act) => {
        model.on(name, act);
        if (name !== "msg:custom" || !early) return;
        model.off(name, hear);
        for (const one of early.splice(0)) act(...one);
        early = null;
      };
      mine = new Proxy({}, {
        get: (_, name) => {
          const value = model[name];
          return name === "on" ? on : typeof value === "function" ? value.bind(model) : value;
        },
      });
      model.on("msg:custom", hear);
      const code = new Promise(done => (came = done));
      const ask = () => {
        if (codes[digest]) return came(codes[digest]);
        try { model.send({ type: "Fetch", digest }); } catch {}
        clock = setTimeout(ask, wait);
        wait = Math.min(2 * wait, 30000);
      };
      ask();
      let end;
      inner = code.then(make => {
        clearTimeout(clock);
        const widget = make();
        end = widget.initialize({ model: mine });
        return widget;
      });
      return () => { clearTimeout(clock); model.off("msg:custom", hear); end?.(); };
    },
    async render({ el }) {
      return (await inner).render({ model: mine, el });
    },
  };
};
""".strip()


@dataclass(frozen=True)
class Code:
    """A widget's two files as the bytes that a message carries, and the module that asks for them."""

    digest: str
    data: bytes

    @classmethod
    def of(cls, script: Path, style: Path) -> Code:
        """Whatever made the files, the same files make the same code."""
        both = script.read_bytes() + b"\0" + style.read_bytes()
        return cls(hashlib.sha256(both).hexdigest()[:12], _deflated(both))

    @property
    def loader(self) -> str:
        """The module."""
        lines = (line.strip() for line in _LOADER.replace("DIGEST", self.digest).splitlines())
        return "\n".join(lines)


_DIGITS = [chr(35 + i + (i > 56)) for i in range(91)]
_PAIRS = [high + low for high in _DIGITS for low in _DIGITS]


def _in_pairs(data: bytes) -> str:
    """Thirteen bits, the lowest first, in each two characters from ``#`` on: no quote, no backslash, no table to send.

    13 bits in two of 91 characters take 23 % more than the bytes do, four bytes in five of 85 take 25 %.
    """
    whole, count = int.from_bytes(data, "little"), (8 * len(data) + 12) // 13
    bits = format(whole, f"0{13 * count}b")
    return "".join(_PAIRS[int(bits[13 * i : 13 * i + 13], 2)] for i in reversed(range(count)))


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 7)  # shorter blocks fit scripts better than those of 8
    return packer.compress(data) + packer.flush()


def pressed(script: Path, style: Path) -> str:
    """The module. Whatever made the files, the same files make the same module."""
    both = script.read_bytes() + b"\0" + style.read_bytes()
    data = _deflated(both)
    digest = hashlib.sha256(both).hexdigest()[:12]
    return _MODULE.format(packed=_in_pairs(data), size=len(data), digest=digest)
