// What would the answer be if something were different? The study's question is asked again, the latest change wins.
"use strict";

(function () {
  const form = document.getElementById("what-if-form");
  if (!form) return;
  const PAUSE = 400; // Milliseconds without a change before the service is asked.
  const status = document.getElementById("what-if-status"), trouble = document.getElementById("what-if-trouble");
  const answer = document.getElementById("what-if-answer"), keep = document.getElementById("what-if-keep");
  const base = read("what-if-request"), stored = read("what-if-stored");
  let waiting = null, running = null, baseline = stored.trials ? null : stored;

  function read(id) {
    return JSON.parse(document.getElementById(id).textContent);
  }

  const FIELDS = {
    devices: (text) => whole(text, "Devices"),
    mini_batch_size: (text) => whole(text, "Mini-batch"),
    device_memory_bytes: (text) => Math.round(1e9 * positive(text, "Memory of a device")),
    link_bandwidth_factor: (text) => positive(text, "Bandwidth of links"),
    schedules: (text) => [text],
  };

  function positive(text, label) {
    const value = Number(text.replace(/[\s,_]/g, ""));
    if (!(value > 0) || !Number.isFinite(value)) throw new Error(`${label}: “${text}” is not a number above 0`);
    return value;
  }

  function whole(text, label) {
    const value = positive(text, label);
    if (!Number.isInteger(value)) throw new Error(`${label}: “${text}” is not a whole number`);
    return value;
  }

  // Only what differs from the study is asked otherwise.
  function changes() {
    const found = {};
    for (const [name, parse] of Object.entries(FIELDS)) {
      const element = form.elements[name], text = element.value.trim();
      element.removeAttribute("aria-invalid");
      const before = element.options ? "" : element.defaultValue;
      if (text === before) continue;
      try {
        found[name] = parse(text);
      } catch (error) {
        element.setAttribute("aria-invalid", "true");
        throw error;
      }
    }
    return found;
  }

  async function plan(body, signal) {
    const reply = await window.chimera.send("POST", form.action, body, { signal });
    const document_ = await reply.json();
    if (!reply.ok) throw new Error(document_.detail ? `${document_.title}: ${document_.detail}` : document_.title);
    return document_;
  }

  function summary(plan) {
    if (!plan.chosen) return { none: plan.smallest_change ? plan.smallest_change.change : "" };
    const { predicted, memory, ...chosen } = plan.chosen, peak = Math.max(...memory.map((rank) => rank.total_bytes));
    return { ...chosen, ...predicted, free_bytes: plan.cluster.memory_bytes - peak, idle_devices: plan.idle_devices };
  }

  function number(value) {
    return value.toLocaleString("en", Math.abs(value) >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 });
  }

  function signed(value, text) {
    return (value > 0 ? "+" : value < 0 ? "−" : "±") + text(Math.abs(value));
  }

  const share = (before, after) => signed(Math.round(1000 * (after / before - 1)) / 10, (size) => size.toFixed(1) + "\u00a0%");
  const seconds = (value) => window.timelineWords.duration(value);
  const gigabytes = (value) => (value < 0 ? "−" : "") + number(Math.abs(value) / 1e9) + "\u00a0GB";
  const same = (one, other) => (one === other ? "the same" : "");
  const ROWS = [
    ["Layout", (it) => `W=${number(it.width)} × D=${number(it.depth)}`, (a, b) => (a.width === b.width ? same(a.depth, b.depth) : "")],
    ["Schedule", (it) => stored.names[it.schedule] || it.schedule, (a, b) => same(a.schedule, b.schedule)],
    ["Micro-batch B", (it) => number(it.micro_batch_size), (a, b) => same(a.micro_batch_size, b.micro_batch_size)],
    ["Micro-batches N", (it) => number(it.micro_batches), (a, b) => same(a.micro_batches, b.micro_batches)],
    ["Recompute", (it) => it.recompute, (a, b) => same(a.recompute, b.recompute)],
    ["Throughput, samples/s", (it) => number(it.throughput_samples_per_s), (a, b) => share(a.throughput_samples_per_s, b.throughput_samples_per_s)],
    ["Tokens/s", (it) => number(it.tokens_per_s), (a, b) => share(a.tokens_per_s, b.tokens_per_s)],
    ["Iteration", (it) => seconds(it.iteration_s), (a, b) => share(a.iteration_s, b.iteration_s)],
    ["MFU", (it) => (100 * it.mfu).toFixed(1) + "\u00a0%", (a, b) => signed(Math.round(1000 * (b.mfu - a.mfu)) / 10, (size) => size.toFixed(1) + "\u00a0points")],
    ["Memory left", (it) => gigabytes(it.free_bytes), (a, b) => signed(b.free_bytes - a.free_bytes, gigabytes)],
    ["Idle devices", (it) => number(it.idle_devices), (a, b) => (a.idle_devices === b.idle_devices ? "the same" : signed(b.idle_devices - a.idle_devices, number))],
  ];

  function cell(row, text) {
    const made = row.insertCell();
    made.className = "number";
    made.textContent = text;
  }

  function show(before, after) {
    const body = answer.querySelector("tbody");
    body.replaceChildren();
    for (const [label, words, difference] of ROWS) {
      const row = body.insertRow(), heading = document.createElement("th");
      heading.scope = "row";
      heading.textContent = label;
      row.append(heading);
      for (const side of [before, after]) cell(row, side.none === undefined ? words(side) : "–");
      cell(row, before.none === undefined && after.none === undefined ? difference(before, after) : "");
    }
    answer.hidden = false;
  }

  function clear() {
    if (running) running.abort();
    running = null;
    keep.disabled = true;
    answer.hidden = true;
    status.textContent = trouble.textContent = "";
  }

  async function ask() {
    clear();
    let changed;
    try {
      changed = changes();
    } catch (error) {
      trouble.textContent = error.message;
      return;
    }
    if (!Object.keys(changed).length) return;
    const mine = running = new AbortController();
    status.textContent = "Searching…";
    try {
      if (!baseline) baseline = summary(await plan(base, mine.signal));
      const found = await plan({ ...base, ...changed }, mine.signal);
      if (mine !== running) return;
      const after = summary(found);
      show(baseline, after);
      status.textContent = after.none === undefined ? told(after) : `Nothing fits then${after.none ? `; the smallest change that would help: ${after.none}` : ""}.`;
      keep.disabled = false;
    } catch (error) {
      if (mine !== running || error.name === "AbortError") return;
      status.textContent = "";
      trouble.textContent = error instanceof TypeError ? `The service could not be reached: ${error.message}` : error.message;
    }
  }

  function told(after) {
    if (baseline.none !== undefined) return "Then something fits.";
    const change = after.throughput_samples_per_s / baseline.throughput_samples_per_s - 1;
    const layout = after.width === baseline.width && after.depth === baseline.depth && after.schedule === baseline.schedule ? "The same layout and schedule" : `W=${after.width} × D=${after.depth}, ${stored.names[after.schedule] || after.schedule}`;
    return Math.abs(change) < 0.0005 ? `${layout}, as fast.` : `${layout}, ${(100 * Math.abs(change)).toFixed(1)}\u00a0% ${change > 0 ? "more" : "less"} throughput.`;
  }

  function soon() {
    clearTimeout(waiting);
    waiting = setTimeout(ask, PAUSE);
  }

  async function keepAsStudy() {
    keep.disabled = true;
    const { top, ...question } = base;
    const reply = await window.chimera.send("POST", form.dataset.studies, { ...question, ...changes() });
    const document_ = await reply.json();
    if (reply.ok) location.assign(document_.links.page);
    else trouble.textContent = document_.detail || document_.title;
  }

  form.addEventListener("input", soon);
  form.addEventListener("reset", () => {
    clearTimeout(waiting);
    setTimeout(ask);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  keep.addEventListener("click", () => keepAsStudy().catch((error) => { trouble.textContent = error.message; }));
})();
