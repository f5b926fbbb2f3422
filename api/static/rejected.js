// Why was this one rejected? Rows by schedule, width and depth, from the service or from the plan inside the file.
"use strict";

(function () {
  const form = document.getElementById("find-rejected");
  if (!form) return;
  const status = document.getElementById("found-status");
  const names = Object.fromEntries([...form.elements.schedule.options].map((option) => [option.value, option.textContent]));
  const SHOWN = 50; // Rows at a time.
  let asked = 0, waiting = null, cursor = null, whole = null, table = null, body = null, further = null;

  // The table comes with the first rows.
  function prepare() {
    if (table) return;
    const rows = document.getElementById("found-rows");
    rows.replaceWith(rows.content);
    table = document.getElementById("found");
    body = table.querySelector("tbody");
    further = document.getElementById("found-more");
    further.addEventListener("click", () => find(cursor));
  }

  function wanted() {
    const found = {};
    for (const name of ["schedule", "width", "depth"]) {
      const text = form.elements[name].value.trim();
      const valid = !text || name === "schedule" || /^[1-9]\d{0,8}$/.test(text);
      form.elements[name].setAttribute("aria-invalid", String(!valid));
      if (!valid) throw new Error(`“${text}” is no ${name}: give a whole number above 0`);
      if (text) found[name] = text;
    }
    return found;
  }

  async function fromService(filters, from) {
    const query = new URLSearchParams({ ...filters, limit: SHOWN, ...(from ? { cursor: from } : {}) });
    const answer = await window.chimera.send("GET", `${form.dataset.source}?${query}`);
    const page = await answer.json();
    if (!answer.ok) throw new Error(page.detail || page.title);
    return page;
  }

  // The same as the service answers, of the plan that the file holds.
  async function fromFile(filters, from) {
    whole ||= JSON.parse(await (await window.held.inflate(document.getElementById(form.dataset.file))).text()).rejected;
    const found = whole.filter(({ configuration }) => Object.entries(filters).every(([name, value]) => String(configuration[name] ?? value) === value));
    const start = Number(from || 0), next = start + SHOWN;
    return { items: found.slice(start, next), total: found.length, next: next < found.length ? String(next) : null };
  }

  function describe(entry) {
    const words = [names[entry.schedule] || entry.schedule, `W=${entry.width} × D=${entry.depth}`];
    if (entry.micro_batch_size) words.push(`B=${entry.micro_batch_size}`);
    if (entry.micro_batches) words.push(`N=${entry.micro_batches}`);
    if (entry.recompute && entry.recompute !== "none") words.push(`recompute=${entry.recompute}`);
    if (entry.scaling && entry.scaling !== "direct") words.push(entry.scaling);
    if (entry.pipe_pairs > 1) words.push(`${2 * entry.pipe_pairs} pipes`);
    return words.filter(Boolean).join(", ");
  }

  function add(entry) {
    const row = body.insertRow(), reason = document.createElement("td");
    row.insertCell().textContent = describe(entry.configuration);
    reason.className = "reason";
    reason.textContent = entry.reason;
    row.append(reason);
  }

  async function find(from = null) {
    const mine = ++asked;
    try {
      const filters = wanted();
      if (!Object.keys(filters).length) { clear(); return; }
      const page = await (form.dataset.source ? fromService : fromFile)(filters, from);
      if (mine !== asked) return;
      prepare();
      if (!from) body.replaceChildren();
      page.items.forEach(add);
      cursor = page.next;
      table.hidden = !body.rows.length;
      further.hidden = cursor === null;
      status.textContent = page.total ? `${body.rows.length.toLocaleString("en")} of ${page.total.toLocaleString("en")} shown.` : "None of these was rejected.";
    } catch (error) {
      if (mine !== asked) return;
      clear();
      status.textContent = error.message;
    }
  }

  function clear() {
    status.textContent = "";
    if (!table) return;
    body.replaceChildren();
    table.hidden = further.hidden = true;
  }

  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(find, 250);
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); find(); });
})();
