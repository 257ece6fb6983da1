// What a patch of an image attends to, drawn over it: hover, tap, or focus and arrow keys choose the patch.

import { choice, element } from "./main.js";

const SIZE = 448; // least side of the canvas in its own pixels
const SHADOW = 0.6; // of the darkest pixels over the colors, so that the image can be recognized
// Multiples of uniform attention from 1/8 to 8: ColorBrewer's PuOr as in the figures, without its darkest colors, in
// which the image would be lost.
const COLORS = [[84, 39, 136], [128, 115, 172], [178, 171, 210], [216, 218, 235], [247, 247, 247], [254, 224, 182],
  [253, 184, 99], [224, 130, 20], [179, 88, 6]];
const OCTAVES = 3;

/** The color of a weight in multiples of uniform attention: [red, green, blue]. */
function color(relative) {
  const octaves = Math.min(Math.max(Math.log2(Math.max(relative, 1e-9)), -OCTAVES), OCTAVES);
  const place = ((octaves + OCTAVES) / (2 * OCTAVES)) * (COLORS.length - 1);
  const low = Math.min(Math.floor(place), COLORS.length - 2), part = place - low;
  return COLORS[low].map((value, at) => value + part * (COLORS[low + 1][at] - value));
}

/** The colors from 1/8 to 8 with their numbers, as an element. */
function legend() {
  const canvas = element("canvas", { width: 120, height: 1, className: "scale" });
  const context = canvas.getContext("2d");
  for (let x = 0; x < 120; x++) {
    context.fillStyle = `rgb(${color(2 ** ((x / 119) * 2 * OCTAVES - OCTAVES)).map(Math.round)})`;
    context.fillRect(x, 0, 1, 1);
  }
  canvas.setAttribute("aria-hidden", true);
  const numbers = element("div", { className: "ticks" }, 
    ...["1/8", "1/4", "1/2", "1", "2", "4", "8"].map((text) => element("span", {}, text)));
  return element("div", { className: "legend faint" }, canvas, numbers, "attention in multiples of uniform attention");
}

/** The image as the network sees it, and over it the attention of a layer and head. `root` is its element. */
export class AttentionMap {
  /** `metadata` of an exported image classifier with attention. */
  constructor(metadata, name) {
    this.metadata = metadata;
    const { attention, grid } = metadata;
    const what = `Attention of ${name} over the image`;
    this.canvas = element("canvas", { className: "map", role: "application", "aria-label": what, tabIndex: 0 });
    this.pinned = this.hovered = null; // patches [row, column]
    [this.rows, this.columns] = grid;
    const layers = attention.map((_, number) => number + 1);
    this.layer = choice("Layer", layers, () => this.change());
    this.layer.select.value = attention.length - 1;
    this.head = choice("Head", [], () => this.draw());
    this.status = element("p", { className: "faint status", role: "status" });
    const help = element("p", { className: "faint help", id: `help-${name}` },
      "Point at a patch or tap it to see what it attends to; with the keyboard use the arrow keys, ",
      "Escape for all patches.");
    this.canvas.setAttribute("aria-describedby", help.id);
    this.canvas.onpointermove = (event) => this.hover(this.patchAt(event));
    this.canvas.onpointerleave = () => this.hover(null);
    this.canvas.onpointerdown = (event) => this.pin(this.patchAt(event));
    this.canvas.onkeydown = (event) => this.key(event);
    const controls = element("div", { className: "row" }, this.layer.label, this.head.label);
    this.root = element("div", { className: "stack" }, controls, this.canvas, this.status, legend(), help);
    this.change();
  }

  /** Another layer: it may have another number of heads. */
  change() {
    const { heads } = this.metadata.attention[this.layer.select.value], { select } = this.head, before = select.value;
    const names = ["mean", ...Array.from({ length: heads }, (_, head) => head + 1)];
    select.replaceChildren(...names.map((text, value) => element("option", { value }, text)));
    select.value = before && before <= heads ? before : 0;
    this.draw();
  }

