//! What a run counts per second: the difference of two looks at the counters of its processes.

use std::collections::BTreeMap;

use semcache::base::counters::Calls;
use semcache::runtime::report::{Device, Did, Process};

/// A process by its id and the moment at which its counting began, which differs between two processes of one id.
type Key = (u32, u64);

fn key(process: &Process) -> Key {
    (process.pid, process.begun_s.to_bits())
}

/// How many processes whose places are free keep rows of their own: the others share one.
const GONE: usize = 64;

/// Looks at the counters of a run, time and again.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The processes of the last look.
    last: BTreeMap<Key, Process>,
    /// The moment of the last look, in seconds on the caller's clock; before the first look, that at which the run began.
    at: f64,
    /// What processes had counted at the last look that had them. Their places are free now.
    gone: Vec<Process>,
}

/// A process, and what it counted since the look before.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) process: Process,
    pub(crate) since: Did,
}

/// What one look has found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    /// The seconds since the look before, or since the run began.
    pub(crate) seconds: f64,
    /// All processes that ever were seen: those that count, then those that have gone.
    pub(crate) rows: Vec<Row>,
    /// The sums over all processes.
    pub(crate) total: Did,
    pub(crate) since: Did,
    /// The devices of all processes: what they did in all, and since the look before.
    pub(crate) devices: Vec<(Device, Device)>,
}

