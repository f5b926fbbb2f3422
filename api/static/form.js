// How does the form ask? It takes a config.json, sends what was filled in, and shows the problem or the report.
"use strict";

(function () {
  const { form, value, read, fieldsIn, mark, unfold } = chimera.ask;
  const trouble = document.getElementById("trouble");
  const progress = document.getElementById("progress");
  const drop = document.getElementById("drop");
  const config = document.getElementById("config");
  const LARGEST_BYTES = 2e6;

  function tell(title, detail, names, faults) {
    const heading = document.createElement("b");
    heading.textContent = title;
    trouble.replaceChildren(heading, detail);
    mark(names, faults);
    unfold(names);
    trouble.focus();
  }

  async function ask(request) {
    const answer = await chimera.send("POST", form.action, request);
    const told = await answer.json();
    if (!answer.ok) return tell(told.title, told.detail, fieldsIn(told.detail));
    location.assign(told.links.page);
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("[type=submit]");
    trouble.replaceChildren();
    const { request, mistakes } = read();
    if (mistakes.length) {
      const faults = Object.fromEntries(mistakes.map((mistake) => [mistake.field, mistake.message]));
      tell("Something is missing or wrong", mistakes.map((mistake) => mistake.message).join(". "), Object.keys(faults), faults);
      return;
    }
    mark([]);
    button.disabled = true;
    progress.textContent = "Searching…";
    try {
      await ask(request);
    } catch (error) {
      tell("No answer", `The service could not be reached: ${error.message}`, []);
    } finally {
      button.disabled = false;
      progress.textContent = "";
    }
  });

  function showSource() {
    for (const part of form.querySelectorAll("[data-source]")) part.hidden = part.dataset.source !== value("source");
    for (const part of form.querySelectorAll("[data-shown-by]")) part.hidden = !form.elements[part.dataset.shownBy].checked;
  }

  function longest() {
    try {
      const known = JSON.parse(config.value).max_position_embeddings;
      return Number.isInteger(known) ? `required, at most ${known.toLocaleString("en")}` : "required";
    } catch {
      return "required";
    }
  }

  function showSequence() {
    const own = form.elements.preset.selectedOptions[0]?.dataset.sequence;
    form.elements.sequence_length.placeholder = value("source") === "preset" && own ? `the model's own: ${own}` : longest();
  }

  function showFacts() {
    for (const name of ["preset", "cluster", "pool"]) {
      const hint = document.getElementById(`${name}-hint`);
      if (hint) hint.textContent = form.elements[name].selectedOptions[0]?.dataset.facts ?? "";
    }
  }

  function show() {
    showSource();
    showSequence();
    showFacts();
  }

  async function take(file) {
    if (!file) return;
    if (file.size > LARGEST_BYTES) {
      tell("This is not a config.json", `“${file.name}” has ${(file.size / 1e6).toFixed(1)} MB, and a config.json has a few kB: weights stay where they are.`, ["config"]);
      return;
    }
    try {
      config.value = await file.text();
    } catch {
      tell("The file cannot be read", `“${file.name}” may be a folder: drop the config.json in it.`, ["config"]);
      return;
    }
    trouble.replaceChildren();
    if (!value("model_name")) form.elements.model_name.value = file.name.replace(/\.json$/i, "");
    show();
    form.dispatchEvent(new Event("filled"));
  }

  form.addEventListener("change", show);
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
    take(event.dataTransfer.files[0]);
  });
  show();
})();
