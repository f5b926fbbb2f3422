// How does a reader move through timelines? Zoom, move, point at an operation; with mouse, finger or keys.
"use strict";

window.timeline = (function () {
  const view = document.getElementById("timeline-view");
  if (!view) return null;
  const picture = window.timelinePicture, words = window.timelineWords;
  const canvas = document.getElementById("timeline-canvas"), tip = document.getElementById("timeline-tip"), line = document.getElementById("timeline-line");
  const told = document.getElementById("timeline-told"), critical = document.getElementById("timeline-critical");
  const pointers = new Map(), nothing = { lane: 0, at: -1 };
  let lanes = [], place = null, span = { from: 0, to: 1 }, chosen = nothing, moved = false, waiting = false;

  function makespan() {
    return Math.max(...lanes.map(({ model }) => model.makespan));
  }

  function draw() {
    waiting = false;
    if (!lanes.length) return;
    const before = performance.now();
    place = picture.draw(canvas, lanes, span, { critical: critical.checked, chosen });
    canvas.dataset.milliseconds = (performance.now() - before).toFixed(1);
    canvas.dataset.from = span.from;
    canvas.dataset.to = span.to;
    canvas.dataset.lanes = lanes.length;
  }

  function redraw() {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  }

  // Moves the window, kept inside the iteration and no narrower than a few of its operations.
  function show(from, length) {
    const whole = makespan(), shortest = Math.min(...lanes.map(({ model }) => model.shortest));
    const least = Math.max(whole * 1e-5, 2 * shortest), wide = Math.min(whole, Math.max(least, length));
    const start = Math.min(Math.max(0, from), whole - wide);
    span = { from: start, to: start + wide };
    redraw();
  }

  function zoom(factor, at = (span.from + span.to) / 2) {
    const length = Math.min(makespan(), (span.to - span.from) / factor);
    show(at - (at - span.from) * (length / (span.to - span.from)), length);
  }

  function pan(share) {
    show(span.from + share * (span.to - span.from), span.to - span.from);
  }

  function timeAt(x) {
    return span.from + (x - place.left) / place.width * (span.to - span.from);
  }

  // What is under a point: an operation, a gap (`at` below 0, with what is known of it), or a lane's memory.
  function find(x, y) {
    const number = place.lanes.findIndex(({ top, memory }) => y >= top && y < memory.top + memory.height);
    if (number < 0 || x < place.left || x > place.left + place.width) return null;
    const { model } = lanes[number], lane = place.lanes[number], time = timeAt(x);
    if (y >= lane.memory.top) return { lane: number, at: -1, memoryAt: Math.min(time, model.makespan) };
    const rank = Math.floor((y - lane.top) / lane.row);
    if (rank < 0 || rank >= model.depth || time > model.makespan) return null;
    const [first, last] = [model.begins[rank], model.begins[rank + 1]];
    let at = picture.after(model.end, time, [first, last]);
    if (at < last && model.start[at] <= time) {
      const lower = y - lane.top - rank * lane.row > (lane.row - lane.gap) / 2;
      if (model.columns.half[at] === 1 && lower) at += 1;
      return { lane: number, rank, at };
    }
    const { start, end } = model.source.collectives;
    const sync = model.syncs[rank].find((one) => start[one] <= time && time < end[one]);
    return { lane: number, rank, at: -1, sync, from: at > first ? model.end[at - 1] : 0, to: at < last ? model.start[at] : model.makespan };
  }

  function point(found, x, y) {
    line.hidden = !found;
    if (!found) { tip.hidden = true; return; }
    line.style.left = Math.round(x) + "px";
    line.style.height = place.bottom + "px";
    tip.replaceChildren(...words.describe(lanes[found.lane].model, found).map((text, at) => {
      const element = document.createElement(at ? "div" : "b");
      element.textContent = text;
      return element;
    }));
    tip.hidden = false;
    const room = canvas.clientWidth - tip.offsetWidth;
    tip.style.left = Math.max(0, Math.min(room, x + 14)) + "px";
    tip.style.top = (y + 18 + tip.offsetHeight > canvas.clientHeight + 60 ? y - tip.offsetHeight - 10 : y + 18) + "px";
  }

  function hide() {
    tip.hidden = line.hidden = true;
  }

  // Chooses an operation by keys, brings it into view and says it.
  function choose(lane, at) {
    chosen = { lane, at };
    const { model } = lanes[lane], rank = model.columns.rank[at];
    const length = span.to - span.from, middle = (model.start[at] + model.end[at]) / 2;
    if (middle < span.from || middle > span.to) show(middle - length / 2, length);
    draw();
    const { top, row } = place.lanes[lane];
    const x = place.left + (model.start[at] - span.from) / (span.to - span.from) * place.width;
    point({ lane, at, rank }, Math.max(place.left, x), top + (rank + 0.5) * row);
    told.textContent = words.describe(model, { at, rank }).join(", ");
  }

  function step(horizontal, vertical) {
    if (chosen.at < 0) { choose(0, picture.visible(lanes[0].model, 0, span)[0]); return; }
    const { model } = lanes[chosen.lane], rank = model.columns.rank[chosen.at];
    if (horizontal) {
      const at = chosen.at + horizontal;
      if (at >= model.begins[rank] && at < model.begins[rank + 1]) choose(chosen.lane, at);
      return;
    }
    // Below the last rank of a lane stands the first of the next.
    const beyond = rank + vertical < 0 || rank + vertical >= model.depth, lane = chosen.lane + (beyond ? vertical : 0);
    if (lane < 0 || lane >= lanes.length) return;
    const there = lanes[lane].model, other = !beyond ? rank + vertical : vertical > 0 ? 0 : there.depth - 1;
    const range = [there.begins[other], there.begins[other + 1]], middle = (model.start[chosen.at] + model.end[chosen.at]) / 2;
    if (range[0] < range[1]) choose(lane, Math.min(range[1] - 1, picture.after(there.end, middle, range)));
  }

  function all() {
    chosen = nothing;
    hide();
    show(0, makespan());
  }

  const KEYS = {
    "+": () => zoom(1.6, anchor()), "=": () => zoom(1.6, anchor()), "-": () => zoom(1 / 1.6, anchor()), 0: all, Home: all, Escape: () => { chosen = nothing; hide(); redraw(); },
    ArrowLeft: (event) => (event.shiftKey ? pan(-0.2) : step(-1, 0)), ArrowRight: (event) => (event.shiftKey ? pan(0.2) : step(1, 0)),
    ArrowUp: () => step(0, -1), ArrowDown: () => step(0, 1), c: () => critical.click(),
  };

  function anchor() {
    if (chosen.at < 0) return undefined;
    const { model } = lanes[chosen.lane], middle = (model.start[chosen.at] + model.end[chosen.at]) / 2;
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
    hide();
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
        chosen = { lane: found.lane, at: found.at };
        redraw();
        point(found, x, y);
      });
    }
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
    canvas.addEventListener("blur", hide);
    // The wheel scrolls the page until the picture was clicked or Ctrl is held; sideways it moves the picture.
    canvas.addEventListener("wheel", (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY), whole = span.to - span.from >= makespan();
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

  // Shows these lanes, each {source, title}, one below the other on one axis.
  function start(sources) {
    const first = !lanes.length;
    lanes = sources.map(({ source, title }) => ({ model: picture.read(source), title }));
    chosen = nothing;
    span = { from: 0, to: makespan() };
    hide();
    if (first) {
      for (const hidden of view.querySelectorAll(":scope > [hidden]")) hidden.hidden = false;
      listen();
    }
    words.write(view, lanes);
    draw();
    view.dataset.drawn = "true";
  }

  return { view, start };
})();
