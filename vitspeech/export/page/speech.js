// The page of speech models: microphone or file, spectrogram, words, probabilities, attention, speed.

import { choice, dropZone, element, fileButton, tell } from "./main.js";
import { open } from "./runtime.js";
import { classNames } from "./decoding.js";
import { Hearing } from "./hearing.js";
import { listen, microphoneLack, readSound } from "./sound.js";
import { LEFT, drawAttention, drawProbabilities, drawSound, spanOf } from "./timeline.js";
import { joined } from "./stream.js";

const LATE_S = 0.5, LOST_S = 5; // behind the microphone: told; ended
const PART_S = 0.5; // of a file, between two drawings
const LISTED = 8; // labels with a bar

/** Fill `root` with the page of `models`; `examples` are paths of recordings. */
export async function mount(root, models, examples = []) {
  const page = new SpeechPage(root, examples);
  const { select, label } = choice("Model", models.map((model) => model.name), () => page.use(models[select.value]));
  page.controls.prepend(label);
  await page.use(models[0]);
}

class SpeechPage {
  constructor(root, examples) {
    this.model = this.hearing = this.microphone = null;
    this.run = 0; // counts recordings: what belongs to a former one stops
    this.lack = microphoneLack();
    const button = (text, onclick, className = "") => element("button", { type: "button", onclick, className }, text);
    this.listenButton = button("Use the microphone", () => (this.microphone ? this.stop() : this.listen()), "main");
    this.fileButton = fileButton("Open a recording …", "audio/*", (file) => this.play(file));
    this.fileInput = this.fileButton.querySelector("input");
    this.exampleButtons = examples.map((path) => button("Try the example", () => this.playExample(path)));
    this.controls = element("div", { className: "row" }, this.listenButton, this.fileButton, ...this.exampleButtons);
    this.status = element("p", { className: "faint", role: "status" });
    this.player = element("audio", { controls: true, hidden: true, "aria-label": "The recording" });
    this.player.ontimeupdate = () => { if (!this.player.paused) this.look(this.player.currentTime); };

    const canvas = (text) => element("canvas", { role: "img", "aria-label": text });
    this.sound = canvas("Spectrogram, and below it the words at their times");
    this.chart = canvas("Probability of each label over time");
    this.attention = canvas("Attention weights of the token at the time looked at");
    this.time = element("input", { type: "range", min: 0, max: 0, step: "any", value: 0, "aria-label": "Time looked at" });
    this.time.oninput = () => this.look(Number(this.time.value));
    for (const drawing of [this.sound, this.chart]) drawing.onclick = (event) => this.point(event);
    this.timeText = element("p", { className: "faint" });
    this.words = element("tbody", { "aria-live": "polite", "aria-relevant": "additions" });
    this.noWords = element("p", { className: "faint" }, "None yet.");
    const heading = element("tr", {}, ...["word", "from", "to", "probability"].map((name) =>
      element("th", { scope: "col" }, name)));
    this.probabilityHeading = heading.lastChild; // only keywords have one
    this.wordTable = element("table", { hidden: true }, element("thead", {}, heading), this.words);
    this.bars = element("div", { className: "bars" });
    this.block = choice("Block", [], () => this.changed());
    this.head = choice("Head", [], () => this.changed());
    this.attentionText = element("p", { className: "faint" });
    this.attentionPart = panel("What the heads attend to", element("div", { className: "row" }, this.block.label,
      this.head.label), this.attention, this.attentionText);
    this.speed = element("dl", { className: "numbers" });
    const notice = element("p", { className: "faint", hidden: !this.lack }, this.lack);
    const drawings = element("div", { className: "stack" },
      panel("Sound and words", this.sound, this.time, this.timeText), panel("Probabilities over time", this.chart), this.attentionPart);
    const numbers = element("div", { className: "stack" }, panel("Words heard", this.noWords, this.wordTable),
      panel("Probabilities at the time looked at", this.bars), panel("Speed", this.speed));
    root.append(element("div", { className: "panel" }, this.controls, notice, this.status, this.player),
      element("div", { className: "columns" }, drawings, numbers));
    dropZone(root, (file) => this.play(file));
    new ResizeObserver(() => this.changed()).observe(root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.changed());
    this.enable(false);
  }

  /** Load a model. */
  async use(entry) {
    this.stop();
    const run = ++this.run;
    this.clear();
    tell("");
    this.model = null;
    this.enable(false);
    this.say(`Loading ${entry.name} …`);
    try {
      const model = await open(entry.folder);
      if (run !== this.run) return;
      this.model = model;
    } catch (error) {
      if (run === this.run) this.fail(error);
      return;
    }
    const { labels, attention } = this.model.metadata;
    fill(this.block.select, attention.map((_, number) => [number, `${number + 1}`]));
    const heads = attention.length ? Math.max(...attention.map((block) => block.heads)) : 0;
    fill(this.head.select, [["", "mean of all"], ...Array.from({ length: heads }, (_, number) => [number, `${number + 1}`])]);
    this.block.select.value = attention.length - 1;
    this.attentionPart.hidden = !attention.length;
    this.say(`Ready: ${labels.length} labels.`);
    this.enable(true);
    this.changed();
  }

