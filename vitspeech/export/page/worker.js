// Runs the graphs. Each message {id, action, ...} is answered by {id, result} or {id, error}, in order.

import * as ort from "./ort/ort.wasm.min.mjs";
import { mistakes } from "./schema.js";
import { sha256 } from "./sha256.js";
import { ClipStream, Stream, clipTimes } from "./stream.js";

const FORMAT = 1;
ort.env.wasm.numThreads = 1; // more threads need headers that a plain web server does not send
ort.env.wasm.wasmPaths = new URL("ort/", import.meta.url).href;
const opened = new Map();

async function read(path) {
  const answer = await fetch(path).catch(() => {
    throw new Error(`${path} could not be loaded: the server does not answer.`);
  });
  if (!answer.ok) throw new Error(`${path} could not be loaded: ${answer.status} ${answer.statusText}`);
  return answer;
}

async function readJson(path) {
  const answer = await read(path);
  try {
    return await answer.json();
  } catch (error) {
    throw new Error(`${path} can't be read: ${error.message}`);
  }
}

async function load(folder) {
  const metadata = await readJson(`${folder}/model.json`), schema = await readJson("model.schema.json");
  if (metadata?.format > FORMAT) {
    throw new Error(`${folder} has the format ${metadata.format}; this page reads format ${FORMAT}. Write both anew.`);
  }
  const mistake = mistakes(metadata, schema, "it").next().value;
  if (mistake) throw new Error(`${folder}/model.json is altered, or not the file of an exported model: ${mistake.replace(/^it: /, "")}`);
  const content = new Uint8Array(await (await read(`${folder}/model.onnx`)).arrayBuffer());
  if ((await sha256(content)) !== metadata.files["model.onnx"]) {
    throw new Error(`${folder}: model.onnx does not match model.json (another SHA-256). Export the model anew.`);
  }
  let session;
  try {
    session = await ort.InferenceSession.create(content, { executionProviders: ["wasm"] });
  } catch (error) {
    throw new Error(`${folder}: ONNX Runtime refuses the graph: ${error.message ?? error}`);
  }
  const model = { metadata, run: (feeds) => run(session, feeds) };
  if (metadata.kind === "stream") model.stream = new Stream(metadata, model.run);
  if (metadata.kind === "clips") model.stream = new ClipStream(Object.assign(metadata, clipTimes(metadata)), model.run);
  return model;
}

async function run(session, feeds) {
  const tensors = Object.entries(feeds).map(([name, { type, data, dims }]) => [name, new ort.Tensor(type, data, dims)]);
  const start = performance.now();
  const computed = await session.run(Object.fromEntries(tensors));
  const ms = performance.now() - start, outputs = {};
  for (const [name, { type, data, dims }] of Object.entries(computed)) outputs[name] = { type, data, dims };
  return { outputs, ms };
}

const actions = {
  async open({ folder }) {
    if (!opened.has(folder)) opened.set(folder, load(folder));
    try {
      return (await opened.get(folder)).metadata;
    } catch (error) {
      opened.delete(folder); // so that it can be tried again
      throw error;
    }
  },
  run: async ({ folder, feeds }) => (await opened.get(folder)).run(feeds),
  begin: async ({ folder }) => (await opened.get(folder)).stream.begin(),
  push: async ({ folder, samples }) => (await opened.get(folder)).stream.push(samples),
  end: async ({ folder }) => (await opened.get(folder)).stream.end(),
};

let last = Promise.resolve(); // a session runs one call at a time
onmessage = ({ data }) => {
  last = last.then(async () => {
    try {
      postMessage({ id: data.id, result: await actions[data.action](data) });
    } catch (error) {
      postMessage({ id: data.id, error: error.message ?? String(error) });
    }
  });
};
