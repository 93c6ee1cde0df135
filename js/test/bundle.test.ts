import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import * as esbuild from "esbuild";
import { describe, expect, it } from "vitest";
// @ts-expect-error a plain script without types
import { options, outdir } from "../build.mjs";

describe("the committed bundles", () => {
  it("are what the source builds, and nothing else is there", async () => {
    const built = await esbuild.build({ ...(options as esbuild.BuildOptions), write: false });
    const files = built.outputFiles ?? [];
    expect(readdirSync(outdir as string).sort()).toEqual(files.map((file) => basename(file.path)).sort());
    for (const file of files) {
      expect(readFileSync(file.path, "utf8") === file.text, `${basename(file.path)}: run npm run build`).toBe(true);
      expect(file.contents.length).toBeLessThan(file.path.endsWith("workbench.js") ? 74_000 : 68_000);
    }
  });

  it("load nothing", () => {
    for (const name of readdirSync(outdir as string)) {
      const text = readFileSync(`${outdir as string}/${name}`, "utf8");
      expect(text).not.toMatch(/\bimport\s*\(|\bfrom\s*["']|https?:\/\/|@import|innerHTML|insertAdjacentHTML|\beval\(/);
    }
  });
});