  enable(ready) {
    this.listenButton.disabled = !ready || Boolean(this.lack);
    this.fileInput.disabled = !ready;
    for (const button of this.exampleButtons) button.disabled = !ready;
  }

  say(text) {
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  fail(error) {
    this.say("");
    tell(error.message);
  }

  /** Forget what was heard. */
  clear() {
    this.hearing = null;
    this.cursor_s = null;
    this.words.replaceChildren();
    this.wordTable.hidden = true;
    this.noWords.hidden = false;
    this.player.pause();
    this.player.hidden = true;
    this.time.max = this.time.value = 0;
    this.changed();
  }

  /** Begin a recording; the number of the run tells whether it is still the newest one. */
  begin() {
    this.stop();
    tell("");
    this.clear();
    this.hearing = new Hearing(this.model, (words) => this.list(words));
    return ++this.run;
  }

  list(words) {
    this.noWords.hidden = true;
    this.wordTable.hidden = false;
    for (const { label, start_s, end_s, probability } of words) {
      const cells = [label, `${start_s.toFixed(2)} s`, `${end_s.toFixed(2)} s`];
      if (probability !== undefined) cells.push(probability.toFixed(2));
      this.probabilityHeading.hidden = probability === undefined;
      this.words.prepend(element("tr", {}, ...cells.map((text) => element("td", {}, text))));
    }
  }

  async playExample(path) {
    const answer = await fetch(path).catch(() => null);
    if (!answer?.ok) return tell(`${path} could not be loaded.`);
    await this.play(new File([await answer.blob()], path.split("/").at(-1)));
  }

  /** Process a file as fast as possible. */
  async play(file) {
    if (!this.model) return;
    const run = this.begin(), hearing = this.hearing;
    try {
      this.say(`Reading ${file.name} …`);
      const samples = await readSound(file, hearing.rate), part = Math.round(PART_S * hearing.rate);
      if (run !== this.run) return;
      hearing.total_s = samples.length / hearing.rate;
      if (this.player.src) URL.revokeObjectURL(this.player.src);
      this.player.src = URL.createObjectURL(file);
      this.player.hidden = false;
      for (let first = 0; first < samples.length; first += part) {
        await hearing.push(samples.slice(first, first + part));
        if (run !== this.run) return;
        this.say(`${file.name}: ${hearing.duration_s.toFixed(1)} of ${hearing.total_s.toFixed(1)} s`);
        this.changed();
      }
      await hearing.end();
      if (run !== this.run) return;
      this.finish(file.name);
    } catch (error) {
      if (run === this.run) this.fail(error);
    }
  }

  /** Show the end of a recording, and let the user look at any time of it. */
  finish(name) {
    const { words, duration_s, rows } = this.hearing;
    this.hearing.total_s = duration_s;
    const count = words.length === 1 ? "1 word" : `${words.length} words`;
    this.say(rows ? `${name}: ${count} in ${duration_s.toFixed(1)} s.` : `${name}: too short for this model.`);
    const word = words[0];
    this.look(word ? (word.start_s + word.end_s) / 2 : duration_s / 2);
  }

  async listen() {
    const run = this.begin(), hearing = this.hearing, parts = [];
    let busy = false, waiting = 0;
    const ended = () => { if (run === this.run) this.stop("The microphone was removed or its permission taken back."); };
    const take = async (samples) => {
      if (run !== this.run) return;
      parts.push(samples);
      waiting += samples.length;
      const behind_s = waiting / hearing.rate;
      if (behind_s > LOST_S) {
        this.stop(`This device can't keep up with the microphone: it was ${behind_s.toFixed(0)} s behind.`);
        return;
      }
      if (behind_s > LATE_S) this.say(`This device can't keep up: ${behind_s.toFixed(1)} s behind the microphone.`);
      if (busy) return;
      busy = true;
      try {
        while (parts.length && run === this.run) {
          const all = joined(parts.splice(0));
          await hearing.push(all);
          waiting -= all.length;
          if (run !== this.run) return;
          if (waiting / hearing.rate <= LATE_S) this.say("Listening …");
          this.changed();
        }
      } catch (error) {
        if (run === this.run) this.stop(error.message);
      } finally {
        busy = false;
      }
    };
    this.say("Waiting for the microphone …");
    try {
      const microphone = await listen(hearing.rate, take, ended);
      if (run !== this.run) return microphone.stop();
      this.microphone = microphone;
      this.listenButton.textContent = "Stop";
      this.say("Listening …");
    } catch (error) {
      if (run === this.run) this.fail(error);
    }
  }

  /** Stop the microphone, with a message if it was not the user. */
  stop(message = "") {
    if (message) this.fail(new Error(message));
    if (!this.microphone) return;
    this.microphone.stop();
    this.microphone = null;
    this.listenButton.textContent = "Use the microphone";
    const run = ++this.run, hearing = this.hearing;
    hearing.end().then(() => { if (run === this.run) this.finish("Microphone"); }).catch((error) => this.fail(error));
  }

  /** Look at a time. */
  look(seconds) {
    if (!this.hearing || this.microphone) return;
    this.cursor_s = Math.max(0, Math.min(seconds, this.hearing.duration_s));
    this.changed();
  }

  point(event) {
    const part = (event.offsetX - LEFT) / (event.currentTarget.clientWidth - LEFT);
    if (part >= 0 && this.view) this.look(this.view.start_s + part * this.view.span_s);
  }

  /** Draw soon. */
  changed() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = undefined;
      this.draw();
    });
  }

  draw() {
    const { hearing, model } = this;
    if (!model || !this.sound.clientWidth) return;
    const full_s = hearing?.total_s ? Math.max(hearing.total_s, 1) : Infinity;
    const span_s = Math.min(spanOf(this.sound), full_s), { sample_rate_hz: rate_hz } = model.metadata;
    const newest_s = hearing?.rows ? hearing.times.first_s + (hearing.rows - 0.5) * hearing.times.hop_s : null;
    const cursor_s = hearing ? (this.cursor_s ?? newest_s) : null, duration_s = hearing?.duration_s ?? 0;
    const middle_s = this.cursor_s === null ? duration_s : this.cursor_s + span_s / 2;
    const start_s = Math.max(0, Math.min(middle_s, Math.max(duration_s, 0)) - span_s);
    const view = this.view = { start_s, span_s, cursor_s, rate_hz };
    const names = classNames(model.metadata);
    const times = hearing?.times ?? { first_s: 0, hop_s: 1 };
    drawProbabilities(this.chart, view, names, hearing?.probabilities ?? new Map(), times);
    const row = hearing?.rows ? hearing.rowAt(cursor_s) : null, at = row === null ? null : hearing.probabilities.get(row);
    const window = hearing ? hearing.window(row, Number(this.block.select.value)) : null;
    drawSound(this.sound, view, hearing?.columns ?? new Map(), hearing?.words ?? [], window);
    this.time.disabled = !hearing || Boolean(this.microphone);
    this.time.max = duration_s;
    this.time.value = cursor_s ?? 0;
    this.time.setAttribute("aria-valuetext", `${(cursor_s ?? 0).toFixed(2)} seconds`);
    this.timeText.textContent = cursor_s === null ? "" : `At ${cursor_s.toFixed(2)} s of ${duration_s.toFixed(1)} s.`;
    this.drawBars(names, at);
    this.drawWeights(row, window);
    this.drawSpeed();
  }

  drawBars(names, at) {
    const order = [...names.keys()].sort((a, b) => (at ? at[b] - at[a] : 0) || a - b).slice(0, LISTED);
    this.bars.replaceChildren(...order.flatMap((label, place) => {
      const value = at ? at[label] : 0, fillBar = element("i");
      fillBar.style.width = `${100 * value}%`;
      return [
        element("span", { className: at && place === 0 ? "best" : "" }, names[label]),
        element("span", { className: "bar", "aria-hidden": "true" }, fillBar),
        element("span", { className: "number" }, at ? value.toFixed(2) : "–"),
      ];
    }));
  }

  drawWeights(row, window) {
    const head = this.head.select.value === "" ? null : Number(this.head.select.value);
    const bars = row === null ? [] : this.hearing.weights(row, Number(this.block.select.value), head);
    drawAttention(this.attention, bars, window);
    if (!bars.length) {
      this.attentionText.textContent = "";
      return;
    }
    const most = bars.reduce((a, b) => (b.weight > a.weight ? b : a)), own = bars.find((bar) => bar.isSelf);
    const distance_ms = Math.round(1000 * (most.start_s - own.start_s));
    const where = distance_ms === 0 ? "on itself" : `${Math.abs(distance_ms)} ms ${distance_ms < 0 ? "before" : "after"} it`;
    this.attentionText.textContent = `The token at ${own.start_s.toFixed(2)} s gives most weight `
      + `(${Math.round(100 * most.weight)} %) ${where}.`;
  }

  drawSpeed() {
    const { hearing } = this, isTimed = hearing?.ms.length, rows = [];
    if (isTimed) {
      const { median_ms, most_ms, factor } = hearing.speed;
      rows.push(["Real-time factor", factor.toFixed(3)], ["Step, median", `${median_ms.toFixed(2)} ms`],
        ["Step, 99 %", `${most_ms.toFixed(2)} ms`]);
    }
    const delay_ms = hearing?.delay_ms ?? this.model.metadata.delay_ms;
    rows.push(["Delay", `${Math.round(delay_ms)} ms`]);
    this.speed.replaceChildren(...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  }
}

function panel(title, ...children) {
  return element("section", { className: "panel" }, element("h2", {}, title), ...children);
}

/** Replace the options of a choice: [value, name]. */
function fill(select, options) {
  select.replaceChildren(...options.map(([value, name]) => element("option", { value }, name)));
}
