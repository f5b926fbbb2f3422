// How does the page of a study follow it? It listens to the study's events, and fetches its state when one comes.
"use strict";

(function () {
  const live = document.getElementById("live");
  const said = document.getElementById("said");
  if (!live || !live.dataset.events || !window.EventSource) return;
  const FIRST_PAUSE_MS = 1000;
  const LONGEST_PAUSE_MS = 30000;
  let pause = FIRST_PAUSE_MS;
  let waiting = null;
  let again = false;

  async function refresh() {
    let answer;
    try {
      answer = await chimera.send("GET", live.dataset.state, undefined, { headers: { Accept: "text/html" } });
    } catch {
      return; // The stream finds out when the service is back.
    }
    if (!answer.ok) return;
    const text = await answer.text();
    const tops = [...live.querySelectorAll(".scroll")].map((part) => part.scrollLeft);
    live.innerHTML = text;
    [...live.querySelectorAll(".scroll")].forEach((part, at) => { part.scrollLeft = tops[at] ?? 0; });
  }

  // Events come in bunches: one fetch answers them all.
  function soon() {
    if (waiting !== null) { again = true; return; }
    waiting = setTimeout(async () => {
      await refresh();
      waiting = null;
      if (again) { again = false; soon(); }
    }, 150);
  }

  function isFinal(status) {
    return ["done", "failed", "cancelled"].includes(status);
  }

  // The browser comes back by itself where the network failed, and never where an answer was none: a proxy's page
  // while the service starts anew, or that the key is not known any more.
  function listen() {
    const source = new EventSource(live.dataset.events);
    source.addEventListener("status", (event) => {
      const status = JSON.parse(event.data).status;
      said.textContent = `The study is ${status}.`;
      if (!isFinal(status)) return soon();
      source.close();
      location.reload(); // The report takes the place of this page.
    });
    source.addEventListener("trial", soon);
    source.addEventListener("note", soon);
    source.addEventListener("waiting", soon);
    source.addEventListener("open", () => { pause = FIRST_PAUSE_MS; });
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED) return;
      soon();
      setTimeout(listen, pause);
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    });
  }

  listen();
})();
