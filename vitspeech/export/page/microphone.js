// An AudioWorklet that passes the sound of the microphone on in parts: the mean of its channels.

const PART = 1024; // samples

class Microphone extends AudioWorkletProcessor {
  part = new Float32Array(PART);
  count = 0;

  process([channels]) {
    for (let place = 0; place < (channels[0]?.length ?? 0); place++) {
      this.part[this.count++] = channels.reduce((sum, channel) => sum + channel[place], 0) / channels.length;
      if (this.count === PART) {
        this.port.postMessage(this.part);
        this.count = 0;
      }
    }
    return true;
  }
}

registerProcessor("microphone", Microphone);
