// From rows of logits to words with their times. All decoders have push(row) and flush(duration_s), which return the new
// words {label, start_s, end_s, probability?}; how logits are split into pushes does not matter.

export const NO_WORDS = ["unknown", "silence"];

/** The softmax of a row of numbers. */
export function softmax(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Float64Array.from(logits, (value) => Math.exp(value - most));
  const total = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / total);
}

/** The place of the largest number, the first of equal ones. */
export function argmax(row) {
  let best = 0;
  for (let place = 1; place < row.length; place++) if (row[place] > row[best]) best = place;
  return best;
}

/** As Python's round: halves go to the even number. */
function round(value) {
  const low = Math.floor(value), rest = value - low;
  return rest === 0.5 ? low + (low % 2) : Math.round(value);
}

/** Seconds from one row of logits to the next, and to the start of the first one. */
export function timesOf({ row_ms, first_row_ms }) {
  return { hop_s: row_ms / 1000, first_s: first_row_ms / 1000 };
}

/** Names of the classes of a row: a row of CTC or of a labeler has one class more than labels. */
export function classNames({ kind, task, labels }) {
  if (kind === "clips" || task === "classification") return labels;
  return [...labels, task === "recognition" ? "blank" : "(none)"];
}

/** The decoder of a model's task. */
export function decoderOf(metadata) {
  const { kind, task, labels, hop_samples: hop, window_samples: window } = metadata, times = timesOf(metadata);
  if (kind === "clips") return new ClipRuns(labels, times);
  if (task !== "classification") {
    const { shortest_ms, least_probability } = metadata;
    return new UnitRuns(labels, { ...times, shortest_s: shortest_ms / 1000, least_probability });
  }
  const clip_tokens = 1 + Math.floor((metadata.clip_samples - window) / hop);
  return new KeywordDecoder(labels, metadata.spotting, { ...times, latency_s: metadata.delay_ms / 1000, clip_tokens });
}

/** Keywords: vitspeech/decoding/keywords.py, whose docstring states each step. Words also have `decided_s`. */
export class KeywordDecoder {
  constructor(labels, settings, { hop_s, first_s, latency_s, clip_tokens }) {
    Object.assign(this, { labels, settings, hop_s, first_s, latency_s, clip: clip_tokens });
    this.smoothing = Math.max(round(settings.smoothing_s / hop_s), 1);
    this.pause = Math.max(round(settings.pause_s / hop_s), 1);
    this.shortest = Math.ceil(settings.shortest_s / hop_s - 1e-6);
    this.latency_s_of_words = latency_s + (this.pause + Math.ceil((this.smoothing - 1) / 2)) * hop_s;
    this.restart();
  }

  restart() {
    this.count = 0; // tokens so far
    this.posteriors = []; // of the newest tokens
    this.kept = []; // {logits, isFree} of the newest tokens
    this.runs = new Map(); // {first, last, probability} of words that have not ended
    this.last_end_s = -Infinity;
  }

  push(logits) {
    const word = this.wordOf(logits);
    this.kept.push({ logits: Float64Array.from(logits), isFree: true });
    if (this.kept.length > this.clip + this.pause + 1) this.kept.shift();
    this.count++;
    return this.selected(this.advance(word));
  }

  flush(duration_s = Infinity) {
    const ending = [...this.runs].sort(([, a], [, b]) => a.last - b.last);
    const words = this.selected(ending.flatMap(([word, run]) => this.decide(word, run)));
    this.restart();
    return words.map((found) => ({ ...found, decided_s: Math.min(found.decided_s, duration_s) }));
  }

  selected(candidates) {
    return candidates.filter(({ label, end_s, probability }) => {
      const { thresholds, refractory_s } = this.settings;
      const threshold = typeof thresholds === "number" ? thresholds : thresholds[label];
      if (probability < threshold || Math.max(end_s - this.last_end_s, 0) < refractory_s) return false;
      this.last_end_s = end_s;
      return true;
    });
  }

