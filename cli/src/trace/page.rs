//! The summary of a trace as text.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::gaps::{Cause, Gap, Part, chain, gaps, idle, longest, parts};
use super::host::{self, Kind};
use super::issuing;
use super::model::{KERNELS, Trace};
use super::predicted;
use super::shares::{Totals, lanes, span, threads, totals};
use super::tell;
use super::threads::doings;

/// How many gaps are told.
const GAPS: usize = 10;
/// How many things that a thread did are told.
const DOINGS: usize = 4;
/// How many calls have a line with their predicted time.
const CALLS: usize = 10;
/// How many calls have a line with the time in which their tasks were queued, and the fewest kernels of such a call.
const ISSUED: (usize, u64) = (5, 64);
/// How many threads have a line of their own.
const THREADS: usize = 20;

/// The whole page, with a line end after each line.
pub(super) fn page(trace: &Trace) -> String {
    let mut text = first_line(trace, &totals(trace));
    text += "\n";
    if let Some((from, to)) = span(trace) {
        text += &format!(
            "\nDevices: shares of the {} from the first to the last operation of any device\n",
            tell::length(to - from)
        );
        text += &lane_table(trace, to - from);
    }
    if !trace.threads.is_empty() {
        text += "\nThreads\n";
        text += &thread_table(trace);
    }
    text + &predicted_table(trace) + &issuing_table(trace) + &gap_pages(trace)
}

/// The predicted and the measured time of the calls on devices that took longest, and how far off all predictions were.
fn predicted_table(trace: &Trace) -> String {
    let mut calls = predicted::calls(trace);
    let Some(errors) = predicted::Errors::of(&calls) else {
        return String::new();
    };
    let number = calls.len() as u64;
    calls.sort_by_key(|call| u64::MAX - call.measured());
    let mut table = table(
        &["call", "sizes", "devices", "predicted", "measured", "error"],
        2,
    );
    for call in calls.iter().take(CALLS) {
        let [m, n, k] = call.sizes;
        table.add_row([
            tell::cause(trace, call.id),
            format!("{m} x {n} x {k}"),
            call.devices.to_string(),
            tell::length(call.predicted),
            tell::length(call.measured()),
            format!("{:+.1} %", 100.0 * call.error()),
        ]);
    }
    format!(
        "\nPredicted and measured time of calls on devices: from a call's first page lock or operation to the end of its last \
         operation\n{}  (of {}: the median error is {:.1} %, nine tenths are at most {:.1} % off)\n",
        lines(&table),
        counted(number, "call"),
        100.0 * errors.median,
        100.0 * errors.nine_tenths,
    )
}

/// The time in which the tasks of the calls with most kernels were queued.
fn issuing_table(trace: &Trace) -> String {
    let mut calls = issuing::calls(trace, ISSUED.1);
    if calls.is_empty() {
        return String::new();
    }
    calls.sort_by_key(|call| u64::MAX - call.kernels);
    let header = [
        "call",
        "sizes",
        "kernels",
        "copies",
        "in flight",
        "own",
        "machine",
    ];
    let mut table = table(&header, 2);
    for call in calls.iter().take(ISSUED.0) {
        let [m, n, k] = call.sizes;
        table.add_row([
            tell::cause(trace, call.id),
            format!("{m} x {n} x {k}"),
            call.kernels.to_string(),
            call.copies.to_string(),
            call.in_flight.to_string(),
            tell::length(call.own / call.kernels),
            tell::length(call.machine / call.kernels),
        ]);
    }
    format!(
        "\nQueueing, per kernel: the runtime's own time, and that of the driver with the packing of staged copies; without waits and \
         page-locking\n{}  (in flight: operations of the call that were not complete when its last one was queued)\n",
        lines(&table)
    )
}

fn counted(number: u64, one: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {one}{s}")
}

/// The line on the whole trace.
pub(crate) fn first_line(trace: &Trace, totals: &Totals) -> String {
    let Totals {
        on_devices,
        replayed,
        on_host,
        counted: more,
        faults,
        evictions,
        untimed,
        unfinished,
        ..
    } = *totals;
    let program = match trace.program.as_str() {
        "" => String::new(),
        name => format!(" of {name}"),
    };
    let calls = on_devices
        .saturating_add(replayed)
        .saturating_add(on_host)
        .saturating_add(more);
    let mut parts = vec![
        format!("{}{program}", tell::length(trace.to - trace.from)),
        format!(
            "{}: {on_devices} on devices, {replayed} replayed there, {} on the host BLAS",
            counted(calls, "call"),
            on_host.saturating_add(more)
        ),
        format!(
            "{} up, {} down, {} between devices",
            tell::amount(totals.up),
            tell::amount(totals.down),
            tell::amount(totals.peer)
        ),
        counted(faults, "fault"),
    ];
    if evictions > 0 {
        parts.push(counted(evictions, "eviction"));
    }
    if !totals.dropped.is_empty() {
        let kinds = totals.dropped.iter().map(|(kind, number, bytes)| {
            let bytes = match bytes {
                0 => String::new(),
                bytes => format!(" ({})", tell::amount(*bytes)),
            };
            format!("{number} {kind}{bytes}")
        });
        let kinds: Vec<String> = kinds.collect();
        parts.push(format!("dropped for want of room: {}", kinds.join(", ")));
    }
    if untimed > 0 {
        parts.push(format!("{} without times", counted(untimed, "operation")));
    }
    if unfinished > 0 {
        parts.push(format!("{unfinished} unfinished"));
    }
    if trace.damaged > 0 {
        parts.push(format!(
            "{} could not be read",
            counted(trace.damaged, "packet")
        ));
    }
    if trace.cut_off {
        parts.push("cut off: the file ends before its summary".to_owned());
    }
    parts.join("; ")
}

