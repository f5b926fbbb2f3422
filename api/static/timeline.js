// How does a reader move through a timeline? Zoom, move, point at an operation; with mouse, finger or keys.
"use strict";

(function () {
  const view = document.getElementById("timeline-view");
  if (!view) return;
  const picture = window.timelinePicture;
  const canvas = document.getElementById("timeline-canvas"), tip = document.getElementById("timeline-tip");
  const told = document.getElementById("timeline-told"), critical = document.getElementById("timeline-critical");
  const pointers = new Map();
  let model = null, place = null, span = { from: 0, to: 1 }, chosen = -1, moved = false, waiting = false;

  function duration(seconds) {
    const [size, unit] = picture.unitOf(seconds);
    return (seconds / size).toLocaleString("en", { maximumSignificantDigits: 4 }) + "\u00a0" + unit;
  }

  function percent(share) {
    return (100 * share).toFixed(1) + "\u00a0%";
  }

  function draw() {
    waiting = false;
    if (!model) return;
    const before = performance.now();
    place = picture.draw(canvas, model, span, { critical: critical.checked, chosen });
    canvas.dataset.milliseconds = (performance.now() - before).toFixed(1);
    canvas.dataset.from = span.from;
    canvas.dataset.to = span.to;
  }

  function redraw() {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  }

  // Moves the window, kept inside the iteration and no narrower than a few of its operations.
  function show(from, length) {
    const least = Math.max(model.makespan * 1e-5, 2 * model.shortest), wide = Math.min(model.makespan, Math.max(least, length));
    const start = Math.min(Math.max(0, from), model.makespan - wide);
    span = { from: start, to: start + wide };
    redraw();
  }

  function zoom(factor, at = (span.from + span.to) / 2) {
    const length = Math.min(model.makespan, (span.to - span.from) / factor);
    show(at - (at - span.from) * (length / (span.to - span.from)), length);
  }

  function pan(share) {
    show(span.from + share * (span.to - span.from), span.to - span.from);
  }

  function timeAt(x) {
    return span.from + (x - place.left) / place.width * (span.to - span.from);
  }

  // The operation under a point; below 0 where the rank idles there, with what is known of the gap.
  function find(x, y) {
    const rank = Math.floor((y - place.top) / place.row), time = timeAt(x);
    if (rank < 0 || rank >= model.depth || x < place.left || x > place.left + place.width) return null;
    const [first, last] = [model.begins[rank], model.begins[rank + 1]];
    let at = picture.after(model.end, time, [first, last]);
    if (at < last && model.start[at] <= time) {
      const lower = y - place.top - rank * place.row > (place.row - place.gap) / 2;
      if (model.columns.half[at] === 1 && lower) at += 1;
      return { rank, at };
    }
    const { start, end } = model.source.collectives;
    const sync = model.syncs[rank].find((one) => start[one] <= time && time < end[one]);
    return { rank, at: -1, sync, from: at > first ? model.end[at - 1] : 0, to: at < last ? model.start[at] : model.makespan };
  }

  function describe(found) {
    if (found.at < 0) {
      if (found.sync === undefined) return ["Idle", `rank ${found.rank}`, `starts at ${duration(found.from)}, lasts ${duration(found.to - found.from)}`];
      const { start, end, group } = model.source.collectives, at = found.sync;
      const what = group[at] < model.source.stages ? `stage ${group[at]}` : "tied parameters";
      return ["Gradient synchronisation", `rank ${found.rank}, ${what}`, `starts at ${duration(start[at])}, takes ${duration(end[at] - start[at])}`];
    }
    const { columns, source } = model, at = found.at, kind = source.kinds[columns.kind[at]];
    const words = picture.KINDS[kind] ? picture.KINDS[kind].words : kind;
    const pipe = source.pipes > 1 ? `, pipe ${columns.pipe[at]} (${columns.pipe[at] % 2 ? "up" : "down"})` : "";
    return [
      kind === "UPDATE" ? words : `${words} of micro-batch ${columns.micro_batch[at]}`,
      `rank ${columns.rank[at]}, stage ${columns.stage[at]}${pipe}`,
      `starts at ${duration(model.start[at])}, takes ${duration(model.end[at] - model.start[at])}`,
      `${columns.live[at]} micro-batches alive after it${model.critical[at] ? "; on the critical path" : ""}`,
    ];
  }

  function point(found, x, y) {
    if (!found) { tip.hidden = true; return; }
    tip.replaceChildren(...describe(found).map((line, at) => {
      const element = document.createElement(at ? "div" : "b");
      element.textContent = line;
      return element;
    }));
    tip.hidden = false;
    const room = canvas.clientWidth - tip.offsetWidth;
    tip.style.left = Math.max(0, Math.min(room, x + 14)) + "px";
    tip.style.top = (y + 18 + tip.offsetHeight > canvas.clientHeight + 60 ? y - tip.offsetHeight - 10 : y + 18) + "px";
  }

  // Chooses an operation by keys, brings it into view and says it.
  function choose(at) {
    chosen = at;
    const length = span.to - span.from, middle = (model.start[at] + model.end[at]) / 2;
    if (middle < span.from || middle > span.to) show(middle - length / 2, length);
    draw();
    const row = place.top + model.columns.rank[at] * place.row;
    const x = place.left + (model.start[at] - span.from) / (span.to - span.from) * place.width;
    point({ at, rank: model.columns.rank[at] }, Math.max(place.left, x), row + place.row / 2);
    told.textContent = describe({ at, rank: model.columns.rank[at] }).join(", ");
  }

  function step(horizontal, vertical) {
    if (chosen < 0) { choose(picture.visible(model, 0, span)[0]); return; }
    const rank = model.columns.rank[chosen];
    if (horizontal) {
      const at = chosen + horizontal;
      if (at >= model.begins[rank] && at < model.begins[rank + 1]) choose(at);
      return;
    }
    const other = rank + vertical;
    if (other < 0 || other >= model.depth) return;
    const range = [model.begins[other], model.begins[other + 1]], middle = (model.start[chosen] + model.end[chosen]) / 2;
    choose(Math.min(range[1] - 1, picture.after(model.end, middle, range)));
  }

  function all() {
    chosen = -1;
    tip.hidden = true;
    show(0, model.makespan);
  }

  const KEYS = {
    "+": () => zoom(1.6, anchor()), "=": () => zoom(1.6, anchor()), "-": () => zoom(1 / 1.6, anchor()), 0: all, Home: all, Escape: () => { chosen = -1; tip.hidden = true; redraw(); },
    ArrowLeft: (event) => (event.shiftKey ? pan(-0.2) : step(-1, 0)), ArrowRight: (event) => (event.shiftKey ? pan(0.2) : step(1, 0)),
    ArrowUp: () => step(0, -1), ArrowDown: () => step(0, 1), c: () => critical.click(),
  };

  function anchor() {
    const middle = chosen < 0 ? -1 : (model.start[chosen] + model.end[chosen]) / 2;
    return middle >= span.from && middle <= span.to ? middle : undefined;
  }

  function where(event) {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  function move(event) {
    const before = pointers.get(event.pointerId), [x, y] = where(event);
    if (!before) { point(find(x, y), x, y); return; }
    const others = [...pointers].filter(([id]) => id !== event.pointerId), dx = x - before[0];
    if (!moved && Math.abs(dx) < 4) return; // A click trembles.
    moved = true;
    tip.hidden = true;
    if (others.length) {
      const other = others[0][1][0], now = Math.abs(x - other), then = Math.abs(before[0] - other);
      if (now > 8 && then > 8) zoom(now / then, timeAt((x + other) / 2));
    } else show(span.from - dx / place.width * (span.to - span.from), span.to - span.from);
    pointers.set(event.pointerId, [x, y]);
  }

  function listen() {
    canvas.addEventListener("pointerdown", (event) => {
      moved = pointers.size > 0;
      pointers.set(event.pointerId, where(event));
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", move);
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, (event) => {
        pointers.delete(event.pointerId);
        const [x, y] = where(event), found = moved || name === "pointercancel" ? null : find(x, y);
        if (!found) return;
        chosen = found.at;
        redraw();
        point(found, x, y);
      });
    }
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") tip.hidden = true; });
    canvas.addEventListener("blur", () => { tip.hidden = true; });
    // The wheel scrolls the page until the picture was clicked or Ctrl is held; sideways it moves the picture.
    canvas.addEventListener("wheel", (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY), whole = span.to - span.from >= model.makespan;
      const meant = event.ctrlKey || event.metaKey || (document.activeElement === canvas && !(whole && event.deltaY > 0));
      if (!meant && !sideways) return;
      event.preventDefault();
      if (sideways) pan(event.deltaX / place.width);
      else zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY)) / 300), timeAt(where(event)[0]));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const act = event.ctrlKey || event.metaKey || event.altKey ? null : KEYS[event.key];
      if (!act) return;
      event.preventDefault();
      act(event);
    });
    critical.addEventListener("change", redraw);
    const buttons = { in: () => zoom(2), out: () => zoom(1 / 2), all };
    for (const button of view.querySelectorAll("[data-zoom]")) button.addEventListener("click", buttons[button.dataset.zoom]);
    new ResizeObserver(redraw).observe(canvas.parentElement);
    for (const query of ["(prefers-color-scheme: dark)", "print"]) window.matchMedia(query).addEventListener("change", draw);
  }

  function start(source) {
    model = picture.read(source);
    model.shortest = model.start.reduce((least, begin, at) => (model.end[at] > begin ? Math.min(least, model.end[at] - begin) : least), model.makespan);
    span = { from: 0, to: model.makespan };
    for (const hidden of view.querySelectorAll(":scope > [hidden]")) hidden.hidden = false;
    window.timelineWords.write(view, model, { duration, percent });
    listen();
    draw();
    view.dataset.drawn = "true";
  }

  async function fetchThenStart() {
    const words = document.getElementById("timeline-words");
    try {
      const answer = await fetch(view.dataset.source);
      const body = await answer.json();
      if (answer.ok) start(body);
      else words.append(` No picture: ${body.detail}.`);
    } catch (error) {
      words.append(` The picture could not be loaded (${error.message}).`);
    }
  }

  const embedded = document.getElementById("timeline-document");
  if (embedded) start(JSON.parse(embedded.textContent));
  else if (view.dataset.source) {
    // A timeline costs the service a simulation: only for those who come near it.
    const watch = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watch.disconnect();
      fetchThenStart();
    }, { rootMargin: "800px" });
    watch.observe(view);
  }
})();
