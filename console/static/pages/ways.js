// Other ways to the results of an insight: files, curl, Grafana.

import {html, useState} from "../vendor/interface.js";
import {address, path} from "../app/api.js";
import {now} from "../app/clock.js";
import {visible, visibleLines} from "../app/format.js";
import {session} from "../app/session.js";
import {Card, CopyButton, Segments} from "../parts/ui.js";

/** Return a text as one word of a shell. */
export const shellWord = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** Return the name of the series of an insight in PromQL. */
export const promqlOf = (name) =>
  /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? `insight:${name}` : `{__name__="insight:${name.replace(/[\\"]/g, "\\$&")}"}`;

/** Return the address of a query in the Explore view of Grafana, at a configured address. */
export function grafanaLink(grafana, query) {
  const source = {type: "prometheus"};
  const pane = {queries: [{refId: "A", expr: query, datasource: source}], range: {from: "now-1h", to: "now"}};
  const url = new URL(grafana);
  url.pathname = `${url.pathname.replace(/\/$/, "")}/explore`;
  url.search = new URLSearchParams({schemaVersion: 1, panes: JSON.stringify({mistbow: pane})});
  return url.href;
}

/** Return the address of a file with the results of an insight in a range of time (ms). */
export const file = (format, id, name, from, to) =>
  address(path`api/insights/${id}/results/download`, {format, insight: name, from, to}).href;

export function Ways({id, insight}) {
  const [hours, setHours] = useState("1");
  const from = now() - Number(hours) * 3_600_000;
  const login = session.value?.token_required ? `-H "Authorization: Bearer $MISTBOW_TOKEN" ` : "";
  const read = address(path`api/insights/${id}/results`, {insight: insight.name, limit: 100});
  const followed = address(path`api/insights/${id}/results/follow`, {insight: insight.name});
  const commands = `curl ${login}${shellWord(read.href)}\ncurl -N ${login}${shellWord(followed.href)}`;
  const promql = promqlOf(insight.name);
  const grafana = session.value?.grafana_url;
  return html`
    <${Card} title="Use the results elsewhere">
      <div class="stack">
        <div class="row apart">
          <${Segments} label="Range of the file" value=${hours} onChange=${setHours} choices=${[["1", "1 h"], ["24", "24 h"], ["168", "7 days"]]} />
          <span class="row">
            <a class="button small" href=${file("csv", id, insight.name, from)} download>Download CSV</a>
            <a class="button small" href=${file("parquet", id, insight.name, from)} download>Download Parquet</a>
          </span>
        </div>
        <p class="small dim">A file contains at most the latest 100,000 results of the range.</p>
        <div class="stack tight">
          <div class="row apart"><h3>On the command line</h3><${CopyButton} text=${commands} /></div>
          <pre class="code" tabindex="0">${visibleLines(commands)}</pre>
        </div>
        <div class="stack tight">
          <div class="row apart"><h3>In Grafana</h3><${CopyButton} text=${promql} /></div>
          ${grafana && html`<p><a class="button small" href=${grafanaLink(grafana, promql)} target="_blank" rel="noopener noreferrer">Open in Grafana</a></p>`}
          <p class="small dim">The data source has the type Prometheus and the address of a storage agent; the query is:</p>
          <pre class="code" tabindex="0">${visible(promql)}</pre>
        </div>
      </div>
    <//>`;
}
