// Amendments that are not deployed yet. They remain when the user leaves or reloads the page, and
// when the session ends. Each tab has its own.

const keyOf = (id) => `mistbow.amendment.${id}`;

/**
 * Return the unfinished amendment of a deployment: {text, name, base}; null: there is none.
 * `base` is the deployment that it rests on: {version, queries, name}.
 */
export function readAmendment(id) {
  try {
    return JSON.parse(sessionStorage.getItem(keyOf(id)));
  } catch {
    return null;
  }
}

/** Store an unfinished amendment; null: there is none any more. */
export function storeAmendment(id, amendment) {
  try {
    if (amendment === null) sessionStorage.removeItem(keyOf(id));
    else sessionStorage.setItem(keyOf(id), JSON.stringify(amendment));
  } catch {
    // A browser without storage forgets the amendment with the page.
  }
}
