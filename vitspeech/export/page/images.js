// Images: from a file, the camera or the examples; each model's label, probabilities and attention side by side.

import { AttentionMap } from "./attention_map.js";
import { openCamera } from "./camera.js";
import { dropZone, element, fileButton, tell } from "./main.js";
import { decoded, fitted, opaque, sizeOf } from "./picture_pixels.js";
import { open } from "./runtime.js";

const PREVIEW = 320; // side in pixels
const ALL = 12; // labels that are all shown, in their order; of more, the most probable
const TOP = 10;

/** One model: its panel, which is filled when the model is loaded. */
class ModelPanel {
  constructor({ folder, name }) {
    this.folder = folder;
    this.name = name;
    this.verdict = element("p", { className: "verdict", role: "status" }, "Loading …");
    this.time = element("p", { className: "faint time" });
    this.bars = element("div", { className: "bars", role: "list", "aria-label": `Probabilities of ${name}` });
    this.root = element("article", { className: "panel stack model", "aria-label": name },
      element("h2", {}, name), this.verdict, this.bars, this.time);
    this.root.dataset.model = name;
  }

  /** Load the model; a failure stands in the panel. */
  async load() {
    try {
      this.model = await open(this.folder);
      await this.compute(new Uint8Array(3 * this.model.metadata.side ** 2)); // the first run is slow: buffers are allocated
    } catch (error) {
      this.verdict.className = "alert";
      this.verdict.textContent = error.message;
      return;
    }
    const { metadata } = this.model;
    this.verdict.textContent = "No image yet";
    if (metadata.attention.length) {
      this.map = new AttentionMap(metadata, this.name);
      this.root.append(this.map.root);
    } else this.root.append(element("p", { className: "faint" }, "This model has no attention weights."));
  }

  /** Run the network on pixels (side, side, 3). */
  compute(data) {
    const { side } = this.model.metadata;
    return this.model.run({ pixels: { type: "uint8", data, dims: [1, side, side, 3] } });
  }

  /** Classify an image: `square(side)` gives its pixels, and the returned function shows the result. */
  async classify(square) {
    const data = square(this.model.metadata.side), { outputs, ms } = await this.compute(data);
    return () => this.show(data, outputs, ms);
  }

  show(pixels, outputs, ms) {
    const { labels, side } = this.model.metadata, values = outputs.probabilities.data;
    const order = [...labels.keys()], ranked = order.toSorted((a, b) => values[b] - values[a]);
    const shown = labels.length > ALL ? ranked.slice(0, TOP) : order;
    this.verdict.textContent = `${labels[ranked[0]]} ${percent(values[ranked[0]])}`;
    this.bars.replaceChildren(...shown.map((at) => {
      const bar = element("i");
      bar.style.width = `${100 * values[at]}%`;
      const row = element("div", { className: at === ranked[0] ? "line best" : "line", role: "listitem" },
        element("span", {}, labels[at]), element("span", { className: "bar" }, bar),
        element("span", { className: "number" }, percent(values[at])));
      Object.assign(row.dataset, { label: labels[at], value: values[at] });
      return row;
    }));
    this.time.textContent = `${ms.toFixed(1)} ms per image of ${side} × ${side} pixels`;
    this.map?.show(pixels, outputs);
  }
}

function percent(value) {
  return `${(100 * value).toFixed(value > 0.995 || value < 0.1 ? 1 : 0)} %`;
}

