//! A prediction as JSON.

use semcache::model::decide::Decision;
use semcache::model::timeline::Did;
use serde_json::{Value, json};

use super::page::name;
use super::told::Told;

/// The version of the format; it rises when a key goes or changes its meaning.
const VERSION: u64 = 1;

/// Times are in seconds, amounts in bytes.
pub(super) fn text(told: &Told<'_>) -> String {
    let (call, machine, prediction) = (told.call, told.machine, told.prediction);
    let operands = call.operands.iter().zip(&call.problem.operands);
    let operands = operands.zip(&call.on_devices).map(|((name, shape), on)| {
        json!({
            "name": name,
            "rows": shape.rows,
            "cols": shape.cols,
            "from": if *on { "device" } else { "host" },
        })
    });
    let decision = match prediction.decision {
        Decision::Offload { .. } if !prediction.has_room() => {
            json!({"on": "host", "why": "no_room"})
        }
        Decision::Offload { .. } => json!({"on": "devices"}),
        Decision::Host(reason) => json!({"on": "host", "why": reason.key()}),
    };
    let value = json!({
        "version": VERSION,
        "routine": call.name,
        "sizes": call.sizes,
        "operands": operands.collect::<Value>(),
        "to": if call.read_back { "host" } else { "device" },
        "machine": machine.name,
        "machine_devices": machine.machine.memory.len(),
        "memory": machine.machine.memory,
        "threads": machine.threads,
        "locked": told.options.locked,
        "host_s": prediction.host_s,
        "decision": decision,
        "devices": on_devices(told),
    });
    format!("{value:#}\n")
}

fn on_devices(told: &Told<'_>) -> Value {
    let Some(on) = &told.prediction.on_devices else {
        return Value::Null;
    };
    let (tile, beside) = (on.choice.tile, on.beside);
    let loads = on.loads().into_iter();
    let loads = loads.map(|(load, busy_s)| json!({"what": name(load), "busy_s": busy_s}));
    let said = on.said.iter().map(|said| {
        json!({
            "name": said.name,
            "source": said.source,
            "seconds": said.answer.map(|answer| answer.seconds),
            "pieces": said.answer.map(|answer| answer.pieces),
        })
    });
    let timeline = on.timed.as_ref().map(|timed| {
        let operations = timed.operations.iter().map(|o| {
            let (lane, from) = match o.did {
                Did::Upload => ("uploads", None),
                Did::Peer(from) => ("copies from peers", Some(on.devices.id(from).0)),
                Did::Kernel(_) => ("kernels", None),
                Did::WriteBack => ("write-backs", None),
            };
            json!({
                "device": on.devices.id(o.device).0,
                "lane": lane,
                "from": from,
                "bytes": o.bytes,
                "start_s": o.start,
                "end_s": o.end,
            })
        });
        json!({
            "tasks": timed.plan.tasks.len(),
            "seconds": timed.schedule.seconds,
            "bytes_uploaded": timed.schedule.bytes_in,
            "bytes_from_peers": timed.schedule.bytes_peer,
            "bytes_written_back": timed.schedule.bytes_out,
            "operations": operations.collect::<Value>(),
        })
    });
    json!({
        "seconds": on.choice.seconds,
        "ids": on.devices.ids().map(|id| id.0).collect::<Vec<_>>(),
        "tile": {"m": tile.m, "n": tile.n, "k": tile.k, "strip": tile.strip},
        "by_timeline": on.by_timeline,
        "page_locking_s": beside.locking_s,
        "runtime_s": beside.runtime_s,
        "bound": name(on.bound()),
        "busy": loads.collect::<Value>(),
        "predictors": said.collect::<Value>(),
        "timeline": timeline,
    })
}
