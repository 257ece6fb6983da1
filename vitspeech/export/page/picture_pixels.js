// Images to pixels as `vitspeech.data.images.reading.read_picture` does it: transparency over white, the center
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

/** One pass over rows: (rows, width, channels) -> (rows, filters, 3). */
function horizontally(pixels, width, channels, firstRow, rows, filters) {
  const result = new Uint8Array(rows * filters.length * 3);
  let to = 0;
  for (let y = firstRow; y < firstRow + rows; y++) {
    for (const { first, weights } of filters) {
      let red = 0, green = 0, blue = 0, from = (y * width + first) * channels;
      for (let tap = 0; tap < weights.length; tap++, from += channels) {
        red += pixels[from] * weights[tap];
        green += pixels[from + 1] * weights[tap];
        blue += pixels[from + 2] * weights[tap];
      }
      result[to++] = rounded8(red);
      result[to++] = rounded8(green);
      result[to++] = rounded8(blue);
    }
  }
  return result;
}

/** One pass over columns: (height, width, channels) from row `firstRow` on -> (filters, width, 3). */
function vertically(pixels, width, channels, firstRow, filters) {
  const result = new Uint8Array(filters.length * width * 3);
  let to = 0;
  for (const { first, weights } of filters) {
    for (let x = 0; x < width; x++) {
      for (let channel = 0; channel < 3; channel++) {
        let sum = 0, from = ((first - firstRow) * width + x) * channels + channel;
        for (let tap = 0; tap < weights.length; tap++, from += width * channels) sum += pixels[from] * weights[tap];
        result[to++] = rounded8(sum);
      }
    }
  }
  return result;
}

/**
 * The center square of an image, scaled.
 * @param {Uint8Array|Uint8ClampedArray} pixels (height, width, 4), opaque.
 * @returns {Uint8Array} (side, side, 3)
 */
export function fitted(pixels, width, height, side) {
  const square = Math.min(width, height), left = (width - square) / 2, top = (height - square) / 2;
  const across = filters(width, left, left + square, side), down = filters(height, top, top + square, side);
  if (height - side > 2 * Math.max(width - side, 0)) { // columns first, as Pillow from 13 on
    return horizontally(vertically(pixels, width, 4, 0, down), width, 3, 0, side, across);
  }
  const firstRow = down[0].first, last = down[side - 1];
  const rows = last.first + last.weights.length - firstRow;
  return vertically(horizontally(pixels, width, 4, firstRow, rows, across), side, 3, firstRow, down);
}

/**
 * Decode a file as an image, turned upright by its EXIF orientation; its color profile is not applied.
 * @param {Blob} file
 * @throws {Error} If the browser can't decode it.
 */
export async function decoded(file) {
  return createImageBitmap(file, { imageOrientation: "from-image", colorSpaceConversion: "none" });
}

/**
 * Width and height of an image, in pixels.
 * @param {ImageBitmap|HTMLVideoElement} picture
 * @returns {[number, number]}
 */
export function sizeOf(picture) {
  return [picture.videoWidth ?? picture.width, picture.videoHeight ?? picture.height];
}

/**
 * The pixels of an image over white; above `MOST_PIXELS` the browser scales it down.
 * @param {ImageBitmap|HTMLVideoElement} picture
 * @returns {{pixels: Uint8ClampedArray, width: number, height: number}} pixels (height, width, 4)
 */
export function opaque(picture) {
  const [width, height] = sizeOf(picture);
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
