// The shell: login, navigation, the page of the present address.

import {html, render, useEffect, useRef, useState} from "../vendor/interface.js";
import {onLoginRequired} from "./api.js";
import {clock, visible} from "./format.js";
import {readStored, useStored, useTitle} from "./hooks.js";
import * as live from "./live.js";
import {link, route} from "./route.js";
import {endSession, logOut, readSession, session} from "./session.js";
import {useStore} from "./store.js";
import {Boundary, Failed} from "../parts/boundary.js";
import {Empty, ErrorNotice, Icon, Name} from "../parts/ui.js";
import {LoginPage} from "../pages/login.js";

/** Name of a page -> [title, icon, module, component]; a module is loaded when it is shown. */
const PAGES = {
  start: ["Overview", "home", () => import("../pages/start.js"), "StartPage"],
  insights: ["Insights", "list", () => import("../pages/insights.js"), "InsightsPage"],
  write: ["Write", "pen", () => import("../pages/write.js"), "WritePage"],
  fog: ["Fog", "map", () => import("../pages/fog.js"), "FogPage"],
  explore: ["Explore", "search", () => import("../pages/explore.js"), "ExplorePage"],
};
const SHORTCUTS = {o: "start", i: "insights", w: "write", f: "fog", e: "explore"};
/** The time (ms) until the session is read again, while the enabler does not answer. */
const RETRY_MS = 3000;
const THEMES = {auto: "System", light: "Light", dark: "Dark"};

function applyTheme(theme) {
  const root = document.documentElement;
  if (theme === "auto") delete root.dataset.theme;
  else root.dataset.theme = theme;
  dispatchEvent(new Event("mistbow-theme"));
}

function App() {
  const user = useStore(session);
  const [error, setError] = useState(null);
  const isIn = Boolean(user);
  useEffect(() => {
    let timer = 0;
    const read = () =>
      readSession().then(
        () => setError(null),
        (failure) => {
          setError(failure);
          timer = setTimeout(read, RETRY_MS);
        },
      );
    read();
    const stop = onLoginRequired(endSession);
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, []);
  useEffect(() => {
    if (!isIn) return undefined;
    live.start();
    return live.stop;
  }, [isIn]);
  if (user === null) return html`<${LoginPage} />`;
  if (error) return html`<main class="login"><${ErrorNotice} error=${error} /></main>`;
  if (user === undefined) return html`<p class="starting" role="status">Starting the console …</p>`;
  return html`<${Shell} user=${user} />`;
}

function Shell({user}) {
  const current = useStore(route);
  const page = current.page in PAGES ? current.page : null;
  const view = viewOf(current);
  const former = useRef(view);
  const [hasKeys, setHasKeys] = useStored("keys", true);
  useEffect(() => {
    if (former.current === view) return;
    former.current = view;
    // A keyboard or a screen reader continues in the new page.
    document.getElementById("main").focus({preventScroll: true});
    scrollTo(0, 0);
  }, [view]);
  useEffect(() => {
    if (!hasKeys) return undefined;
    const onKey = (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey || isTyping(event)) return;
      if (document.querySelector("dialog[open]")) return;
      const name = SHORTCUTS[event.key];
      if (name) location.hash = link(name);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [hasKeys]);
  return html`
    <div class="shell">
      <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the page</a>
      <header class="side">
        <a class="brand" aria-label="Mistbow" href=${link("start")}><img src="console/icon.svg" alt="" /><span class="brand-name">Mistbow</span></a>
        <nav aria-label="Pages">
          ${Object.entries(PAGES).map(([name, [title, icon]]) => html`
            <a key=${name} href=${link(name)} aria-current=${name === page ? "page" : undefined}><${Icon} name=${icon} />${title}</a>`)}
        </nav>
        <${Foot} user=${user} hasKeys=${hasKeys} onKeys=${setHasKeys} />
      </header>
      <main class="main" id="main" tabindex="-1">
        <${Down} />
        ${page ? html`<${Boundary} key=${view}><${Page} key=${page} name=${page} route=${current} /><//>` : html`<${NoPage} />`}
      </main>
    </div>`;
}

function NoPage() {
  useTitle("No such page");
  return html`<${Empty} title="There is no such page"><a class="button" href=${link("start")}>Go to the overview</a><//>`;
}

/** The pages on which an address shows another document for each of its first parts. */
const DOCUMENTS = ["insights", "write"];

/** Return the view at an address; within a view, a click changes only a part of the page. */
const viewOf = ({page, parts}) => (DOCUMENTS.includes(page) ? [page, parts[0]] : [page]).join("/");

/** A notice while the enabler does not answer, since the pages then show an old state. */
function Down() {
  const connection = useStore(live.connection);
  const since = useStore(live.downSince);
  if (connection !== "down") return null;
  return html`<div class="notice bad down" role="alert">The enabler has not answered since ${clock(since)}: this page shows the state of that time. It continues when the enabler answers again.</div>`;
}

function isTyping({composedPath, target}) {
  const inner = composedPath ? target.shadowRoot?.activeElement ?? target : target;
  return /^(INPUT|TEXTAREA|SELECT)$/.test(inner.tagName) || inner.isContentEditable || target.shadowRoot;
}

function Page({name, route: current}) {
  const [component, setComponent] = useState(null);
  const [error, setError] = useState(null);
  const [title, , load, part] = PAGES[name];
  useEffect(() => {
    document.title = `${title} · Mistbow`;
    load().then(
      (module) => setComponent(() => module[part]),
      (failure) => {
        console.error("view_failed", failure);
        setError(failure);
      },
    );
  }, [name]);
  if (error) return html`<${Failed} failure=${error} />`;
  if (component === null) return html`<p class="starting" role="status">Loading …</p>`;
  return html`<${component} route=${current} />`;
}

function Foot({user, hasKeys, onKeys}) {
  const connection = useStore(live.connection);
  const refusal = useStore(live.refusal);
  const [theme, setTheme] = useStored("theme", "auto");
  const choose = (next) => {
    setTheme(next);
    // At once: an effect would run after the next frame.
    applyTheme(next);
  };
  const [error, setError] = useState(null);
  const scope = user.scopes.includes("admin") ? "" : " (read only)";
  return html`
    <div class="foot">
      <div class="row small dim" role="status">
        <span class=${`live-dot ${connection === "open" ? "" : "off"}`}></span>
        ${{open: "Live", lost: `Not live${refusal && ` (${visible(refusal)})`}: polling every 5 s`, down: "No answer", connecting: "Connecting"}[connection]}
      </div>
      <label class="field">Theme
        <select class="input" value=${theme} onChange=${(event) => choose(event.target.value)}>
          ${Object.entries(THEMES).map(([id, text]) => html`<option key=${id} value=${id}>${text}</option>`)}
        </select>
      </label>
      <label class="row small dim phone-hidden" title="o Overview, i Insights, w Write, f Fog, e Explore">
        <input type="checkbox" checked=${hasKeys} onChange=${(event) => onKeys(event.target.checked)} /> Shortcuts o i w f e</label>
      ${user.token_required && html`
        <div class="small dim token">Token <${Name} text=${user.name} />${scope}</div>
        <button type="button" class="button small" onClick=${() => logOut().catch(setError)}>Log out</button>`}
      <${ErrorNotice} error=${error} />
      <div class="small dim phone-hidden">Domain <${Name} text=${user.domain} /> · <a href="docs">API</a></div>
    </div>`;
}

applyTheme(readStored("theme") ?? "auto");
// The plots have the colours of the theme, which the system may change.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("mistbow-theme")));
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
