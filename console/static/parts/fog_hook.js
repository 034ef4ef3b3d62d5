// Reads the fog while a component shows it.

import {useEffect} from "../vendor/interface.js";
import {need} from "../app/live.js";

/** Follow the changes of the fog while the component is shown. */
export const useFog = () => useEffect(() => need("fog"), []);
