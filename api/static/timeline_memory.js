// How does memory run along a timeline? What each rank holds at each moment, drawn from the fullest to the emptiest.
"use strict";

window.timelineMemory = (function () {
  // What is alive on a rank changes when a forward begins and when a backward ends; in bytes where they are known.
  function read(model) {
    const { columns, source, count, begins } = model, known = source.memory;
    const change = source.kinds.map((name) => ({ F: 1, B: -1 / (source.parts || 1), W: -1 })[name] || 0);
    const time = new Float64Array(count), level = new Float64Array(count), starts = new Uint32Array(model.depth + 1);
    const always = known ? known.always_bytes : new Array(model.depth).fill(0);
    let filled = 0, most = 0;
    for (let rank = 0; rank < model.depth; rank++) {
      starts[rank] = filled;
      for (let at = begins[rank]; at < begins[rank + 1]; at++) {
        const by = change[columns.kind[at]];
        if (!by) continue;
        let place = filled++;
        const when = by > 0 ? model.start[at] : model.end[at];
        // The halves of a pair may change it in the other order.
        for (; place > starts[rank] && time[place - 1] > when; place--) {
          time[place] = time[place - 1];
          level[place] = level[place - 1];
        }
        time[place] = when;
        level[place] = by * (known ? known.kept_bytes[columns.stage[at]] : 1);
      }
      let held = always[rank];
      for (let place = starts[rank]; place < filled; place++) {
        held += level[place];
        level[place] = held;
        most = Math.max(most, held);
      }
      most = Math.max(most, always[rank]);
    }
    starts[model.depth] = filled;
    return { time, level, starts, always, most, inBytes: Boolean(known), capacity: known ? known.capacity_bytes : 0 };
  }

  // What a rank holds at a time.
  function at(memory, rank, time) {
    const next = window.timelinePicture.after(memory.time, time, [memory.starts[rank], memory.starts[rank + 1]]);
    return next > memory.starts[rank] ? memory.level[next - 1] : memory.always[rank];
  }

  function top(memory) {
    return Math.max(1.12 * memory.most, memory.most > 0.35 * memory.capacity ? 1.06 * memory.capacity : 0) || 1;
  }

  function amount(memory, value) {
    if (!memory.inBytes) return Math.max(0, Math.round(10 * value) / 10).toLocaleString("en") + "\u00a0micro-batches";
    return (value / 1e9).toLocaleString("en", { maximumSignificantDigits: 3 }) + "\u00a0GB";
  }

  // Of each pixel the most and the least that any rank holds in it; beyond the end nothing.
  function envelope(memory, sheet, end) {
    const { place, view, scale } = sheet, wide = Math.ceil(Math.min(place.width, (end - view.from) * scale));
    const high = new Float64Array(Math.max(0, wide)).fill(-1), low = new Float64Array(Math.max(0, wide)).fill(Infinity);
    const depth = memory.always.length;
    for (let rank = 0; rank < depth; rank++) {
      const last = memory.starts[rank + 1];
      let next = window.timelinePicture.after(memory.time, view.from, [memory.starts[rank], last]);
      let held = next > memory.starts[rank] ? memory.level[next - 1] : memory.always[rank];
      for (let pixel = 0; pixel < wide; pixel++) {
        const until = view.from + (pixel + 1) / scale;
        let most = held, least = held;
        for (; next < last && memory.time[next] < until; next++) {
          held = memory.level[next];
          if (held > most) most = held;
          if (held < least) least = held;
        }
        if (most > high[pixel]) high[pixel] = most;
        if (least < low[pixel]) low[pixel] = least;
      }
    }
    return { high, low };
  }

  function draw(sheet, model, rank) {
    const { pen, colour, place, lane } = sheet, memory = model.memory, strip = lane.memory, most = top(memory);
    const y = (value) => strip.top + strip.height * (1 - value / most);
    const { high, low } = envelope(memory, sheet, model.makespan);
    pen.fillStyle = colour.idle;
    pen.fillRect(place.left, strip.top, high.length, strip.height);
    for (let pixel = 0; pixel < high.length; pixel++) {
      pen.fillStyle = colour.held;
      pen.fillRect(place.left + pixel, y(high[pixel]), 1, Math.max(1.5, y(low[pixel]) - y(high[pixel])));
      pen.fillStyle = colour.base;
      pen.fillRect(place.left + pixel, y(low[pixel]), 1, strip.top + strip.height - y(low[pixel]));
    }
    if (memory.capacity && memory.capacity <= most) {
      pen.strokeStyle = colour.warn;
      pen.setLineDash([6, 4]);
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.moveTo(place.left, y(memory.capacity));
      pen.lineTo(place.left + high.length, y(memory.capacity));
      pen.stroke();
      pen.setLineDash([]);
    }
    if (rank >= 0) line(sheet, model, { rank, y });
  }

  function line({ pen, colour, place, view, scale }, model, { rank, y }) {
    const memory = model.memory, x = (time) => place.left + (time - view.from) * scale;
    const last = memory.starts[rank + 1];
    let next = window.timelinePicture.after(memory.time, view.from, [memory.starts[rank], last]);
    let held = at(memory, rank, view.from);
    pen.strokeStyle = colour.ink;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(place.left, y(held));
    for (; next < last && memory.time[next] < view.to; next++) {
      pen.lineTo(x(memory.time[next]), y(held));
      held = memory.level[next];
      pen.lineTo(x(memory.time[next]), y(held));
    }
    pen.lineTo(x(Math.min(view.to, model.makespan)), y(held));
    pen.stroke();
  }

  function label({ pen, colour, place, lane }, model) {
    const memory = model.memory, strip = lane.memory, most = top(memory);
    pen.fillStyle = colour.soft;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const levels = [0, memory.capacity && memory.capacity <= most ? memory.capacity : memory.most];
    for (const level of levels) {
      const text = memory.inBytes ? String(Number((level / 1e9).toPrecision(3))) : String(Math.round(level));
      pen.fillText(text, place.left - 8, Math.min(strip.top + strip.height - 5, Math.max(strip.top + 6, strip.top + strip.height * (1 - level / most))));
    }
    pen.fillText(memory.inBytes ? "GB" : "alive", place.left - 8, strip.top + strip.height / 2);
  }

  function tell(model, time) {
    const memory = model.memory, levels = memory.always.map((_, rank) => at(memory, rank, time));
    const fullest = levels.indexOf(Math.max(...levels)), emptiest = levels.indexOf(Math.min(...levels));
    const lines = [`Rank ${fullest} holds most, ${amount(memory, levels[fullest])}`];
    if (emptiest !== fullest) lines.push(`rank ${emptiest} least, ${amount(memory, levels[emptiest])}`);
    if (memory.capacity) lines.push(`of ${amount(memory, memory.capacity)} each`);
    return lines;
  }

  return { read, at, amount, draw, label, tell };
})();
