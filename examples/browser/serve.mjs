// Serves the page: node serve.mjs [policy.onnx] [port]; port 0 takes one that is free.

import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const policy = process.argv[2] ?? join(here, "policy.onnx");
const packages = process.env.NODE_MODULES ?? join(here, "node_modules");
const runtime = join(packages, "onnxruntime-web", "dist");
const KINDS = { ".html": "text/html", ".mjs": "text/javascript", ".wasm": "application/wasm", ".onnx": "application/octet-stream" };

for (const [what, path, how] of [
  ["the network", policy, "python -m ppo_trainer.export runs/<run> examples/browser/policy.onnx"],
  ["onnxruntime-web", runtime, "npm install"],
]) {
  if (!existsSync(path)) {
    console.error(`${what} is missing: ${path}\n  ${how}`);
    process.exit(2);
  }
}

/** The file that a path of the page means: a name within one of three places, and nothing else. */
function fileOf(path) {
  if (path === "/policy.onnx") return policy;
  if (path.startsWith("/ort/")) return join(runtime, basename(path));
  return join(here, path === "/" ? "index.html" : basename(path));
}

const server = createServer((request, response) => {
  const file = fileOf(new URL(request.url, "http://localhost").pathname);
  if (!(extname(file) in KINDS) || !existsSync(file)) {
    response.writeHead(404).end("not here\n");
    return;
  }
  response.writeHead(200, { "Content-Type": KINDS[extname(file)], "Cache-Control": "no-store" });
  createReadStream(file).pipe(response);
});
server.listen(Number(process.argv[3] ?? 8000), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/`);
});
