import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { describe, expect, it } from "vitest";
// @ts-expect-error a plain script without types
import { build, outdir } from "../build.mjs";

describe("the committed bundles", () => {
  it("are what the source builds, and nothing else is there", async () => {
    const files = await (build as () => Promise<{ path: string; text: string }[]>)();
    expect(readdirSync(outdir as string).sort()).toEqual(files.map((file) => basename(file.path)).sort());
    for (const file of files) {
      expect(readFileSync(file.path, "utf8") === file.text, `${basename(file.path)}: run npm run build`).toBe(true);
      expect(Buffer.byteLength(file.text)).toBeLessThan(file.path.endsWith("workbench.js") ? 72_000 : 66_000);
    }
  }, 60_000); // two passes over every widget, on a busy machine

  it("load nothing", () => {
    for (const name of readdirSync(outdir as string)) {
      const text = readFileSync(`${outdir as string}/${name}`, "utf8");
      expect(text).not.toMatch(/\bimport\s*\(|\bfrom\s*["']|https?:\/\/|@import|innerHTML|insertAdjacentHTML|\beval\(/);
    }
  });
});
