import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { describe, expect, it } from "vitest";
// @ts-expect-error a plain script without types
import { build, outdir } from "../build.mjs";

/** A live cell's stands in every saved output; a loom's travels once a page, and stands in none. */
const BOUNDS: Record<string, number> = { "live.js": 68_000, "loom.js": 140_000 };

/** Two passes over all bundles take seconds, on a busy machine more. */
const PATIENCE_MS = 120_000;

describe("the committed bundles", { timeout: PATIENCE_MS }, () => {
  it("are what the source builds, and nothing else is there", async () => {
    const files = await (build as () => Promise<{ path: string; text: string }[]>)();
    expect(readdirSync(outdir as string).sort()).toEqual(files.map((file) => basename(file.path)).sort());
    for (const file of files) {
      expect(readFileSync(file.path, "utf8") === file.text, `${basename(file.path)}: run npm run build`).toBe(true);
      expect(Buffer.byteLength(file.text)).toBeLessThan(BOUNDS[basename(file.path)] ?? 80_000);
    }
  });

  it("load nothing", () => {
    for (const name of readdirSync(outdir as string)) {
      const text = readFileSync(`${outdir as string}/${name}`, "utf8");
      expect(text).not.toMatch(/\bimport\s*\(|\bfrom\s*["']|https?:\/\/|@import|innerHTML|insertAdjacentHTML|\beval\(/);
    }
  });
});
