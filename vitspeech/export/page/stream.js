// Drives the graph of a stream: samples of any number in, what each step computed out. As `steps` in vitspeech/export/stream_step.py.

export class Stream {
  /** `run(feeds) -> {outputs, ms}` computes one step. */
  constructor(metadata, run) {
    this.metadata = metadata;
    this.run = run;
    this.begin();
  }

  /** Begin a recording. */
  begin() {
    const { lead_in_samples, state_size } = this.metadata;
    this.pending = new Float32Array(lead_in_samples);
    this.state = new Float32Array(state_size);
    this.step = 0;
  }

  /** Process the next samples: Float32Array within ±1 -> one result for each step. */
  async push(samples) {
    const { hop_samples, first_step } = this.metadata, results = [];
    const all = joined([this.pending, samples]);
    let first = 0;
    for (; first + hop_samples <= all.length; first += hop_samples) {
      results.push(await this.advance(all.slice(first, first + hop_samples), this.step >= first_step));
    }
    this.pending = all.slice(first);
    return results;
  }

  /** End the recording: the results of the tokens that waited for their look-ahead. */
  async end() {
    const results = [];
    for (let left = this.metadata.steps_ahead; left > 0; left--) {
      results.push(await this.advance(new Float32Array(this.metadata.hop_samples), false));
    }
    this.begin();
    return results;
  }

  async advance(samples, valid) {
    const { hop_samples, state_size } = this.metadata;
    const { outputs, ms } = await this.run({
      samples: { type: "float32", data: samples, dims: [1, hop_samples] },
      valid: { type: "float32", data: Float32Array.of(valid ? 1 : 0), dims: [1] },
      state: { type: "float32", data: this.state, dims: [1, state_size] },
    });
    this.state = outputs.state_out.data;
    const { data, dims } = outputs.logits, classes = dims.at(-1), rows = [];
    const isToken = outputs.valid_out.data[0] > 0.5;
    for (let first = 0; isToken && first < data.length; first += classes) rows.push(data.slice(first, first + classes));
    const attention = this.metadata.attention.map(({ output }) => outputs[output].data);
    return { step: this.step++, rows, attention, ms };
  }
}

/** Whole clips, one every quarter of a clip, with the same methods as `Stream`. A shorter recording is filled with zeros. */
export class ClipStream {
  constructor(metadata, run) {
    this.metadata = metadata;
    this.run = run;
    this.begin();
  }

  begin() {
    this.pending = new Float32Array(0);
    this.step = 0;
  }

  async push(samples) {
    const { hop_samples, window_samples } = this.metadata, results = [];
    const all = joined([this.pending, samples]);
    let first = 0;
    for (; first + window_samples <= all.length; first += hop_samples) {
      results.push(await this.clip(all.slice(first, first + window_samples)));
    }
    this.pending = all.slice(first);
    return results;
  }

  async end() {
    const clip = new Float32Array(this.metadata.window_samples);
    clip.set(this.pending.slice(0, clip.length));
    const results = this.step || !this.pending.length ? [] : [await this.clip(clip)];
    this.begin();
    return results;
  }

  async clip(samples) {
    const { outputs, ms } = await this.run({ samples: { type: "float32", data: samples, dims: [1, samples.length] } });
    return { step: this.step++, rows: [outputs.logits.data], attention: [], ms };
  }
}

/** What a stream of clips adds to the metadata of a model of clips. */
export function clipTimes({ samples, sample_rate_hz }) {
  const hop_samples = Math.round(samples / 4), delay_ms = (1000 * samples) / sample_rate_hz;
  const row_ms = (1000 * hop_samples) / sample_rate_hz, first_row_ms = (delay_ms - row_ms) / 2;
  return { task: "labeling", hop_samples, window_samples: samples, delay_ms, row_ms, first_row_ms, attention: [] };
}

/** Parts of samples as one array. */
export function joined(parts) {
  const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) {
    all.set(part, place);
    place += part.length;
  }
  return all;
}
