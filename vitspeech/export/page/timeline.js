// Drawings over a common axis of time: spectrogram with words, probabilities of all labels, attention of one token.

import { BANDS, COLUMN_S } from "./spectrogram.js";

const STOPS = [[8, 10, 32], [58, 20, 104], [140, 41, 129], [222, 73, 104], [254, 159, 109], [252, 253, 191]];
const COLORS = Array.from({ length: 256 }, (_, level) => {
  const place = (level / 255) * (STOPS.length - 1), low = Math.min(Math.floor(place), STOPS.length - 2);
  return STOPS[low].map((from, i) => Math.round(from + (place - low) * (STOPS[low + 1][i] - from)));
});
const AXIS = 20, LANE = 24, MOST_LABELS = 20; // pixels, pixels, labels drawn
export const LEFT = 76; // pixels for names

const theme = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);

/** A canvas that is drawn in CSS pixels of a height: context and width. */
function prepare(canvas, height) {
  const width = canvas.clientWidth, ratio = devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  return { context, width };
}

/** The seconds that fit a canvas. */
export const spanOf = (canvas) => Math.max(3, Math.min(10, canvas.clientWidth / 110));

/** Seconds to pixels, and the axis below. */
function scale(context, width, { start_s, span_s }) {
  return (seconds) => LEFT + ((seconds - start_s) / span_s) * (width - LEFT);
}

function drawAxis(context, width, view, top) {
  const x = scale(context, width, view), step = [1, 0.5, 0.2, 0.1].find((tick) => (tick / view.span_s) * width < 180) ?? 0.1;
  context.fillStyle = theme("faint");
  context.textAlign = "center";
  for (let tick = Math.max(0, Math.ceil(view.start_s / step - 1e-9)); tick * step <= view.start_s + view.span_s; tick++) {
    const place = x(tick * step);
    context.fillRect(place, top, 1, 5);
    const text = `${(tick * step).toFixed(step < 1 ? 1 : 0)} s`, half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(place, LEFT + half), width - half), top + 13);
  }
}

function drawCursor(context, width, view, height) {
  if (view.cursor_s === null) return;
  const place = scale(context, width, view)(view.cursor_s);
  for (const [color, wide] of [[theme("page"), 4], [theme("accent"), 2]]) { // the edge stands out from colors like its own
    context.fillStyle = color;
    context.fillRect(place - wide / 2, 0, wide, height);
  }
}

/** Columns of the spectrogram (a Map from their number) with the window of attention, and the words below. */
export function drawSound(canvas, view, columns, words, window) {
  const high = 150, { context, width } = prepare(canvas, high + LANE + AXIS), x = scale(context, width, view);
  context.fillStyle = theme("page");
  context.fillRect(LEFT, 0, width - LEFT, high);
  const first = Math.floor(view.start_s / COLUMN_S), count = Math.ceil(view.span_s / COLUMN_S);
  const picture = new ImageData(count, BANDS);
  for (let place = 0; place < count; place++) {
    const column = columns.get(first + place);
    if (!column) continue;
    for (let band = 0; band < BANDS; band++) {
      picture.data.set([...COLORS[column[band]], 255], 4 * ((BANDS - 1 - band) * count + place));
    }
  }
  const small = new OffscreenCanvas(count, BANDS);
  small.getContext("2d").putImageData(picture, 0, 0);
  context.save();
  context.beginPath();
  context.rect(LEFT, 0, width - LEFT, high + LANE + AXIS);
  context.clip();
  context.drawImage(small, x(first * COLUMN_S), 0, x((first + count) * COLUMN_S) - x(first * COLUMN_S), high);
  if (window) {
    context.strokeStyle = "#ffffff";
    context.strokeRect(x(window.start_s), 1, x(window.end_s) - x(window.start_s), high - 2);
  }
  for (const { label, start_s, end_s } of words) {
    if (end_s < view.start_s || start_s > view.start_s + view.span_s) continue;
    const left = Math.max(x(start_s), LEFT), wide = Math.max(Math.min(x(end_s), width) - left, 4); // what is in view
    context.fillStyle = theme("accent");
    context.fillRect(left, high + 2, wide, LANE - 4);
    context.fillStyle = theme("on-accent");
    context.textAlign = "center";
    if (context.measureText(label).width < wide + 2) context.fillText(label, left + wide / 2, high + LANE / 2);
    else {
      context.fillStyle = theme("ink");
      context.textAlign = "left";
      context.fillText(label, Math.min(x(end_s) + 3, width - context.measureText(label).width), high + LANE / 2);
    }
  }
  drawAxis(context, width, view, high + LANE);
  drawCursor(context, width, view, high);
  context.restore();
  context.fillStyle = theme("faint");
  context.textAlign = "right";
  context.fillText(`${(view.rate_hz / 2000).toFixed(0)} kHz`, LEFT - 6, 8);
  context.fillText("0", LEFT - 6, high - 8);
  context.fillText("words", LEFT - 6, high + LANE / 2);
}

