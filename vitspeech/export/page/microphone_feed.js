// Feeds a recording with the sound of the microphone as it comes: what waits while the model computes is its next part.

import { joined } from "./stream.js";

const LATE_S = 0.5, LOST_S = 5; // behind the microphone: told; ended

/**
 * `take(samples)` takes the next samples; `finish()` hears those that still wait, after the last ones.
 *   isCurrent(): whether the recording is still the newest one
 *   onstate(text): whether it keeps up
 *   onstep(): something was heard
 *   onlost(message): it can't go on
 */
export function microphoneFeed(hearing, { isCurrent, onstate, onstep, onlost }) {
  const parts = [];
  let isBusy = false, waiting = 0;
  const finish = async () => { if (parts.length) await hearing.push(joined(parts.splice(0))); };
  const take = async (samples) => {
    if (!isCurrent()) return;
    parts.push(samples);
    waiting += samples.length;
    const behind_s = waiting / hearing.rate;
    if (behind_s > LOST_S) {
      onlost(`This device can't keep up with the microphone: it was ${behind_s.toFixed(0)} s behind.`);
      return;
    }
    if (behind_s > LATE_S) onstate(`This device can't keep up: ${behind_s.toFixed(1)} s behind the microphone.`);
    if (isBusy) return;
    isBusy = true;
    try {
      while (parts.length && isCurrent()) {
        const all = joined(parts.splice(0));
        await hearing.push(all);
        waiting -= all.length;
        if (!isCurrent()) return;
        if (waiting / hearing.rate <= LATE_S) onstate("Listening …");
        onstep();
      }
    } catch (error) {
      if (isCurrent()) onlost(error.message);
    } finally {
      isBusy = false;
    }
  };
  return { take, finish };
}