/** The panel of images. `models`: [{folder, name}], `examples`: paths of images. */
export async function mount(root, models, examples = []) {
  const panels = models.map((model) => new ModelPanel(model));
  const preview = element("canvas", { width: PREVIEW, height: PREVIEW, className: "preview", role: "img" });
  const caption = element("p", { className: "faint caption" }, "");
  const toggle = () => (camera ? stopCamera() : startCamera());
  const cameraButton = element("button", { type: "button", onclick: toggle }, "Use camera");
  let camera = null, latest = 0;

  /** Classify what `picture` (ImageBitmap or video) shows with all models, unless a newer one comes. */
  async function classify(picture, name) {
    const number = ++latest, { pixels, width, height } = opaque(picture), squares = new Map();
    const square = (side) => {
      if (!squares.has(side)) squares.set(side, fitted(pixels, width, height, side));
      return squares.get(side);
    };
    const [wide, high] = sizeOf(picture), side = Math.min(wide, high), context = preview.getContext("2d");
    const shows = [];
    for (const panel of panels) if (panel.model) shows.push(await panel.classify(square));
    if (number !== latest) return;
    context.putImageData(new ImageData(PREVIEW, PREVIEW), 0, 0);
    context.drawImage(picture, ...sourceSquare(picture), 0, 0, PREVIEW, PREVIEW);
    preview.setAttribute("aria-label", `Center square of ${name}`);
    const cut = wide === high ? "" : `; its center square of ${side} × ${side} is used`;
    caption.textContent = `${name}, ${wide} × ${high} pixels${cut}`;
    for (const show of shows) show();
    root.dataset.shown = name;
  }

  async function read(blob, name) {
    if (camera) stopCamera();
    const number = ++latest;
    let picture;
    try {
      picture = await decoded(blob);
    } catch {
      tell(`${name} can't be decoded as an image. This browser reads JPEG, PNG, GIF, BMP and WebP.`);
      return;
    }
    if (number !== latest) return;
    tell("");
    await classify(picture, name);
    picture.close();
  }

  async function readExample(path) {
    const answer = await fetch(path);
    if (answer.ok) await read(await answer.blob(), path.split("/").at(-1));
    else tell(`${path} could not be loaded: ${answer.status} ${answer.statusText}`);
  }

  async function startCamera() {
    cameraButton.disabled = true;
    tell("");
    try {
      camera = await openCamera();
    } catch (error) {
      tell(error.message);
      return;
    } finally {
      cameraButton.disabled = false;
    }
    cameraButton.textContent = "Take photo";
    root.classList.add("live");
    const own = camera;
    while (camera === own) {
      if (own.ended()) {
        stopCamera();
        return tell("The camera stopped.");
      }
      if (root.hidden) return stopCamera();
      await classify(own.video, "camera");
      await new Promise(requestAnimationFrame);
    }
  }

  /** Stop the camera; its last frame stays. */
  function stopCamera() {
    camera.stop();
    camera = null;
    latest++;
    cameraButton.textContent = "Use camera";
    root.classList.remove("live");
  }

  const onfile = (file) => read(file, file.name);
  const thumbnails = examples.map((path) => {
    const name = path.split("/").at(-1).replace(/\.\w+$/, "");
    return element("button", { type: "button", className: "thumbnail", title: name, onclick: () => readExample(path) },
      element("img", { src: path, alt: `Example ${name}` }));
  });
  const sources = element("div", { className: "stack" },
    element("div", { className: "row" }, fileButton("Choose file", "image/*", onfile), cameraButton),
    element("p", { className: "faint" }, "Or drop or paste an image."),
    element("h2", { hidden: !examples.length }, "Examples"),
    element("div", { className: "row thumbnails" }, ...thumbnails));
  const input = element("div", { className: "panel input" },
    sources, element("div", { className: "stack" }, preview, caption));
  root.replaceChildren(element("div", { className: "pictures" }, input,
    element("div", { className: "models" }, ...panels.map((panel) => panel.root))));
  dropZone(root, onfile);
  addEventListener("paste", (event) => {
    if (!root.hidden && event.clipboardData.files.length) onfile(event.clipboardData.files[0]);
  });
  for (const panel of panels) await panel.load();
  if (examples.length) await readExample(examples[0]);
}

/** The center square of an image: left, top, width, height. */
function sourceSquare(picture) {
  const [width, height] = sizeOf(picture);
  const side = Math.min(width, height);
  return [(width - side) / 2, (height - side) / 2, side, side];
}
