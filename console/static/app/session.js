// Who uses the console: the session of the browser, and what its token permits.

import {get, send} from "./api.js";
import {Store} from "./store.js";

/** The answer of /api/session; null: a login is required; undefined: not read yet. */
export const session = new Store(undefined);
/** Whether the session has ended while the console was open. */
export const hasEnded = new Store(false);

export async function readSession() {
  try {
    session.set(await get("api/session"));
  } catch (error) {
    if (error.status !== 401) throw error;
    session.set(null);
  }
}

export async function logIn(token) {
  session.set(await send("POST", "api/session", {headers: {Authorization: `Bearer ${token}`}}));
  hasEnded.set(false);
}

export async function logOut() {
  try {
    await send("DELETE", "api/session");
  } catch (error) {
    // A session that has ended already needs no log-out.
    if (error.status !== 401) throw error;
  }
  session.set(null);
}

/** Record that an answer has demanded a login. */
export function endSession() {
  if (session.value) hasEnded.set(true);
  session.set(null);
}

/** Return whether the user may change deployments. */
export const mayChange = () => Boolean(session.value?.scopes?.includes("admin"));
