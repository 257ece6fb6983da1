// The shell: one tab for each sense that has a model. models.json: {models: [{folder, name, kind}], examples: {sense: [path]}}.

import { supports } from "./runtime.js";

const SENSES = { speech: "Speech", images: "Images" };
const senseOf = (model) => (model.kind === "images" ? "images" : "speech");

/** Show a message of an error until the next action; an empty one removes it. */
export function tell(message) {
  const alert = document.getElementById("alert");
  alert.textContent = message;
  alert.hidden = !message;
}

/** A new element: its properties, then its children (elements or text). */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** A labelled choice among names: its `select` has the index of the chosen one as its value. */
export function choice(text, names, onchange) {
  const select = element("select", { onchange }, ...names.map((name, value) => element("option", { value }, name)));
  return { select, label: element("label", { className: "choice" }, text, select) };
}

/** A button-like label of a file input; `onfile` gets the file. */
export function fileButton(text, accept, onfile) {
  const input = element("input", { type: "file", accept });
  input.onchange = () => {
    if (input.files.length) onfile(input.files[0]);
    input.value = ""; // so that the same file can be chosen again
  };
  return element("label", { className: "file" }, text, input);
}

/** Files that are dropped on `target` go to `onfile`. */
export function dropZone(target, onfile) {
  const mark = (dropping) => target.classList.toggle("dropping", dropping);
  target.ondragover = (event) => { event.preventDefault(); mark(true); };
  target.ondragleave = () => mark(false);
  target.ondrop = (event) => {
    event.preventDefault();
    mark(false);
    if (event.dataTransfer.files.length) onfile(event.dataTransfer.files[0]);
  };
}

async function show() {
  const missing = supports();
  if (missing) return tell(missing);
  const answer = await fetch("models.json");
  if (!answer.ok) throw new Error("models.json is missing; write the folder anew with `vitspeech demo`.");
  const { models, examples } = await answer.json();
  const tabs = document.getElementById("tabs"), panels = {};
  const select = (sense) => {
    for (const tab of tabs.children) {
      const chosen = tab.id === `tab-${sense}`;
      tab.setAttribute("aria-selected", chosen);
      tab.tabIndex = chosen ? 0 : -1;
      panels[tab.id.slice(4)].hidden = !chosen;
    }
    tell("");
  };
  const senses = Object.keys(SENSES).filter((sense) => models.some((model) => senseOf(model) === sense));
  tabs.hidden = senses.length < 2;
  tabs.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const place = senses.findIndex((sense) => !panels[sense].hidden);
    const next = senses[(place + step + senses.length) % senses.length];
    select(next);
    document.getElementById(`tab-${next}`).focus();
  };
  for (const sense of senses) {
    const names = { id: `panel-${sense}`, role: "tabpanel", "aria-labelledby": `tab-${sense}` };
    panels[sense] = element("section", names);
    document.querySelector("main").append(panels[sense]);
    const parts = { id: `tab-${sense}`, type: "button", role: "tab", "aria-controls": names.id };
    tabs.append(element("button", { ...parts, onclick: () => select(sense) }, SENSES[sense]));
  }
  select(senses[0]);
  for (const sense of senses) {
    const { mount } = await import(`./${sense}.js`);
    await mount(panels[sense], models.filter((model) => senseOf(model) === sense), examples[sense]);
  }
}

// A file that is dropped beside its place would otherwise replace the page.
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => event.preventDefault());
addEventListener("unhandledrejection", (event) => tell(event.reason?.message ?? String(event.reason)));
show().catch((error) => tell(error.message)).finally(() => { document.body.dataset.ready = "yes"; });
