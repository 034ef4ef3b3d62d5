// Other ways to the results of an insight: files, curl, Grafana.

import {html, useState} from "../vendor/interface.js";
import {address, path} from "../app/api.js";
import {session} from "../app/session.js";
import {Card, CopyButton, Segments} from "../parts/ui.js";

/** Return a text as one word of a shell. */
export const shellWord = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** Return the name of the series of an insight in PromQL. */
export const promqlOf = (name) =>
  /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? `insight:${name}` : `{__name__="insight:${name.replace(/[\\"]/g, "\\$&")}"}`;

export function Ways({id, insight}) {
  const [hours, setHours] = useState("1");
  const range = {from: Date.now() - Number(hours) * 3_600_000};
  const file = (format) =>
    address(path`api/insights/${id}/results/download`, {format, insight: insight.name, from: range.from}).href;
  const login = session.value?.token_required ? `-H "Authorization: Bearer $MISTBOW_TOKEN" ` : "";
  const read = address(path`api/insights/${id}/results`, {insight: insight.name, limit: 100});
  const followed = address(path`api/insights/${id}/results/follow`, {insight: insight.name});
  const commands = `curl ${login}${shellWord(read.href)}\ncurl -N ${login}${shellWord(followed.href)}`;
  const promql = promqlOf(insight.name);
  return html`
    <${Card} title="Take it elsewhere">
      <div class="stack">
        <div class="row apart">
          <${Segments} label="Range of the file" value=${hours} onChange=${setHours} choices=${[["1", "1 h"], ["24", "24 h"], ["168", "7 days"]]} />
          <span class="row">
            <a class="button small" href=${file("csv")} download>Download CSV</a>
            <a class="button small" href=${file("parquet")} download>Download Parquet</a>
          </span>
        </div>
        <div class="stack tight">
          <div class="row apart"><h3>On the command line</h3><${CopyButton} text=${commands} /></div>
          <pre class="code" tabindex="0">${commands}</pre>
        </div>
        <div class="stack tight">
          <div class="row apart"><h3>In Grafana</h3><${CopyButton} text=${promql} /></div>
          <p class="small dim">Add a data source of the type Prometheus with the address of a storage agent, and this query:</p>
          <pre class="code" tabindex="0">${promql}</pre>
        </div>
      </div>
    <//>`;
}
