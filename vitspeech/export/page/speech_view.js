// What the page of speech models shows of a recording: drawings, words, probabilities, attention and speed, and the time looked at.

import { choice, element } from "./main.js";
import { NO_WORDS, classNames, decoderOf } from "./decoding.js";
import { LEFT, drawAttention, drawProbabilities, drawSound, spanOf } from "./timeline.js";

const LISTED = 8; // labels with a bar
const MOST_NAMED = 60; // labels that are named before the first word

export class SpeechView {
  constructor() {
    this.metadata = this.hearing = this.cursor_s = null; // of the model; what it heard; the time looked at, null for the newest
    this.isLive = false; // then the newest time is looked at
    const canvas = (text) => element("canvas", { role: "img", "aria-label": text });
    this.sound = canvas("Spectrogram");
    this.chart = canvas("Probability of each label over time");
    this.attention = canvas("Attention weights");
    this.time = element("input", { type: "range", className: "time", min: 0, max: 0, step: "any", value: 0, "aria-label": "Time looked at" });
    this.time.oninput = () => this.look(Number(this.time.value));
    for (const drawing of [this.sound, this.chart]) drawing.onclick = (event) => this.point(event);
    this.time.style.setProperty("--left", `${LEFT}px`); // where the drawings begin
    this.timeText = element("p", { className: "faint" });
    this.words = element("tbody");
    this.said = element("p", { className: "said", "aria-live": "polite" }); // beside the controls
    this.noWords = element("p", { className: "faint" }, "None yet.");
    this.headings = ["word", "from", "to", "probability"].map((name) => element("th", { scope: "col" }, name));
    this.heading = element("tr");
    this.wordTable = element("div", { className: "scroll", hidden: true, role: "region", tabIndex: 0, "aria-label": "Words heard" },
      element("table", {}, element("thead", {}, this.heading), this.words));
    this.bars = element("div", { className: "bars" });
    this.block = choice("Block", [], () => this.changed());
    this.head = choice("Head", [], () => this.changed());
    this.attentionText = element("p", { className: "faint" });
    this.attentionPart = panel("What the heads attend to", element("div", { className: "row" }, this.block.label,
      this.head.label), this.attention, this.attentionText);
    this.speed = element("dl", { className: "numbers" });
    const drawings = element("div", { className: "stack" },
      panel("Sound and words", this.sound, this.time, this.timeText), panel("Probabilities over time", this.chart), this.attentionPart);
    const numbers = element("div", { className: "stack" }, panel("Words heard", this.noWords, this.wordTable),
      panel("Probabilities at the time looked at", this.bars), panel("Speed", this.speed));
    this.root = element("div", { className: "columns" }, drawings, numbers);
    new ResizeObserver(() => this.changed()).observe(this.root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.changed());
  }

  /** Show a model, or none (null). */
  use(metadata) {
    this.metadata = metadata;
    this.said.replaceChildren();
    if (!metadata) return;
    const { attention } = metadata, heads = Math.max(0, ...attention.map((block) => block.heads));
    fill(this.block.select, attention.map((_, number) => [number, `${number + 1}`]));
    fill(this.head.select, [["", "mean of all"], ...Array.from({ length: heads }, (_, number) => [number, `${number + 1}`])]);
    this.block.select.value = attention.length - 1;
    this.attentionPart.hidden = !attention.length;
    this.delay_ms = 1000 * (decoderOf(metadata).latency_s_of_words ?? metadata.delay_ms / 1000);
    this.say();
    this.changed();
  }

  /** Show a new recording, or none (null). */
  hear(hearing) {
    this.hearing = hearing;
    this.cursor_s = null;
    this.words.replaceChildren();
    this.wordTable.hidden = true;
    this.noWords.hidden = false;
    this.noWords.textContent = "None yet.";
    if (this.metadata) this.say();
    this.time.max = this.time.value = 0;
    this.changed();
  }

  /** Show what can be said; words take its place. */
  say() {
    const labels = this.metadata.labels.filter((label) => !NO_WORDS.includes(label));
    this.isText = labels.every((label) => [...label].length === 1) || labels.some((label) => label.startsWith("▁"));
    const first = labels.length > MOST_NAMED ? [...labels.slice(0, MOST_NAMED), "…"] : labels;
    this.said.replaceChildren(this.isText ? "It transcribes speech." : `It knows: ${first.join(", ")}.`);
    this.said.classList.add("faint");
  }

  /** The recording has ended. */
  ended() {
    this.noWords.textContent = "None.";
  }

