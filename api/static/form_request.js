// What was filled in? The request that the form stands for, and what of it cannot be one.
"use strict";

window.chimera.ask = (function () {
  const form = document.getElementById("ask-form");
  const NAMED = ["cluster", "accelerator", "name", "precision", "gradient_precision", "optimizer", "optimizer_sharding", "attention", "compression", "recompute", "search", "runs_on", "partition"];
  const WHOLE = ["devices", "mini_batch_size", "sequence_length", "width", "depth", "micro_batch_size"];
  const REQUIRED = ["devices", "mini_batch_size"];
  const usual = schedules().join();

  class Mistake extends Error {
    constructor(field, message) {
      super(message);
      this.field = field;
    }
  }

  function schedules() {
    return [...form.querySelectorAll("[name=schedules]:checked")].map((box) => box.value);
  }

  function value(name) {
    return form.elements[name]?.value.trim() ?? "";
  }

  function label(name) {
    return form.querySelector(`label[for=${name}]`)?.textContent ?? name;
  }

  // The number of a field; undefined where it is empty. Thousands may be apart.
  function number(name) {
    const text = value(name).replace(/[\s,_]/g, "");
    if (text === "") {
      if (REQUIRED.includes(name)) throw new Mistake(name, `${label(name)} is missing`);
      return undefined;
    }
    const read = Number(text);
    if (!Number.isFinite(read)) throw new Mistake(name, `${label(name)}: “${value(name)}” is not a number`);
    return read;
  }

  function whole(name) {
    const read = number(name);
    if (read !== undefined && !(Number.isInteger(read) && read >= 1)) throw new Mistake(name, `${label(name)}: must be a whole number of at least 1, not ${value(name)}`);
    return read;
  }

  function share(name) {
    const read = number(name);
    if (read !== undefined && !(read >= 0 && read < 1)) throw new Mistake(name, `${label(name)}: must be at least 0 and less than 1, not ${value(name)}`);
    return read;
  }

  function positive(name) {
    const read = number(name);
    if (read !== undefined && read <= 0) throw new Mistake(name, `${label(name)}: must be more than 0, not ${value(name)}`);
    return read;
  }

  function model() {
    if (value("source") === "preset") return value("preset");
    const text = value("config");
    if (text === "") throw new Mistake("config", "Give the config.json: drop it, choose it, or paste its text");
    let parsed;
    try {
      parsed = JSON.parse(text);
    } catch (error) {
      throw new Mistake("config", `The config.json is not valid JSON: ${error.message}`);
    }
    if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) throw new Mistake("config", "The config.json must hold an object, {...}");
    const named = value("model_name");
    return named ? { config: parsed, name: named } : { config: parsed };
  }

  function length() {
    const read = whole("sequence_length");
    if (read === undefined && value("source") === "config") throw new Mistake("sequence_length", "Sequence length is required with a config.json: it does not say it");
    return read;
  }

  function refine() {
    if (!form.elements.refine?.checked) return undefined;
    return { trials: whole("trials") ?? 8, device_seconds: positive("device_seconds"), pool: value("pool") };
  }

  const READ = { model, sequence_length: length, margin: () => share("margin"), refine };

  // Every part by itself: one that cannot be read leaves the others standing.
  function parts() {
    const found = [];
    for (const name of NAMED) if (value(name)) found.push([name, () => value(name)]);
    for (const name of WHOLE) found.push([name, READ[name] ?? (() => whole(name))]);
    for (const name of ["model", "margin", "refine"]) found.push([name, READ[name]]);
    if (schedules().join() !== usual) found.push(["schedules", schedules]);
    return found;
  }

  // The request, and the mistakes for which there is none.
  function read() {
    const request = {};
    const mistakes = [];
    for (const [name, part] of parts()) {
      try {
        const got = part();
        if (got !== undefined) request[name] = got;
      } catch (error) {
        if (!(error instanceof Mistake)) throw error;
        mistakes.push(error);
      }
    }
    return { request, mistakes };
  }

  // "devices: must be ..." and "depth=3" name a field; "name it here" does not.
  function fieldsIn(detail) {
    const names = new Set([...form.elements].map((element) => element.name).filter(Boolean));
    return [...names].filter((name) => new RegExp(name.includes("_") ? `\\b${name}\\b` : `\\b${name}[:=]`).test(detail));
  }

  // Which fields are wrong, for eyes and screen readers; `faults` are messages by field.
  function mark(names, faults = {}) {
    for (const element of form.elements) {
      if (!element.name) continue;
      const wrong = names.includes(element.name);
      if (wrong) element.setAttribute("aria-invalid", "true");
      else element.removeAttribute("aria-invalid");
      explain(element, wrong ? faults[element.name] : undefined);
    }
  }

  // The message stands below the field, and is read with its hint.
  function explain(element, message) {
    const id = `${element.name}-fault`;
    const before = document.getElementById(id);
    if (before?.textContent === message) return;
    before?.remove();
    const described = (element.getAttribute("aria-describedby") ?? "").split(" ").filter((one) => one && one !== id);
    if (message !== undefined && element.id) {
      const told = document.createElement("span");
      told.id = id;
      told.className = "fault";
      told.textContent = message;
      element.after(told);
      described.push(id);
    }
    if (described.length) element.setAttribute("aria-describedby", described.join(" "));
    else element.removeAttribute("aria-describedby");
  }

  function unfold(names) {
    for (const name of names) {
      const folded = form.elements[name] instanceof HTMLElement && form.elements[name].closest("details");
      if (folded) folded.open = true;
    }
  }

  return { form, value, read, fieldsIn, mark, unfold };
})();
