"""What a trace file has, counted from its packets one at a time: for files that the trace processor, which holds all of a trace
in the 4 GB of a WebAssembly memory, cannot open."""

import collections

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

PACKET = b"\x0a"  # field 1, with a length
PIECE = 1 << 24


def frames(path):
    """The bytes of each packet."""
    with open(path, "rb") as file:
        held = b""
        while piece := file.read(PIECE):
            held += piece
            at = 0
            while True:
                start, shift, length = at + 1, 0, 0
                while start < len(held) and held[start] & 0x80:
                    length |= (held[start] & 0x7F) << shift
                    shift, start = shift + 7, start + 1
                if start >= len(held):
                    break
                length |= held[start] << shift
                start += 1
                if start + length > len(held):
                    break
                assert held[at : at + 1] == PACKET, f"{path}: no packet at a place of a piece: {at}"
                yield held[start : start + length]
                at = start + length
            held = held[at:]
    assert not held, f"{path} ends inside a packet"


def read(path):
    """Bytes of copies by name, calls by side, faults by name, the summary, and the number of operations."""
    tables = [{} for _ in range(4)]
    categories, names, keys, texts = tables
    copies, calls, faults = collections.Counter(), collections.Counter(), collections.Counter()
    summary, ops = {}, 0
    packet = TracePacket()
    for frame in frames(path):
        packet.ParseFromString(frame)
        if packet.HasField("interned_data"):
            told = packet.interned_data
            lists = (told.event_categories, told.event_names, told.debug_annotation_names, told.debug_annotation_string_values)
            for table, entries in zip(tables, lists):
                for entry in entries:
                    text = entry.str if hasattr(entry, "str") else entry.name
                    table[entry.iid] = text.decode() if isinstance(text, bytes) else text
        event = packet.track_event
        # The ends of slices, and the bytes of devices' memory in use, have no category.
        if not packet.HasField("track_event") or event.type in (TrackEvent.TYPE_SLICE_END, TrackEvent.TYPE_COUNTER):
            continue
        category, name = categories[event.category_iids[0]], names[event.name_iid]
        value = lambda key: next(a for a in event.debug_annotations if keys[a.name_iid] == key)
        if category in ("copy", "kernel"):
            ops += 1
            if category == "copy":
                copies[name] += value("bytes").uint_value
        elif category == "call" and name != "decision":
            calls[texts[value("side").string_value_iid]] += 1
        elif category == "fault":
            faults[name] += 1
        elif category == "summary":
            # Perfetto's tables have an underscore in place of each dot.
            summary = {a.name.replace(".", "_"): a.uint_value for a in event.debug_annotations}
    return copies, calls, faults, summary, ops
