// How does the form ask? It sends what was filled in as JSON, and shows the problem or goes to the report.
"use strict";

(function () {
  const form = document.getElementById("ask-form");
  const trouble = document.getElementById("trouble");
  const progress = document.getElementById("progress");
  const drop = document.getElementById("drop");
  const config = document.getElementById("config");
  const chosen = { schedules: initialSchedules() };

  class Mistake extends Error {
    constructor(field, message) {
      super(message);
      this.field = field;
    }
  }

  function initialSchedules() {
    return [...form.querySelectorAll("[name=schedules]:checked")].map((box) => box.value).join();
  }

  function value(name) {
    return form.elements[name].value.trim();
  }

  function number(name) {
    const text = value(name).replace(/[\s,_]/g, "");
    if (text === "") return undefined;
    const read = Number(text);
    if (!Number.isFinite(read)) throw new Mistake(name, `${label(name)}: “${value(name)}” is not a number`);
    return read;
  }

  function label(name) {
    return form.querySelector(`label[for=${name}]`)?.textContent ?? name;
  }

  function model() {
    if (value("source") === "preset") return value("preset");
    let parsed;
    try {
      parsed = JSON.parse(config.value);
    } catch (error) {
      const empty = config.value.trim() === "";
      throw new Mistake("config", empty ? "Give the config.json: drop it, choose it, or paste its text" : `The config.json is not valid JSON: ${error.message}`);
    }
    const named = value("model_name");
    return named ? { config: parsed, name: named } : { config: parsed };
  }

  function request() {
    const asked = { model: model() };
    for (const name of ["cluster", "accelerator", "name", "precision", "gradient_precision", "optimizer", "optimizer_sharding", "attention", "recompute", "search", "runs_on", "partition"]) {
      if (value(name)) asked[name] = value(name);
    }
    for (const name of ["devices", "mini_batch_size", "sequence_length", "margin", "width", "depth", "micro_batch_size"]) {
      const read = number(name);
      if (read !== undefined) asked[name] = read;
    }
    for (const name of ["devices", "mini_batch_size"]) {
      if (asked[name] === undefined) throw new Mistake(name, `${label(name)} is missing`);
    }
    const schedules = [...form.querySelectorAll("[name=schedules]:checked")].map((box) => box.value);
    if (schedules.join() !== chosen.schedules) asked.schedules = schedules;
    return asked;
  }

  function mark(names) {
    for (const element of form.elements) element.removeAttribute("aria-invalid");
    for (const name of names) {
      const element = form.elements[name];
      if (element instanceof HTMLElement) {
        element.setAttribute("aria-invalid", "true");
        const folded = element.closest("details");
        if (folded) folded.open = true;
      }
    }
  }

  function tell(title, detail, names) {
    const heading = document.createElement("b");
    heading.textContent = title;
    trouble.replaceChildren(heading, detail);
    mark(names);
    trouble.focus();
  }

  // "devices: must be ..." and "depth=3" name a field; "name it here" does not.
  function fieldsIn(detail) {
    const names = [...form.elements].map((element) => element.name).filter(Boolean);
    return names.filter((name) => new RegExp(name.includes("_") ? `\\b${name}\\b` : `\\b${name}[:=]`).test(detail));
  }

  async function ask() {
    const answer = await chimera.send("POST", form.action, request());
    const document_ = await answer.json();
    if (!answer.ok) return tell(document_.title, document_.detail, fieldsIn(document_.detail));
    location.assign(document_.links.page);
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("[type=submit]");
    trouble.replaceChildren();
    mark([]);
    button.disabled = true;
    progress.textContent = "Searching…";
    try {
      await ask();
    } catch (error) {
      if (error instanceof Mistake) tell("Something is missing or wrong", error.message, [error.field]);
      else tell("No answer", `The service could not be reached: ${error.message}`, []);
    } finally {
      button.disabled = false;
      progress.textContent = "";
    }
  });

  function showSource() {
    for (const part of form.querySelectorAll("[data-source]")) part.hidden = part.dataset.source !== value("source");
  }

  function showSequence() {
    const own = form.elements.preset.selectedOptions[0]?.dataset.sequence;
    form.elements.sequence_length.placeholder = value("source") === "preset" && own ? `the model's own: ${own}` : "required";
  }

  function showFacts() {
    for (const name of ["preset", "cluster"]) {
      document.getElementById(`${name}-hint`).textContent = form.elements[name].selectedOptions[0]?.dataset.facts ?? "";
    }
  }

  async function take(file) {
    if (!file) return;
    config.value = await file.text();
    if (!value("model_name")) form.elements.model_name.value = file.name.replace(/\.json$/i, "");
  }

  form.addEventListener("change", () => { showSource(); showSequence(); showFacts(); });
  document.getElementById("file").addEventListener("change", (event) => take(event.target.files[0]));
  for (const kind of ["dragenter", "dragover"]) {
    form.addEventListener(kind, (event) => {
      if (![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      form.elements.source.value = "config";
      showSource();
      drop.classList.add("over");
    });
  }
  form.addEventListener("dragleave", () => drop.classList.remove("over"));
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    showSequence();
    take(event.dataTransfer.files[0]);
  });
  showSource();
  showSequence();
  showFacts();
})();
