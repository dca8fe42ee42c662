//! The tables of routines, processes and devices: their columns and rows.

use core::cmp::Reverse;

use semcache::base::counters::Calls;
use semcache::runtime::report::Did;
use semcache::runtime::report::table::human;

use super::columns::Column;
use super::rates::{Look, faults, moved, on_host};
use super::words::{bytes_rate, duration, plain, rate, told};

/// Which table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Tab {
    #[default]
    Routines,
    Processes,
    Devices,
}

impl Tab {
    pub(super) const ALL: [Tab; 3] = [Tab::Routines, Tab::Processes, Tab::Devices];

    pub(super) fn title(self) -> &'static str {
        match self {
            Tab::Routines => "Routines",
            Tab::Processes => "Processes",
            Tab::Devices => "Devices",
        }
    }

    pub(super) fn next(self) -> Tab {
        match self {
            Tab::Routines => Tab::Processes,
            Tab::Processes => Tab::Devices,
            Tab::Devices => Tab::Routines,
        }
    }
}

/// Which routines and processes come first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Order {
    /// Those that made most calls since the look before; of several that made as many, those with most calls in all.
    #[default]
    Busiest,
    /// Those with most calls in all.
    Total,
    /// Those whose name, or number, comes first.
    Name,
}

impl Order {
    pub(super) fn title(self) -> &'static str {
        match self {
            Order::Busiest => "busiest",
            Order::Total => "total",
            Order::Name => "name",
        }
    }

    pub(super) fn next(self) -> Order {
        match self {
            Order::Busiest => Order::Total,
            Order::Total => Order::Name,
            Order::Name => Order::Busiest,
        }
    }

    /// Sorts rows that are in the order of their names.
    fn sort<T>(self, rows: &mut [T], since_and_total: impl Fn(&T) -> (u64, u64)) {
        match self {
            Order::Busiest => rows.sort_by_key(|row| Reverse(since_and_total(row))),
            Order::Total => rows.sort_by_key(|row| Reverse(since_and_total(row).1)),
            Order::Name => {}
        }
    }
}

const fn number(title: &'static str, rank: u8) -> Column {
    Column {
        title,
        left: false,
        rank,
    }
}

const fn name(title: &'static str, rank: u8) -> Column {
    Column {
        title,
        left: true,
        rank,
    }
}

/// A table's columns and rows.
pub(super) fn of(tab: Tab, look: &Look, order: Order) -> (Vec<Column>, Vec<Vec<String>>) {
    match tab {
        Tab::Routines => routines(look, order),
        Tab::Processes => processes(look, order),
        Tab::Devices => devices(look),
    }
}

fn routines(look: &Look, order: Order) -> (Vec<Column>, Vec<Vec<String>>) {
    let nothing = Calls::default();
    let since = |name: &String| look.since.calls.get(name).unwrap_or(&nothing);
    let mut all: Vec<(&String, &Calls)> = look.total.calls.iter().collect();
    order.sort(&mut all, |(name, calls)| {
        let since = since(name);
        (since.offloaded + since.host, calls.offloaded + calls.host)
    });
    let row = |(name, calls): (&String, &Calls)| {
        let since = since(name);
        vec![
            plain(name),
            rate(look.per_second(since.offloaded)),
            rate(look.per_second(since.host)),
            calls.offloaded.to_string(),
            calls.host.to_string(),
            told(calls),
        ]
    };
    let columns = vec![
        name("routine", 0),
        number("devices/s", 1),
        number("host/s", 2),
        number("on devices", 3),
        number("on host", 4),
        name("why on the host", 5),
    ];
    (columns, all.into_iter().map(row).collect())
}

fn processes(look: &Look, order: Order) -> (Vec<Column>, Vec<Vec<String>>) {
    let mut all: Vec<_> = look.rows.iter().collect();
    all.sort_by_key(|row| (row.process.pid == 0, row.process.pid));
    let calls = |did: &Did| did.offloaded() + on_host(did);
    order.sort(&mut all, |row| (calls(&row.since), calls(&row.process.did)));
    let ranks = all.iter().any(|row| row.process.rank.is_some());
    let rows = all.into_iter().map(|row| {
        let (process, did) = (&row.process, &row.process.did);
        let mut cells = vec![match process.pid {
            0 => "others".to_owned(),
            pid => pid.to_string(),
        }];
        if ranks {
            cells.push(
                process
                    .rank
                    .map(|rank| rank.to_string())
                    .unwrap_or_default(),
            );
        }
        cells.extend([
            if process.ended { "ended" } else { "runs" }.to_owned(),
            duration(process.seconds),
            rate(look.per_second(row.since.offloaded())),
            rate(look.per_second(on_host(&row.since))),
            did.offloaded().to_string(),
            on_host(did).to_string(),
            human(moved(did)),
            faults(did).to_string(),
            plain(&process.command),
        ]);
        cells
    });
    let rows = rows.collect();
    let mut columns = vec![name("process", 0)];
    if ranks {
        columns.push(number("rank", 4));
    }
    columns.extend([
        name("state", 8),
        number("time", 6),
        number("devices/s", 1),
        number("host/s", 2),
        number("on devices", 7),
        number("on host", 9),
        number("moved", 5),
        number("faults", 10),
        name("command", 3),
    ]);
    (columns, rows)
}

fn devices(look: &Look) -> (Vec<Column>, Vec<Vec<String>>) {
    let rows = look.devices.iter().map(|(all, since)| {
        vec![
            plain(&all.name),
            human(all.memory as u64),
            rate(look.per_second(since.calls)),
            rate(look.per_second(since.tasks)),
            bytes_rate(look.per_second(since.h2d)),
            bytes_rate(look.per_second(since.d2h)),
            all.calls.to_string(),
            all.tasks.to_string(),
            human(all.h2d),
            human(all.d2h),
            human(all.p2p),
        ]
    });
    let columns = vec![
        name("device", 0),
        number("memory", 9),
        number("calls/s", 1),
        number("tasks/s", 4),
        number("in/s", 2),
        number("out/s", 3),
        number("calls", 7),
        number("tasks", 8),
        number("in", 5),
        number("out", 6),
        number("from devices", 10),
    ];
    (columns, rows.collect())
}
