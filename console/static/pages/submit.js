// The submission of a text: as a new deployment, or as an amendment that is reviewed first.

import {html, useState} from "../vendor/interface.js";
import {ApiError, ifVersion, path, send} from "../app/api.js";
import {authorOf} from "../app/format.js";
import {go, link} from "../app/route.js";
import {mayChange} from "../app/session.js";
import {Diff} from "../parts/diff.js";
import {Term} from "../parts/terms.js";
import {Dialog, ErrorNotice, Name} from "../parts/ui.js";

/**
 * Return whether a deployment has changed since an amendment began. What is deployed as the
 * amendment has it, as when the amendment was accepted a moment ago, is no change.
 */
export const isChangedSince = (base, present, text, name = "") =>
  present.version !== base.version && (present.queries !== text || (present.name ?? "") !== (name.trim() || (base.name ?? "")));

/**
 * @param {{id?: string, base?: object, present?: object, text: string, name: string,
 *   onName: (name: string) => void, isRight: boolean, onDone: () => void,
 *   refresh: () => Promise<void>}} props
 *   `base`: the deployment that the amendment rests on; `present`: what is deployed now.
 */
export function Submit({id, base, present, text, name, onName, isRight, onDone, refresh}) {
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const [key] = useState(() => [...crypto.getRandomValues(new Uint8Array(16))].map((each) => each.toString(16)).join(""));
  if (!mayChange()) return html`<p class="notice plain">Your token may read only: it cannot deploy insights.</p>`;
  const written = name.trim();
  const isRenamed = id && written !== "" && written !== (base.name ?? "");
  const body = {queries: text, name: id && !isRenamed ? null : written || null};
  /** @param {string} [version] the version of the deployment that the review has shown */
  const submit = async (version) => {
    setBusy(true);
    try {
      const answer = id
        ? await send("PUT", path`api/insights/${id}`, {body, headers: ifVersion(version)})
        : await send("POST", "api/insights", {body, headers: {"Idempotency-Key": requestKey(key, body)}});
      onDone();
      go(link("insights", answer.deployment_id, ...answer.insights.slice(0, 1)));
    } catch (failure) {
      // The review then shows the change of the other user.
      if (failure.status === 412) await refresh();
      else {
        setError(failure instanceof ApiError ? failure : {message: `${failure}`});
        setAsking(false);
      }
      setBusy(false);
    }
  };
  const isSame = id && text === base.queries && !isRenamed;
  return html`
    <div class="stack tight" style=${{padding: "0 14px 14px"}}>
      <${ErrorNotice} error=${error} />
      <div class="row">
        <label class="row small dim">Name of the <${Term} name="deployment">deployment<//>
          <input class="input" value=${name} maxlength="200" placeholder="optional" onInput=${(event) => onName(event.target.value)} /></label>
        <button type="button" class="button main-action" disabled=${!isRight || isBusy || isSame}
          onClick=${() => (id ? setAsking(true) : submit())}>${id ? "Review the amendment" : "Deploy"}</button>
        ${id && html`<a class="button" href=${link("insights", id)}>Cancel</a>`}
        ${isSame && html`<span class="small dim">No changes yet.</span>`}
      </div>
      ${isAsking && html`
        <${Review} base=${base} present=${present} text=${text} name=${name} isBusy=${isBusy} onAmend=${submit} onClose=${() => setAsking(false)} />`}
    </div>`;
}

/**
 * The differences of an amendment, and of the change that somebody else has made meanwhile. What it
 * shows, and what its button does, changes only when the user asks for it.
 */
function Review({base, present: latest, text, name, isBusy, onAmend, onClose}) {
  const [present, setPresent] = useState(latest);
  const isChanged = isChangedSince(base, present, text, name);
  const isOld = isChangedSince(present, latest, text, name);
  return html`
    <${Dialog} title="Amend the deployment" wide onClose=${onClose}>
      ${isOld && html`
        <div class="notice row apart" role="alert"><span>The deployment was changed meanwhile <${Name} text=${authorOf(latest)} />. Look at this change before you continue.</span>
          <button type="button" class="button small" onClick=${() => setPresent(latest)}>Show the change</button></div>`}
      ${isChanged
        ? html`
          <div class="notice" role="alert">The deployment was changed meanwhile <${Name} text=${authorOf(present)} />. Your text replaces this change. To retain it, go back and add it to your text.</div>
          <${Renamed} base=${base} present=${present} />
          <h3>What was changed meanwhile</h3>
          <${Diff} before=${base.queries} after=${present.queries} labels=${["Text that you began with", "Text that is deployed now"]} />
          <h3>What your text changes</h3>
          <p class="small dim">Left: the text that is deployed now. Right: your text.</p>`
        : html`<p class="small dim">Left: the deployed text. Right: the new text, which applies to later results of changed insights.</p>`}
      <${Diff} before=${present.queries} after=${text} />
      <div class="actions">
        <button type="button" class="button" onClick=${onClose}>Back</button>
        <button type="button" class=${`button ${isChanged ? "danger" : "main-action"}`} disabled=${isBusy || isOld} onClick=${() => onAmend(present.version)}>
          ${isChanged ? "Replace the change" : "Amend"}</button>
      </div>
    <//>`;
}

const Renamed = ({base, present}) =>
  present.name === base.name ? null : html`<p class="small">It was also named <strong><${Name} text=${present.name ?? "–"} /></strong>.</p>`;

/** Return the idempotency key of a body, so that a changed body is another request. */
export const requestKey = (key, body) => `${key}-${hash(JSON.stringify(body))}`;

/** Return a short number for a text. */
function hash(text) {
  let value = 0;
  for (const each of text) value = (Math.imul(value, 31) + each.codePointAt(0)) | 0;
  return value >>> 0;
}
