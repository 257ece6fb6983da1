// Pictures to pixels as `vitspeech.data.images.reading.read_picture` does it: transparency over white, the center
// square, Pillow's antialiased bicubic filter in two passes that each round to 8 bits.

const PRECISION_BITS = 22; // of a weight, as in Pillow's Resample.c
const MOST_PIXELS = 16e6; // a canvas of a phone holds 16.7 million

/** Keys' bicubic kernel with a = -0.5. */
function bicubic(x) {
  const distance = Math.abs(x);
  if (distance < 1) return (1.5 * distance - 2.5) * distance * distance + 1;
  if (distance < 2) return -0.5 * (((distance - 5) * distance + 8) * distance - 4);
  return 0;
}

/**
 * For each output pixel, the first input pixel and the integer weights.
 * @param {number} size Input pixels.
 * @param {number} from Where the cut-out begins; may be a fraction.
 * @param {number} to Where it ends.
 * @param {number} count Output pixels.
 */
function filters(size, from, to, count) {
  const scale = (to - from) / count;
  const stretch = Math.max(scale, 1);
  const support = 2 * stretch;
  return Array.from({ length: count }, (_, at) => {
    const center = from + (at + 0.5) * scale;
    const first = Math.max(Math.trunc(center - support + 0.5), 0);
    const last = Math.min(Math.trunc(center + support + 0.5), size);
    const weights = [];
    for (let x = first; x < last; x++) weights.push(bicubic((x - center + 0.5) / stretch));
    const sum = weights.reduce((a, b) => a + b, 0);
    const rounded = weights.map((weight) => {
      const scaled = (sum ? weight / sum : weight) * 2 ** PRECISION_BITS;
      return Math.trunc(scaled + (scaled < 0 ? -0.5 : 0.5));
    });
    return { first, weights: rounded };
  });
}

function rounded8(sum) {
  return Math.min(Math.max(Math.floor((sum + 2 ** (PRECISION_BITS - 1)) / 2 ** PRECISION_BITS), 0), 255);
}

/**
 * The center square of a picture, scaled.
 * @param {Uint8Array|Uint8ClampedArray} pixels (height, width, 4), opaque.
 * @returns {Uint8Array} (side, side, 3)
 */
export function fitted(pixels, width, height, side) {
  const square = Math.min(width, height);
  const [left, top] = [(width - square) / 2, (height - square) / 2];
  const across = filters(width, left, left + square, side);
  const down = filters(height, top, top + square, side);
  const firstRow = down[0].first;
  const rows = down[side - 1].first + down[side - 1].weights.length - firstRow;
  const narrow = new Uint8Array(rows * side * 3);
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < side; x++) {
      const { first, weights } = across[x];
      let [red, green, blue] = [0, 0, 0];
      let from = ((y + firstRow) * width + first) * 4;
      for (const weight of weights) {
        red += pixels[from] * weight;
        green += pixels[from + 1] * weight;
        blue += pixels[from + 2] * weight;
        from += 4;
      }
      narrow.set([rounded8(red), rounded8(green), rounded8(blue)], (y * side + x) * 3);
    }
  }
  const result = new Uint8Array(side * side * 3);
  for (let y = 0; y < side; y++) {
    const { first, weights } = down[y];
    for (let at = 0; at < side * 3; at++) {
      let sum = 0;
      weights.forEach((weight, row) => (sum += narrow[(first - firstRow + row) * side * 3 + at] * weight));
      result[y * side * 3 + at] = rounded8(sum);
    }
  }
  return result;
}

/**
 * Decode a file as a picture, turned upright by its EXIF orientation; its color profile is not applied.
 * @param {Blob} file
 * @throws {Error} If the browser can't decode it.
 */
export async function decoded(file) {
  return createImageBitmap(file, { imageOrientation: "from-image", colorSpaceConversion: "none" });
}

/**
 * The pixels of a picture over white; above `MOST_PIXELS` the browser scales it down.
 * @param {ImageBitmap|HTMLVideoElement} picture
 * @returns {{pixels: Uint8ClampedArray, width: number, height: number}} pixels (height, width, 4)
 */
export function opaque(picture) {
  const [width, height] = [picture.videoWidth ?? picture.width, picture.videoHeight ?? picture.height];
  const scale = Math.min(1, Math.sqrt(MOST_PIXELS / (width * height)));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(Math.floor(width * scale), 1);
  canvas.height = Math.max(Math.floor(height * scale), 1);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = "high";
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  return { pixels: data, width: canvas.width, height: canvas.height };
}
