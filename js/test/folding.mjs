// Folds sequences that Python made, for tests/log/test_both_sides.py: JSON on stdin, JSON on stdout.
//
// Each case is folded twice: all events from the start; and from an outline in the middle, in which everything that was
// over is hollow, with the contents that Python sends before the events that need them, and the rest at the end.
import { build } from "esbuild";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const source = (name) => fileURLToPath(new URL(`../src/${name}`, import.meta.url));
const bundle = async (contents) => {
  const { outputFiles } = await build({ stdin: { contents, resolveDir: source("") }, bundle: true, write: false, format: "esm" });
  return import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);
};
const { emptyState, fold, outlined, fill } = await bundle('export * from "./state.ts"; export * from "./outline.ts";');

const answers = JSON.parse(readFileSync(0, "utf8")).map(({ events, outline, steps, rest }) => {
  const whole = emptyState();
  for (const event of events) fold(whole, event, 0);
  const { state } = outlined.unpack(outline, emptyState());
  for (const { contents, event } of steps) {
    if (contents) fill(state, contents);
    outlined.fold(state, event, 0);
  }
  for (const contents of rest) fill(state, contents);
  return [whole, state];
});
process.stdout.write(JSON.stringify(answers));
