// What a model heard in one recording: samples in; rows, words, columns of the spectrogram and times of computation out.

import { decoderOf, softmax, timesOf } from "./decoding.js";
import { Spectrogram } from "./spectrogram.js";

const KEPT_S = 600; // of what can be looked at again; words are kept from the beginning
const TIMED = 250; // steps over which times are computed

export class Hearing {
  /** `model` from `open`; `onwords` gets new words. */
  constructor(model, onwords) {
    Object.assign(this, { model, onwords, metadata: model.metadata });
    const rate = this.metadata.sample_rate_hz;
    this.rate = rate;
    this.spectrogram = new Spectrogram(rate);
    this.times = timesOf(this.metadata); // of rows, of which a token of a labeler has several
    this.columns = new Map();
    this.probabilities = new Map(); // of each row
    this.attention = new Map(); // of each step
    this.words = [];
    this.ms = [];
    this.samples = this.rows = this.columnCount = this.steps = 0;
    model.begin(); // the worker answers in order
  }

  /** Process the next samples. */
  async push(samples) {
    this.samples += samples.length;
    for (const column of this.spectrogram.push(samples)) this.keep(this.columns, this.columnCount++, column, 0.01);
    this.take(await this.model.push(samples));
  }

  /** End the recording. */
  async end() {
    this.take(await this.model.end());
    if (this.decoder) this.add(this.decoder.flush(this.duration_s));
  }

  take(results) {
    for (const { step, rows, attention, ms } of results) {
      if (rows.length && !this.decoder) {
        this.decoder = decoderOf(this.metadata);
        this.perToken = rows.length;
      }
      if (attention.length) this.keep(this.attention, step, attention, this.tokenHop_s);
      this.steps = step + 1;
      for (const row of rows) {
        this.keep(this.probabilities, this.rows++, softmax(row), this.times.hop_s);
        this.add(this.decoder.push(row));
      }
      this.ms.push(ms);
      if (this.ms.length > TIMED) this.ms.shift();
    }
  }

  keep(map, number, value, each_s) {
    map.set(number, value);
    map.delete(number - Math.round(KEPT_S / each_s));
  }

  add(words) {
    this.words.push(...words);
    if (words.length) this.onwords(words);
  }

  get tokenHop_s() {
    return this.metadata.hop_samples / this.rate;
  }

  /** Start of the first token's hop. */
  get firstToken_s() {
    return (this.metadata.window_samples - this.metadata.hop_samples) / 2 / this.rate;
  }

  get duration_s() {
    return this.samples / this.rate;
  }

  /** {median_ms, most_ms (99 %), factor}: computing times of the newest steps, and their part of the sound. */
  get speed() {
    const sorted = [...this.ms].sort((a, b) => a - b), at = (part) => sorted[Math.floor(part * (sorted.length - 1))];
    const mean = this.ms.reduce((a, b) => a + b, 0) / this.ms.length;
    return { median_ms: at(0.5), most_ms: at(0.99), factor: mean / 1000 / this.tokenHop_s };
  }

  /** The row at a time, or the nearest one. */
  rowAt(seconds) {
    const { first_s, hop_s } = this.times;
    return Math.max(0, Math.min(this.rows - 1, Math.floor((seconds - first_s) / hop_s)));
  }

  /** The times {start_s, end_s} that the token of a row can attend to in a block. */
  window(row, block) {
    const { left, right } = this.metadata.attention[block] ?? {};
    if (left === undefined || row === null) return null;
    const token = Math.floor(row / (this.perToken ?? 1)), start = (place) => this.firstToken_s + place * this.tokenHop_s;
    return { start_s: start(token - left), end_s: start(token + right + 1) };
  }

  /**
   * The weights of the token of a row in a block and head (null: the mean of all): [{start_s, end_s, weight, isSelf}].
   * Each block waits for its own look-ahead, so its weights of a token come `right` steps after those of the block below.
   */
  weights(row, block, head) {
    const { attention, first_step } = this.metadata, token = Math.floor(row / (this.perToken ?? 1));
    if (!attention[block] || row < 0) return [];
    const { wait } = attention[block];
    const weights = this.attention.get(token + wait + first_step)?.[block];
    if (!weights) return [];
    const { heads, left, right } = attention[block], keys = left + 1 + right, bars = [];
    for (let key = 0; key < keys; key++) {
      const place = token - left + key;
      if (place < 0) continue; // before the recording
      const of = (number) => weights[number * keys + key];
      const mean = () => Array.from({ length: heads }, (_, number) => of(number)).reduce((a, b) => a + b, 0) / heads;
      const start_s = this.firstToken_s + place * this.tokenHop_s;
      bars.push({ start_s, end_s: start_s + this.tokenHop_s, weight: head === null ? mean() : of(head), isSelf: key === left });
    }
    return bars;
  }
}
