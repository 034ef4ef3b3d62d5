// State that several components read: it calls its listeners after each change.

import {useEffect, useReducer} from "../vendor/interface.js";

/** A value with listeners. */
export class Store {
  constructor(value) {
    this.value = value;
    this.listeners = new Set();
  }

  set(value) {
    this.value = value;
    this.changed();
  }

  changed() {
    for (const listener of [...this.listeners]) listener();
  }

  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** Return the value of a store, and render again when it changes. */
export function useStore(store) {
  const [, render] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    let waiting = 0;
    // Many changes within a frame cause one rendering.
    const stop = store.listen(() => {
      waiting ||= requestAnimationFrame(() => {
        waiting = 0;
        render();
      });
    });
    render();
    return () => {
      stop();
      cancelAnimationFrame(waiting);
    };
  }, [store]);
  return store.value;
}
