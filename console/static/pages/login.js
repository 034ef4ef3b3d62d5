// The login: a token becomes a session cookie that scripts cannot read.

import {html, useState} from "../vendor/interface.js";
import {hasEnded, logIn} from "../app/session.js";
import {useStore} from "../app/store.js";
import {ErrorNotice} from "../parts/ui.js";

export function LoginPage() {
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const isEnded = useStore(hasEnded);
  const submit = async (event) => {
    event.preventDefault();
    const token = new FormData(event.target).get("token").trim();
    if (!/^[\x21-\x7e]+$/.test(token)) {
      setError({message: "A token consists of letters, digits and signs, without spaces."});
      return;
    }
    setBusy(true);
    try {
      await logIn(token);
    } catch (failure) {
      setError(failure.status === 401 ? {message: "This token is not valid here, or has expired."} : failure);
      setBusy(false);
    }
  };
  return html`
    <main class="login stack">
      <h1>Log in to Mistbow</h1>
      ${isEnded && html`<div class="notice" role="status">Your session has ended. After the login, the console continues at the same page, with the text that you wrote.</div>`}
      <form class="stack" onSubmit=${submit}>
        <label class="field">Token
          <input class="input" name="token" type="password" autocomplete="current-password" required autofocus />
        </label>
        <${ErrorNotice} error=${error} />
        <button class="button main-action" disabled=${isBusy}>Log in</button>
      </form>
      <p class="small dim">
        The operator of the fog creates tokens: <code>mistbow token add NAME --scope read</code>. With the scope
        read you see everything; with the scope admin you also deploy insights.
      </p>
    </main>`;
}
