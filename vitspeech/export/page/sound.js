// Sound from files and from the microphone, at a model's rate: one channel, Float32Array within ±1.

import { Resampler } from "./resample.js";

/**
 * The samples of a file. WAV of PCM or floats is read here, so that its samples stay exact; the browser decodes others.
 * `warn` is told if a WAV file is cut short.
 */
export async function readSound(file, rate, warn = () => {}) {
  const content = await file.arrayBuffer(), name = file.name ?? "the recording";
  const wav = readWav(new DataView(content));
  let samples;
  if (wav) {
    if (wav.missing_s > 0) warn(`${name} is cut short: its last ${wav.missing_s.toFixed(1)} s are missing.`);
    samples = new Resampler(wav.rate, rate).whole(wav.samples);
  } else {
    try {
      const decoded = await new OfflineAudioContext(1, 1, rate).decodeAudioData(content);
      samples = mixed(Array.from({ length: decoded.numberOfChannels }, (_, channel) => decoded.getChannelData(channel)));
    } catch {
      throw new Error(`${name} can't be decoded by this browser: it is no sound file, or of a format that it doesn't know.`);
    }
  }
  if (!samples.length) throw new Error(`${name} holds no sound.`);
  if (!samples.every(Number.isFinite)) throw new Error(`${name} holds samples that are not finite.`);
  return samples;
}

/** The mean of channels. */
function mixed(channels) {
  if (channels.length === 1) return channels[0];
  return channels[0].map((_, place) => channels.reduce((sum, channel) => sum + channel[place], 0) / channels.length);
}

/** {rate, samples, missing_s} of a RIFF WAVE file of whole numbers (8 to 32 bits) or floats (32 bits); null for anything else. */
export function readWav(view) {
  const text = (at) => String.fromCharCode(...[0, 1, 2, 3].map((i) => view.getUint8(at + i)));
  if (view.byteLength < 12 || text(0) !== "RIFF" || text(8) !== "WAVE") return null;
  let format = null;
  for (let at = 12; at + 8 <= view.byteLength; ) {
    const name = text(at), start = at + 8, stated = view.getUint32(at + 4, true), size = Math.min(stated, view.byteLength - start);
    if (name === "fmt " && size >= 16) {
      const short = (offset) => view.getUint16(start + offset, true);
      const code = short(0) === 0xfffe && size >= 26 ? short(24) : short(0); // extensible: the code is in the subformat
      format = { code, channels: short(2), rate: view.getUint32(start + 4, true), bytes: short(14) / 8 };
    } else if (name === "data" && format) {
      const read = reader(view, format);
      if (!read || !format.channels || !format.rate) return null;
      const frame = format.channels * format.bytes, count = Math.floor(size / frame);
      const channels = Array.from({ length: format.channels }, (_, channel) => Float32Array.from({ length: count }, (_, i) =>
        read(start + i * frame + channel * format.bytes)));
      const isOpen = stated > 0x7fffffff; // written before the length was known
      return { rate: format.rate, samples: mixed(channels), missing_s: isOpen ? 0 : (stated - size) / frame / format.rate };
    }
    at = start + size + (size % 2);
  }
  return null;
}

/** How a sample is read, within ±1. */
function reader(view, { code, bytes }) {
  if (code === 3 && bytes === 4) return (at) => view.getFloat32(at, true);
  if (code !== 1) return null;
  return {
    1: (at) => (view.getUint8(at) - 128) / 128,
    2: (at) => view.getInt16(at, true) / 2 ** 15,
    3: (at) => (view.getUint8(at) / 256 + view.getInt16(at + 1, true)) / 2 ** 15,
    4: (at) => view.getInt32(at, true) / 2 ** 31,
  }[bytes];
}

/** Why there is no microphone here, as a sentence; an empty text if there may be one. */
export function microphoneLack() {
  if (!isSecureContext) {
    return "No microphone: this page is not a secure context. Open it by https, or on this machine as http://127.0.0.1.";
  }
  const has = navigator.mediaDevices?.getUserMedia && window.AudioWorkletNode;
  return has ? "" : "No microphone: this browser lacks getUserMedia or AudioWorklet.";
}

const REFUSALS = {
  NotAllowedError: "The microphone was not allowed. Allow it in the settings of this page, then try again.",
  NotFoundError: "There is no microphone.",
  NotReadableError: "The microphone can't be read: another program may be using it.",
};

/** Listen: `onsamples(Float32Array)` gets the sound at `rate`, `onend()` is called if it ends by itself. Returns {stop}. */
export async function listen(rate, onsamples, onend) {
  let stream;
  try {
    const audio = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
    stream = await navigator.mediaDevices.getUserMedia({ audio });
  } catch (error) {
    throw new Error(REFUSALS[error.name] ?? `The microphone can't be used: ${error.message}`);
  }
  const context = new AudioContext(); // at the device's own rate: Firefox refuses a microphone at another one
  const stop = () => {
    stream.getTracks().forEach((track) => { track.onended = null; track.stop(); });
    if (context.state !== "closed") context.close();
  };
  try {
    await context.audioWorklet.addModule(new URL("microphone.js", import.meta.url).href);
    await context.resume();
    const resampler = new Resampler(context.sampleRate, rate), node = new AudioWorkletNode(context, "microphone");
    node.port.onmessage = ({ data }) => onsamples(resampler.push(data));
    context.createMediaStreamSource(stream).connect(node).connect(context.destination); // its output is silent
    stream.getTracks().forEach((track) => { track.onended = onend; });
  } catch (error) {
    stop();
    throw new Error(`The microphone can't be used: ${error.message}`);
  }
  return { stop };
}
