// Preact with its hooks, and htm, which reads tagged templates at run time without eval.
import {h} from "preact";
import htm from "htm";
export {h, render, Fragment, createContext} from "preact";
export {
  useCallback, useContext, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState,
} from "preact/hooks";
export const html = htm.bind(h);
