// How does a timeline become pixels? Only what is in view is drawn; where cells get too narrow, pixels share them out.
"use strict";

window.timelinePicture = (function () {
  const KINDS = {
    F: { colour: "forward", words: "Forward" },
    B: { colour: "backward", words: "Backward" },
    I: { colour: "input", words: "Input gradient" },
    W: { colour: "weight", words: "Weight gradient" },
    RECOMPUTE: { colour: "recompute", words: "Recomputation" },
    UPDATE: { colour: "update", words: "Optimizer step" },
  };
  const NARROW = 3; // Mean width of a row's cells in pixels below which pixels are shared out.
  const DIMMED = 0.22; // What is not on the critical path, when that is shown.
  const AXIS = 26, TITLE = 22, STRIP = 70, APART = 14; // Pixels: the axis, a lane's title, its memory, space.

  // Columns as typed arrays, where each rank begins, and a style for each operation: kind and direction.
  function read(source) {
    const columns = source.operations, count = columns.rank.length;
    const begins = new Uint32Array(source.depth + 1);
    for (const rank of columns.rank) begins[rank + 1] += 1;
    for (let rank = 0; rank < source.depth; rank++) begins[rank + 1] += begins[rank];
    const style = new Uint8Array(count), critical = new Uint8Array(count);
    for (let at = 0; at < count; at++) style[at] = 2 * columns.kind[at] + (columns.pipe[at] & 1);
    for (const at of source.critical_path) critical[at] = 1;
    // The halves of a fused pair are one step.
    for (let at = 1; at < count; at++) if (columns.half[at] === 2) critical[at] = critical[at - 1] |= critical[at];
    const syncs = Array.from({ length: source.depth }, () => []);
    source.collectives.rank.forEach((rank, at) => syncs[rank].push(at));
    const model = {
      source, count, begins, style, critical, syncs, columns, makespan: source.makespan, depth: source.depth,
      start: Float64Array.from(columns.start), end: Float64Array.from(columns.end),
    };
    model.shortest = model.start.reduce((least, begin, at) => (model.end[at] > begin ? Math.min(least, model.end[at] - begin) : least), model.makespan);
    model.memory = window.timelineMemory.read(model);
    return model;
  }

  function colours(model) {
    const css = getComputedStyle(document.documentElement);
    const named = (name) => css.getPropertyValue("--" + name).trim();
    const styles = [];
    model.source.kinds.forEach((name, kind) => {
      const base = KINDS[name] ? KINDS[name].colour : "update";
      styles[2 * kind] = named(base);
      styles[2 * kind + 1] = named(base + "-up") || named(base);
    });
    const colour = { styles, rgb: styles.map(channels), sync: named("all_reduce") };
    for (const name of ["idle", "ink", "soft", "line", "warn"]) colour[name] = named(name);
    [colour.held, colour.base] = [named("framework"), named("strong-line")];
    colour.inks = colour.rgb.map(([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#10151a" : "#ffffff"));
    return colour;
  }

  function channels(hex) {
    const digits = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.test(hex) ? hex.slice(1) : "808080";
    const full = digits.length === 3 ? [...digits].map((digit) => digit + digit).join("") : digits;
    return [0, 2, 4].map((at) => parseInt(full.slice(at, at + 2), 16));
  }

  // Where each lane's title, rows and memory stand; rows are as high as all lanes together allow.
  function arrange(lanes, width) {
    const ranks = lanes.reduce((sum, { model }) => sum + model.depth, 0), deepest = Math.max(...lanes.map(({ model }) => model.depth));
    const row = Math.max(2, Math.min(30, Math.floor((lanes.length > 1 ? 640 : 544) / ranks)));
    const left = 14 + 7 * Math.max(4, String(deepest - 1).length), place = { left, width: Math.max(40, width - left - 1), lanes: [] };
    let top = 2;
    for (const { model } of lanes) {
      const title = top + TITLE / 2, rows = top + TITLE, height = row * model.depth;
      place.lanes.push({ title, top: rows, row, gap: row >= 12 ? 3 : row >= 5 ? 1 : 0, height, memory: { top: rows + height + 6, height: STRIP } });
      top = rows + height + 6 + STRIP + APART;
    }
    place.bottom = top - APART + 2;
    return place;
  }

  // The first operation of [low, high) whose value exceeds `time`; values rise along a rank.
  function after(values, time, [low, high]) {
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  function visible(model, rank, view) {
    const range = [model.begins[rank], model.begins[rank + 1]];
    return [after(model.end, view.from, range), after(model.start, view.to, range)];
  }

  function draw(canvas, lanes, view, options) {
    const ratio = Math.min(3, window.devicePixelRatio || 1), width = canvas.parentElement.clientWidth;
    const place = arrange(lanes, width), height = place.bottom + AXIS;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = height + "px";
    }
    const pen = canvas.getContext("2d"), family = getComputedStyle(document.body).fontFamily;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "11px " + family;
    const common = { pen, place, view, scale: place.width / (view.to - view.from), ratio, critical: options.critical };
    lanes.forEach(({ model, title }, number) => {
      const sheet = { ...common, colour: colours(model), lane: place.lanes[number] }, chosen = options.chosen.lane === number ? options.chosen.at : -1;
      drawLane(sheet, model, chosen);
      drawTitle(sheet, title, family);
    });
    drawAxis({ ...common, colour: colours(lanes[0].model) });
    return place;
  }

  function drawLane(sheet, model, chosen) {
    const { pen, place, lane } = sheet;
    pen.save();
    pen.beginPath();
    pen.rect(place.left, lane.top - 2, place.width, lane.memory.top + lane.memory.height - lane.top + 4);
    pen.clip();
    for (let rank = 0; rank < model.depth; rank++) drawRank(sheet, model, rank);
    if (sheet.critical) drawPath(sheet, model);
    if (chosen >= 0) outline(sheet, model, chosen);
    window.timelineMemory.draw(sheet, model, chosen >= 0 ? model.columns.rank[chosen] : -1);
    pen.restore();
    drawRanks(sheet, model);
    window.timelineMemory.label(sheet, model);
  }

  function drawTitle({ pen, colour, place, lane }, title, family) {
    pen.font = "600 12px " + family;
    pen.fillStyle = colour.ink;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillText(title, place.left, lane.title, place.width);
    pen.font = "11px " + family;
    pen.fillStyle = colour.soft;
    pen.textAlign = "right";
    pen.fillText("rank", place.left - 8, lane.title);
  }

  function drawRank(sheet, model, rank) {
    const { pen, colour, place, lane, view, scale } = sheet, top = lane.top + rank * lane.row, height = lane.row - lane.gap;
    const [first, last] = visible(model, rank, view);
    pen.fillStyle = colour.idle;
    pen.fillRect(place.left, top, Math.max(0, Math.min(place.width, (model.makespan - view.from) * scale)), height);
    const strip = lane.row >= 9;
    if (!strip) drawSyncs(sheet, model, { rank, top, height });
    if ((last - first) * NARROW > place.width) shareCells(sheet, model, { first, last, top, height });
    else drawCells(sheet, model, { first, last, top, height });
    if (strip) drawSyncs(sheet, model, { rank, top: top + height - Math.round(height * 0.22), height: Math.round(height * 0.22) });
  }

  function drawCells({ pen, colour, place, lane, view, scale, critical }, model, { first, last, top, height }) {
    const { half, micro_batch: numbers } = model.columns, written = lane.row >= 12;
    for (let at = first; at < last; at++) {
      const x = place.left + (model.start[at] - view.from) * scale, wide = (model.end[at] - model.start[at]) * scale;
      const part = half[at] ? height / 2 : height, y = half[at] === 2 ? top + part : top;
      pen.globalAlpha = critical && !model.critical[at] ? DIMMED : 1;
      pen.fillStyle = colour.styles[model.style[at]];
      pen.fillRect(x, y, wide > 4 ? wide - 1 : wide, half[at] === 1 ? part - 0.5 : part);
      const text = written && numbers[at] >= 0 && wide > 9 ? String(numbers[at]) : "";
      if (!text || part < 11 || wide < 6.4 * text.length + 3) continue;
      pen.fillStyle = colour.inks[model.style[at]];
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.fillText(text, x + wide / 2, y + part / 2 + 0.5);
    }
    pen.globalAlpha = 1;
  }

  // Each pixel takes one of the colours that lie in it, in turn where they alternate, and is pale where it is idle.
  function shareCells({ pen, colour, place, view, scale, ratio, critical }, model, { first, last, top, height }) {
    const wide = Math.round(place.width * ratio), styles = [...new Set(model.style.subarray(first, last))], { half } = model.columns;
    const weights = styles.map(() => new Float32Array(wide)), row = new Map(styles.map((style, at) => [style, weights[at]]));
    for (let at = first; at < last; at++) {
      const from = Math.max(0, (model.start[at] - view.from) * scale * ratio), weight = row.get(model.style[at]);
      const to = Math.min(wide, (model.end[at] - view.from) * scale * ratio);
      const share = (half[at] ? 0.5 : 1) * (critical && !model.critical[at] ? DIMMED : 1);
      for (let pixel = Math.floor(from); pixel < to; pixel++) weight[pixel] += share * (Math.min(to, pixel + 1) - Math.max(from, pixel));
    }
    const line = new OffscreenCanvas(wide, 1), ink = line.getContext("2d"), image = ink.createImageData(wide, 1);
    const owed = styles.map(() => 0);
    for (let pixel = 0; pixel < wide; pixel++) {
      let total = 0, most = 0;
      for (let at = 0; at < styles.length; at++) {
        total += weights[at][pixel];
        owed[at] += weights[at][pixel];
        if (owed[at] > owed[most]) most = at;
      }
      if (!total) continue;
      owed[most] -= total;
      image.data.set([...colour.rgb[styles[most]], 255 * Math.min(1, total)], 4 * pixel);
    }
    ink.putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(line, place.left, top, place.width, height);
  }

  function drawSyncs({ pen, colour, place, view, scale }, model, { rank, top, height }) {
    const { start, end } = model.source.collectives;
    pen.fillStyle = colour.sync;
    for (const at of model.syncs[rank]) {
      if (end[at] < view.from || start[at] > view.to) continue;
      pen.fillRect(place.left + (start[at] - view.from) * scale, top, Math.max(1, (end[at] - start[at]) * scale), height);
    }
  }

  // Lines lead from the end of each step to the start of the one that waited for it.
  function drawPath({ pen, colour, place, lane, view, scale }, model) {
    const chain = model.source.critical_path, middle = (rank) => lane.top + rank * lane.row + (lane.row - lane.gap) / 2;
    pen.strokeStyle = colour.ink;
    pen.lineWidth = lane.row >= 9 ? 1.5 : 1;
    pen.beginPath();
    for (let step = 1; step < chain.length; step++) {
      const one = chain[step - 1], other = chain[step], from = model.columns.rank[one], to = model.columns.rank[other];
      if (from === to || model.end[one] > view.to || model.start[other] < view.from) continue;
      pen.moveTo(place.left + (model.end[one] - view.from) * scale, middle(from));
      pen.lineTo(place.left + (model.start[other] - view.from) * scale, middle(to));
    }
    pen.stroke();
  }

  function outline({ pen, colour, place, lane, view, scale }, model, at) {
    const height = lane.row - lane.gap, half = model.columns.half[at], part = half ? height / 2 : height;
    const y = lane.top + model.columns.rank[at] * lane.row + (half === 2 ? part : 0);
    pen.strokeStyle = colour.ink;
    pen.lineWidth = 2;
    pen.strokeRect(place.left + (model.start[at] - view.from) * scale, y, Math.max(2, (model.end[at] - model.start[at]) * scale - 1), part);
  }

  function drawRanks({ pen, colour, place, lane }, model) {
    const step = [1, 2, 4, 8, 16, 32, 64, 128].find((every) => every * lane.row >= 14) || 256;
    pen.fillStyle = colour.soft;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (let rank = 0; rank < model.depth; rank += step) pen.fillText(String(rank), place.left - 8, lane.top + rank * lane.row + Math.max(6, (lane.row - lane.gap) / 2 + 0.5));
  }

  function drawAxis({ pen, colour, place, view, scale }) {
    const least = 84 / scale, power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= least);
    const [size, unit] = unitOf(view.to), decimals = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
    const bottom = place.bottom;
    pen.fillStyle = colour.soft;
    pen.textBaseline = "middle";
    for (let tick = Math.ceil(view.from / step - 1e-9); tick * step <= view.to * (1 + 1e-9); tick++) {
      const x = place.left + (tick * step - view.from) * scale, text = (tick ? (tick * step / size).toFixed(decimals) : "0") + "\u00a0" + unit;
      pen.fillRect(x - 0.5, bottom, 1, 5);
      const wide = pen.measureText(text).width, left = Math.min(Math.max(x - wide / 2, place.left), place.left + place.width - wide);
      pen.textAlign = "left";
      pen.fillText(text, left, bottom + 15);
    }
  }

  function unitOf(seconds) {
    return [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]].find(([size]) => seconds >= size) || [1e-6, "µs"];
  }

  return { KINDS, read, draw, after, visible, unitOf };
})();
