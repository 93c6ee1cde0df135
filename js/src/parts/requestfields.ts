/**
 * A request's parameters as text, the way a form shows them. It must not know the page.
 */
import type { Fields } from "../host";

/** A run's parameters as a form shows them. */
export function fieldsOf(request: Record<string, unknown>): Fields {
  const fields: Fields = {};
  for (const [name, value] of Object.entries(request)) {
    if (name === "stop") fields[name] = [value].flat().map((text) => escaped(String(text))).join("\n");
    else if (typeof value === "string") fields[name] = value;
    else if (typeof value === "number" || typeof value === "boolean") fields[name] = String(value);
  }
  return fields;
}

function escaped(text: string): string {
  const names: Record<string, string> = { "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r" };
  return text.replace(/[\\\n\t\r]/g, (character) => names[character] ?? character);
}
