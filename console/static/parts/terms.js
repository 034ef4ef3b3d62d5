// The terms that the pages use, each with its meaning: shown at the mouse and at the keyboard's focus.

import {html, useEffect, useRef, useState} from "../vendor/interface.js";

/** Term -> its meaning, for people who use the console for the first time. */
export const TERMS = {
  deployment: "A deployment is what is submitted at once: one insight or several. It is amended, paused and deleted as a whole. Its name helps you to find it again.",
  insight: "An insight is a continuous query: it gives a new result at each interval, until it is deleted.",
  fragment: "A fragment is the part of the computation that one worker runs. Insights that read the same points share fragments.",
  kind: "whole: from points to results. partial: from points to panes, the sums of a short time. merge: from panes to results.",
  worker: "A worker is the service that computes insights at a site.",
  site: "A site is a place where points are stored together, such as a bus depot or a street.",
  enabler: "The enabler is the service that checks insights, decides which worker computes them, and serves this console.",
  lag: "For how long the oldest missing result has been due; 0: none is missing. A result is due as soon as all its points can have arrived, about a second after its time.",
  traffic: "The data rate of the fragments that compute the insight. All insights that share these fragments have the same figure.",
  salience: "The importance of an insight, 0 to 100, which its text sets by WITH SALIENCE. An overloaded worker pauses insights of the lowest salience first.",
  owner: "Who submitted the deployment. “token of the fog”: somebody with the token that all services share, or without a token.",
};

const WIDTH = 300;
/** The time (ms) in which the mouse can move from an element to its tip. */
const LEAVE_MS = 250;
let count = 0;
/** Hides the tip that is shown now, so that there is never more than one. */
let hideShown = () => {};

/**
 * Show a text beside an element while the mouse is on it or on the text, or the focus on it:
 * {on, tip}, the properties of the element, and what it contains at its end.
 */
export function useTip(text) {
  const [place, setPlace] = useState(null);
  const id = useRef("");
  const leaving = useRef(0);
  useEffect(() => () => clearTimeout(leaving.current), []);
  id.current ||= `tip-${(count += 1)}`;
  useEffect(() => {
    if (place === null) return undefined;
    const hide = () => setPlace(null);
    const onKey = ({key}) => key === "Escape" && hide();
    // The tip stays where it is while the page moves below it.
    addEventListener("scroll", hide, true);
    // The focus may be elsewhere while the mouse shows the tip.
    addEventListener("keydown", onKey);
    return () => {
      removeEventListener("scroll", hide, true);
      removeEventListener("keydown", onKey);
    };
  }, [place]);
  if (!text) return {on: {}, tip: null};
  const stay = () => clearTimeout(leaving.current);
  const leave = () => {
    stay();
    leaving.current = setTimeout(hide, LEAVE_MS);
  };
  const hide = () => {
    stay();
    setPlace(null);
  };
  const show = ({currentTarget}) => {
    if (hideShown !== hide) hideShown();
    hideShown = hide;
    stay();
    const {left, top, bottom} = currentTarget.getBoundingClientRect();
    const isLow = bottom > innerHeight - 140;
    setPlace({
      left: `${Math.max(8, Math.min(left, innerWidth - WIDTH - 12))}px`,
      ...(isLow ? {bottom: `${innerHeight - top + 6}px`} : {top: `${bottom + 6}px`}),
    });
  };
  const on = {
    onMouseEnter: show, onFocus: show, onMouseLeave: leave, onBlur: hide,
    onKeyDown: ({key}) => key === "Escape" && hide(),
    "aria-describedby": place ? id.current : undefined,
  };
  return {on, tip: place && html`<span role="tooltip" id=${id.current} class="tip" style=${place}
    onMouseEnter=${stay} onMouseLeave=${leave}>${text}</span>`};
}

/** A term with its meaning. */
export function Term({name, children}) {
  const {on, tip} = useTip(TERMS[name]);
  return html`<span class="term" tabindex="0" ...${on}>${children}${tip}</span>`;
}
