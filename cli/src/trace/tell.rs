//! Times, amounts, operations and what threads did, in words.

use humansize::{BINARY, FormatSizeOptions, format_size};
use semcache::trace::{LANES, OpId};

use super::model::{Did, Op, Trace, What};
use super::threads::Doing;

/// A length of time with three digits.
pub(crate) fn length(ns: u64) -> String {
    let ns_f = ns as f64;
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns_f / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns_f / 1e6, "ms"),
        _ => (ns_f / 1e9, "s"),
    };
    match value {
        ..9.995 => format!("{value:.2} {unit}"),
        ..99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// A moment, in seconds since the trace began.
pub(crate) fn moment(trace: &Trace, at: u64) -> String {
    format!("{:.6} s", at.saturating_sub(trace.from) as f64 / 1e9)
}

/// An amount of bytes.
pub(crate) fn amount(bytes: u64) -> String {
    format_size(bytes, FormatSizeOptions::from(BINARY).decimal_places(1))
}

/// A part of a whole.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", 100.0 * part as f64 / whole as f64)
}

/// Bytes per nanosecond, which are gigabytes per second.
pub(crate) fn rate(bytes: u64, ns: u64) -> String {
    if ns == 0 {
        return "-".to_owned();
    }
    format!("{:.1}", bytes as f64 / ns as f64)
}

/// A call or fault by its number: `call 12 (dgemm)`.
pub(crate) fn cause(trace: &Trace, id: u64) -> String {
    match trace.cause(id) {
        _ if id == 0 => "no call".to_owned(),
        Some((_, slice)) if slice.did == Did::Fault => {
            format!("{} {id}", trace.names.text(slice.name))
        }
        Some((_, slice)) => format!("call {id} ({})", trace.names.text(slice.name)),
        None => format!("call {id}"),
    }
}

/// What an operation does: `upload of 128 MiB`.
pub(crate) fn what(trace: &Trace, op: &Op) -> String {
    let amount = amount(op.amount);
    match op.what {
        What::Upload => format!("upload of {amount}"),
        What::Download => format!("download of {amount}"),
        What::Peer(from) => format!("copy of {amount} from device {from}"),
        What::Within => format!("copy of {amount} within the device"),
        What::Kernel => format!("kernel {}", trace.names.text(op.name)),
    }
}

/// An operation in a word or two, for a chart: the routine of a kernel, the bytes of a copy.
pub(crate) fn short(trace: &Trace, op: &Op) -> String {
    match op.what {
        What::Kernel => trace.names.text(op.name).to_owned(),
        What::Peer(from) => format!("{} from {from}", amount(op.amount)),
        What::Upload | What::Download | What::Within => amount(op.amount),
    }
}

/// An operation with its device, if it is not `device`, and its call.
pub(crate) fn operation(trace: &Trace, id: OpId, device: Option<u8>) -> String {
    let Some(op) = trace.op(id) else {
        let lane = LANES.get(id.lane() as usize).unwrap_or(&"another lane");
        let (device, seq) = (id.device(), id.seq());
        return format!(
            "operation {seq} of {lane}, device {device}, whose times are not in the trace"
        );
    };
    let place = match device {
        Some(device) if device == id.device() => String::new(),
        _ => format!(" on device {}", id.device()),
    };
    let of = match op.cause {
        0 => "no call".to_owned(),
        id => match trace.cause(id) {
            Some((_, s)) if s.did == Did::Fault => format!("fault {id}"),
            _ => format!("call {id}"),
        },
    };
    format!("{}{place} ({of})", what(trace, op))
}

/// What a thread was doing.
pub(crate) fn doing(trace: &Trace, doing: Doing) -> String {
    let within = |id| match id {
        0 => String::new(),
        id => format!(" in {}", cause(trace, id)),
    };
    match doing {
        Doing::Call(id, _) => format!("in {}", cause(trace, id)),
        Doing::Wait(op, id) => format!("waited{} for {}", within(id), operation(trace, op, None)),
        Doing::Fault(id, name) => format!("served {} {id}", trace.names.text(name)),
        Doing::Faulted(id, name) => format!("waited for {} {id}", trace.names.text(name)),
        Doing::Pin(bytes, id) => format!("page-locked {}{}", amount(bytes), within(id)),
        Doing::Unpin(bytes, id) => {
            format!("ended the page lock of {}{}", amount(bytes), within(id))
        }
        Doing::Start(step) => format!("brought the devices up: {}", trace.names.text(step)),
        Doing::HostBlas(name, why) => format!(
            "the host BLAS ran {} ({}), or the program computed",
            trace.names.text(name),
            trace.names.text(why)
        ),
        Doing::Program => "no call: the program computed".to_owned(),
    }
}