  wordOf(logits) {
    this.posteriors.push(softmax(logits));
    if (this.posteriors.length > this.smoothing) this.posteriors.shift();
    const smoothed = new Float64Array(logits.length);
    for (const row of this.posteriors) row.forEach((value, place) => { smoothed[place] += value; });
    const best = argmax(smoothed);
    const belongs = smoothed[best] / this.posteriors.length >= this.settings.token_probability;
    return belongs && !NO_WORDS.includes(this.labels[best]) ? best : null;
  }

  advance(word) {
    const newest = this.count - 1, candidates = [];
    if (word !== null && this.runs.has(word)) this.runs.get(word).last = newest;
    else if (word !== null) this.runs.set(word, { first: newest, last: newest, probability: null });
    for (const [other, run] of [...this.runs]) {
      const hasEnded = newest - run.last >= this.pause;
      if (hasEnded || newest - run.first + 1 >= this.clip) candidates.push(...this.decide(other, run));
      if (hasEnded) this.runs.delete(other);
    }
    return candidates;
  }

  decide(word, run) {
    if (run.last + 1 - run.first < this.shortest) return [];
    const isNew = run.probability === null;
    if (isNew) run.probability = this.probability(word, run);
    const oldest = this.count - this.kept.length;
    if (run.probability >= this.settings.used_probability) {
      for (let token = Math.max(run.first, oldest); token <= run.last; token++) this.kept[token - oldest].isFree = false;
    }
    if (!isNew) return [];
    return [{
      label: this.labels[word],
      start_s: this.center(run.first),
      end_s: this.center(run.last) + this.hop_s,
      probability: run.probability,
      decided_s: (this.count - 1) * this.hop_s + this.latency_s,
    }];
  }

  center(token) {
    return this.first_s + ((Math.max(token - this.smoothing + 1, 0) + token) / 2) * this.hop_s;
  }

  probability(word, run) {
    const size = Math.min(this.clip, this.count);
    let highest = 0;
    for (let end = Math.max(run.last, size - 1); end < this.count; end++) {
      highest = Math.max(highest, this.mean(end - size + 1, end + 1)[word]);
    }
    return highest;
  }

  mean(first, after) {
    const oldest = this.count - this.kept.length, total = new Float64Array(this.labels.length);
    let free = 0;
    for (const { logits, isFree } of this.kept.slice(first - oldest, after - oldest)) {
      if (!isFree) continue;
      free++;
      logits.forEach((value, place) => { total[place] += value; });
    }
    const size = Math.max(free, this.settings.least_fraction * this.clip);
    return softmax(total.map((value) => value / size));
  }
}

/** Runs of rows with the same most probable class, which are words once another one follows. */
class Runs {
  constructor(labels, { hop_s, first_s, shortest_s = 0, least_probability = 0 }) {
    Object.assign(this, { labels, hop_s, first_s, shortest_s, least_probability });
    this.restart();
  }

  restart() {
    this.count = 0;
    this.run = null; // {unit, first, total: sum of its probabilities}
  }

  push(logits) {
    const unit = argmax(logits);
    const words = this.run && this.run.unit !== unit ? this.ended() : [];
    if (!this.run || this.run.unit !== unit) this.run = { unit, first: this.count, total: 0 };
    this.run.total += softmax(logits)[unit];
    this.count++;
    return words;
  }

  flush() {
    const words = this.run ? this.ended() : [];
    this.restart();
    return words;
  }

  ended() {
    const { unit, first, total } = this.run, rows = this.count - first;
    const start_s = this.first_s + first * this.hop_s, end_s = this.first_s + this.count * this.hop_s;
    const isLong = rows * this.hop_s >= this.shortest_s - 1e-9, isProbable = total >= this.least_probability * rows;
    return isLong && isProbable && this.isWord(unit) ? [{ label: this.labels[unit], start_s, end_s }] : [];
  }
}

/** Labels of whole clips. */
class ClipRuns extends Runs {
  isWord(unit) {
    return !NO_WORDS.includes(this.labels[unit]);
  }
}

/**
 * Units of CTC by its best path (`GreedySearch` in vitspeech/decoding/ctc.py), or words of frame labels
 * (vitspeech/inference/label_stream.py): runs of one class, other than the last class (blank or none), of at least
 * `shortest_s`, with a mean probability of at least `least_probability`.
 */
export class UnitRuns extends Runs {
  isWord(unit) {
    return unit < this.labels.length;
  }
}
