// Starts the console; states when its files do not arrive, as while the enabler restarts.

const RETRY_MS = 3000;

import("./main.js").catch((error) => {
  console.error(error);
  const notice = document.querySelector("#app .starting");
  // Without the notice, the console was drawn already: another load would fail in the same way.
  if (!notice) throw error;
  notice.textContent = "The console cannot be loaded. This page tries again …";
  // A module that has failed once fails again until the page is loaded anew.
  setTimeout(() => location.reload(), RETRY_MS);
});
