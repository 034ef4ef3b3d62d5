// What a page shows if its code fails: the rest of the console continues.

import {html} from "../vendor/interface.js";
import {ErrorNotice} from "./ui.js";

/**
 * Show the children, or a notice if they cannot be drawn.
 * Preact finds a boundary by this static method, and calls the function as a method of its state.
 */
export function Boundary({children}) {
  const failure = this.state?.failure;
  return failure ? html`<${Failed} failure=${failure} />` : children;
}
Boundary.getDerivedStateFromError = (failure) => {
  // The browser reports only errors that nobody catches.
  console.error("view_failed", failure);
  return {failure};
};

/** A part of the console that cannot be loaded or drawn. */
export function Failed({failure}) {
  const error = {message: "This page cannot be shown.", hint: `Load it again. If this lasts, tell the operator: ${failure?.message ?? failure}`};
  return html`
    <div class="page">
      <${ErrorNotice} error=${error} />
      <p><button type="button" class="button" onClick=${() => location.reload()}>Load again</button></p>
    </div>`;
}
