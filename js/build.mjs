// One self-contained bundle a widget: anywidget imports the text of the file, so nothing can be split off.
import { readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const outdir = join(here, "..", "acs_jupyter", "static");
const watch = process.argv.includes("--watch");
const options = {
  absWorkingDir: here,
  entryPoints: readdirSync(join(here, "src/widgets")).map((file) => `src/widgets/${file}`),
  outdir,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: !watch,
  charset: "utf8",
  sourcemap: watch ? "inline" : false,
  legalComments: "none",
};

rmSync(outdir, { recursive: true, force: true });
if (watch) await (await esbuild.context(options)).watch();
else await esbuild.build(options);
