// Polls the data of the stream of events while that stream is not available: for example at the
// limit of followers, or behind a proxy that does not pass on streams.

import {get, path} from "./api.js";
import {now} from "./clock.js";

const PERIOD_MS = 5000;
const OVERLAP_MS = 60_000;
/** The time (ms) after which a request without an answer is given up. */
const MAX_WAIT_MS = 10_000;

/**
 * Poll until the returned function is called.
 * @param {{topics: () => string[], followed: () => string[], onStates: (states: object[]) => void,
 *   onFog: (fog: object) => void, onHealth: (report: object) => void,
 *   onRound: (isAnswered: boolean) => void,
 *   onDecisions: (decisions: object[]) => void, onResults: (results: object[]) => void}} receiver
 */
export function poll(receiver) {
  let timer = 0;
  let ended = false;
  // An answer that is an error is an answer too.
  const quietly = (to, query, use) =>
    get(to, query, AbortSignal.timeout(MAX_WAIT_MS)).then(
      (answer) => (ended || use(answer), true),
      (error) => error.name !== "AbortError" && error.status !== 0,
    );
  const round = async () => {
    const from = now() - OVERLAP_MS;
    const requests = [
      quietly("api/insights", {}, ({deployments}) => receiver.onStates(deployments)),
      quietly("api/decisions", {limit: 20}, ({decisions}) => receiver.onDecisions(decisions)),
      ...receiver.followed().map((each) => {
        const [id, ...name] = each.split("/");
        const query = {insight: name.join("/") || null, from, limit: 5000};
        return quietly(path`api/insights/${id}/results`, query, ({results}) =>
          receiver.onResults(results.map((result) => ({...result, deployment_id: id}))));
      }),
    ];
    if (receiver.topics().includes("fog")) requests.push(quietly("api/fog", {}, receiver.onFog));
    if (receiver.topics().includes("health")) requests.push(quietly("api/health", {}, receiver.onHealth));
    const answered = await Promise.all(requests);
    if (!ended) receiver.onRound(answered.includes(true));
    if (!ended) timer = setTimeout(round, PERIOD_MS);
  };
  round();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}