  /** Show an image: Uint8Array (side, side, 3), and the outputs of the network for it. */
  show(pixels, outputs) {
    [this.pixels, this.outputs] = [pixels, outputs];
    this.draw();
  }

  patchAt(event) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    const place = (part, count) => Math.min(Math.max(Math.floor(part * count), 0), count - 1);
    return [place((event.clientY - top) / height, this.rows), place((event.clientX - left) / width, this.columns)];
  }

  hover(patch) {
    if (String(patch) === String(this.hovered)) return;
    this.hovered = patch;
    this.draw();
  }

  /** Keep a patch; the same one again lets it go. */
  pin(patch) {
    const again = String(patch) === String(this.pinned);
    this.pinned = again ? null : patch;
    this.hovered = null;
    this.draw();
  }

  key(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.ctrlKey || event.altKey || event.metaKey || (!step && event.key !== "Escape")) return;
    event.preventDefault();
    const sizes = [this.rows, this.columns];
    const start = () => sizes.map((size) => Math.floor((size - 1) / 2));
    const moved = (patch) => patch.map((at, axis) => Math.min(Math.max(at + step[axis], 0), sizes[axis] - 1));
    this.hovered = null;
    this.pinned = step ? (this.pinned ? moved(this.pinned) : start()) : null;
    this.draw();
  }

  /** The attention to each patch in multiples of uniform attention (rows · columns), and whose attention it is. */
  chosen() {
    const { attention, class_tokens: first } = this.metadata, { output, heads } = attention[this.layer.select.value];
    const { data, dims } = this.outputs[output], tokens = dims[3], head = Number(this.head.select.value);
    const patch = this.hovered ?? this.pinned;
    const queries = patch ? [first + patch[0] * this.columns + patch[1]] : first ? [0] : [...Array(tokens).keys()];
    const used = head ? [head - 1] : [...Array(heads).keys()];
    const sums = new Float64Array(this.rows * this.columns);
    for (const at of used) {
      for (const query of queries) {
        const row = (at * tokens + query) * tokens + first;
        for (let key = 0; key < sums.length; key++) sums[key] += data[row + key];
      }
    }
    const name = (row, column) => `row ${row + 1}, column ${column + 1}`;
    const all = first ? "The class token attends" : "All patches together attend";
    const who = patch ? `The patch in ${name(...patch)} attends` : all;
    const relative = sums.map((sum) => (sum * tokens) / (used.length * queries.length));
    const most = relative.indexOf(Math.max(...relative));
    const where = name(Math.floor(most / this.columns), most % this.columns);
    return { relative, patch, text: `${who} most to ${where}: ${relative[most].toFixed(1)} × uniform.` };
  }

  draw() {
    if (!this.pixels) return;
    const { side } = this.metadata, { pixels } = this, { relative, patch, text } = this.chosen();
    const small = new OffscreenCanvas(side, side), image = new ImageData(side, side);
    for (let at = 0; at < side * side; at++) {
      const [red, green, blue] = pixels.subarray(3 * at, 3 * at + 3);
      const row = Math.floor((Math.floor(at / side) * this.rows) / side);
      const column = Math.floor(((at % side) * this.columns) / side);
      const light = 1 - SHADOW * (1 - (0.299 * red + 0.587 * green + 0.114 * blue) / 255);
      image.data.set([...color(relative[row * this.columns + column]).map((value) => value * light), 255], 4 * at);
    }
    small.getContext("2d").putImageData(image, 0, 0);
    const { canvas } = this, size = Math.max(Math.ceil(SIZE / side), 1) * side;
    [canvas.width, canvas.height] = [size, size];
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, size, size);
    if (patch) {
      const [tall, wide] = [size / this.rows, size / this.columns];
      for (const [width, style] of [[7, "#000"], [3, "#fff"]]) {
        [context.lineWidth, context.strokeStyle] = [width, style];
        context.strokeRect(patch[1] * wide + 2, patch[0] * tall + 2, wide - 4, tall - 4);
      }
    }
    if (this.status.textContent !== text) this.status.textContent = text;
  }
}
