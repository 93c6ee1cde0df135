// One self-contained bundle a widget: anywidget imports the text of the file, so nothing can be split off.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";
import { minify } from "terser";

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

/** Every saved output holds a copy of its bundle, so what a second pass finds is worth it. */
const smaller = { module: true, ecma: 2020, compress: { passes: 3, unsafe_arrows: true, pure_getters: true, lhs_constants: false } };

/** The files as they are committed: `{ path, text }`. */
export async function build() {
  const { outputFiles } = await esbuild.build({ ...options, write: false });
  return Promise.all(
    outputFiles.map(async ({ path, text }) => ({
      path,
      text: path.endsWith(".js") ? (await minify(text, smaller)).code : text,
    })),
  );
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  rmSync(outdir, { recursive: true, force: true });
  if (argv.includes("--watch")) {
    const context = await esbuild.context({ ...options, minify: false, sourcemap: "inline" });
    await context.watch();
  } else {
    mkdirSync(outdir);
    for (const { path, text } of await build()) writeFileSync(path, text);
  }
}
