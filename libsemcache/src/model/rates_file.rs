//! The file of a machine's rates (`SEMCACHE_RATES`, `semcache calibrate`): a TOML text whose figures replace those of the built-in table.
//!
//! The path of a figure in the file is the path of the field in [`Rates`], and its unit is the field's; docs/rates.md
//! has the list. No figure can make a prediction infinite or not a number: each must lie between bounds that are far from
//! what any machine has.

mod said;

use toml::de::{DeTable, DeValue};

pub use said::{Said, file_name, gpus};

use super::classes::ClassRates;
use super::ports::Ports;
use super::rates::{DeviceRates, GemmRate, HostRates, Kinds, LinkRate, Rates, Total};
use crate::base::work::RunShares;

/// The version of the format that this library reads.
pub const VERSION: i64 = 1;

/// The table that says on which machine the file was measured. No figure is taken from it.
const MACHINE: &str = "machine";

/// The least and the greatest value of a figure.
type Bounds = (f64, f64);

const SECONDS: Bounds = (1e-12, 1e3);
const PER_SECOND: Bounds = (1.0, 1e18);
const SLOWDOWN: Bounds = (1.0, 1e3);
const SHARE: Bounds = (1e-3, 1.0);
const SIZE: Bounds = (1e-3, 1e6);
const BYTES: Bounds = (1.0, 1e15);

/// How many numbers a figure has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Count {
    /// A number.
    One,
    /// A list that is as long as the field's.
    All,
    /// A list of totals for 1, 2, 4 and 8 devices, or for the first of these; for more devices the last one holds.
    First,
}

/// One figure: its path in the file, what it may be, and the numbers in the rates that it replaces.
#[derive(Debug)]
struct Figure<'a> {
    path: &'static str,
    bounds: Bounds,
    count: Count,
    at: &'a mut [f64],
}

fn one<'a>(path: &'static str, bounds: Bounds, at: &'a mut f64) -> Figure<'a> {
    let (count, at) = (Count::One, std::slice::from_mut(at));
    Figure {
        path,
        bounds,
        count,
        at,
    }
}

fn list<'a>(path: &'static str, bounds: Bounds, count: Count, at: &'a mut [f64]) -> Figure<'a> {
    Figure {
        path,
        bounds,
        count,
        at,
    }
}

/// Every figure; those of devices hold for each kind of device. A field that is missing here does not compile, since no
/// pattern leaves one out.
fn figures(rates: &mut Rates) -> Vec<Figure<'_>> {
    let Rates {
        kinds,
        h2d_all: Total(h2d_all),
        d2h_all: Total(d2h_all),
        ports: _,
        pin: Total(pin),
        host,
        call_s,
        task_s,
        fault_s,
        landing_s,
    } = rates;
    let mut all = vec![
        list("h2d_all", PER_SECOND, Count::First, h2d_all),
        list("d2h_all", PER_SECOND, Count::First, d2h_all),
        list("pin", PER_SECOND, Count::First, pin),
        one("call_s", SECONDS, call_s),
        one("task_s", SECONDS, task_s),
        one("fault_s", SECONDS, fault_s),
        one("landing_s", SECONDS, landing_s),
    ];
    for device in kinds.each_mut() {
        all.extend(device_figures(device));
    }
    all.extend(host_figures(host));
    all
}

fn device_figures(device: &mut DeviceRates) -> Vec<Figure<'_>> {
    let DeviceRates {
        h2d,
        d2h,
        p2p,
        classes: _,
        runs: RunShares(runs),
        gemm: [s, d, c, z],
        memory_bandwidth,
        launch_s,
        stream_s,
        exec_s,
    } = device;
    let mut all = vec![
        list("device.runs", SHARE, Count::All, runs),
        one("device.memory_bandwidth", PER_SECOND, memory_bandwidth),
        one("device.launch_s", SECONDS, launch_s),
        one("device.stream_s", SECONDS, stream_s),
        one("device.exec_s", SECONDS, exec_s),
    ];
    all.extend(link(
        [
            "device.h2d.latency_s",
            "device.h2d.bytes_per_s",
            "device.h2d.bid_slowdown",
        ],
        h2d,
    ));
    all.extend(link(
        [
            "device.d2h.latency_s",
            "device.d2h.bytes_per_s",
            "device.d2h.bid_slowdown",
        ],
        d2h,
    ));
    all.extend(link(
        [
            "device.p2p.latency_s",
            "device.p2p.bytes_per_s",
            "device.p2p.bid_slowdown",
        ],
        p2p,
    ));
    for (paths, rate) in [
        (["device.gemm.s.peak_flops", "device.gemm.s.half_size"], s),
        (["device.gemm.d.peak_flops", "device.gemm.d.half_size"], d),
        (["device.gemm.c.peak_flops", "device.gemm.c.half_size"], c),
        (["device.gemm.z.peak_flops", "device.gemm.z.half_size"], z),
    ] {
        all.extend(gemm(paths, rate));
    }
    all
}

