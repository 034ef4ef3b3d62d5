// The text editor: CodeMirror in a shadow root, where its styles are style sheets of scripts, which
// the Content-Security-Policy permits, and not style elements.

import {html, useEffect, useRef} from "../vendor/interface.js";
import {
  EditorState, EditorView, autocompletion, bracketMatching, closeBrackets, closeBracketsKeymap,
  completionKeymap, defaultKeymap, drawSelection, highlightActiveLine, history, historyKeymap, keymap,
  lineNumbers, lintGutter, lintKeymap, placeholder, setDiagnostics,
} from "../vendor/editor.js";
import {visibleLines} from "../app/format.js";
import {colours, legible} from "./highlight.js";

const THEME = EditorView.theme({
  "&": {backgroundColor: "var(--surface)", color: "var(--text)", fontSize: "13.5px"},
  "&.cm-focused": {outline: "none"},
  ".cm-scroller": {fontFamily: "var(--mono)", lineHeight: "1.6"},
  ".cm-content": {caretColor: "var(--text)", padding: "10px 0"},
  ".cm-cursor": {borderLeftColor: "var(--text)", borderLeftWidth: "2px"},
  ".cm-gutters": {backgroundColor: "var(--sunken)", color: "var(--dim)", border: "0"},
  ".cm-activeLine, .cm-activeLineGutter": {backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)"},
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground":
    {backgroundColor: "color-mix(in srgb, var(--accent) 28%, transparent)"},
  ".cm-tooltip": {
    backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line-strong)",
    borderRadius: "6px", overflow: "hidden", boxShadow: "0 6px 24px rgb(0 0 0 / 18%)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": {fontFamily: "var(--mono)", maxHeight: "15em"},
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": {padding: "3px 10px", display: "flex", gap: "10px", maxWidth: "560px"},
  ".cm-tooltip-autocomplete ul li[aria-selected]": {backgroundColor: "var(--accent)", color: "var(--accent-text)"},
  ".cm-completionLabel": {flex: "none", maxWidth: "300px", overflow: "hidden", textOverflow: "ellipsis"},
  ".cm-completionDetail": {marginLeft: "auto", fontStyle: "normal", opacity: "0.8", overflow: "hidden", textOverflow: "ellipsis", fontFamily: "var(--font)"},
  ".cm-diagnostic": {padding: "8px 12px", fontFamily: "var(--font)", fontSize: "13px", whiteSpace: "pre-wrap", maxWidth: "520px"},
  ".cm-diagnostic-error": {borderLeft: "4px solid var(--bad)"},
  ".cm-diagnostic-warning": {borderLeft: "4px solid var(--warn)"},
  ".cm-lintRange-error": {backgroundImage: "none", textDecoration: "underline wavy var(--bad) 1.5px", textUnderlineOffset: "4px"},
  ".cm-lintRange-warning": {backgroundImage: "none", textDecoration: "underline wavy var(--warn) 1.5px", textUnderlineOffset: "4px"},
  ".cm-placeholder": {color: "var(--dim)"},
  ".cm-specialChar": {color: "var(--bad)"},
  ".cm-matchingBracket": {backgroundColor: "var(--accent-soft) !important"},
});

/** Return the offset in a document of a place: line and column from 1, columns in code points. */
export function offsetOf(doc, line, column) {
  const at = doc.line(Math.min(Math.max(line, 1), doc.lines));
  const before = [...at.text].slice(0, column - 1).join("");
  return Math.min(at.from + before.length, at.to);
}

/** Return the place of an offset: line and column from 1, columns in code points. */
export function placeOf(doc, offset) {
  const at = doc.lineAt(offset);
  return {line: at.number, column: [...at.text.slice(0, offset - at.from)].length + 1};
}

/** Convert problems of the API to marks of CodeMirror; a problem without a range marks a character. */
export function marksOf(doc, problems) {
  return problems.map((each) => {
    const from = offsetOf(doc, each.line, each.column);
    const to = offsetOf(doc, each.line, each.column + each.length);
    const isEmpty = to <= from;
    return {
      from: isEmpty && from === doc.length ? Math.max(0, from - 1) : from,
      to: isEmpty ? Math.min(from + 1, doc.length) : to,
      severity: each.severity,
      message: visibleLines([each.message, each.hint].filter(Boolean).join("\n")),
    };
  });
}

