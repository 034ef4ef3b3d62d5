// The address of a page within the console: the fragment of the URL.

import {Store} from "./store.js";

/** Return the parts and the query of a fragment: "#/insights/d-1?range=10". */
export function parse(fragment) {
  const [before, ...after] = fragment.replace(/^#\/?/, "").split("?");
  const query = after.join("?");
  const parts = before.split("/").filter(Boolean).map(decoded);
  return {page: parts[0] || "start", parts: parts.slice(1), query: new URLSearchParams(query)};
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Return the fragment of a page: link("insights", "d-1"). */
export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

export const route = new Store(parse(location.hash));
addEventListener("hashchange", () => route.set(parse(location.hash)));

/** Return the fragment of an insight that is named as ID/NAME. */
export function insightLink(name) {
  const [id, ...rest] = name.split("/");
  return rest.length ? link("insights", id, rest.join("/")) : link("insights", id);
}

/** Show another page. */
export function go(fragment) {
  location.hash = fragment;
}
