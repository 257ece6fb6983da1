// A spectrogram for the eye: 25 ms windows every 10 ms, bands on the mel scale. The models compute their own.

import { joined } from "./stream.js";

export const BANDS = 64;
export const COLUMN_S = 0.01;
const FLOOR_DB = -95, RANGE_DB = 75;

const mel = (hz) => 2595 * Math.log10(1 + hz / 700);
const hz = (mels) => 700 * (10 ** (mels / 2595) - 1);

export class Spectrogram {
  constructor(rate) {
    this.hop = Math.round(COLUMN_S * rate);
    this.window = Float64Array.from({ length: Math.round(0.025 * rate) }, (_, i, n = 0.025 * rate) =>
      0.5 - 0.5 * Math.cos((2 * Math.PI * i) / n));
    this.size = 2 ** Math.ceil(Math.log2(this.window.length));
    const edge = (band) => (hz((mel(rate / 2) * band) / BANDS) / rate) * this.size;
    this.bands = Array.from({ length: BANDS }, (_, band) => {
      const low = Math.floor(edge(band));
      return [low, Math.max(low + 1, Math.floor(edge(band + 1)))];
    });
    this.kept = new Float32Array(0);
  }

  /** The next samples -> columns, Uint8Array of BANDS levels, lowest band first. */
  push(samples) {
    const all = joined([this.kept, samples]), columns = [];
    let first = 0;
    for (; first + this.window.length <= all.length; first += this.hop) columns.push(this.column(all, first));
    this.kept = all.slice(first);
    return columns;
  }

  column(samples, first) {
    const real = new Float64Array(this.size), imaginary = new Float64Array(this.size);
    this.window.forEach((weight, i) => { real[i] = weight * samples[first + i]; });
    transform(real, imaginary);
    return Uint8Array.from(this.bands, ([low, after]) => {
      let power = 0;
      for (let bin = low; bin < after; bin++) power = Math.max(power, real[bin] ** 2 + imaginary[bin] ** 2);
      const db = 10 * Math.log10((4 * power) / this.window.length ** 2 + 1e-12);
      return Math.max(0, Math.min(255, (255 * (db - FLOOR_DB)) / RANGE_DB));
    });
  }
}

/** Fast Fourier transform in place; the length is a power of two. */
export function transform(real, imaginary) {
  const n = real.length;
  for (let i = 1, j = 0; i < n; i++) {
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      [real[i], real[j]] = [real[j], real[i]];
      [imaginary[i], imaginary[j]] = [imaginary[j], imaginary[i]];
    }
  }
  for (let length = 2; length <= n; length *= 2) {
    for (let k = 0; k < length / 2; k++) {
      const c = Math.cos((2 * Math.PI * k) / length), s = -Math.sin((2 * Math.PI * k) / length);
      for (let i = k; i < n; i += length) {
        const j = i + length / 2, x = real[j] * c - imaginary[j] * s, y = real[j] * s + imaginary[j] * c;
        real[j] = real[i] - x; imaginary[j] = imaginary[i] - y;
        real[i] += x; imaginary[i] += y;
      }
    }
  }
}
