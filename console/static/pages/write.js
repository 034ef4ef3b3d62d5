// The editor: write an insight, see its errors, its plan and its values before it is deployed.

import {html, useEffect, useRef, useState} from "../vendor/interface.js";
import {readAmendment, storeAmendment} from "../app/amendments.js";
import {get, isTemporary, path, post} from "../app/api.js";
import {authorOf, visible} from "../app/format.js";
import {RETRY_MS, useRequest, useSettled, useStored, useTitle} from "../app/hooks.js";
import {titleOf} from "../app/language.js";
import {states} from "../app/live.js";
import {go, link} from "../app/route.js";
import {useStore} from "../app/store.js";
import {useStart} from "../parts/draft.js";
import {TextEditor, offsetOf, placeOf} from "../parts/editor.js";
import {insightLanguage} from "../parts/highlight.js";
import {Card, ErrorNotice, Name} from "../parts/ui.js";
import {Assistant} from "./assistant.js";
import {Preview} from "./preview.js";
import {Submit, isChangedSince} from "./submit.js";

const CHECK_MS = 300;

export function WritePage({route}) {
  const [id] = route.parts;
  return id
    ? html`<${Amend} key=${id} id=${id} />`
    : html`<${Writer} key="new" metric=${route.query.get("metric")} />`;
}

/** Read a deployment before its amendment, and again when somebody else changes it. */
function Amend({id}) {
  const {data, error, refresh} = useRequest((signal) => get(path`api/insights/${id}`, {}, signal), 0, [id]);
  const live = useStore(states).get(id);
  const wasLive = useRef(false);
  useEffect(() => {
    if (data && (live ? live.version && live.version !== data.version : wasLive.current)) refresh();
    wasLive.current ||= Boolean(live);
  }, [live?.version, data?.version, Boolean(live)]);
  if (data) return html`<${Writer} id=${id} present=${data} isDeleted=${error?.status === 404} refresh=${refresh} />`;
  if (!error) return html`<p class="starting" role="status">Loading …</p>`;
  return html`<div class="page"><${ErrorNotice} error=${error} /><p><a href=${link("insights")}>All insights</a></p></div>`;
}

const seen = ({version, queries, name}) => ({version, queries, name});

