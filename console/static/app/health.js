// Whether all is well: what the states of insights and the fog say, since when, and what to do.

import {sitesOf} from "../parts/fog_model.js";

const INSIGHT_ADVICE = {
  failed: ["error", "Read the error and the log of its worker. The worker tries again by itself; if the text is the cause, amend the insight."],
  placing: ["error", "Start a worker, or free capacity: pause insights of low salience. The enabler places it as soon as a worker can run it."],
  shed: ["warning", "Its worker has too much to do. Add a worker, or pause other insights; it goes on by itself when there is capacity."],
  lagging: ["warning", "If this lasts: add a worker, or pause insights of low salience, so that its worker keeps up."],
  degraded: ["warning", "Results go on without some sites, and are corrected when these sites return. See to the sites named."],
};
const SITE_ADVICE = {
  silent: ["error", "Check that its machine and its storage agent run, and its network. Its worker continues alone; results are corrected when it returns."],
  suspected: ["warning", "If this lasts, check the load of its machine and its network."],
  "disk full": ["warning", "Shorten the retention of its streams, or add disk."],
  "worker suspected": ["warning", "If it does not return, check its process and its log; its fragments move to other workers by themselves."],
  "no free cores": ["warning", "If insights lag, add a worker or pause insights of low salience."],
  "no free memory": ["warning", "If insights wait for a place, add a worker with more memory."],
  lagging: ["warning", "Its worker is slow or has too much to do."],
};

/**
 * @param {Map<string, object>} states deployment id -> its state
 * @param {object|null} fog the fog; null: unknown
 * @param {object|null} readiness the answer of /readyz of the enabler; null: unknown
 */
export function healthOf(states, fog, readiness) {
  const sites = fog ? [...sitesOf(fog).values()] : [];
  const problems = [
    ...ofEnabler(readiness),
    ...sites.flatMap(ofSite),
    ...[...states.values()].flatMap(ofDeployment),
  ];
  const insights = [...states.values()].flatMap((each) => each.insights ?? []);
  const well = new Set(["running", "correcting", "adapting", "degraded"]);
  const state = problems.some((each) => each.severity === "error") ? "failed" : problems.length ? "degraded" : "ok";
  return {
    state,
    problems,
    counts: {
      sites: sites.length,
      sites_reachable: sites.filter((each) => each.state.reachable !== false).length,
      workers: fog?.nodes?.length ?? 0,
      fragments: fog?.fragments?.length ?? 0,
      insights: insights.length,
      insights_running: insights.filter((each) => well.has(each.lifecycle?.state ?? each.state)).length,
    },
  };
}

function ofEnabler(readiness) {
  const waiting = (readiness?.waiting_for ?? []).map((what) => ({
    severity: "error", kind: "enabler", subject: "enabler", what: `The enabler waits: ${what}`, since: null,
    do: "Check the service that it waits for, and the log of the enabler.",
  }));
  const warned = (readiness?.warnings ?? []).map((what) => ({
    severity: "warning", kind: "enabler", subject: "enabler", what, since: null, do: "Correct the setting, and restart the enabler.",
  }));
  return [...waiting, ...warned];
}

function ofSite(site) {
  return site.problems.map((each) => {
    const [severity, advice] = SITE_ADVICE[each.brief];
    return {severity, kind: "site", subject: site.name, what: `The site ${site.name}: ${each.text}`, since: each.since ?? null, do: advice};
  });
}

function ofDeployment(deployment) {
  return (deployment.insights ?? []).flatMap((insight) => {
    const state = insight.lifecycle?.state ?? insight.state;
    const found = INSIGHT_ADVICE[state];
    if (!found) return [];
    const [severity, advice] = found;
    return [{
      severity,
      kind: "insight",
      subject: `${deployment.deployment_id}/${insight.name}`,
      what: `${insight.name} is ${state}${insight.error ? `: ${insight.error}` : ""}`,
      since: insight.lifecycle?.since ?? null,
      do: advice,
    }];
  });
}
