// The colours of the insight language and of SQL in the editor, and its invisible characters.

import {HighlightStyle, StreamLanguage, highlightSpecialChars, syntaxHighlighting, tags} from "../vendor/editor.js";
import {INVISIBLE, visible} from "../app/format.js";

const KEYWORDS = new Set(
  ("compute by when every with from and or not in insight function stream window offset at points scheduler " +
    "placement_on dedicated cost_cap per allow signature salience sample max_error confidence adam awareness on " +
    "accuracy computations algorithm k r true false storage").split(" "),
);
const UNITS = new Set(
  "ms millisecond milliseconds second seconds minute minutes hour hours day days week weeks".split(" "),
);
const SQL_KEYWORDS = new Set(
  ("select from where group by order limit as and or not in is null on join left right inner outer full cross " +
    "using having union all distinct with case when then else end between like ilike asc desc offset values " +
    "describe summarize filter over partition qualify interval cast").split(" "),
);

/** Return a language of words, numbers, texts and comments; keywords are case-insensitive. */
function language(keywords, units, textQuote, lineComment) {
  return StreamLanguage.define({
    startState: () => ({inComment: false}),
    token(stream, state) {
      if (state.inComment) {
        if (stream.skipTo("*/")) {
          stream.match("*/");
          state.inComment = false;
        } else {
          stream.skipToEnd();
        }
        return "comment";
      }
      if (stream.eatSpace()) return null;
      if (stream.match("/*")) {
        state.inComment = true;
        return "comment";
      }
      if (stream.match(lineComment)) {
        stream.skipToEnd();
        return "comment";
      }
      const quote = stream.match(/^["']/);
      if (quote) {
        stream.match(quote[0] === '"' ? /^(?:[^"\\]|\\.)*"?/ : /^(?:[^'\\]|\\.)*'?/);
        return textQuote.includes(quote[0]) ? "string" : "variableName";
      }
      if (stream.match(/^\d+(\.\d+)?([eE][+-]?\d+)?/)) return "number";
      const word = stream.match(/^[A-Za-z_][\w.]*(-K)?/);
      if (word) {
        const lower = word[0].toLowerCase();
        if (keywords.has(lower)) return "keyword";
        if (units.has(lower)) return "number";
        return stream.match(/^\s*[[(]/, false) ? "typeName" : "variableName";
      }
      stream.next();
      return "operator";
    },
    languageData: {commentTokens: {line: "--", block: {open: "/*", close: "*/"}}},
  });
}

export const insightLanguage = language(KEYWORDS, UNITS, `"'`, /^(--|\/\/)/);
export const sqlLanguage = language(SQL_KEYWORDS, new Set(), "'", /^--/);

/** Shows the characters by code that are invisible or reorder others, as `visible` does. */
export const legible = highlightSpecialChars({
  specialChars: INVISIBLE,
  render: (code, description) => {
    const element = document.createElement("span");
    element.className = "cm-specialChar";
    element.textContent = visible(String.fromCodePoint(code));
    element.title = description;
    return element;
  },
});

export const colours = syntaxHighlighting(
  HighlightStyle.define([
    {tag: tags.keyword, color: "var(--token-keyword)", fontWeight: "600"},
    {tag: tags.typeName, color: "var(--token-function)", fontWeight: "600"},
    {tag: tags.number, color: "var(--token-number)"},
    {tag: tags.string, color: "var(--token-string)"},
    {tag: tags.comment, color: "var(--token-comment)", fontStyle: "italic"},
  ]),
);