fn link<'a>(
    [latency, rate, slowdown]: [&'static str; 3],
    link: &'a mut LinkRate,
) -> [Figure<'a>; 3] {
    let LinkRate {
        latency_s,
        bytes_per_s,
        bid_slowdown,
    } = link;
    [
        one(latency, SECONDS, latency_s),
        one(rate, PER_SECOND, bytes_per_s),
        one(slowdown, SLOWDOWN, bid_slowdown),
    ]
}

fn gemm<'a>([peak, half]: [&'static str; 2], rate: &'a mut GemmRate) -> [Figure<'a>; 2] {
    let GemmRate {
        peak_flops,
        half_size,
    } = rate;
    [
        one(peak, PER_SECOND, peak_flops),
        one(half, SIZE, half_size),
    ]
}

fn host_figures(host: &mut HostRates) -> [Figure<'_>; 7] {
    let HostRates {
        gemm_flops,
        half_size,
        memory_bandwidth,
        cache_bandwidth,
        cache_bytes,
        reduction_bandwidth,
        call_s,
    } = host;
    [
        list("host.gemm_flops", PER_SECOND, Count::All, gemm_flops),
        one("host.half_size", SIZE, half_size),
        one("host.memory_bandwidth", PER_SECOND, memory_bandwidth),
        one("host.cache_bandwidth", PER_SECOND, cache_bandwidth),
        one("host.cache_bytes", BYTES, cache_bytes),
        one("host.reduction_bandwidth", PER_SECOND, reduction_bandwidth),
        one("host.call_s", SECONDS, call_s),
    ]
}

/// All figures of the rates, for one kind of device: their paths in a file, and their values.
#[must_use]
pub fn listed(rates: &Rates, kind: usize) -> Vec<(&'static str, Vec<f64>)> {
    let mut rates = Rates {
        kinds: Kinds::alike(*rates.kinds.of_kind(kind)),
        ..*rates
    };
    let all = figures(&mut rates).into_iter();
    all.map(|figure| (figure.path, figure.at.to_vec()))
        .collect()
}

/// Whether a figure may have these values in a file.
#[must_use]
pub fn allowed(path: &str, values: &[f64]) -> bool {
    let mut known = Rates::generic(HostRates::of_cores(1));
    let known = figures(&mut known);
    let figure = known.iter().find(|figure| figure.path == path);
    figure.is_some_and(|figure| figure.fits(values.len()) && figure.holds(values))
}

impl Figure<'_> {
    /// Whether a file may give this number of values.
    fn fits(&self, count: usize) -> bool {
        match self.count {
            Count::First => (1..=self.at.len()).contains(&count),
            Count::One | Count::All => count == self.at.len(),
        }
    }

    /// Whether all values lie within the bounds.
    fn holds(&self, values: &[f64]) -> bool {
        let (least, greatest) = self.bounds;
        // A comparison with a value that is not a number is false.
        values.iter().all(|v| *v >= least && *v <= greatest)
    }
}

/// The figures of a file, and what it says of its machine.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Given {
    figures: Vec<(String, Vec<f64>)>,
    said: Said,
}

