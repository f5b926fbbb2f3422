// How does a reader save what a page holds? Launch settings as they are shown, and the files inside a report in one file.
"use strict";

(function () {
  function save(content, name, type) {
    const link = document.createElement("a"), address = URL.createObjectURL(new Blob([content], { type }));
    link.href = address;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  async function inflate(element) {
    const packed = Uint8Array.from(atob(element.textContent.trim()), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).blob();
  }

  async function saveFile(button) {
    const element = document.getElementById(button.dataset.file);
    save(await inflate(element), `chimera-${element.dataset.name}`, element.dataset.media);
  }

  // Trace Event JSON of the operations and collectives of a timeline, in microseconds.
  function trace({ operations, collectives, kinds, depth }) {
    const events = [], time = (columns, at) => ({ ts: 1e6 * columns.start[at], dur: 1e6 * (columns.end[at] - columns.start[at]) });
    for (let rank = 0; rank < depth; rank++) events.push({ name: "process_name", ph: "M", pid: rank, tid: 0, args: { name: `rank ${rank}` } });
    operations.rank.forEach((rank, at) => {
      const args = { stage: operations.stage[at], pipe: operations.pipe[at], micro_batch: operations.micro_batch[at] };
      events.push({ name: `${kinds[operations.kind[at]]} ${args.micro_batch}`, ph: "X", pid: rank, tid: operations.half[at] === 2 ? 1 : 0, ...time(operations, at), args });
    });
    collectives.rank.forEach((rank, at) => events.push({ name: `sync ${collectives.group[at]}`, ph: "X", pid: rank, tid: 3000, ...time(collectives, at), args: {} }));
    return JSON.stringify({ displayTimeUnit: "ms", traceEvents: events });
  }

  function saveTrace(button) {
    save(trace(JSON.parse(document.getElementById(button.dataset.trace).textContent)), "chimera-timeline.trace.json", "application/json");
  }

  function saveLaunch() {
    const panel = document.querySelector(".launch:not([data-folded])"), text = panel.querySelector("pre");
    if (text) save(text.textContent + "\n", `chimera-${panel.dataset.file}`, "text/plain");
  }

  async function act(button) {
    const trouble = document.getElementById("save-trouble");
    try {
      if (button.dataset.file) await saveFile(button);
      else if (button.dataset.trace) saveTrace(button);
      else saveLaunch();
    } catch (error) {
      if (trouble) trouble.textContent = `It could not be saved: ${error.message}`;
    }
  }

  window.held = { inflate };
  for (const hidden of document.querySelectorAll("[data-needs-script]")) hidden.hidden = false;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-file]:is(button), [data-trace], button.save");
    if (button) act(button);
  });
})();
