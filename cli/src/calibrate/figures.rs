//! The figures of a machine, from the times that were measured. A figure is there if all times that it needs are.

use semcache::base::Dtype;

use super::copies::{bytes_of_runs, bytes_together};
use super::fit::{self, Products};
use super::host::traffic;
use super::machine::Machine;
use super::session::Measured;
use super::tasks::{Operation, RUNS, Task, Type, Way, dtype};

/// Paths of figures and their values.
pub(super) type Figures = Vec<(String, Vec<f64>)>;

/// The times by task, and all tasks that there were.
struct Times<'a> {
    measured: &'a Measured,
    tasks: &'a [Task],
}

impl Times<'_> {
    /// Sizes and seconds of an operation at all sizes; `None` if one is missing, or there are none.
    fn all(&self, operation: Operation) -> Option<Vec<(f64, f64)>> {
        let mut tasks = self
            .tasks
            .iter()
            .filter(|task| task.operation == operation)
            .peekable();
        tasks.peek()?;
        let times = tasks.map(|task| {
            let seconds = self.measured.seconds.get(task)?;
            Some((task.size as f64, *seconds))
        });
        times.collect()
    }

    /// The seconds of an operation that has one size.
    fn one(&self, operation: Operation) -> Option<(f64, f64)> {
        self.all(operation)?.first().copied()
    }

    /// Latency, rate and slowdown of a link.
    fn link(&self, name: &str, way: Way, into: &mut Figures) -> Option<f64> {
        let (latency, per_byte) = fit::line(&self.all(Operation::Copy(way))?)?;
        let mut add = |key: &str, value| into.push((format!("device.{name}.{key}"), vec![value]));
        add("latency_s", latency);
        add("bytes_per_s", 1.0 / per_byte);
        if let Some((bytes, seconds)) = self.one(Operation::Beside(way)) {
            let alone = latency + per_byte * bytes;
            add("bid_slowdown", (seconds / alone).max(1.0));
        }
        Some(1.0 / per_byte)
    }

    /// The times of products of a type, small and large ones; `None` if one of them is missing.
    fn products(&self, way: Way, which: Type) -> Option<Products> {
        let mut points = Vec::new();
        for operation in [Operation::Row(which), Operation::Product(way, which)] {
            let here = operation != Operation::Row(which) || way == Way::In;
            if here && self.tasks.iter().any(|task| task.operation == operation) {
                points.extend(self.all(operation)?);
            }
        }
        Some(Products {
            flops: flops(dtype(which)),
            points,
        })
    }

    fn device(&self, machine: &Machine, into: &mut Figures) {
        let h2d = self.link("h2d", Way::In, into);
        self.link("d2h", Way::Out, into);
        self.link("p2p", Way::Peer, into);
        if let Some((h2d, runs)) = h2d.zip(self.all(Operation::Runs))
            && runs.len() == RUNS.len()
        {
            let shares = runs.iter().zip(RUNS).map(|((_, seconds), run)| {
                (bytes_of_runs(machine, run) as f64 / seconds / h2d).min(1.0)
            });
            into.push(("device.runs".into(), shares.collect()));
        }
        let launch = self.one(Operation::Launch).map(|(_, seconds)| seconds);
        for which in [0, 1, 2, 3] {
            let products = self.products(Way::In, which);
            if let Some((products, launch)) = products.zip(launch)
                && let Some((peaks, half)) = fit::products(&[products], launch)
            {
                let path = |key| format!("device.gemm.{}.{key}", dtype(which).letter());
                into.push((path("peak_flops"), peaks));
                into.push((path("half_size"), vec![half]));
            }
        }
        let mut add = |key: &str, value| into.push((format!("device.{key}"), vec![value]));
        if let Some((order, seconds)) = self.one(Operation::Memory) {
            // A matrix of doubles with twice as many rows as columns.
            add("memory_bandwidth", 16.0 * order * order / seconds);
        }
        if let Some(launch) = launch {
            add("launch_s", launch);
        }
        for (key, operation) in [("stream_s", Operation::Stream), ("exec_s", Operation::Exec)] {
            if let Some((_, seconds)) = self.one(operation) {
                add(key, seconds);
            }
        }
    }

    fn host(&self, into: &mut Figures) {
        let mut add = |key: &str, values| into.push((format!("host.{key}"), values));
        let Some((_, least)) = self.one(Operation::HostCall) else {
            return;
        };
        let bytes = |operation, size: f64| {
            let size = size as usize;
            traffic(&Task { operation, size })
        };
        let cached = self.all(Operation::HostCached).and_then(|points| {
            let points = points.iter();
            let points: Vec<(f64, f64)> = points
                .map(|(n, seconds)| (bytes(Operation::HostCached, *n), *seconds))
                .collect();
            fit::line(&points)
        });
        // No call takes less than one with a single element, which needs no other threads.
        let call = cached.map_or(least, |(call, _)| call.max(least));
        add("call_s", vec![call]);
        if let Some((_, per_byte)) = cached {
            add("cache_bandwidth", vec![1.0 / per_byte]);
        }
        for (key, operation) in [
            ("reduction_bandwidth", Operation::HostReduction),
            ("memory_bandwidth", Operation::HostMemory),
        ] {
            if let Some((n, seconds)) = self.one(operation)
                && seconds > call
            {
                add(key, vec![bytes(operation, n) / (seconds - call)]);
            }
        }
        let types: Option<Vec<Products>> = [0, 1, 2, 3]
            .into_iter()
            .map(|which| self.products(Way::Out, which))
            .collect();
        if let Some((peaks, half)) = types.and_then(|types| fit::products(&types, call)) {
            add("gemm_flops", peaks);
            add("half_size", vec![half]);
        }
    }
}

/// Floating-point operations on real numbers for each m n k of a product.
fn flops(dtype: Dtype) -> f64 {
    if dtype.is_complex() { 8.0 } else { 2.0 }
}

/// All figures that the times tell.
pub(super) fn figures(machine: &Machine, tasks: &[Task], measured: &Measured) -> Figures {
    let times = Times { measured, tasks };
    let mut all = Figures::new();
    let mut totals = |key: &str, operation, bytes: &dyn Fn(usize) -> usize| {
        if let Some(points) = times.all(operation) {
            let rates = points
                .iter()
                .map(|(count, seconds)| bytes(*count as usize) as f64 / seconds);
            all.push((key.to_owned(), rates.collect()));
        }
    };
    let together = |count| bytes_together(machine, count);
    totals("h2d_all", Operation::Together(Way::In), &together);
    totals("d2h_all", Operation::Together(Way::Out), &together);
    totals("pin", Operation::Pin, &|_| machine.sizes.bytes);
    times.device(machine, &mut all);
    times.host(&mut all);
    all
}
