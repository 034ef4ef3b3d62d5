// The editor: write an insight, see its errors, its plan and its values before it is deployed.

import {html, useEffect, useRef, useState} from "../vendor/interface.js";
import {ApiError, get, isTemporary, path, post, send} from "../app/api.js";
import {RETRY_MS, useSettled, useStored} from "../app/hooks.js";
import {go, link} from "../app/route.js";
import {mayChange} from "../app/session.js";
import {Diff} from "../parts/diff.js";
import {TextEditor, offsetOf, placeOf} from "../parts/editor.js";
import {insightLanguage} from "../parts/highlight.js";
import {Card, Dialog, ErrorNotice, Name} from "../parts/ui.js";
import {Assistant} from "./assistant.js";
import {Preview} from "./preview.js";

const CHECK_MS = 300;
/** Deployment id -> the text of an amendment that is not submitted yet, as when the session ends. */
const amendments = new Map();

export function WritePage({route}) {
  const [id] = route.parts;
  return html`<${Writer} key=${id ?? "new"} id=${id} metric=${route.query.get("metric")} />`;
}

function Writer({id, metric}) {
  const [deployment, setDeployment] = useState(null);
  const [error, setError] = useState(null);
  const [draft, setDraft] = useStored("draft", "");
  const [text, setText] = useState(id ? "" : draft);
  const [name, setName] = useState("");
  const editor = useRef(null);
  useEffect(() => {
    if (!id) return;
    get(path`api/insights/${id}`).then((found) => {
      setError(null);
      setDeployment(found);
      setText(amendments.get(id) ?? found.queries);
      setName(found.name ?? "");
    }, setError);
  }, [id]);
  const change = (next) => {
    setText(next);
    if (!id) setDraft(next);
    else if (next === deployment?.queries) amendments.delete(id);
    else amendments.set(id, next);
  };
  const [isRestored] = useState(() => amendments.has(id));
  const {problems, isChecked, failure} = useCheck(text);
  const isRight = isChecked && text.trim() !== "" && !problems.some((each) => each.severity === "error");
  if (id && !deployment) {
    if (error) return html`<div class="page"><${ErrorNotice} error=${error} /><p><a href=${link("insights")}>All insights</a></p></div>`;
    return html`<p class="starting" role="status">Loading …</p>`;
  }
  return html`
    <div class="page">
      <div class="page-head">
        <div>
          <h1>${id ? html`Amend <${Name} text=${deployment?.name ?? id} />` : "Write an insight"}</h1>
          <p>${id ? "Insights with unchanged text continue without a gap." : "Start from an example, or type: names and functions are completed (Ctrl + Space)."}</p>
        </div>
      </div>
      <${ErrorNotice} error=${error ?? failure} />
      ${isRestored && deployment && text !== deployment.queries && html`
        <div class="notice plain row apart" role="status">These are your changes, which are not deployed yet.
          <button type="button" class="button small" onClick=${() => change(deployment.queries)}>Discard them</button></div>`}
      <div class="columns">
        <div class="stack">
          <${Card} title="Text" flush tools=${html`<${Format} text=${text} onText=${change} />`}>
            <${TextEditor} value=${text} onChange=${change} language=${insightLanguage} label="Text of the insights"
              complete=${complete} problems=${problems} handle=${editor}
              empty="Type here, or choose an example. It looks like this: mean_delay = COMPUTE AVG(delay, 1 MINUTE) BY region EVERY 10 SECONDS" />
            <${Problems} problems=${problems} isChecked=${isChecked} isFailed=${Boolean(failure)} isEmpty=${text.trim() === ""} editor=${editor} />
            <${Submit} id=${id} deployment=${deployment} text=${text} name=${name} onName=${setName} isRight=${isRight}
              onDone=${() => (id ? amendments.delete(id) : setDraft(""))} />
          <//>
          <${Preview} text=${text} isRight=${isRight} />
        </div>
        <${Assistant} metric=${metric} text=${text} isRight=${isRight} editor=${editor} onText=${change} />
      </div>
    </div>`;
}