/** One lane for each label: the darker, the more probable. `tokens` is a Map from row number to probabilities. */
export function drawProbabilities(canvas, view, labels, rows, times) {
  const shown = [], first = Math.max(0, Math.floor((view.start_s - times.first_s) / times.hop_s));
  const last = Math.ceil((view.start_s + view.span_s - times.first_s) / times.hop_s);
  const most = new Float64Array(labels.length);
  for (let row = first; row <= last; row++) {
    if (!rows.has(row)) continue;
    shown.push(row);
    rows.get(row).forEach((value, i) => { most[i] = Math.max(most[i], value); });
  }
  const order = [...most.keys()].sort((a, b) => most[b] - most[a]).slice(0, MOST_LABELS).sort((a, b) => a - b);
  const lane = 16, high = lane * order.length, { context, width } = prepare(canvas, high + AXIS);
  const x = scale(context, width, view);
  context.fillStyle = theme("page");
  context.fillRect(LEFT, 0, width - LEFT, high);
  context.save();
  context.beginPath();
  context.rect(LEFT, 0, width - LEFT, high + AXIS);
  context.clip();
  context.fillStyle = theme("accent");
  for (const row of shown) {
    const left = x(times.first_s + row * times.hop_s), wide = x(times.first_s + (row + 1) * times.hop_s) - left + 0.5;
    order.forEach((label, place) => {
      context.globalAlpha = rows.get(row)[label];
      context.fillRect(left, place * lane + 1, wide, lane - 2);
    });
  }
  context.globalAlpha = 1;
  drawAxis(context, width, view, high);
  drawCursor(context, width, view, high);
  context.restore();
  context.textAlign = "right";
  order.forEach((label, place) => {
    context.fillStyle = most[label] > 0.5 ? theme("ink") : theme("faint");
    context.fillText(cut(context, labels[label], LEFT - 8), LEFT - 6, place * lane + lane / 2 + 1);
  });
}

/** Bars of the weights of one token, [{start_s, end_s, weight, isSelf}], over the window that it attends to. */
export function drawAttention(canvas, bars, window) {
  const view = window ? { start_s: window.start_s, span_s: window.end_s - window.start_s } : { start_s: 0, span_s: 1 };
  const high = 90, { context, width } = prepare(canvas, high + AXIS), x = scale(context, width, view);
  context.fillStyle = theme("page");
  context.fillRect(LEFT, 0, width - LEFT, high);
  const most = Math.max(0.2, ...bars.map((bar) => bar.weight)), top = Math.min(1, Math.ceil(most * 5) / 5);
  context.save();
  context.beginPath();
  context.rect(LEFT, 0, width - LEFT, high + AXIS);
  context.clip();
  for (const { start_s, end_s, weight, isSelf } of bars) {
    const tall = (weight / top) * (high - 8);
    context.fillStyle = isSelf ? theme("accent") : theme("bar");
    context.fillRect(x(start_s) + 0.5, high - tall, Math.max(x(end_s) - x(start_s) - 1, 1), tall);
  }
  if (window) drawAxis(context, width, view, high);
  context.restore();
  context.fillStyle = theme("faint");
  context.textAlign = "right";
  context.fillText(`${Math.round(100 * top)} %`, LEFT - 6, 8);
  context.fillText("0", LEFT - 6, high - 6);
}

/** A text that fits a width, with an ellipsis if it was longer. */
function cut(context, text, width) {
  let short = text;
  while (short.length > 1 && context.measureText(short).width > width) short = `${short.slice(0, -2)}…`;
  return short;
}