/// A table whose columns from the given one on are aligned to the right.
fn table(header: &[&str], right: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(header);
    for column in table.column_iter_mut().skip(right) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A table as text, without blanks at the ends of lines.
fn lines(table: &Table) -> String {
    table.lines().fold(String::new(), |text, line| {
        text + "  " + line.trim_end() + "\n"
    })
}

fn lane_table(trace: &Trace, span: u64) -> String {
    let header = [
        "device",
        "lane",
        "operations",
        "busy",
        "share",
        "bytes",
        "GB/s",
    ];
    let mut table = table(&header, 2);
    let mut previous = None;
    for share in lanes(trace) {
        let name = trace.device(share.device).map_or("", |d| d.name.as_str());
        let device = match previous.replace(share.device) {
            Some(id) if id == share.device => String::new(),
            _ => format!("{} {name}", share.device),
        };
        let bytes = share.bytes;
        table.add_row([
            device,
            share.lane.to_owned(),
            match share.untimed {
                0 => share.operations.to_string(),
                more => format!("{} + {more} without times", share.operations),
            },
            tell::length(share.busy),
            tell::percent(share.busy, span),
            bytes.map_or(String::new(), tell::amount),
            match share.copied {
                (0, _) | (_, 0) => String::new(),
                (copied, time) => tell::rate(copied, time),
            },
        ]);
    }
    lines(&table)
}

fn thread_table(trace: &Trace) -> String {
    let header = [
        "thread",
        "name",
        "calls",
        "in calls",
        "of it waiting",
        "faults",
        "in faults",
    ];
    let mut table = table(&header, 2);
    let mut shares = threads(trace);
    shares.sort_by_key(|share| u64::MAX - share.in_calls.saturating_add(share.in_faults));
    let more = shares.split_off(shares.len().min(THREADS));
    for share in shares {
        table.add_row([
            share.tid.to_string(),
            share.name,
            share.calls.to_string(),
            tell::length(share.in_calls),
            tell::length(share.waiting),
            share.faults.to_string(),
            tell::length(share.in_faults),
        ]);
    }
    if more.is_empty() {
        return lines(&table);
    }
    let calls = more.iter().map(|share| share.calls).sum();
    let in_calls = more.iter().map(|share| share.in_calls).sum();
    lines(&table)
        + &format!(
            "  and {} with {}, {} in calls\n",
            counted(more.len() as u64, "more thread"),
            counted(calls, "call"),
            tell::length(in_calls)
        )
}

fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::Host => "host",
        Cause::Upload => "upload",
        Cause::Download => "download",
        Cause::Peer => "peer copy",
        Cause::Within => "copy within",
        Cause::Kernel => "other kernel",
        Cause::Launch => "launch",
        Cause::Unknown => "unknown",
    }
}

