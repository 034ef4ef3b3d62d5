// The choice of the site whose data a query reads.

import {html} from "../vendor/interface.js";
import {visible} from "../app/format.js";
import {fog} from "../app/live.js";
import {useStore} from "../app/store.js";
import {useFog} from "./topic_hook.js";

export function SiteChoice({site, onSite}) {
  useFog();
  const sites = useStore(fog)?.sites ?? [];
  return html`
    <label class="row small dim">Data of
      <select class="input" value=${site} onChange=${(event) => onSite(event.target.value)}>
        <option value="">the enabler's site</option>
        ${sites.map((each) => html`<option key=${each} value=${each}>${visible(each)}</option>`)}
      </select></label>`;
}
