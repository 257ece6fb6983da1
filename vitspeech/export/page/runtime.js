// Models in a Worker, so that the page stays responsive. `open` gives the metadata and `run`, and for streams `begin`, `push`
// and `end`.

// The smallest module with a SIMD instruction (i8x16.popcnt of i8x16.splat), as in wasm-feature-detect.
const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];

/** What this browser lacks to run a model, as a sentence; an empty text if nothing. */
export function supports() {
  if (typeof WebAssembly !== "object") return "This browser has no WebAssembly, so it cannot run the models.";
  if (!WebAssembly.validate(new Uint8Array(SIMD))) {
    return "This browser has no WebAssembly SIMD, so it cannot run the models. Use a newer browser.";
  }
  return "";
}

let worker, asked = 0;
const waiting = new Map();

function ask(action, parts = {}, moved = []) {
  if (!worker) {
    worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => {
      const { resolve, reject } = waiting.get(data.id);
      waiting.delete(data.id);
      if (data.error) reject(new Error(data.error));
      else resolve(data.result);
    };
    worker.onerror = (event) => {
      const error = new Error(`The worker stopped: ${event.message ?? "worker.js, or a file that it needs, could not be loaded"}`);
      for (const { reject } of waiting.values()) reject(error);
      waiting.clear();
      worker = undefined;
    };
  }
  return new Promise((resolve, reject) => {
    waiting.set(++asked, { resolve, reject });
    worker.postMessage({ id: asked, action, ...parts }, moved);
  });
}

/**
 * Load an exported model from a folder, relative to the page; refused if model.onnx does not match model.json.
 *
 * Tensors are {type, data, dims}, such as {type: "float32", data: Float32Array, dims: [1, 640]}.
 *   run(feeds) -> {outputs: {name: tensor}, ms}: one call of the graph
 *   begin(): a stream begins a recording
 *   push(samples), end() -> [{step, rows: [Float32Array], attention: [Float32Array], ms}]: what each step computed;
 *     `rows` is empty where no token came out
 */
export async function open(folder) {
  folder = new URL(folder, document.baseURI).href; // the worker, where the modules are, would take it as relative to itself
  const metadata = await ask("open", { folder });
  return {
    folder,
    metadata,
    run: (feeds) => ask("run", { folder, feeds }),
    begin: () => ask("begin", { folder }),
    push: (samples) => ask("push", { folder, samples }),
    end: () => ask("end", { folder }),
  };
}
