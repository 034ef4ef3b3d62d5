// The parts of CodeMirror that the console uses.
export {EditorState, Compartment, StateEffect, StateField, Prec} from "@codemirror/state";
export {
  EditorView, keymap, lineNumbers, drawSelection, highlightActiveLine, placeholder, tooltips,
  highlightSpecialChars,
} from "@codemirror/view";
export {defaultKeymap, history, historyKeymap, indentWithTab} from "@codemirror/commands";
export {
  autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, startCompletion,
} from "@codemirror/autocomplete";
export {
  HighlightStyle, StreamLanguage, bracketMatching, syntaxHighlighting,
} from "@codemirror/language";
export {lintGutter, lintKeymap, setDiagnostics} from "@codemirror/lint";
export {MergeView, unifiedMergeView} from "@codemirror/merge";
export {tags} from "@lezer/highlight";
