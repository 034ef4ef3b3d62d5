// The differences between two texts, line by line beside each other.

import {html, useEffect, useRef} from "../vendor/interface.js";
import {EditorState, EditorView, MergeView, lineNumbers} from "../vendor/editor.js";
import {colours, insightLanguage, legible} from "./highlight.js";

const THEME = EditorView.theme({
  "&": {backgroundColor: "var(--surface)", color: "var(--text)", fontSize: "12.5px"},
  ".cm-scroller": {fontFamily: "var(--mono)"},
  ".cm-gutters": {backgroundColor: "var(--sunken)", color: "var(--dim)", border: "0"},
  ".cm-specialChar": {color: "var(--bad)"},
  "&.cm-merge-a .cm-changedLine": {backgroundColor: "var(--bad-soft)"},
  "&.cm-merge-b .cm-changedLine": {backgroundColor: "var(--good-soft)"},
  // A line below, since a darker background would leave too little contrast to the colours of words.
  "&.cm-merge-a .cm-changedText": {background: "linear-gradient(var(--bad), var(--bad)) bottom/100% 2px no-repeat"},
  "&.cm-merge-b .cm-changedText": {background: "linear-gradient(var(--good), var(--good)) bottom/100% 2px no-repeat"},
});

/** @param {{before: string, after: string, labels?: [string, string]}} props */
export function Diff({before, after, labels = ["Text before the amendment", "Text after the amendment"]}) {
  const host = useRef(null);
  useEffect(() => {
    const root = host.current.shadowRoot ?? host.current.attachShadow({mode: "open"});
    const extensions = (label) => [
      lineNumbers(), legible, EditorView.lineWrapping, EditorState.readOnly.of(true), insightLanguage, colours, THEME,
      EditorView.contentAttributes.of({"aria-label": label}),
    ];
    const view = new MergeView({
      a: {doc: before, extensions: extensions(labels[0])},
      b: {doc: after, extensions: extensions(labels[1])},
      root,
      parent: root,
      highlightChanges: true,
      collapseUnchanged: {margin: 2, minSize: 4},
    });
    return () => view.destroy();
  }, [before, after]);
  return html`<div class="editor diff" ref=${host}></div>`;
}