impl Given {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Why the file is not used, as the end of the sentence "PATH ...". A file with one bad figure is not used at all.
    pub fn parse(text: &str) -> Result<Given, String> {
        // The parser bounds the depth of brackets and of dotted keys, each alone. The format needs no inline table, in which
        // both could be nested many times over.
        if text.contains('{') {
            return Err("has an inline table, which is not part of the format".into());
        }
        let table = DeTable::parse(text).map_err(|error| {
            let what = error.message().lines().next().unwrap_or_default();
            match error.span().and_then(|span| text.get(..span.start)) {
                Some(before) => {
                    format!(
                        "is not TOML: line {}: {what}",
                        before.matches('\n').count() + 1
                    )
                }
                None => format!("is not TOML: {what}"),
            }
        })?;
        let table = table.get_ref();
        match table.get("version").map(|v| number(v.get_ref())) {
            Some(Some(version)) if version == VERSION as f64 => {}
            Some(_) => return Err(format!("has another version than {VERSION}")),
            None => return Err(format!("does not say \"version = {VERSION}\"")),
        }
        // Any rates will do: what is read does not depend on the figures that are replaced.
        let mut known = Rates::generic(HostRates::of_cores(1));
        let known = figures(&mut known);
        let mut given = Vec::new();
        for (name, value) in table {
            let name: &str = name.get_ref();
            if !matches!(name, "version" | MACHINE) {
                collect(name, value.get_ref(), &known, &mut given)?;
            }
        }
        Ok(Given {
            figures: given,
            said: Said::read(table.get(MACHINE).map(|v| v.get_ref())),
        })
    }

    /// What the file says of the machine that it was measured on.
    #[must_use]
    pub fn said(&self) -> &Said {
        &self.said
    }

    /// Whether the file gives the figure with this path.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.figures.iter().any(|(given, _)| given == path)
    }

    /// The figures that hold for any process which uses this number of GPUs: totals if they were measured with as many GPUs or more,
    /// and none of the host BLAS, since programs bring libraries of very different speeds.
    #[must_use]
    pub fn used_with(mut self, gpus: usize) -> Given {
        // For more than eight GPUs the total of eight holds.
        let totals = self
            .said
            .gpus
            .is_some_and(|measured| measured >= gpus.min(8));
        self.figures.retain(|(path, _)| match path.as_str() {
            "h2d_all" | "d2h_all" | "pin" => totals,
            path => !path.starts_with("host."),
        });
        self
    }

    /// The rates with the figures of the file in the places of their own.
    #[must_use]
    pub fn over(&self, mut rates: Rates) -> Rates {
        for figure in figures(&mut rates) {
            if let Some((_, values)) = self.figures.iter().find(|(path, _)| path == figure.path) {
                let last = values.last().copied();
                let values = values
                    .iter()
                    .copied()
                    .map(Some)
                    .chain(std::iter::repeat(last));
                for (at, value) in figure.at.iter_mut().zip(values) {
                    *at = value.unwrap_or(*at);
                }
            }
        }
        if self.has("h2d_all") || self.has("d2h_all") {
            // What devices reach together was measured.
            rates.ports = Ports::NONE;
        }
        if self.has("device.p2p.bytes_per_s") {
            let kinds = rates.kinds.each_mut().iter_mut();
            kinds.for_each(|device| device.classes = ClassRates::default());
        }
        rates
    }
}

/// Adds the figures of a value that has this path.
fn collect(
    path: &str,
    value: &DeValue<'_>,
    known: &[Figure<'_>],
    given: &mut Vec<(String, Vec<f64>)>,
) -> Result<(), String> {
    let within = |figure: &Figure<'_>| {
        let rest = figure.path.strip_prefix(path);
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    if let DeValue::Table(table) = value
        && known.iter().any(within)
    {
        for (name, value) in table {
            collect(
                &format!("{path}.{}", name.get_ref()),
                value.get_ref(),
                known,
                given,
            )?;
        }
        return Ok(());
    }
    let Some(figure) = known.iter().find(|figure| figure.path == path) else {
        return Err(format!("has no use for {path}"));
    };
    let values: Option<Vec<f64>> = match (value, figure.count) {
        (DeValue::Array(values), Count::All | Count::First) => {
            values.iter().map(|v| number(v.get_ref())).collect()
        }
        (value, Count::One) => number(value).map(|n| vec![n]),
        _ => None,
    };
    let most = figure.at.len();
    let values = values.filter(|v| figure.fits(v.len())).ok_or_else(|| {
        let what = match figure.count {
            Count::One => "a number".to_owned(),
            Count::All => format!("a list of {most} numbers"),
            Count::First => format!("a list of 1 to {most} numbers"),
        };
        format!("has a {path} that is not {what}")
    })?;
    if !figure.holds(&values) {
        let (least, greatest) = figure.bounds;
        return Err(format!(
            "has a {path} that is not within {least:e} and {greatest:e}"
        ));
    }
    given.push((path.to_owned(), values));
    Ok(())
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(n) if n.radix() == 10 => n.as_str().parse().ok(),
        DeValue::Float(x) => x.as_str().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
