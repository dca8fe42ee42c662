// Runs Perfetto's trace processor, compiled for WebAssembly, in node: the worker of Perfetto's web page (engine_bundle.js and
// trace_processor.wasm in the folder argv[2]). stdin: TraceProcessorRpcStream messages; stdout: the replies.
'use strict';
const fs = require('fs'), path = require('path'), vm = require('vm');
const dir = path.resolve(process.argv[2]);
process.on('uncaughtException', (e) => {
  fs.writeSync(2, `engine.js: ${String((e && e.stack) || e).slice(0, 4000)}\n`);
  process.exit(1);
});
console.log = console.warn = console.error = () => {}; // stdout has replies only, and progress is of no interest
const port = {
  onmessage: null,
  postMessage(bytes) {
    for (let at = 0; at < bytes.length;) {
      try { at += fs.writeSync(1, bytes, at); } catch (e) { if (e.code !== 'EAGAIN') throw e; }
    }
  },
};
// What the worker uses of a browser. It loads the .wasm file by a synchronous request.
class XMLHttpRequest {
  open(_method, url) { this.file = path.join(dir, path.basename(url)); }
  send() { const b = fs.readFileSync(this.file); this.response = b.buffer.slice(b.byteOffset, b.byteOffset + b.length); }
}
// The worker asks by a module with a lone memory section whether 64-bit memory is there; the 32-bit module runs everywhere.
const wasm32 = Object.create(WebAssembly, { Module: { value: function (bytes) {
  if (bytes[8] === 5) throw new WebAssembly.CompileError('no 64-bit memory');
  return new WebAssembly.Module(bytes);
} } });
const self = { location: { href: 'file:///engine_bundle.js' }, onmessage: null };
const bundle = path.join(dir, 'engine_bundle.js');
// Node's `process` is hidden, because the worker refuses to run where it sees one.
vm.compileFunction(fs.readFileSync(bundle, 'utf8'),
  ['self', 'XMLHttpRequest', 'WorkerGlobalScope', 'process', 'WebAssembly'], { filename: bundle })(
  self, XMLHttpRequest, class {}, undefined, wasm32);
self.onmessage({ data: port });
setImmediate(() => { // the worker has started by then
  const buffer = Buffer.alloc(1 << 20);
  for (;;) {
    let n;
    try { n = fs.readSync(0, buffer); } catch (e) { if (e.code === 'EOF') break; if (e.code === 'EAGAIN') continue; throw e; }
    if (n === 0) break;
    port.onmessage({ data: new Uint8Array(buffer.subarray(0, n)) });
  }
  process.exit(0);
});
