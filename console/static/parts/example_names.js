// The metric and the attribute that examples of queries use.

import {useMemo} from "../vendor/interface.js";
import {get} from "../app/api.js";
import {useRequest} from "../app/hooks.js";
import {bestOf, inOrderOfUse} from "../app/language.js";

const MAX_METRICS = 300;

/** Return {metric, attribute}: the first metric of the applications, and an attribute of its points. */
export function useExampleNames() {
  const {data} = useRequest((signal) => get("api/metrics", {limit: MAX_METRICS}, signal), 0, []);
  return useMemo(() => {
    const [first] = inOrderOfUse(data?.metrics ?? []);
    const attributes = Object.entries(first?.labels ?? {}).map(([name, values]) => ({name, values}));
    return {metric: first?.metric ?? "cpu.util", attribute: bestOf(attributes)?.name ?? "node"};
  }, [data]);
}
