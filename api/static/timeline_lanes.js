// Which timelines are shown? The choice, and below it what the reader picks: another candidate or a measured trial.
"use strict";

(function () {
  const { view, start } = window.timeline || {};
  if (!view) return;
  const words = document.getElementById("timeline-words"), beside = document.getElementById("timeline-beside");
  const trouble = document.getElementById("timeline-trouble"), kept = new Map();
  let first = null, asked = 0;

  function embedded(id) {
    const found = document.getElementById(id);
    return found ? JSON.parse(found.textContent) : null;
  }

  function title(option) {
    return option.dataset.title || option.textContent.trim();
  }

  async function ask(address) {
    if (!kept.has(address)) {
      const answer = await window.chimera.send("GET", address);
      const body = await answer.json();
      if (!answer.ok) throw new Error(body.detail || body.title);
      kept.set(address, body);
    }
    return kept.get(address);
  }

  // The latest choice wins, whichever answer comes last.
  async function compare() {
    const option = beside.selectedOptions[0], mine = ++asked;
    trouble.textContent = "";
    if (!option.value) { start([first]); return; }
    beside.setAttribute("aria-busy", "true");
    try {
      const source = view.dataset.source ? await ask(view.dataset.source + option.value) : embedded(option.value);
      if (mine === asked) start([first, { source, title: title(option) }]);
    } catch (error) {
      if (mine !== asked) return;
      start([first]);
      trouble.textContent = `No picture of ${title(option)}: ${error.message}`;
    } finally {
      if (mine === asked) beside.removeAttribute("aria-busy");
    }
  }

  function begin(source) {
    first = { source, title: view.dataset.title };
    start([first]);
    if (beside) {
      beside.addEventListener("change", compare);
      if (beside.value) compare(); // As the browser remembers it.
    }
  }

  async function fetchThenBegin() {
    try {
      begin(await ask(view.dataset.source));
    } catch (error) {
      words.append(` No picture: ${error.message}.`);
    }
  }

  const here = embedded("timeline-document");
  if (here) begin(here);
  else if (view.dataset.source) {
    // A timeline costs the service a simulation: only for those who come near it.
    const watch = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watch.disconnect();
      fetchThenBegin();
    }, { rootMargin: "800px" });
    watch.observe(view);
  }
})();
