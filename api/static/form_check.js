// Is what is filled in right so far? Numbers at once; the rest the service says, once nobody types any more.
"use strict";

(function () {
  const { form, read, fieldsIn, mark } = chimera.ask;
  const standing = document.getElementById("standing");
  const WAIT_MS = 450;
  const touched = new Set();
  let waiting = null;
  let asked = null;

  function say(text, wrong) {
    standing.hidden = text === "";
    standing.classList.toggle("wrong", wrong);
    if (standing.textContent !== text) standing.textContent = text;
  }

  function words(told) {
    const model = told.model;
    const parameters = model && new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(model.parameters);
    const what = model ? `${model.name}: ${model.blocks} blocks, ${parameters} parameters, ${model.sequence_length.toLocaleString("en")} tokens a sample, ${model.precision}` : "A model that only a worker can take apart";
    const then = told.answered === "at_once" ? "answered at once" : told.measures.length ? `answered after workers did: ${told.measures.join(", ").replace(/_/g, " ")}` : "answered after its trials";
    return `${what}; on ${told.accelerator} of ${told.cluster}; ${then}.`;
  }

  // What a person has not come to yet is not held against them.
  function known(mistakes) {
    return mistakes.filter((mistake) => touched.has(mistake.field));
  }

  function look() {
    const { mistakes } = read();
    const faults = Object.fromEntries(known(mistakes).map((mistake) => [mistake.field, mistake.message]));
    mark(Object.keys(faults), faults);
    if (mistakes.length) say("", false);
    return mistakes.length === 0;
  }

  async function ask() {
    const { request, mistakes } = read();
    if (mistakes.length) return;
    asked?.abort();
    asked = new AbortController();
    try {
      const answer = await chimera.send("POST", form.dataset.check, request, { signal: asked.signal });
      const told = await answer.json();
      if (answer.ok) return say(words(told), false);
      if (answer.status !== 422) return say("", false);
      say(told.detail, true);
      mark(fieldsIn(told.detail));
    } catch {
      say("", false); // Somebody typed on, or nobody answers: sending will tell.
    }
  }

  function soon() {
    clearTimeout(waiting);
    waiting = setTimeout(ask, WAIT_MS);
  }

  function changed(event) {
    if (event.target.name) touched.add(event.target.name);
    asked?.abort();
    if (look()) soon();
    else clearTimeout(waiting);
  }

  form.addEventListener("input", changed);
  form.addEventListener("change", changed);
  form.addEventListener("filled", () => { touched.add("config"); if (look()) soon(); });
})();
