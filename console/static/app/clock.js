// The time of the enabler: the clock of a browser may be wrong, and results have times of the fog.

/** The difference (ms) below which the clocks count as equal: answers state whole seconds. */
const MIN_SKEW_MS = 3000;
let skew = 0;
/** The time (ms) of the browser at which the enabler answered last; null: it has not answered yet. */
let answeredAt = null;

/** Record that an answer or an event of the enabler has just arrived. */
export function recordAnswer() {
  answeredAt = Date.now();
}

/** Return the time of the enabler at which it answered last; null: it has not answered yet. */
export const lastAnswer = () => (answeredAt === null ? null : answeredAt + skew);

/** Set the time of the enabler from the header Date of an answer that has just arrived. */
export function learn(date) {
  recordAnswer();
  const at = Date.parse(date ?? "");
  if (Number.isNaN(at)) return;
  const found = at + 500 - Date.now();
  skew = Math.abs(found) < MIN_SKEW_MS ? 0 : found;
}

/** Return the present time of the enabler, in ms since the epoch. */
export const now = () => Date.now() + skew;
