// What does a timeline say without its picture? A sentence, a legend of the kinds it has, and a row for each rank.
"use strict";

window.timelineWords = (function () {
  function measure(model) {
    const { columns, source } = model;
    const ranks = Array.from({ length: source.depth }, (_, rank) => ({ rank, busy: 0, live: 0 }));
    for (let at = 0; at < model.count; at++) {
      const entry = ranks[columns.rank[at]];
      if (columns.half[at] !== 2) entry.busy += model.end[at] - model.start[at];
      entry.live = Math.max(entry.live, columns.live[at]);
    }
    return ranks;
  }

  function sentence(model, ranks, { duration, percent }) {
    const busiest = ranks.reduce((one, other) => (other.busy > one.busy ? other : one));
    const laziest = ranks.reduce((one, other) => (other.busy < one.busy ? other : one));
    const idle = 1 - ranks.reduce((sum, entry) => sum + entry.busy, 0) / (model.depth * model.makespan);
    const long = model.source.iterations > 1 ? `${model.source.iterations} iterations take` : "The iteration takes";
    const rest = model.depth > 1 ? `, rank ${laziest.rank} the least at ${percent(laziest.busy / model.makespan)}` : "";
    return `${long} ${duration(model.makespan)}; the ranks idle ${percent(idle)} of it on average. ` +
      `Rank ${busiest.rank} computes the most, ${duration(busiest.busy)} or ${percent(busiest.busy / model.makespan)}${rest}.`;
  }

  function key(classes, words) {
    const item = document.createElement("li");
    for (const name of classes) {
      const swatch = document.createElement("span");
      swatch.className = "swatch " + name;
      item.append(swatch);
    }
    item.append(" " + words);
    return item;
  }

  function legend(model) {
    const kinds = new Set(model.columns.kind), names = model.source.kinds.filter((_, kind) => kinds.has(kind));
    const items = names.map((name) => {
      const { colour, words } = window.timelinePicture.KINDS[name];
      const both = model.source.pipes > 1 && !["UPDATE", "RECOMPUTE"].includes(name);
      return key(both ? ["fill-" + colour, "fill-" + colour + "-up"] : ["fill-" + colour], both ? words + ", down and up" : words);
    });
    if (model.source.collectives.rank.length) items.push(key(["fill-all_reduce"], "Gradient synchronisation"));
    return [...items, key(["fill-idle"], "Idle")];
  }

  function write(view, model, { duration, percent }) {
    const ranks = measure(model), words = sentence(model, ranks, { duration, percent });
    view.querySelector("#timeline-words").textContent = words;
    view.querySelector("#timeline-canvas").setAttribute("aria-label", `Timeline of ${view.dataset.schedule} on ${model.depth} ranks. ${words}`);
    view.querySelector(".keys").replaceChildren(...legend(model));
    const body = view.querySelector("tbody");
    for (const { rank, busy, live } of ranks) {
      const row = body.insertRow(), idle = model.makespan - busy;
      for (const text of [rank, duration(busy), duration(idle), percent(idle / model.makespan), live]) {
        const cell = row.insertCell();
        cell.className = "number";
        cell.textContent = text;
      }
    }
  }

  return { write };
})();