/** Return whether an event of a mouse is in the scrollbar of its target. */
const isInScrollbar = ({target, offsetX, offsetY}) =>
  offsetX >= target.clientLeft + target.clientWidth || offsetY >= target.clientTop + target.clientHeight;

/**
 * @param {{value: string, onChange: (text: string) => void, language: object, label: string,
 *   complete?: (context: object) => Promise<object|null>, problems?: object[], empty?: string,
 *   onRun?: () => void, minHeight?: string, handle?: {current: object}}} props
 *   `value` replaces the text if it is not one that was typed. `handle` gets {insert, focus}.
 */
export function TextEditor({value, onChange, language, label, complete, problems, empty = "", onRun, minHeight = "180px", handle}) {
  const host = useRef(null);
  const view = useRef(null);
  const latest = useRef({});
  /** The texts that were typed and reported, and of which `value` may be a late echo. */
  const typed = useRef(new Set());
  const isReplaced = useRef(false);
  latest.current = {onChange, complete, onRun};

  useEffect(() => {
    const root = host.current.shadowRoot ?? host.current.attachShadow({mode: "open"});
    // Tab takes a completion while the list is open, and else moves to the next element.
    const take = {key: "Tab", run: completionKeymap.find((each) => each.key === "Enter").run};
    const run = {key: "Mod-Enter", run: () => (latest.current.onRun?.(), true)};
    const state = EditorState.create({
      doc: value,
      extensions: [
        lineNumbers(), legible, history(), drawSelection(), bracketMatching(),
        closeBrackets(), highlightActiveLine(), EditorView.lineWrapping, language, colours, THEME,
        placeholder(empty), lintGutter(),
        ...(complete ? [autocompletion({override: [(context) => latest.current.complete(context)], activateOnTypingDelay: 150, icons: false})] : []),
        keymap.of([run, take, ...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...lintKeymap, ...defaultKeymap]),
        EditorView.contentAttributes.of({"aria-label": label, spellcheck: "false", autocapitalize: "off"}),
        EditorView.theme({"& .cm-scroller": {maxHeight: "60vh"}, "& .cm-content, & .cm-gutter": {minHeight}}),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged || isReplaced.current) return;
          const text = update.state.doc.toString();
          typed.current.add(text);
          latest.current.onChange(text);
        }),
      ],
    });
    view.current = new EditorView({state, root, parent: root});
    // What is no text, as the numbers of lines, must not take the keyboard from it.
    view.current.dom.addEventListener("mousedown", (event) => {
      if (view.current.contentDOM.contains(event.target) || event.target.closest(".cm-tooltip") || isInScrollbar(event)) return;
      event.preventDefault();
      view.current.focus();
    });
    if (handle) {
      handle.current = {
        insert: (text) => {
          view.current.dispatch(view.current.state.replaceSelection(text));
          view.current.focus();
        },
        focus: () => view.current.focus(),
        select: (from, to) => {
          view.current.dispatch({selection: {anchor: from, head: to}, scrollIntoView: true});
          view.current.focus();
        },
        doc: () => view.current.state.doc,
      };
    }
    return () => view.current.destroy();
  }, []);

  useEffect(() => {
    const {doc} = view.current.state;
    if (value === doc.toString()) typed.current.clear();
    else if (!typed.current.has(value)) {
      // Not reported as typed: else two texts could replace each other forever.
      isReplaced.current = true;
      view.current.dispatch({changes: {from: 0, to: doc.length, insert: value}});
      isReplaced.current = false;
    }
  }, [value]);

  useEffect(() => {
    if (!problems) return;
    view.current.dispatch(setDiagnostics(view.current.state, marksOf(view.current.state.doc, problems)));
  }, [problems]);

  return html`<div class="editor" ref=${host}></div>`;
}
