// Reads a topic of the live events while a component shows it.

import {useEffect} from "../vendor/interface.js";
import {need} from "../app/live.js";

/** Follow the changes of a topic while the component is shown. */
export const useTopic = (topic) => useEffect(() => need(topic), [topic]);

/** Follow the changes of the fog while the component is shown. */
export const useFog = () => useTopic("fog");