  /** Add words to the transcript and to the table. */
  list(words) {
    if (this.said.classList.contains("faint")) this.said.replaceChildren();
    this.said.classList.remove("faint");
    this.said.append(...words.map(({ label }) => (this.isText ? label.replaceAll("▁", " ") : `${label} `)));
    this.said.scrollTop = this.said.scrollHeight;
    this.noWords.hidden = true;
    this.wordTable.hidden = false;
    for (const { label, start_s, end_s, probability } of words) {
      const cells = [label, `${start_s.toFixed(2)} s`, `${end_s.toFixed(2)} s`];
      if (probability !== undefined) cells.push(probability.toFixed(2));
      this.heading.replaceChildren(...this.headings.slice(0, cells.length)); // only keywords have a probability
      this.words.prepend(element("tr", {}, ...cells.map((text) => element("td", {}, text))));
    }
  }

  /** Look at a time. */
  look(seconds) {
    if (!this.hearing || this.isLive) return;
    this.cursor_s = Math.max(0, Math.min(seconds, this.hearing.duration_s));
    this.changed();
  }

  point(event) {
    const part = (event.offsetX - LEFT) / (event.currentTarget.clientWidth - LEFT);
    if (part >= 0 && this.shown) this.look(this.shown.start_s + part * this.shown.span_s);
  }

  /** Draw soon. */
  changed() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = undefined;
      this.draw();
    });
  }

  draw() {
    const { hearing, metadata } = this;
    if (!metadata || !this.sound.clientWidth) return;
    const full_s = hearing?.total_s ? Math.max(hearing.total_s, 1) : Infinity;
    const fitting_s = spanOf(this.sound), span_s = full_s > 2 * fitting_s ? fitting_s : full_s; // if possible all of it
    const { sample_rate_hz: rate_hz } = metadata;
    const newest_s = hearing?.rows ? hearing.times.first_s + (hearing.rows - 0.5) * hearing.times.hop_s : null;
    const cursor_s = hearing ? (this.cursor_s ?? newest_s) : null, duration_s = hearing?.duration_s ?? 0;
    const middle_s = this.cursor_s === null ? duration_s : this.cursor_s + span_s / 2;
    const start_s = Math.max(0, Math.min(middle_s, Math.max(duration_s, 0)) - span_s);
    const view = this.shown = { start_s, span_s, cursor_s, rate_hz };
    const names = classNames(metadata);
    const times = hearing?.times ?? { first_s: 0, hop_s: 1 };
    drawProbabilities(this.chart, view, names, hearing?.probabilities ?? new Map(), times);
    const row = hearing?.rows ? hearing.rowAt(cursor_s) : null, at = row === null ? null : hearing.probabilities.get(row);
    const window = hearing ? hearing.window(row, Number(this.block.select.value)) : null;
    drawSound(this.sound, view, hearing?.columns ?? new Map(), hearing?.words ?? [], window);
    this.time.disabled = !hearing || this.isLive;
    this.time.max = duration_s;
    this.time.value = cursor_s ?? 0;
    this.time.setAttribute("aria-valuetext", `${(cursor_s ?? 0).toFixed(2)} seconds`);
    this.timeText.textContent = cursor_s === null ? "" : `At ${cursor_s.toFixed(2)} s of ${duration_s.toFixed(1)} s.`;
    this.describe(names, at, cursor_s);
    this.drawBars(names, at);
    this.drawWeights(row, window);
    this.drawSpeed();
  }

  /** Alternative texts of the drawings. */
  describe(names, at, cursor_s) {
    const words = this.hearing?.words.slice(-LISTED).map(({ label, start_s }) => `${label} at ${start_s.toFixed(1)} s`) ?? [];
    this.sound.ariaLabel = `Spectrogram; words: ${words.join(", ") || "none"}`;
    const best = at ? at.indexOf(Math.max(...at)) : null;
    const text = at ? `; at ${cursor_s.toFixed(2)} s ${names[best]} is the most probable, ${at[best].toFixed(2)}` : "";
    this.chart.ariaLabel = `Probability of each label over time${text}`;
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
      this.attention.ariaLabel = "Attention weights: none yet";
      return;
    }
    const most = bars.reduce((a, b) => (b.weight > a.weight ? b : a)), own = bars.find((bar) => bar.isSelf);
    const distance_ms = Math.round(1000 * (most.start_s - own.start_s));
    const where = distance_ms === 0 ? "on itself" : `${Math.abs(distance_ms)} ms ${distance_ms < 0 ? "before" : "after"} it`;
    this.attentionText.textContent = `The token at ${own.start_s.toFixed(2)} s gives most weight `
      + `(${Math.round(100 * most.weight)} %) ${where}.`;
    this.attention.ariaLabel = `Attention weights. ${this.attentionText.textContent}`;
  }

  drawSpeed() {
    const { hearing } = this, isTimed = hearing?.ms.length, rows = [];
    if (isTimed) {
      const { median_ms, most_ms, factor } = hearing.speed;
      rows.push(["Real-time factor", factor.toFixed(3)], ["Step, median", `${median_ms.toFixed(2)} ms`],
        ["Step, 99 %", `${most_ms.toFixed(2)} ms`]);
    }
    rows.push(["Delay", `${Math.round(this.delay_ms)} ms`]);
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
