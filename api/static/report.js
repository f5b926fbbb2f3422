// What can a reader of a report do? Choose launch settings, copy them, sort the candidates, see more of the rejected.
"use strict";

document.documentElement.classList.add("js");

(function () {
  function select(tabs, tab) {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).toggleAttribute("data-folded", !chosen);
    }
  }

  function prepareTabs(list) {
    const tabs = [...list.querySelectorAll("[role=tab]")];
    for (const tab of tabs) tab.addEventListener("click", () => select(tabs, tab));
    list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
      select(tabs, next);
      next.focus();
      event.preventDefault();
    });
  }

  async function copy(button) {
    const source = document.querySelector(".launch:not([data-folded]) pre");
    if (!source) return;
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  function key(row, column) {
    const cell = row.cells[column];
    return cell.dataset.sort === undefined ? cell.textContent.trim() : Number(cell.dataset.sort);
  }

  function sort(table, column, heading) {
    const falling = heading.getAttribute("aria-sort") === "ascending";
    const rows = [...table.tBodies[0].rows].sort((one, other) => {
      const a = key(one, column), b = key(other, column);
      const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b));
      return falling ? -order : order;
    });
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
    table.tBodies[0].append(...rows);
  }

  function prepareSorting(table) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => sort(table, column, heading));
    });
  }

  function describe(entry) {
    const words = [entry.schedule, `W=${entry.width} × D=${entry.depth}`];
    if (entry.micro_batch_size) words.push(`B=${entry.micro_batch_size}`);
    if (entry.micro_batches) words.push(`N=${entry.micro_batches}`);
    if (entry.recompute && entry.recompute !== "none") words.push(`recompute=${entry.recompute}`);
    if (entry.scaling && entry.scaling !== "direct") words.push(entry.scaling);
    if (entry.pipe_pairs > 1) words.push(`${2 * entry.pipe_pairs} pipes`);
    return words.filter(Boolean).join(", ");
  }

  async function more(link) {
    const body = document.getElementById(link.dataset.into);
    const answer = await chimera.send("GET", link.href);
    if (!answer.ok) { location.assign(link.href); return; }
    const page = await answer.json();
    for (const entry of page.items) {
      const row = body.insertRow();
      row.insertCell().textContent = describe(entry.configuration);
      const reason = row.insertCell();
      reason.className = "reason";
      reason.textContent = entry.reason;
    }
    link.previousSibling.textContent = `${body.rows.length.toLocaleString("en")} of ${page.total.toLocaleString("en")} are shown: `;
    if (page.next === null) link.remove();
    else {
      const next = new URL(link.href);
      next.searchParams.set("cursor", page.next);
      link.href = next.href;
    }
  }

  document.querySelectorAll("[role=tablist]").forEach(prepareTabs);
  document.querySelectorAll("table.sortable").forEach(prepareSorting);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    const link = event.target.closest("a.more");
    if (button) copy(button);
    if (link) { event.preventDefault(); more(link); }
  });
})();