fn gap_pages(trace: &Trace) -> String {
    let (mut all, mut rows) = (Vec::new(), Vec::new());
    let mut total = [0_u64; Cause::ALL.len()];
    let mut of_host = Vec::new();
    for device in &trace.devices {
        let gaps = gaps(device);
        let sums = idle(trace, &gaps);
        of_host.push((device.id, host::host(trace, &gaps)));
        total.iter_mut().zip(sums).for_each(|(t, sum)| *t += sum);
        let untimed = device.lanes[KERNELS].untimed.len() as u64;
        rows.push((device.id, sums, untimed));
        // The longest of all are among the longest of each.
        all.extend(longest(gaps, GAPS));
    }
    if all.is_empty() {
        return String::new();
    }
    let met = |cause: &Cause| total[*cause as usize] > 0;
    let causes: Vec<Cause> = Cause::ALL.into_iter().filter(met).collect();
    let mut header = vec!["device", "no kernel ran"];
    header.extend(causes.iter().map(|c| cause_name(*c)));
    let mut table = table(&header, 1);
    for (id, sums, _) in &rows {
        let mut row = vec![id.to_string(), tell::length(sums.iter().sum())];
        row.extend(causes.iter().map(|c| tell::length(sums[*c as usize])));
        table.add_row(row);
    }
    let mut text = "\nTime without a kernel, by what the next kernel waited for\n".to_owned();
    text += &lines(&table);
    if causes.contains(&Cause::Launch) {
        text +=
            "  (launch: all that it waited for had completed, and the device had not begun it)\n";
    }
    for (id, _, untimed) in rows.iter().filter(|(_, _, untimed)| *untimed > 0) {
        text += &format!(
            "  (device {id}: the times without a kernel may include {}, whose times are not in the trace)\n",
            counted(*untimed, "kernel")
        );
    }
    text += &host_table(&of_host);
    text += "\nThe longest times without a kernel\n";
    for gap in longest(all, GAPS) {
        text += &gap_text(trace, &gap);
    }
    text
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Program => "program",
        Kind::HostBlas => "host BLAS or program",
        Kind::Call => "in calls",
        Kind::Wait => "waiting",
        Kind::PageLock => "page lock",
        Kind::Fault => "faults",
        Kind::Start => "start",
        Kind::Unknown => "unknown",
    }
}

/// What the host did while devices had to wait for it.
fn host_table(rows: &[(u8, [u64; Kind::ALL.len()])]) -> String {
    let met = |kind: &Kind| rows.iter().any(|(_, sums)| sums[*kind as usize] > 0);
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(met).collect();
    if kinds.is_empty() {
        return String::new();
    }
    let mut header = vec!["device", "host"];
    header.extend(kinds.iter().map(|kind| kind_name(*kind)));
    let mut table = table(&header, 1);
    for (id, sums) in rows {
        let mut row = vec![id.to_string(), tell::length(sums.iter().sum())];
        row.extend(kinds.iter().map(|kind| tell::length(sums[*kind as usize])));
        table.add_row(row);
    }
    let title = "\nOf it the host's time, by what the thread that queued the next kernel did\n";
    title.to_owned() + &lines(&table)
}

/// A gap in words: a line on the gap, and one for each part, the longest first.
pub(crate) fn gap_text(trace: &Trace, gap: &Gap) -> String {
    let kernel = trace.op(gap.kernel);
    let mut text = format!(
        "  from {}, {}, device {}: ended by {}, queued at {}\n",
        tell::moment(trace, gap.from),
        tell::length(gap.to - gap.from),
        gap.device,
        tell::operation(trace, gap.kernel, Some(gap.device)),
        tell::moment(trace, kernel.map_or(0, |op| op.queued)),
    );
    let mut parts = parts(trace, gap);
    parts.sort_by_key(|part| u64::MAX - (part.to - part.from));
    for part in parts {
        let length = tell::length(part.to - part.from);
        let why = why(trace, gap, &part);
        text += &format!("    {length:>8}  {why}\n");
    }
    text
}

fn why(trace: &Trace, gap: &Gap, part: &Part) -> String {
    match (part.cause, part.op) {
        (Cause::Host, _) => format!("host: {}", host(trace, gap, part)),
        (Cause::Launch, _) => {
            "launch: all that it waited for had completed, and the device had not begun it"
                .to_owned()
        }
        (_, Some(id)) => {
            let mut links = Vec::new();
            for id in chain(trace, id, part.from) {
                let mut link = tell::operation(trace, id, Some(gap.device));
                if let Some(op) = trace.op(id) {
                    link += &format!(
                        ", itself queued at {}, which ran from {} to {}",
                        tell::moment(trace, op.queued),
                        tell::moment(trace, op.from),
                        tell::moment(trace, op.to)
                    );
                }
                links.push(link);
            }
            links.join("; before, that waited for ")
        }
        (_, None) => "unknown".to_owned(),
    }
}

/// What the thread that queued the kernel did in this part of the gap.
fn host(trace: &Trace, gap: &Gap, part: &Part) -> String {
    let thread = host::queued_by(trace, gap).and_then(|thread| trace.threads.get(thread));
    let Some(thread) = thread else {
        return "the thread that queued the kernel is not known".to_owned();
    };
    let doings = doings(thread, part.from, part.to);
    let told = doings.iter().take(DOINGS).map(|(doing, ns)| {
        let text = tell::doing(trace, *doing);
        match doings.len() {
            1 => text,
            _ => format!("{} {text}", tell::length(*ns)),
        }
    });
    let mut told: Vec<String> = told.collect();
    if let Some(rest) = doings.get(DOINGS..).filter(|rest| !rest.is_empty()) {
        let sum = rest.iter().map(|(_, ns)| ns).sum();
        told.push(format!("{} in {} more", tell::length(sum), rest.len()));
    }
    told.join("; ")
}
