// Hooks of several pages: requests that repeat, the present time, stored choices.

import {useCallback, useEffect, useRef, useState} from "../vendor/interface.js";
import {isTemporary} from "./api.js";
import {now as enablerTime} from "./clock.js";

/** The time (ms) after which a request is sent again that the enabler could not answer. */
export const RETRY_MS = 3000;

/**
 * Call `read(signal)` at once, and again every `ms` while the page is visible (0: once). `ms` may be
 * a function that returns the time after an answer.
 * Returns {data, error, loading, refresh}; after an error, `data` is what was read before. What the
 * enabler could not answer is read again. `refresh` resolves after the answer.
 * `forgets`: after a change of the dependencies, `data` is null until the next answer; without it,
 * what was read before remains, for example while a user types a search.
 */
export function useRequest(read, ms, dependencies, forgets = false) {
  const [state, setState] = useState({data: null, error: null, loading: true});
  const refresh = useRef(() => {});
  useEffect(() => {
    let timer = 0;
    let current = null;
    let ended = false;
    setState((former) => ({data: forgets ? null : former.data, error: null, loading: true}));
    const run = async () => {
      clearTimeout(timer);
      current?.abort();
      const controller = new AbortController();
      current = controller;
      let next = typeof ms === "function" ? 0 : ms;
      try {
        const data = await read(controller.signal);
        if (typeof ms === "function") next = ms(data);
        if (!ended && current === controller) setState({data, error: null, loading: false});
      } catch (error) {
        if (ended || error.name === "AbortError") return;
        setState((former) => ({data: former.data, error, loading: false}));
        if (isTemporary(error)) next = Math.max(next, RETRY_MS);
      }
      if (next > 0 && !ended && current === controller) timer = setTimeout(unlessHidden, next);
    };
    const unlessHidden = () => {
      if (document.hidden) timer = setTimeout(unlessHidden, RETRY_MS);
      else run();
    };
    refresh.current = run;
    run();
    return () => {
      ended = true;
      clearTimeout(timer);
      current?.abort();
    };
  }, dependencies);
  return {...state, refresh: useCallback(() => refresh.current(), [])};
}

/** Return the present time, and render again every `ms`. */
export function useNow(ms = 1000) {
  const [now, setNow] = useState(enablerTime());
  useEffect(() => {
    const timer = setInterval(() => setNow(enablerTime()), ms);
    return () => clearInterval(timer);
  }, [ms]);
  return now;
}

/** Name the tab of the browser while a component is shown. */
export function useTitle(text) {
  useEffect(() => {
    const former = document.title;
    document.title = `${text} · Mistbow`;
    return () => {
      document.title = former;
    };
  }, [text]);
}

/** Return a value that this browser stores under a name, and its setter. */
export function useStored(name, initial) {
  const [value, setValue] = useState(() => readStored(name) ?? initial);
  const set = useCallback(
    (next) => {
      setValue(next);
      try {
        localStorage.setItem(`mistbow.${name}`, JSON.stringify(next));
      } catch {
        // A browser without storage forgets the choice.
      }
    },
    [name],
  );
  return [value, set];
}

export function readStored(name) {
  try {
    return JSON.parse(localStorage.getItem(`mistbow.${name}`));
  } catch {
    return null;
  }
}

/** Return a value `ms` after its last change. */
export function useSettled(value, ms) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