impl Look {
    /// What a number of events, or of bytes, since the look before makes per second.
    pub(crate) fn per_second(&self, n: u64) -> f64 {
        if self.seconds > 0.0 {
            n as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// The same processes, over the whole time of the run.
    pub(crate) fn whole(self, seconds: f64) -> Look {
        let rows = self.rows.into_iter().map(|row| Row {
            since: row.process.did.clone(),
            process: row.process,
        });
        look(seconds, rows.collect())
    }
}

impl Watch {
    /// Begins with nothing counted at the moment at which the run began.
    pub(crate) fn new(begun: f64) -> Watch {
        Watch {
            last: BTreeMap::new(),
            at: begun,
            gone: Vec::new(),
        }
    }

    /// Compares what the processes have counted with the last look.
    pub(crate) fn look(&mut self, now: f64, processes: Vec<Process>) -> Look {
        let mut last = core::mem::take(&mut self.last);
        let mut rows = Vec::with_capacity(processes.len());
        for process in processes {
            let mut process = process;
            // What is not shown costs time in sums of many processes.
            (process.did.sites, process.did.matrices) = (Vec::new(), Vec::new());
            let before = last.remove(&key(&process)).unwrap_or_default();
            if before.ended {
                // Nobody has noted when a killed process ended: not after the look that found it so.
                process.seconds = before.seconds;
            }
            let since = since(&process.did, &before.did);
            self.last.insert(key(&process), process.clone());
            rows.push(Row { process, since });
        }
        last.into_values().for_each(|process| self.left(process));
        let gone = self.gone.iter().map(|process| Row {
            process: process.clone(),
            since: Did::default(),
        });
        rows.extend(gone);
        let seconds = now - self.at;
        self.at = now;
        look(seconds, rows)
    }

    /// A process has no place any more.
    fn left(&mut self, process: Process) {
        match self.gone.get_mut(GONE - 1) {
            Some(rest) => {
                rest.did.add(&process.did);
                rest.processes += process.processes;
                rest.seconds = rest.seconds.max(process.seconds);
                (rest.pid, rest.rank) = (0, None);
                rest.command = format!("{} processes", rest.processes);
            }
            None => self.gone.push(Process {
                ended: true,
                ..process
            }),
        }
    }
}

fn look(seconds: f64, rows: Vec<Row>) -> Look {
    let mut look = Look {
        seconds,
        ..Look::default()
    };
    for row in &rows {
        look.total.add(&row.process.did);
        look.since.add(&row.since);
        add_devices(&mut look.devices, &row.process.did, &row.since);
    }
    look.rows = rows;
    look
}

/// Adds a process's devices to those of the run: each to the one of the same number and name.
fn add_devices(all: &mut Vec<(Device, Device)>, did: &Did, since: &Did) {
    for (number, device) in did.devices.iter().enumerate() {
        let same = |(known, _): &&mut (Device, Device)| {
            (&known.name, &known.kind) == (&device.name, &device.kind)
        };
        // Devices of one name may be several: the n-th of a process is the n-th of the run.
        let earlier = did.devices[..number].iter();
        let nth = earlier
            .filter(|d| (&d.name, &d.kind) == (&device.name, &device.kind))
            .count();
        let position = match all.iter_mut().filter(same).nth(nth) {
            Some(known) => known,
            None => {
                let named = Device {
                    name: device.name.clone(),
                    kind: device.kind.clone(),
                    memory: device.memory,
                    ..Device::default()
                };
                all.push((named.clone(), named));
                let Some(last) = all.last_mut() else { return };
                last
            }
        };
        add_device(&mut position.0, device);
        if let Some(since) = since.devices.get(number) {
            add_device(&mut position.1, since);
        }
    }
}

fn add_device(to: &mut Device, from: &Device) {
    to.calls += from.calls;
    to.tasks += from.tasks;
    to.h2d += from.h2d;
    to.d2h += from.d2h;
    to.p2p += from.p2p;
}

/// The calls that ran on the host.
pub(crate) fn on_host(did: &Did) -> u64 {
    did.calls.values().map(|calls| calls.host).sum()
}

/// The bytes that were moved between host and devices.
pub(crate) fn moved(did: &Did) -> u64 {
    let bytes = &did.counts.bytes;
    bytes.h2d + bytes.d2h + bytes.mapped
}

/// The page faults.
pub(crate) fn faults(did: &Did) -> u64 {
    did.counts.faults.read + did.counts.faults.write
}

/// How much a number grew. One that is smaller than before was counted from zero anew.
fn grown(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

/// What a process counted since an earlier moment, of the numbers that are shown.
fn since(now: &Did, before: &Did) -> Did {
    let mut out = Did::default();
    for (name, calls) in &now.calls {
        let nothing = Calls::default();
        let before = before.calls.get(name).unwrap_or(&nothing);
        let mut new = Calls {
            offloaded: grown(calls.offloaded, before.offloaded),
            ..Calls::default()
        };
        for (why, n) in &calls.why_host {
            let before = before.why_host.get(why).copied().unwrap_or(0);
            new.add_host(why, grown(*n, before));
        }
        if new != nothing {
            out.calls.insert(name.clone(), new);
        }
    }
    let (to, now_, before_) = (&mut out.counts, &now.counts, &before.counts);
    macro_rules! grown_of {
        ($($group:ident: $($name:ident)+;)*) => {
            $($(to.$group.$name = grown(now_.$group.$name, before_.$group.$name);)+)*
        };
    }
    grown_of! {
        bytes: h2d d2h p2p mapped;
        faults: read write false_sharing;
        cache: hits misses evictions closes;
    }
    to.sparse = grown(now_.sparse, before_.sparse);
    to.sparse_host = grown(now_.sparse_host, before_.sparse_host);
    to.sparse_passed = grown(now_.sparse_passed, before_.sparse_passed);
    for (number, device) in now.devices.iter().enumerate() {
        let nothing = Device::default();
        let before = before.devices.get(number).unwrap_or(&nothing);
        out.devices.push(Device {
            name: device.name.clone(),
            kind: device.kind.clone(),
            memory: device.memory,
            calls: grown(device.calls, before.calls),
            tasks: grown(device.tasks, before.tasks),
            h2d: grown(device.h2d, before.h2d),
            d2h: grown(device.d2h, before.d2h),
            p2p: grown(device.p2p, before.p2p),
            ..Device::default()
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, begun_s: f64, offloaded: u64) -> Process {
        let text = format!(
            r#"{{"devices":[{{"name":"sim0","kind":"sim","calls":{offloaded},"tasks":{offloaded}}}],
            "calls":{{"dgemm":{{"offloaded":{offloaded},"host":2,"why_host":{{"small":2}}}}}},
            "bytes":{{"h2d":{}}}}}"#,
            offloaded * 100
        );
        Process {
            pid,
            begun_s,
            processes: 1,
            did: serde_json::from_str(&text).expect("what a process did"),
            ..Process::default()
        }
    }

    fn calls(look: &Look) -> (u64, u64) {
        (look.total.offloaded(), look.since.offloaded())
    }

    #[test]
    fn rates_are_those_since_the_look_before() {
        let mut watch = Watch::new(100.0);
        // The first look tells the mean since the beginning.
        let first = watch.look(110.0, vec![process(1, 100.0, 50)]);
        assert_eq!(calls(&first), (50, 50));
        assert!((first.per_second(first.since.offloaded()) - 5.0).abs() < 1e-9);
        let second = watch.look(112.0, vec![process(1, 100.0, 60)]);
        assert_eq!(calls(&second), (60, 10));
        assert!((second.per_second(second.since.counts.bytes.h2d) - 500.0).abs() < 1e-9);
        // No call came on the host meanwhile.
        assert_eq!(second.since.calls["dgemm"].host, 0);
        let (total, since) = &second.devices[0];
        assert_eq!((total.tasks, since.tasks), (60, 10));
        // Nothing happens: nothing per second.
        let third = watch.look(113.0, vec![process(1, 100.0, 60)]);
        assert_eq!(calls(&third), (60, 0));
        assert!(third.since.calls.is_empty());
        assert_eq!(calls(&third.whole(13.0)), (60, 60));
    }

    #[test]
    fn processes_appear_and_vanish() {
        let mut watch = Watch::new(0.0);
        watch.look(1.0, vec![process(1, 0.0, 10)]);
        let both = watch.look(2.0, vec![process(1, 0.0, 12), process(2, 1.5, 7)]);
        assert_eq!(calls(&both), (19, 9));
        // The first one's place is free: what it had counted stays in the sum.
        let one = watch.look(3.0, vec![process(2, 1.5, 8)]);
        assert_eq!(calls(&one), (20, 1));
        assert_eq!(one.rows.len(), 2);
        assert!(one.rows[1].process.ended && one.rows[1].since.calls.is_empty());
        // Another process has the id of the first.
        let again = watch.look(4.0, vec![process(2, 1.5, 8), process(1, 3.5, 4)]);
        assert_eq!(calls(&again), (24, 4));
        assert_eq!(again.rows.len(), 3);
        assert_eq!(again.devices.len(), 1);
    }

    #[test]
    fn those_that_have_gone_share_a_row_if_they_are_many() {
        let mut watch = Watch::new(0.0);
        for n in 0..100 {
            watch.look(f64::from(n), vec![process(n + 1, f64::from(n), 1)]);
        }
        let look = watch.look(100.0, Vec::new());
        let all: u64 = look.rows.iter().map(|row| row.process.processes).sum();
        assert_eq!((look.rows.len(), all, calls(&look)), (GONE, 100, (100, 0)));
        assert_eq!(look.rows[GONE - 1].process.command, "37 processes");
    }

    #[test]
    fn a_number_that_fell_was_counted_anew() {
        let mut watch = Watch::new(0.0);
        watch.look(1.0, vec![process(1, 0.0, 1000)]);
        let look = watch.look(2.0, vec![process(1, 0.0, 3)]);
        assert_eq!(calls(&look), (3, 3));
        // No time has passed: no rate, and none that is infinite.
        let look = watch.look(2.0, vec![process(1, 0.0, 5)]);
        assert!(look.per_second(2).abs() < f64::EPSILON);
    }

    #[test]
    fn devices_of_one_name_are_several() {
        let mut one = process(1, 0.0, 5);
        let device = one.did.devices[0].clone();
        one.did.devices.push(device);
        let look = Watch::new(0.0).look(1.0, vec![one.clone(), one]);
        let tasks: Vec<u64> = look.devices.iter().map(|(all, _)| all.tasks).collect();
        assert_eq!(tasks, [10, 10]);
    }
}
