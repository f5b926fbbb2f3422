// How do the scripts of a page ask the service? As JSON, with the token that shows a session's own page asks.
"use strict";

window.chimera = (function () {
  function told(name) {
    return document.querySelector(`meta[name="${name}"]`)?.content ?? "";
  }

  function headers(body, more) {
    const sent = { Accept: "application/json", ...more };
    const token = told("csrf-token");
    if (token) sent["X-CSRF-Token"] = token;
    if (body !== undefined) sent["Content-Type"] = "application/json";
    return sent;
  }

  // Whose session ended signs in and comes back here. Where nobody signs in, the answer is for who asked.
  function signIn() {
    const login = told("login");
    if (!login) return;
    location.assign(`${login}?next=${encodeURIComponent(location.pathname + location.search)}`);
  }

  // The Response of fetch, also where it tells of a problem; `body` is sent as JSON. `options` are fetch's.
  async function send(method, url, body, { headers: more, ...options } = {}) {
    const answer = await fetch(url, {
      method,
      headers: headers(body, more),
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      ...options,
    });
    if (answer.status === 401) signIn();
    return answer;
  }

  return { send };
})();
