// The text of a new insight: what it begins with, and what an example may replace.

import {useEffect} from "../vendor/interface.js";
import {readStored, useStored} from "../app/hooks.js";
import {isWritable, nameOf} from "../app/language.js";
import {link} from "../app/route.js";

/** Record a text as that of an example, which the next example replaces. */
export function rememberExample(text) {
  try {
    localStorage.setItem("mistbow.example", JSON.stringify(text));
  } catch {
    // A browser without storage asks before it replaces the example.
  }
}

/** Return whether a text may be replaced without a question: it is empty, or an unchanged example. */
export const isReplaceable = (text) => text.trim() === "" || text === readStored("example");

/** Return a first text for a metric. */
export function textFor(metric) {
  const word = metric.replace(/\W+/g, "_").replace(/^_+|_+$/g, "").slice(0, 40);
  return `mean_${word || "value"} = COMPUTE AVG(${nameOf(metric)}, 1 MINUTE) EVERY 10 SECONDS`;
}

const MAX_FORMER = 5;

/** Return the former texts with a further one at their beginning. */
export const withFormer = (texts, own) => [own, ...texts.filter((each) => each !== own)].slice(0, MAX_FORMER);

/**
 * Begin the text with a metric, if the address names one. Returns {former, restore, forget, keep}:
 * `former` are the texts of the user that were replaced, the latest first. `keep` stores a text before
 * it is replaced; `restore` exchanges the text for the latest of them.
 */
export function useStart(metric, text, onText) {
  const [stored, setFormer] = useStored("former", []);
  // An earlier version stored a single text.
  const former = [stored].flat().filter(Boolean);
  const keep = (own) => {
    if (!isReplaceable(own)) setFormer(withFormer(former, own));
  };
  useEffect(() => {
    if (!metric || !isWritable(metric)) return;
    const next = textFor(metric);
    if (text !== next) keep(text);
    rememberExample(next);
    onText(next);
    // After a reload, the page continues with the text written since.
    history.replaceState(null, "", `${location.href.split("#")[0]}${link("write")}`);
  }, [metric]);
  const restore = () => {
    const [latest, ...others] = former;
    // The text of the page is now the oldest of the former ones, so that each of them can be reached.
    setFormer(isReplaceable(text) ? others : [...others, text].slice(-MAX_FORMER));
    onText(latest);
  };
  return {former, restore, forget: () => setFormer(former.slice(1)), keep};
}
