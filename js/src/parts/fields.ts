/**
 * The fields of a request as the kernel describes them: what is allowed in each. It must not know the page.
 */

/** `low` and `high` belong to what is allowed, `above` does not; text, since a number here ends at 2^53. */
export interface Field {
  name: string;
  kind: "integer" | "number" | "boolean" | "text" | "texts";
  help: string;
  low?: string;
  high?: string;
  above?: string;
}

const MOST_TEXTS = 4;

/** What is wrong with a field's text, or "". An empty field is not sent. */
export function problem(field: Field, text: string): string {
  const given = text.trim();
  if (given === "") return "";
  if (field.kind === "integer") return /^[+-]?\d{1,19}$/.test(given) ? outside(field, (n) => BigInt(n), given.replace(/^\+/, "")) : "a whole number is needed";
  if (field.kind === "number") {
    return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(given) ? outside(field, Number, given) : "a number is needed";
  }
  if (field.kind === "texts" && text.split("\n").filter((line) => line !== "").length > MOST_TEXTS) {
    return `at most ${MOST_TEXTS}, one a line`;
  }
  return /\p{Surrogate}/u.test(text) ? "a lone surrogate has no UTF-8 form" : "";
}

function outside<T extends bigint | number>({ low, high, above }: Field, read: (text: string) => T, text: string): string {
  const value = read(text);
  if (low !== undefined && value < read(plain(low))) return `at least ${plain(low)}`;
  if (above !== undefined && value <= read(plain(above))) return `above ${plain(above)}`;
  if (high !== undefined && value > read(plain(high))) return `at most ${plain(high)}`;
  return "";
}

function plain(bound: string): string {
  return bound.replace(/\.0$/, "");
}