/** Check a text while it is typed: {problems, isChecked, failure}. */
function useCheck(text) {
  const settled = useSettled(text, CHECK_MS);
  const [state, setState] = useState({of: null, problems: [], failure: null});
  useEffect(() => {
    if (settled.trim() === "") {
      setState({of: settled, problems: [], failure: null});
      return undefined;
    }
    const controller = new AbortController();
    let timer = 0;
    const read = () =>
      post("api/insights/check", {queries: settled}, controller.signal).then(
        (answer) => setState({of: settled, problems: answer.problems, failure: null}),
        (failure) => {
          if (failure.name === "AbortError") return;
          setState({of: null, problems: [], failure});
          if (isTemporary(failure)) timer = setTimeout(read, RETRY_MS);
        },
      );
    read();
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [settled]);
  return {problems: state.problems, isChecked: state.of === text, failure: state.failure};
}

/** Return the completions of CodeMirror at a position. */
async function complete(context) {
  const doc = context.state.doc;
  const before = context.matchBefore(/[\w.\-"]+$/);
  const isAfterSpace = /[\s(,=]$/.test(doc.sliceString(Math.max(0, context.pos - 1), context.pos));
  if (!context.explicit && !before && !isAfterSpace) return null;
  // What follows a number begins after a space: else Enter would take a unit that nobody wants.
  if (!context.explicit && before && /^[\d.]+$/.test(before.text)) return null;
  const controller = new AbortController();
  context.addEventListener?.("abort", () => controller.abort(), {onDocChange: true});
  const body = {queries: doc.toString(), ...placeOf(doc, context.pos)};
  if (body.queries === "") body.queries = " ";
  let answer;
  try {
    answer = await post("api/insights/complete", body, controller.signal);
  } catch {
    return null;
  }
  if (!answer.items.length) return null;
  const from = offsetOf(doc, answer.line, answer.column);
  const to = offsetOf(doc, answer.line, answer.column + answer.length);
  return {
    from,
    to: Math.max(to, context.pos),
    filter: false,
    options: answer.items.map((each) => ({
      label: each.label,
      detail: [each.kind, each.detail].filter(Boolean).join(" · "),
      apply: each.insert.endsWith("(") ? applyFunction(each.insert) : each.insert,
    })),
  };
}

/** Insert a function with its parentheses, and place the caret between them. */
const applyFunction = (insert) => (view, _, from, to) => {
  const isCalled = view.state.doc.sliceString(to, to + 1) === "(";
  const text = isCalled ? insert.slice(0, -1) : `${insert})`;
  view.dispatch({changes: {from, to, insert: text}, selection: {anchor: from + insert.length}, userEvent: "input.complete"});
};

function Format({text, onText}) {
  const [note, setNote] = useState("");
  const format = async () => {
    try {
      const answer = await post("api/insights/format", {queries: text});
      if (answer.ok) onText(answer.queries);
      setNote(answer.ok ? "" : "Correct the errors first");
    } catch (error) {
      setNote(error.message);
    }
  };
  return html`<span class="row"><span class="small dim" role="status">${note}</span>
    <button type="button" class="button small" disabled=${text.trim() === ""} onClick=${format}>Format</button></span>`;
}

function Problems({problems, isChecked, isFailed, isEmpty, editor}) {
  const show = (each) => {
    const doc = editor.current.doc();
    editor.current.select(offsetOf(doc, each.line, each.column), offsetOf(doc, each.line, each.column + each.length));
  };
  return html`
    <div style=${{padding: "10px 14px"}} role="status" aria-label="Problems of the text">
      ${problems.length === 0 && html`<p class="small dim">${isEmpty ? "No text to check yet." : isChecked ? "✓ The text has no errors." : isFailed ? "The text cannot be checked now." : "Checking …"}</p>`}
      <ul class="problem-list small">${problems.map((each) => html`
        <li key=${`${each.line} ${each.column} ${each.message}`}>
          <strong class=${each.severity}>${each.severity === "error" ? "Error" : "Warning"}</strong>
          <span class="grow"><${Name} text=${each.message} />${each.hint && html` <span class="dim"><${Name} text=${each.hint} /></span>`}</span>
          <button type="button" onClick=${() => show(each)}>line ${each.line}, column ${each.column}</button>
        </li>`)}</ul>
    </div>`;
}

function Submit({id, deployment, text, name, onName, isRight, onDone}) {
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const [key] = useState(() => [...crypto.getRandomValues(new Uint8Array(16))].map((each) => each.toString(16)).join(""));
  if (!mayChange()) return html`<p class="notice plain">Your token may read only: it cannot deploy insights.</p>`;
  const body = {queries: text, name: name.trim() || null};
  const submit = async () => {
    setBusy(true);
    try {
      const answer = id
        ? await send("PUT", path`api/insights/${id}`, {body})
        : await send("POST", "api/insights", {body, headers: {"Idempotency-Key": requestKey(key, body)}});
      onDone();
      go(link("insights", answer.deployment_id, ...answer.insights.slice(0, 1)));
    } catch (failure) {
      setError(failure instanceof ApiError ? failure : {message: `${failure}`});
      setBusy(false);
      setAsking(false);
    }
  };
  const isSame = id && deployment && text === deployment.queries && name.trim() === (deployment.name ?? "");
  return html`
    <div class="stack tight" style=${{padding: "0 14px 14px"}}>
      <${ErrorNotice} error=${error} />
      <div class="row">
        <label class="row small dim">Name of the deployment
          <input class="input" value=${name} maxlength="200" placeholder="optional" onInput=${(event) => onName(event.target.value)} /></label>
        <button type="button" class="button main-action" disabled=${!isRight || isBusy || isSame}
          onClick=${() => (id ? setAsking(true) : submit())}>${id ? "Review the amendment" : "Deploy"}</button>
        ${id && html`<a class="button" href=${link("insights", id)}>Cancel</a>`}
        ${isSame && html`<span class="small dim">No changes yet.</span>`}
      </div>
      ${isAsking && html`
        <${Dialog} title="Amend the deployment" wide onClose=${() => setAsking(false)}>
          <p class="small dim">Left: the deployed text. Right: the new text, which applies to later results of changed insights.</p>
          <${Diff} before=${deployment.queries} after=${text} />
          <div class="actions">
            <button type="button" class="button" onClick=${() => setAsking(false)}>Back</button>
            <button type="button" class="button main-action" disabled=${isBusy} onClick=${submit}>Amend</button>
          </div>
        <//>`}
    </div>`;
}

/** Return the idempotency key of a body, so that a changed body is another request. */
export const requestKey = (key, body) => `${key}-${hash(JSON.stringify(body))}`;

/** Return a short number for a text. */
function hash(text) {
  let value = 0;
  for (const each of text) value = (Math.imul(value, 31) + each.codePointAt(0)) | 0;
  return value >>> 0;
}
