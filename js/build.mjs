// One self-contained bundle a widget: anywidget imports the text of the file, so nothing can be split off.
import { readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
export const outdir = join(here, "..", "acs_jupyter", "static");
export const options = {
  absWorkingDir: here,
  entryPoints: readdirSync(join(here, "src/widgets")).map((file) => `src/widgets/${file}`),
  outdir,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none",
};

if (argv[1] === fileURLToPath(import.meta.url)) {
  rmSync(outdir, { recursive: true, force: true });
  if (argv.includes("--watch")) {
    const context = await esbuild.context({ ...options, minify: false, sourcemap: "inline" });
    await context.watch();
  } else await esbuild.build(options);
}
