// The page of speech models: the choice of a model, and what is listened to, a file or the microphone.

import { choice, dropZone, element, fileButton, tell } from "./main.js";
import { open } from "./runtime.js";
import { Hearing } from "./hearing.js";
import { microphoneFeed } from "./microphone_feed.js";
import { listen, microphoneLack, readSound } from "./sound.js";
import { SpeechView } from "./speech_view.js";

const PART_S = 0.5; // of a file, between two drawings

/** Fill `root` with the page of `models`; `examples` are paths of recordings. */
export async function mount(root, models, examples = []) {
  const page = new SpeechPage(root, examples);
  const { select, label } = choice("Model", models.map((model) => model.name), () => page.use(models[select.value]));
  page.controls.prepend(label);
  await page.use(models[0]);
}

class SpeechPage {
  constructor(root, examples) {
    this.model = this.hearing = this.microphone = this.feed = null;
    this.run = 0; // counts recordings: what belongs to a former one stops
    this.lack = microphoneLack();
    this.view = new SpeechView();
    const button = (text, onclick, className = "") => element("button", { type: "button", onclick, className }, text);
    this.listenButton = button("Use the microphone", () => (this.microphone ? this.stop() : this.listen()), "main");
    this.fileButton = fileButton("Open a recording …", "audio/*", (file) => this.play(file));
    this.fileInput = this.fileButton.querySelector("input");
    this.exampleButtons = examples.map((path) => {
      const words = path.split("/").at(-1).split(".")[0].split("-"); // the name of a recording says what is said in it
      return Object.assign(button("Try the example", () => this.playExample(path)), { words });
    });
    this.controls = element("div", { className: "row" }, this.listenButton, this.fileButton, ...this.exampleButtons);
    this.status = element("p", { className: "faint", role: "status" });
    this.player = element("audio", { controls: true, hidden: true, "aria-label": "The recording" });
    this.player.ontimeupdate = () => { if (!this.player.paused) this.view.look(this.player.currentTime); };
    const notice = element("p", { className: "faint", hidden: !this.lack }, this.lack);
    root.append(element("div", { className: "panel" }, this.controls, notice, this.view.said, this.status, this.player),
      this.view.root);
    dropZone(root, (file) => this.play(file));
    this.enable(false);
  }

  /** Load a model. */
  async use(entry) {
    this.stop();
    const run = ++this.run;
    this.clear();
    tell("");
    this.model = null;
    this.view.use(null);
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
    this.view.use(this.model.metadata);
    const { labels } = this.model.metadata;
    for (const each of this.exampleButtons) {
      each.hidden = !this.view.isText && !each.words.some((word) => labels.includes(word));
    }
    this.say(`Ready: ${labels.length} labels.`);
    this.enable(true);
  }

  enable(ready) {
    this.listenButton.disabled = !ready || Boolean(this.lack);
    this.fileInput.disabled = !ready;
    for (const button of this.exampleButtons) button.disabled = !ready;
  }

  /** Show a text; screen readers wait for the end of `isBusy`. */
  say(text, isBusy = false) {
    this.status.ariaBusy = isBusy;
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  fail(error) {
    this.say("");
    tell(error.message);
  }

  /** Forget what was heard. */
  clear() {
    this.hearing = null;
    this.view.hear(null);
    this.player.pause();
    this.player.hidden = true;
  }

  /** Begin a recording; the number of the run tells whether it is still the newest one. */
  begin() {
    this.stop();
    tell("");
    this.clear();
    const hearing = new Hearing(this.model, (words) => { if (this.hearing === hearing) this.view.list(words); });
    this.hearing = hearing;
    this.view.hear(hearing);
    return ++this.run;
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
      const samples = await readSound(file, hearing.rate, tell), part = Math.round(PART_S * hearing.rate);
      if (run !== this.run) return;
      hearing.total_s = samples.length / hearing.rate;
      if (this.player.src) URL.revokeObjectURL(this.player.src);
      this.player.src = URL.createObjectURL(file);
      this.player.hidden = false;
      for (let first = 0; first < samples.length; first += part) {
        await hearing.push(samples.slice(first, first + part));
        if (run !== this.run) return;
        this.say(`${file.name}: ${hearing.duration_s.toFixed(1)} of ${hearing.total_s.toFixed(1)} s`, true);
        this.view.changed();
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
    this.view.ended();
    const count = words.length === 1 ? "1 word" : `${words.length} words`;
    this.say(rows ? `${name}: ${count} in ${duration_s.toFixed(1)} s.` : `${name}: too short for this model.`);
    const word = words[0];
    this.view.look(word ? (word.start_s + word.end_s) / 2 : duration_s / 2);
  }

  async listen() {
    const run = this.begin(), hearing = this.hearing, isCurrent = () => run === this.run;
    const feed = microphoneFeed(hearing, {
      isCurrent,
      onstate: (text) => this.say(text),
      onstep: () => this.view.changed(),
      onlost: (message) => this.stop(message),
    });
    const ended = () => { if (isCurrent()) this.stop("The microphone was removed or its permission taken back."); };
    this.say("Waiting for the microphone …");
    try {
      const microphone = await listen(hearing.rate, feed.take, ended);
      if (!isCurrent()) return microphone.stop();
      this.microphone = microphone;
      this.feed = feed;
      this.view.isLive = true;
      this.listenButton.textContent = "Stop";
      this.say("Listening …");
    } catch (error) {
      if (isCurrent()) this.fail(error);
    }
  }

  /** Stop the microphone, with a message if it was not the user. */
  stop(message = "") {
    if (message) this.fail(new Error(message));
    if (!this.microphone) return;
    this.microphone.stop();
    this.microphone = null;
    this.view.isLive = false;
    this.listenButton.textContent = "Use the microphone";
    const run = ++this.run, hearing = this.hearing, isCurrent = () => run === this.run;
    this.feed.finish()
      .then(() => (isCurrent() ? hearing.end() : null))  // the model has one stream: it may hear the next recording
      .then(() => { if (isCurrent()) this.finish("Microphone"); })
      .catch((error) => { if (isCurrent()) this.fail(error); });
  }
}
