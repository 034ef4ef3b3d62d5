// Requests to the enabler: JSON both ways, and errors in the one form of the API.

import {learn} from "./clock.js";

/** An answer that is an error. `status` 0: no answer arrived. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {{code?: string, message?: string, hint?: string, details?: unknown}} error
   */
  constructor(status, error) {
    super(error.message || `the enabler answered ${status}`);
    this.status = status;
    this.code = error.code || "";
    this.hint = error.hint || "";
    this.details = error.details;
  }
}

/** Return whether the same request may succeed later: no answer, or the enabler is not ready. */
export const isTemporary = ({status}) => [0, 502, 503, 504].includes(status);

/** @type {Set<() => void>} */
const loginListeners = new Set();

/** Call `listener` whenever an answer states that a login is required. */
export function onLoginRequired(listener) {
  loginListeners.add(listener);
  return () => loginListeners.delete(listener);
}

/** Return the address of a path of the API, relative to the page, with a query. */
export function address(path, query = {}) {
  const url = new URL(path.replace(/^\//, ""), document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, `${value}`);
  }
  return url;
}

/** Return a path with its variable parts encoded: path`api/insights/${id}`. */
export function path(texts, ...values) {
  return texts.reduce((all, text, n) => all + encodeURIComponent(values[n - 1]) + text);
}

/**
 * Send a request and return the decoded answer; null if it has no body.
 * @param {string} method
 * @param {string} to
 * @param {{body?: unknown, query?: object, signal?: AbortSignal, headers?: object}} options
 */
export async function send(method, to, {body, query, signal, headers} = {}) {
  const options = {method, signal, headers: {...headers}, credentials: "same-origin", cache: "no-store"};
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  let text;
  try {
    answer = await fetch(address(to, query), options);
    learn(answer.headers.get("date"));
    text = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, {
      message: "The enabler does not answer.",
      hint: "Check that it runs, and that this browser reaches its address.",
    });
  }
  const decoded = decode(text);
  if (answer.ok) return decoded;
  const error = new ApiError(answer.status, errorIn(decoded, text));
  if (answer.status === 401 && to !== "api/session") loginListeners.forEach((each) => each());
  throw error;
}

/** Return the headers by which a change is refused if the deployment has another version by now. */
export const ifVersion = (version) => (version ? {"If-Match": `"${version}"`} : {});

export const get = (to, query, signal) => send("GET", to, {query, signal});
export const post = (to, body, signal, query) => send("POST", to, {body, signal, query});

function decode(text) {
  if (text === "") return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function errorIn(decoded, text) {
  if (decoded?.error?.message) return decoded.error;
  // PromQL has the form of errors of Prometheus.
  if (typeof decoded?.error === "string") return {code: decoded.errorType, message: decoded.error};
  return {message: text.slice(0, 300)};
}
