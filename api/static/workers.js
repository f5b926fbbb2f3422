// How does the page of workers keep up? Its state is fetched again while it is looked at; jobs are cancelled in two clicks.
"use strict";

(function () {
  const state = document.getElementById("workers-state");
  const said = document.getElementById("said");
  const EVERY_MS = 5000;
  const SURE_MS = 5000;
  let asked = null;

  function forget() {
    if (!asked) return;
    clearTimeout(asked.timer);
    asked.button.textContent = "Cancel";
    asked.button.classList.remove("sure");
    asked = null;
  }

  function makeSure(button) {
    forget();
    button.textContent = "Really cancel?";
    button.classList.add("sure");
    asked = { button, timer: setTimeout(forget, SURE_MS) };
  }

  // What has the focus, and where tables are scrolled to, stays.
  function show(text) {
    if (state.dataset.shown === text) return;
    state.dataset.shown = text;
    const focused = state.contains(document.activeElement) ? document.activeElement.id : "";
    const lefts = [...state.querySelectorAll(".scroll")].map((part) => part.scrollLeft);
    state.innerHTML = text;
    [...state.querySelectorAll(".scroll")].forEach((part, at) => { part.scrollLeft = lefts[at] ?? 0; });
    if (focused) document.getElementById(focused)?.focus();
  }

  function inUse() {
    const focused = document.activeElement;
    return document.hidden || asked !== null || (state.contains(focused) && focused.matches("a, button") && !focused.id);
  }

  async function refresh() {
    try {
      const answer = await chimera.send("GET", state.dataset.state, undefined, { headers: { Accept: "text/html" } });
      if (answer.ok) show(await answer.text());
    } catch {
      // The next try finds out when the service is back.
    }
  }

  async function cancel(button) {
    forget();
    button.disabled = true;
    try {
      const answer = await chimera.send("POST", button.dataset.cancel);
      const told = await answer.json();
      said.textContent = answer.ok ? `Job ${told.id.slice(-8)} is ${told.status === "cancelled" ? "cancelled" : "being cancelled"}.` : told.detail;
      if (!answer.ok) button.replaceWith(told.detail);
    } catch (error) {
      said.textContent = `The service could not be reached: ${error.message}`;
      button.disabled = false;
    }
    await refresh();
  }

  state.addEventListener("click", (event) => {
    const button = event.target.closest("[data-cancel]");
    if (!button) return;
    if (asked?.button === button) cancel(button);
    else makeSure(button);
  });

  setInterval(() => { if (!inUse()) refresh(); }, EVERY_MS);
})();
