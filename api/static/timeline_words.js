// What do timelines say without their picture? A sentence for each, a legend of the kinds, a row for each rank.
"use strict";

window.timelineWords = (function () {
  function duration(seconds) {
    const [size, unit] = window.timelinePicture.unitOf(seconds);
    return (seconds / size).toLocaleString("en", { maximumSignificantDigits: 4 }) + "\u00a0" + unit;
  }

  function percent(share) {
    return (100 * share).toFixed(1) + "\u00a0%";
  }

  function measure(model) {
    const { columns, memory } = model;
    const ranks = Array.from({ length: model.depth }, (_, rank) => ({ rank, busy: 0, live: 0, held: memory.always[rank] }));
    for (let at = 0; at < model.count; at++) {
      const entry = ranks[columns.rank[at]];
      if (columns.half[at] !== 2) entry.busy += model.end[at] - model.start[at];
      entry.live = Math.max(entry.live, columns.live[at]);
    }
    for (const entry of ranks) {
      for (let at = memory.starts[entry.rank]; at < memory.starts[entry.rank + 1]; at++) entry.held = Math.max(entry.held, memory.level[at]);
    }
    return ranks;
  }

  function sentence(model, ranks) {
    const busiest = ranks.reduce((one, other) => (other.busy > one.busy ? other : one));
    const laziest = ranks.reduce((one, other) => (other.busy < one.busy ? other : one));
    const idle = 1 - ranks.reduce((sum, entry) => sum + entry.busy, 0) / (model.depth * model.makespan);
    const long = model.source.iterations > 1 ? `${model.source.iterations} iterations take` : "The iteration takes";
    const rest = model.depth > 1 ? `, rank ${laziest.rank} the least at ${percent(laziest.busy / model.makespan)}` : "";
    return `${long} ${duration(model.makespan)}; the ranks idle ${percent(idle)} of it on average. ` +
      `Rank ${busiest.rank} computes the most, ${duration(busiest.busy)} or ${percent(busiest.busy / model.makespan)}${rest}.`;
  }

  function against([one, other]) {
    const period = ({ model }) => model.makespan / model.source.iterations;
    const longer = period(other) / period(one) - 1, held = [one, other].map(({ model }) => window.timelineMemory.amount(model.memory, model.memory.most));
    const same = Math.abs(longer) < 0.0005, told = same ? "as long" : `${percent(Math.abs(longer))} ${longer > 0 ? "longer" : "shorter"}`;
    return `Beside it ${other.title.replace(/^\d+\. /, "")}: ${same ? "just " : ""}${told}, ${duration(period(other))} against ${duration(period(one))}; ` +
      `its fullest rank holds ${held[1]} between operations, against ${held[0]}.`;
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

  function legend(lanes) {
    const pictures = window.timelinePicture.KINDS, both = lanes.some(({ model }) => model.source.pipes > 1), items = [];
    for (const [name, { colour, words }] of Object.entries(pictures)) {
      if (!lanes.some(({ model }) => model.columns.kind.includes(model.source.kinds.indexOf(name)))) continue;
      const ways = both && !["UPDATE", "RECOMPUTE"].includes(name);
      items.push(key(ways ? ["fill-" + colour, "fill-" + colour + "-up"] : ["fill-" + colour], ways ? words + ", down and up" : words));
    }
    if (lanes.some(({ model }) => model.source.collectives.rank.length)) items.push(key(["fill-all_reduce"], "Gradient synchronisation"));
    const bytes = lanes.some(({ model }) => model.memory.inBytes);
    items.push(key(["fill-idle"], "Idle"), key(["fill-held-by-all"], bytes ? "Memory held by every rank" : "Micro-batches alive on every rank"), key(["fill-framework"], "by some, up to the fullest"));
    return items;
  }

  function describe(model, found) {
    if (found.memoryAt !== undefined) return [`Memory at ${duration(found.memoryAt)}`, ...window.timelineMemory.tell(model, found.memoryAt)];
    if (found.at < 0) {
      if (found.sync === undefined) return ["Idle", `rank ${found.rank}`, `starts at ${duration(found.from)}, lasts ${duration(found.to - found.from)}`];
      const { start, end, group } = model.source.collectives, at = found.sync;
      const what = group[at] < model.source.stages ? `stage ${group[at]}` : "tied parameters";
      return ["Gradient synchronisation", `rank ${found.rank}, ${what}`, `starts at ${duration(start[at])}, takes ${duration(end[at] - start[at])}`];
    }
    const { columns, source, memory } = model, at = found.at, kind = source.kinds[columns.kind[at]], rank = columns.rank[at];
    const words = window.timelinePicture.KINDS[kind] ? window.timelinePicture.KINDS[kind].words : kind;
    const pipe = source.pipes > 1 ? `, pipe ${columns.pipe[at]} (${columns.pipe[at] % 2 ? "up" : "down"})` : "";
    const held = memory.inBytes ? `, ${window.timelineMemory.amount(memory, window.timelineMemory.at(memory, rank, model.end[at]))} held` : "";
    return [
      kind === "UPDATE" ? words : `${words} of micro-batch ${columns.micro_batch[at]}`,
      `rank ${rank}, stage ${columns.stage[at]}${pipe}`,
      `starts at ${duration(model.start[at])}, takes ${duration(model.end[at] - model.start[at])}`,
      `${columns.live[at]} micro-batches alive after it${held}${model.critical[at] ? "; on the critical path" : ""}`,
    ];
  }

  function write(view, lanes) {
    const { model } = lanes[0], ranks = measure(model), words = [sentence(model, ranks)];
    if (lanes.length > 1) words.push(against(lanes));
    view.querySelector("#timeline-words").textContent = words.join(" ");
    view.querySelector("#timeline-canvas").setAttribute("aria-label", `Timeline of ${lanes.map(({ title }) => title).join(", and below it ")}. ${words.join(" ")}`);
    view.querySelector(".keys").replaceChildren(...legend(lanes));
    const body = view.querySelector("tbody");
    body.replaceChildren();
    for (const { rank, busy, live, held } of ranks) {
      const row = body.insertRow(), idle = model.makespan - busy;
      for (const text of [rank, duration(busy), duration(idle), percent(idle / model.makespan), live, model.memory.inBytes ? window.timelineMemory.amount(model.memory, held) : "–"]) {
        const cell = row.insertCell();
        cell.className = "number";
        cell.textContent = text;
      }
    }
  }

  return { duration, describe, write };
})();
