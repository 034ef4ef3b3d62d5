// Tries what a web page can do to a service: returns the answers that the page can read, as
// [what, status, text], and changes what it can.
async (service, entity) => {
  const read = [];
  const point = { entityID: entity, metricID: "m", val: 1, timestamp: Date.now(), desc: "=" };
  const body = JSON.stringify({ monitoring: [point] });

  const attempt = async (what, path, options) => {
    try {
      const answer = await fetch(new URL(path, service), options);
      if (answer.type !== "opaque") read.push([what, answer.status, await answer.text()]);
    } catch {
      // The page cannot read the answer.
    }
  };
  const loaded = (element) =>
    new Promise((done) => {
      element.onload = element.onerror = () => done(element);
      document.body.append(element);
    });

  // Requests that a browser sends without asking the service first.
  const types = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""];
  for (const type of types) {
    const sent = new Blob([body], { type });
    await attempt(`put as ${type}`, "/put", { method: "POST", mode: "no-cors", body: sent });
    await attempt(`put as ${type}, to read`, "/put", { method: "POST", body: sent });
  }
  navigator.sendBeacon(service + "/put", body);
  const isAnswered = () =>
    performance.getEntriesByType("resource").some((each) => each.initiatorType === "beacon");
  const end = Date.now() + 20_000;
  while (!isAnswered()) {
    if (Date.now() > end) throw new Error("the beacon has no answer");
    await new Promise((done) => setTimeout(done, 10));
  }
  // The server of the page redirects this request: the browser sends the body to the service.
  const redirected = location.origin + "/redirect?to=" + encodeURIComponent(service + "/put");
  await attempt("redirected put", redirected, { method: "POST", mode: "no-cors", body });
  await attempt("claim", "/streams/victim/claim", { method: "POST", mode: "no-cors" });
  await attempt("get", "/streams");
  await attempt("get without CORS", "/streams", { mode: "no-cors" });
  await attempt("query", "/api/v1/query?query=secret");
  await attempt("list", "/list", { method: "POST", body: "{}" });

  // Requests that a browser sends only if the service permits them.
  const json = { "Content-Type": "application/json" };
  await attempt("put as JSON", "/put", { method: "POST", headers: json, body });
  await attempt("list as JSON", "/list", { method: "POST", headers: json, body: "{}" });
  await attempt("delete", "/monitoring", {
    method: "DELETE",
    headers: json,
    body: JSON.stringify({ entityID: "secret" }),
  });
  await attempt("configure", "/config", {
    method: "PUT",
    headers: json,
    body: JSON.stringify({ retention_s: 1 }),
  });
  await attempt("delete the stream", "/streams/victim", { method: "DELETE" });

  // Requests of elements.
  const frame = document.createElement("iframe");
  frame.name = "frame";
  frame.src = service + "/streams";
  await loaded(frame);
  const shown = () => {
    try {
      return frame.contentDocument && frame.contentDocument.body.innerText;
    } catch {
      return null; // of another origin
    }
  };
  if (shown()) read.push(["frame", 0, shown()]);
  const form = document.createElement("form");
  Object.assign(form, { action: service + "/put", method: "POST", target: "frame" });
  form.enctype = "text/plain";
  const field = document.createElement("input");
  [field.name, field.value] = body.split("=");
  form.append(field);
  document.body.append(form);
  const answered = new Promise((done) => (frame.onload = done));
  form.submit();
  await answered;
  for (const tag of ["script", "img"]) {
    await loaded(Object.assign(document.createElement(tag), { src: service + "/streams" }));
  }
  await new Promise((done) => {
    const events = new EventSource(service + "/streams/raw/events?from=0");
    const end = () => (events.close(), done());
    events.onerror = end;
    events.onopen = () => (read.push(["events", 200, ""]), end());
  });
  await new Promise((done) => {
    const socket = new WebSocket(service.replace("http", "ws") + "/streams/raw/events");
    socket.onerror = done;
    socket.onopen = () => (read.push(["socket", 101, ""]), socket.close(), done());
  });
  return read;
}
