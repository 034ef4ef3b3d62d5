// Explore: metrics by what describes them, SQL, and PromQL.

import {html} from "../vendor/interface.js";
import {go, link} from "../app/route.js";
import {Segments} from "../parts/ui.js";
import {MetricsExplorer} from "./metrics.js";
import {PromqlBox} from "./promql.js";
import {SqlBox} from "./sql.js";

const VIEWS = [["metrics", "Metrics"], ["sql", "SQL"], ["promql", "PromQL"]];

export function ExplorePage({route}) {
  const view = route.query.get("view") ?? "metrics";
  const [metric] = route.parts;
  const text = route.query.get("query") ?? "";
  return html`
    <div class="page">
      <div class="page-head">
        <div><h1>Explore</h1><p>The metrics of the fog, and queries over stored data.</p></div>
        <div class="actions"><${Segments} label="View" value=${view} choices=${VIEWS} onChange=${(next) => go(`${link("explore")}?view=${next}`)} /></div>
      </div>
      ${view === "sql" && html`<${SqlBox} key=${text} query=${text} />`}
      ${view === "promql" && html`<${PromqlBox} key=${text} query=${text} />`}
      ${view === "metrics" && html`<${MetricsExplorer} metric=${metric} site=${route.query.get("site") ?? ""} />`}
    </div>`;
}
