import { inspect } from 'node:util';

/** What was thrown, as an Error. */
export function toError(thrown: unknown): Error {
  try {
    if (thrown instanceof Error) return thrown;
  } catch {
    // A proxy that does not say what it is.
  }
  return new Error(textOf(thrown));
}

/** The message of an error as text, whatever it is; if it is empty, the code or the name. */
export function messageOf(error: Error & { code?: unknown }): string {
  try {
    return textOf(error.message) || textOf(error.code ?? error.name);
  } catch {
    return 'an error whose message cannot be read';
  }
}

/** The text of any value. */
function textOf(value: unknown): string {
  for (const text of [String, inspect]) {
    try {
      const result: unknown = text(value);
      if (typeof result === 'string' && !result.startsWith('[object ')) return result;
    } catch {
      // Its methods throw.
    }
  }
  return 'a value without a text';
}
