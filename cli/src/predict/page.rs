//! A prediction as text.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use semcache::blas::predict::{Load, OnDevices};
use semcache::model::decide::Decision;

use super::told::Told;
use crate::trace::{amount, length};

/// The page, without the chart.
pub(super) fn page(told: &Told<'_>) -> String {
    let mut text = call(told) + "\n" + &times(told);
    if let Some(on) = &told.prediction.on_devices {
        text += &cut(told, on);
        if on.timed.is_some() {
            text += &loads(on);
        }
        text += &predictors(on);
    }
    text
}

/// Seconds in words.
fn seconds(seconds: f64) -> String {
    length((seconds * 1e9).round() as u64)
}

/// The call, its operands and the machine.
fn call(told: &Told<'_>) -> String {
    let (call, machine) = (told.call, told.machine);
    let shapes = call.problem.operands.iter().zip(&call.operands);
    let operands: Vec<String> = shapes
        .zip(&call.on_devices)
        .map(|((shape, name), on)| {
            let bytes = shape.rows * shape.cols * call.problem.dtype.size();
            let at = if *on { "on devices" } else { "at the host" };
            format!("{name} {} {at}", amount(bytes as u64))
        })
        .collect();
    let wanted = if call.read_back {
        "results are read by the CPU"
    } else {
        "results stay on devices"
    };
    let count = machine.machine.memory.len();
    let devices = if count == 1 { "device" } else { "devices" };
    let threads = machine.threads;
    format!(
        "{}: {}; {wanted}\non {}: {count} {devices}, host BLAS on {threads} {}\n",
        call.title(),
        operands.join(", "),
        machine.name,
        if threads == 1 { "thread" } else { "threads" }
    )
}

/// The predicted times, and where the call runs.
fn times(told: &Told<'_>) -> String {
    let prediction = told.prediction;
    let mut text = format!("host BLAS  {}\n", seconds(prediction.host_s));
    if let Some(on) = &prediction.on_devices {
        text += &format!("devices    {}\n", seconds(on.choice.seconds));
    }
    text + &match prediction.decision {
        Decision::Offload { .. } if !prediction.has_room() => {
            "decision   on the host BLAS: no room on devices\n".to_owned()
        }
        Decision::Offload { .. } => "decision   on devices\n".to_owned(),
        Decision::Host(reason) => format!("decision   on the host BLAS: {}\n", reason.key()),
    }
}

/// How devices run the call.
fn cut(told: &Told<'_>, on: &OnDevices) -> String {
    let level3 = told.call.problem.routine.level() == 3;
    let Some(timed) = &on.timed else {
        return "\nThe devices have no room for the call.\n".to_owned();
    };
    let ids: Vec<String> = on.devices.ids().map(|id| id.0.to_string()).collect();
    let tile = on.choice.tile;
    let tiles = match level3 {
        true => format!("tiles of {} x {} x {}, ", tile.m, tile.n, tile.k),
        false => String::new(),
    };
    let by = match on.by_timeline {
        true => "the timeline",
        false => "the closed forms",
    };
    let tasks = timed.plan.tasks.len();
    format!(
        "\n{tiles}{tasks} {} on {} {}; the times are those of {by}\n",
        if tasks == 1 { "task" } else { "tasks" },
        if ids.len() == 1 { "device" } else { "devices" },
        ids.join(", ")
    )
}

/// A name for what keeps a resource busy.
pub(super) fn name(load: Load) -> &'static str {
    match load {
        Load::Uploads => "uploads",
        Load::PeerCopies => "copies from peers",
        Load::Kernels => "kernels",
        Load::WriteBacks => "write-backs",
        Load::PageLocking => "page-locking",
        Load::Issuing => "issuing of tasks",
    }
}

/// What bounds the call.
fn loads(on: &OnDevices) -> String {
    let bound = on.bound();
    let mut table = Table::new();
    table.load_preset(NOTHING);
    for (load, busy) in on.loads().into_iter().filter(|(_, busy)| *busy > 0.0) {
        let share = format!("{:.0} %", 100.0 * busy / on.choice.seconds);
        let mark = if load == bound {
            "<- bounds the call"
        } else {
            ""
        };
        table.add_row([name(load), &seconds(busy), &share, mark]);
    }
    right(&mut table, &[1, 2]);
    format!(
        "\nBusy, of several devices the busiest, and as a share of the call\n{}",
        trimmed(&table)
    )
}

fn predictors(on: &OnDevices) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    for said in &on.said {
        let (time, pieces) = match said.answer {
            Some(answer) => (seconds(answer.seconds), answer.pieces.to_string()),
            None => ("-".to_owned(), String::new()),
        };
        table.add_row([said.name, &time, &pieces, said.source]);
    }
    right(&mut table, &[1, 2]);
    format!(
        "\nPredictors of copies and kernels alone: seconds, pieces that overlap, source\n{}\n",
        trimmed(&table)
    )
}

fn right(table: &mut Table, columns: &[usize]) {
    for &column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// The lines of a table without blanks at their ends.
fn trimmed(table: &Table) -> String {
    table
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}
