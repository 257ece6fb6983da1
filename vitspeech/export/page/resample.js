// Resampling of sound that arrives in parts: a linear-phase low-pass (windowed sinc, Kaiser), one phase for each place that an
// output sample can have between two input samples.

import { joined } from "./stream.js";

const CROSSINGS = 32; // zero crossings of the sinc on each side
const BETA = 9; // of the Kaiser window: about 90 dB of attenuation
const PASSED = 0.94; // cutoff, as a fraction of the lower Nyquist frequency

function gcd(a, b) {
  return b ? gcd(b, a % b) : a;
}

/** Modified Bessel function of order 0. */
function bessel(x) {
  let term = 1, sum = 1;
  for (let k = 1; term > 1e-12 * sum; k++) sum += term *= (x / (2 * k)) ** 2;
  return sum;
}

export class Resampler {
  /** From one rate in Hz to another; both are whole numbers. */
  constructor(from, to) {
    const divisor = gcd(from, to);
    this.up = to / divisor; // phases
    this.down = from / divisor;
    const cutoff = PASSED * Math.min(1, to / from);
    this.half = Math.ceil(CROSSINGS / cutoff); // input samples on each side
    this.kernels = from === to ? [] : Array.from({ length: this.up }, (_, phase) => this.kernel(phase / this.up, cutoff));
    this.restart();
  }

  /** Weights of the input samples -half + 1 .. half around a place `shift` after sample 0; their sum is 1. */
  kernel(shift, cutoff) {
    const weights = Float64Array.from({ length: 2 * this.half }, (_, place) => {
      const x = place - this.half + 1 - shift, t = Math.PI * cutoff * x;
      const sinc = t === 0 ? 1 : Math.sin(t) / t;
      return sinc * bessel(BETA * Math.sqrt(Math.max(0, 1 - (x / this.half) ** 2)));
    });
    const sum = weights.reduce((a, b) => a + b, 0);
    return weights.map((weight) => weight / sum);
  }

  restart() {
    this.kept = new Float32Array(this.half - 1); // zeros before the first sample
    this.first = 0; // place in `kept` of the sample at or before the next output, less half - 1
    this.phase = 0;
  }

  /** The next samples: Float32Array -> those that are final at the new rate. */
  push(samples) {
    if (!this.kernels.length) return samples;
    const all = joined([this.kept, samples]), out = [];
    while (this.first + 2 * this.half <= all.length) {
      const kernel = this.kernels[this.phase];
      let sum = 0;
      for (let place = 0; place < kernel.length; place++) sum += kernel[place] * all[this.first + place];
      out.push(sum);
      this.phase += this.down;
      this.first += Math.floor(this.phase / this.up);
      this.phase %= this.up;
    }
    const used = Math.min(this.first, all.length);
    this.kept = all.slice(used);
    this.first -= used;
    return Float32Array.from(out);
  }

  /** A whole recording: N samples -> ceil(N · to / from). */
  whole(samples) {
    this.restart();
    if (!this.kernels.length) return samples;
    const padded = new Float32Array(samples.length + this.half + 1);
    padded.set(samples);
    return this.push(padded).slice(0, Math.ceil((samples.length * this.up) / this.down));
  }
}
