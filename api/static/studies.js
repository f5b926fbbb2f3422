// How does the list of studies keep up? Rows that go on are fetched again, and two to four ticks make a comparison.
"use strict";

(function () {
  const form = document.getElementById("comparing");
  if (!form) return;
  const rows = document.getElementById("study-rows");
  const ticked = document.getElementById("ticked");
  const button = form.querySelector("[type=submit]");
  const EVERY_MS = 3000;
  const MOST = 4;
  const ADDRESS_HOLDS = 25;

  function count() {
    const chosen = rows.querySelectorAll("[name=ids]:checked").length;
    button.disabled = chosen < 2 || chosen > MOST;
    ticked.textContent = chosen > MOST ? `${chosen} are ticked, and at most ${MOST} stand side by side.` : chosen > 1 ? `${chosen} are ticked.` : "Tick two to four.";
  }

  function goesOn() {
    return [...rows.querySelectorAll("[data-goes-on]")].slice(0, ADDRESS_HOLDS);
  }

  // What has the focus or a tick keeps it.
  function replace(fresh) {
    const old = rows.querySelector(`tr[data-id="${CSS.escape(fresh.dataset.id)}"]`);
    if (!old || old.outerHTML === fresh.outerHTML) return;
    const focus = old.contains(document.activeElement) ? [...old.querySelectorAll("a, input")].indexOf(document.activeElement) : -1;
    fresh.querySelector("[name=ids]").checked = old.querySelector("[name=ids]").checked;
    old.replaceWith(fresh);
    if (focus >= 0) fresh.querySelectorAll("a, input")[focus]?.focus();
  }

  async function refresh() {
    const waiting = goesOn();
    if (!waiting.length) return;
    if (!document.hidden) {
      try {
        const ids = waiting.map((row) => row.dataset.id).join(",");
        const answer = await chimera.send("GET", `${form.dataset.rows}?ids=${encodeURIComponent(ids)}`, undefined, { headers: { Accept: "text/html" } });
        if (answer.ok) {
          const read = document.createElement("template");
          read.innerHTML = await answer.text();
          read.content.querySelectorAll("tr[data-id]").forEach(replace);
        }
      } catch {
        // The next try finds out when the service is back.
      }
    }
    setTimeout(refresh, EVERY_MS);
  }

  rows.addEventListener("change", count);
  window.addEventListener("pageshow", count);
  count();
  setTimeout(refresh, EVERY_MS);
})();