/** @param {{id?: string, present?: object, isDeleted?: boolean, metric?: string, refresh?: () => Promise<void>}} props */
function Writer({id, present, isDeleted, metric, refresh}) {
  const [kept] = useState(() => (id ? readAmendment(id) : null));
  const [draft, setDraft] = useStored("draft", "");
  const [base, setBase] = useState(() => (id ? kept?.base ?? seen(present) : null));
  const [text, setText] = useState(() => (id ? kept?.text ?? present.queries : draft));
  const [name, setName] = useState(() => kept?.name ?? present?.name ?? "");
  const editor = useRef(null);
  const isUnfinished = id && (text !== base.queries || name.trim() !== (base.name ?? ""));
  const store = (nextText, nextName) => {
    if (!id) setDraft(nextText);
    else storeAmendment(id, {text: nextText, name: nextName, base});
  };
  const change = (next) => {
    setText(next);
    store(next, name);
  };
  const rename = (next) => {
    setName(next);
    if (id) store(text, next);
  };
  const restart = () => {
    storeAmendment(id, null);
    setBase(seen(present));
    setText(present.queries);
    setName(present.name ?? "");
  };
  const isChanged = id && isChangedSince(base, present, text, name);
  useEffect(() => {
    // Nothing has been written yet: the page follows what is deployed.
    if (isChanged && !isUnfinished) restart();
  }, [present?.version]);
  useTitle(id ? `Amend ${visible(titleOf(present))}` : "Write");
  const {former, restore, forget, keep} = useStart(metric, text, change);
  const {problems, isChecked, failure} = useCheck(text);
  const hasErrors = isChecked && problems.some((each) => each.severity === "error");
  const isRight = isChecked && text.trim() !== "" && !hasErrors;
  return html`
    <div class="page">
      <div class="page-head">
        <div>
          <h1>${id ? html`Amend <${Name} text=${titleOf(present)} />` : "Write an insight"}</h1>
          <p>${id ? "Insights with unchanged text continue without a gap." : "Start from an example, or type: names and functions are completed (Ctrl + Space)."}</p>
        </div>
      </div>
      <${ErrorNotice} error=${failure} />
      ${isDeleted && html`
        <div class="notice bad row apart" role="alert">This deployment was deleted meanwhile. Your text is still here.
          <button type="button" class="button small" onClick=${() => { keep(draft); setDraft(text); storeAmendment(id, null); go(link("write")); }}>Write it as a new deployment</button></div>`}
      ${!isDeleted && isChanged && isUnfinished && html`
        <div class="notice row apart" role="alert"><span>This deployment was changed meanwhile <${Name} text=${authorOf(present)} />. The review of your amendment shows this change.</span>
          <button type="button" class="button small" onClick=${restart}>Take the changed text instead</button></div>`}
      ${kept && !isChanged && isUnfinished && html`
        <div class="notice plain row apart" role="status">These are your changes, which are not deployed yet.
          <button type="button" class="button small" onClick=${restart}>Discard them</button></div>`}
      ${!id && former.length > 0 && html`
        <div class="notice plain row apart" role="status"><span>${former.length === 1 ? "Your former text is stored" : `${former.length} former texts of yours are stored, the latest`}: <code><${Name} text=${former[0].trim().slice(0, 60)} /></code></span>
          <span class="row"><button type="button" class="button small" onClick=${restore}>Take it back</button>
            <button type="button" class="button small" onClick=${forget}>Forget it</button></span></div>`}
      <div class="columns">
        <div class="stack">
          <${Card} title="Text" flush tools=${html`<${Format} text=${text} onText=${change} />`}>
            <${TextEditor} value=${text} onChange=${change} language=${insightLanguage} label="Text of the insights"
              complete=${complete} problems=${problems} handle=${editor}
              empty="Type here, or choose an example. It looks like this: mean_delay = COMPUTE AVG(delay, 1 MINUTE) BY region EVERY 10 SECONDS" />
            <${Problems} problems=${problems} isChecked=${isChecked} isFailed=${Boolean(failure)} isEmpty=${text.trim() === ""} editor=${editor} />
            <${Submit} id=${id} base=${base} present=${present} text=${text} name=${name} onName=${rename} isRight=${isRight && !isDeleted}
              refresh=${refresh} onDone=${() => (id ? storeAmendment(id, null) : setDraft(""))} />
          <//>
          <${Preview} text=${text} isRight=${isRight} hasErrors=${hasErrors} />
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
export async function complete(context) {
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
  // A word that is complete already needs no completion: Enter begins a new line.
  if (!context.explicit && answer.items.length === 1 && answer.items[0].insert === before?.text) return null;
  const from = offsetOf(doc, answer.line, answer.column);
  const to = offsetOf(doc, answer.line, answer.column + answer.length);
  return {
    from,
    to: Math.max(to, context.pos),
    filter: false,
    options: answer.items.map((each) => ({
      label: visible(each.label),
      detail: visible([each.kind, each.detail].filter(Boolean).join(" · ")),
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

export function Format({text, onText}) {
  const [note, setNote] = useState("");
  const latest = useRef(text);
  latest.current = text;
  const format = async () => {
    try {
      const answer = await post("api/insights/format", {queries: text});
      // What was typed meanwhile is not replaced.
      if (latest.current !== text) return;
      if (answer.ok) onText(answer.queries);
      setNote(answer.ok ? "" : "Correct the errors first");
    } catch (error) {
      setNote(error.message);
    }
  };
  return html`<span class="row"><span class="small dim" role="status"><${Name} text=${note} /></span>
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
