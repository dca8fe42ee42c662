//! The timeline of a call: when each copy and kernel runs, and, if device memory does not hold all tiles, which tile gives way
//! to which.
//!
//! Each device has four lanes (uploads, copies from other devices, kernels, write-backs) and a number of *slots*, each of which
//! holds one tile. Tasks are taken in the order of the plan. For each tile that is missing, a slot is found, and the copy runs
//! as soon as its lane is free, the tile's newest bytes are where they are copied from, and the kernels and the write-back that
//! use the slot's old tile are done. It comes from where it arrives first (`Run::fetch`). Copies from and to the host also
//! pass through the port that the device shares with others (`Run::through_port`); copies from other devices slow no other copies
//! down. A kernel runs behind the one before it, once its tiles have arrived. One thread queues the tasks of all devices, one
//! after the other, each with the copies of its tiles; then it computes the host's part of the call, if there is one.
//!
//! The future of a call is known, so the tile that gives way is chosen by its next use (Belady's rule). Two changes:
//!
//! * A slot that is still in use when the link is free delays all uploads behind it. So of the tiles that the call does not use
//!   again, the one whose slot is free first is taken, and of the others the one with the farthest next use among those
//!   whose slot is free before another upload would be done. The first two of these rules contain what BLASX does by
//!   least recent use, and XKBlas by taking unmodified tiles first: a modified tile's slot is free only after its
//!   write-back.
//! * A tile that the call does not use again is taken to be used again at the same place of an equal call that follows,
//!   as in an iteration.

mod watch;

use super::clocks::{Clocks, DeviceLinks, Span};
use super::ports::Port;
use crate::base::{DeviceId, Link, Links};
pub use watch::{Did, Operation, Watch};

/// A tile of an operand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tile {
    /// Bytes that a device needs of it and does not have; 0: the tile is on every device that uses it.
    pub bytes: f64,
    /// Bytes that are written back to the host as soon as the tile is final.
    pub home: f64,
    /// The share of a link's rate that copies of it reach (see [`crate::base::work::RunShares`]).
    pub share: f64,
    /// The device that it is uploaded to, if no device holds it, although others use it as well (see [`Load::share_uploads`]).
    pub uploader: Option<usize>,
}

impl Tile {
    /// Of its bytes, as many as would take as long at the full rate.
    fn cost(&self) -> f64 {
        self.bytes / self.share
    }
}

/// How a task uses a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use {
    /// Index into [`Load::tiles`].
    pub tile: u32,
    /// Whether the task needs the tile's old bytes.
    pub reads: bool,
    /// Whether the task writes the tile.
    pub writes: bool,
}

/// One kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Task {
    /// Index into the list of devices.
    pub device: usize,
    /// Seconds of the kernel.
    pub seconds: f64,
    /// The index of the first of its uses in [`Load::uses`]; they end where those of the next task begin.
    pub first_use: usize,
}

/// The tasks of a call, in order.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// All tiles.
    pub tiles: Vec<Tile>,
    /// All tasks, in the order in which they are issued.
    pub tasks: Vec<Task>,
    /// What the tasks use.
    pub uses: Vec<Use>,
    /// Seconds in which the calling thread queues a task.
    pub issue_s: f64,
    /// Seconds in which the calling thread computes a part of the call by the host BLAS, once it has queued all tasks.
    pub host_s: f64,
    /// Between which devices tiles are copied directly.
    pub links: Links,
    /// Connections to the host that several devices share.
    pub ports: Vec<Port>,
    /// Tiles that are in a slot before the call, as device, tile, and whether the bytes there are valid.
    pub resident: Vec<(usize, u32, bool)>,
    /// The same of tiles that have memory apart from the slots, for the whole call.
    pub apart: Vec<(usize, u32, bool)>,
}

/// One device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Device {
    /// Tiles that its memory holds.
    pub slots: usize,
    /// Its links.
    pub links: DeviceLinks,
}

/// A tile that leaves a device before a task is issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drop {
    /// Index of the task, which runs on the same device.
    pub task: usize,
    /// Index of the tile.
    pub tile: u32,
}

/// What will happen.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Schedule {
    /// Seconds from the start to the end of the last kernel, the last write-back and the host's part.
    pub seconds: f64,
    /// Bytes uploaded from the host.
    pub bytes_in: f64,
    /// Bytes copied from device to device.
    pub bytes_peer: f64,
    /// Bytes written back to the host.
    pub bytes_out: f64,
    /// When each task's kernel starts.
    pub starts: Vec<f64>,
    /// The tiles that give way, in the order of the tasks before which they leave.
    pub drops: Vec<Drop>,
}

/// No further use in the call.
const NEVER: u32 = u32::MAX;

/// The state of one tile on one device.
#[derive(Clone, Copy, Debug)]
struct Copy {
    /// Whether it has a slot.
    held: bool,
    /// Whether the bytes in the slot are the newest.
    valid: bool,
    /// When the bytes have arrived.
    arrived: f64,
    /// When the last kernel that uses the tile, and the copies out of it, are done.
    done: f64,
    /// The next task that uses it, or [`NEVER`].
    next: u32,
    /// The first task that uses it.
    first: u32,
}

struct Run<'a, W> {
    load: &'a Load,
    devices: &'a [Device],
    /// For each device, all tiles.
    copies: Vec<Vec<Copy>>,
    /// For each device, the tiles that have a slot.
    held: Vec<Vec<u32>>,
    clocks: Clocks,
    /// When the host has the newest bytes of a tile.
    at_host: Vec<f64>,
    schedule: Schedule,
    watch: &'a mut W,
}

/// The schedule of a load, or `None` if some task has more tiles than its device has slots.
#[must_use]
pub fn schedule(load: &Load, devices: &[Device]) -> Option<Schedule> {
    watched(load, devices, &mut ())
}

/// As [`schedule`], and tells `watch` when each copy and kernel runs.
pub fn watched(load: &Load, devices: &[Device], watch: &mut impl Watch) -> Option<Schedule> {
    let none = Copy {
        held: false,
        valid: false,
        arrived: 0.0,
        done: 0.0,
        next: NEVER,
        first: NEVER,
    };
    let mut copies = vec![vec![none; load.tiles.len()]; devices.len()];
    // For each use, the task that uses the tile next on the same device.
    let mut following = vec![NEVER; load.uses.len()];
    let mut last_write = vec![NEVER; load.tiles.len()];
    for at in (0..load.tasks.len()).rev() {
        let index = u32::try_from(at).ok()?;
        for i in load.range(at) {
            let Use { tile, writes, .. } = load.uses[i];
            let copy = &mut copies[load.tasks[at].device][tile as usize];
            following[i] = copy.next;
            (copy.next, copy.first) = (index, index);
            if writes && last_write[tile as usize] == NEVER {
                last_write[tile as usize] = index;
            }
        }
    }
    let mut held = vec![Vec::new(); devices.len()];
    for &(device, tile, valid) in &load.resident {
        let copy = &mut copies[device][tile as usize];
        if !copy.held && held[device].len() < devices[device].slots {
            (copy.held, copy.valid) = (true, valid);
            held[device].push(tile);
        }
    }
    for &(device, tile, valid) in &load.apart {
        let copy = &mut copies[device][tile as usize];
        (copy.held, copy.valid) = (true, valid);
    }
    let mut run = Run {
        load,
        devices,
        copies,
        held,
        clocks: Clocks::new(
            devices.iter().map(|d| d.links).collect(),
            load.ports.clone(),
        ),
        at_host: vec![0.0; load.tiles.len()],
        schedule: Schedule {
            starts: Vec::with_capacity(load.tasks.len()),
            ..Schedule::default()
        },
        watch,
    };
    for at in 0..load.tasks.len() {
        run.task(at, &following, &last_write)?;
    }
    let Schedule { seconds, .. } = &mut run.schedule;
    if load.host_s > 0.0 {
        *seconds = seconds.max(load.tasks.len() as f64 * load.issue_s + load.host_s);
    }
    Some(run.schedule)
}

/// Whether any of these devices uploads inputs for others: one has a faster link than to the host, and waits for bytes that are on
/// their way to another device.
#[must_use]
pub fn shares_uploads(links: &Links, devices: usize) -> bool {
    let fast = |to: usize| links.faster(DeviceId::at(to)).next().is_some();
    devices > 1 && links.joins() && (0..devices).any(fast)
}

impl Load {
    /// Chooses, for each tile that several devices read, the device that it is uploaded to; the others copy it from there. The
    /// links from that device to all others must be faster than those from the host. Of such devices it is the one with the
    /// fewest bytes to upload before that, so that the links from the host to all devices carry equal parts of the inputs. If
    /// each device uploaded what it lacks when it lacks it, either the first device would upload all shared inputs, or each
    /// device would upload all of them.
    pub fn share_uploads(&mut self, devices: usize) {
        if !shares_uploads(&self.links, devices) {
            return;
        }
        let mut users = vec![0_u64; self.tiles.len()];
        let mut written = vec![false; self.tiles.len()];
        for (at, task) in self.tasks.iter().enumerate() {
            for used in &self.uses[self.range(at)] {
                users[used.tile as usize] |= 1 << task.device;
                written[used.tile as usize] |= used.writes;
            }
        }
        let mut sent = vec![0.0; devices];
        let mut seen = vec![false; self.tiles.len()];
        for at in 0..self.tasks.len() {
            for i in self.range(at) {
                let Use { tile, reads, .. } = self.uses[i];
                let t = tile as usize;
                if !reads || std::mem::replace(&mut seen[t], true) {
                    continue;
                }
                let uses = |d: usize| users[t] >> d & 1 == 1;
                let reaches_all = |u: usize| {
                    let others = (0..devices).filter(|&d| d != u && uses(d));
                    let mut links = others.map(|d| self.links.of(DeviceId::at(d), DeviceId::at(u)));
                    links.all(|link| matches!(link, Link::Faster(_)))
                };
                let shared = users[t].count_ones() > 1 && !written[t];
                let able = (0..devices).filter(|&u| shared && uses(u) && reaches_all(u));
                let uploader = able.min_by(|&x, &y| f64::total_cmp(&sent[x], &sent[y]));
                self.tiles[t].uploader = uploader;
                sent[uploader.unwrap_or(self.tasks[at].device)] += self.tiles[t].bytes;
            }
        }
    }

    /// The indices of a task's uses.
    fn range(&self, task: usize) -> std::ops::Range<usize> {
        let end = self.tasks.get(task + 1).map(|t| t.first_use);
        self.tasks[task].first_use..end.unwrap_or(self.uses.len())
    }
}

impl<W: Watch> Run<'_, W> {
    fn task(&mut self, at: usize, following: &[u32], last_write: &[u32]) -> Option<()> {
        let Task {
            device, seconds, ..
        } = self.load.tasks[at];
        let range = self.load.range(at);
        // The copies of the task's tiles, and of those that give way to them, are queued before its kernel.
        let begun = at as f64 * self.load.issue_s;
        self.clocks.queue_at(begun, device);
        let mut ready = begun + self.load.issue_s;
        for i in range.clone() {
            let used = self.load.uses[i];
            self.find_slot(at, device, used.tile)?;
            let there = self.load.tiles[used.tile as usize].bytes == 0.0;
            if used.reads && !there && !self.copies[device][used.tile as usize].valid {
                self.fetch(device, used.tile);
            }
            ready = ready.max(self.copies[device][used.tile as usize].arrived);
        }
        let span = self.clocks.kernel(device, ready, seconds);
        let end = span.end;
        self.schedule.starts.push(span.start);
        self.tell(device, Did::Kernel(at), 0.0, span);
        for i in range {
            let used = self.load.uses[i];
            let tile = used.tile as usize;
            let copy = &mut self.copies[device][tile];
            copy.next = following[i];
            copy.done = copy.done.max(end);
            if used.writes {
                (copy.valid, copy.arrived) = (true, end);
                self.at_host[tile] = f64::INFINITY;
                for (d, copies) in self.copies.iter_mut().enumerate() {
                    copies[tile].valid &= d == device;
                }
                let home = self.load.tiles[tile].home;
                if home > 0.0 && last_write[tile] as usize == at {
                    self.write_back(device, used.tile, home);
                }
            }
        }
        self.schedule.seconds = self.schedule.seconds.max(end);
        Some(())
    }

    /// Gives a tile a slot, if it has none.
    fn find_slot(&mut self, at: usize, device: usize, tile: u32) -> Option<()> {
        if self.copies[device][tile as usize].held {
            return Some(());
        }
        let mut free = 0.0;
        if self.held[device].len() >= self.devices[device].slots {
            let position = self.victim(at, device)?;
            let victim = self.held[device].swap_remove(position);
            if self.only_copy(device, victim) {
                let Tile { bytes, home, .. } = self.load.tiles[victim as usize];
                self.write_back(device, victim, bytes.max(home));
            }
            let copy = &mut self.copies[device][victim as usize];
            (copy.held, copy.valid) = (false, false);
            free = copy.done;
            self.schedule.drops.push(Drop {
                task: at,
                tile: victim,
            });
        }
        self.held[device].push(tile);
        let copy = &mut self.copies[device][tile as usize];
        (copy.held, copy.valid) = (true, false);
        (copy.arrived, copy.done) = (free, free);
        Some(())
    }

    /// Whether the newest bytes of a tile are on this device and neither at the host nor on another device.
    fn only_copy(&self, device: usize, tile: u32) -> bool {
        let tile = tile as usize;
        self.copies[device][tile].valid
            && self.at_host[tile].is_infinite()
            && !(0..self.devices.len()).any(|d| d != device && self.copies[d][tile].valid)
    }

    /// The position, among the tiles that a device holds, of the one that gives way.
    fn victim(&self, at: usize, device: usize) -> Option<usize> {
        let (lanes, links) = (self.clocks.lanes(device), self.clocks.links(device));
        let now = lanes.uploads.max(0.0);
        let pinned = |tile: u32| self.load.range(at).any(|i| self.load.uses[i].tile == tile);
        let tasks = self.load.tasks.len() as u64;
        let mut best: Option<(usize, (bool, f64, u64))> = None;
        for (position, &tile) in self.held[device].iter().enumerate() {
            if pinned(tile) {
                continue;
            }
            let copy = &self.copies[device][tile as usize];
            let bytes = self.load.tiles[tile as usize].cost();
            let free = if self.only_copy(device, tile) {
                lanes.write_backs.max(copy.done) + links.d2h.time(bytes)
            } else {
                copy.done
            };
            let again = copy.next != NEVER;
            let mut delay = (free - now).max(0.0);
            // A tile that is needed again costs another upload. As long as the delay is shorter than that, the farthest
            // next use counts.
            if again && delay <= links.h2d.time(bytes) {
                delay = 0.0;
            }
            let next = match copy.next {
                NEVER => tasks + u64::from(copy.first),
                next => u64::from(next),
            };
            let better = match &best {
                None => true,
                Some((_, (a, wait, n))) => {
                    (again, delay, std::cmp::Reverse(next)) < (*a, *wait, std::cmp::Reverse(*n))
                }
            };
            if better {
                best = Some((position, (again, delay, next)));
            }
        }
        best.map(|(position, _)| position)
    }

    /// Copies the newest bytes of a tile to a device, from where they arrive first: the host, or a device to which there is a
    /// link. A tile with an uploader comes from the host only to that device. If the host has the bytes, only links that are faster
    /// than the host's are used, and copies that are on their way to another device only if [`Links::joins`]. Bytes that only devices
    /// without a link have are written back first.
    fn fetch(&mut self, device: usize, tile: u32) {
        let t = tile as usize;
        let Tile { bytes, home, .. } = self.load.tiles[t];
        let cost = self.load.tiles[t].cost();
        if self.at_host[t].is_infinite() && !self.holders(t).any(|p| self.linked(device, p)) {
            let Some(holder) = self.holders(t).next() else {
                return;
            };
            self.write_back(holder, tile, bytes.max(home));
        }
        let uploader = self.load.tiles[t].uploader;
        if let Some(uploader) = uploader.filter(|&u| u != device)
            && self.holders(t).next().is_none()
        {
            // Where there are uploaders, memory holds all tiles.
            let copy = &mut self.copies[uploader][t];
            if !std::mem::replace(&mut copy.held, true) {
                self.held[uploader].push(tile);
            }
            self.fetch(uploader, tile);
        }
        let slot = self.copies[device][t].arrived;
        let host = (self.clocks).uploading(device, slot.max(self.at_host[t]), bytes, cost);
        let only_devices = self.at_host[t].is_infinite();
        let usable = |p: usize| match self.link(device, p) {
            Link::Faster(_) => {
                only_devices
                    || self.load.links.joins()
                    || self.copies[p][t].arrived <= self.clocks.now()
            }
            Link::Slower => only_devices,
            Link::None => false,
        };
        let from = |p: usize| {
            let ready = slot.max(self.copies[p][t].arrived);
            let over = (p, self.link(device, p));
            (self.clocks.copying(device, over, ready, bytes), p)
        };
        // Of equal arrivals the one over the fastest link.
        let peers = self.holders(t).filter(|&p| usable(p)).map(from);
        let link = |p: usize| self.link(device, p);
        let peer = peers.min_by(|(x, p), (y, q)| {
            let ends = x.span.end.total_cmp(&y.span.end);
            ends.then(link(*p).cmp(&link(*q)))
        });
        let arrived = match peer {
            Some((crossing, p)) if crossing.span.end < host.span.end || uploader.is_some() => {
                let span = crossing.span;
                self.schedule.bytes_peer += bytes;
                self.tell(device, Did::Peer(p), bytes, span);
                let other = &mut self.copies[p][t];
                other.done = other.done.max(span.end);
                self.clocks.copy(device, crossing);
                span.end
            }
            _ => {
                self.schedule.bytes_in += bytes;
                self.tell(device, Did::Upload, bytes, host.span);
                self.clocks.upload(device, host);
                host.span.end
            }
        };
        let copy = &mut self.copies[device][t];
        (copy.valid, copy.arrived) = (true, arrived);
        copy.done = copy.done.max(arrived);
    }

    /// The devices that hold a tile's newest bytes.
    fn holders(&self, tile: usize) -> impl Iterator<Item = usize> {
        (0..self.devices.len()).filter(move |&d| self.copies[d][tile].valid)
    }

    /// How a device copies tiles from another one.
    fn link(&self, to: usize, from: usize) -> Link {
        match to == from {
            true => Link::None,
            false => self.load.links.of(DeviceId::at(to), DeviceId::at(from)),
        }
    }

    /// Whether a device copies tiles directly from another one.
    fn linked(&self, to: usize, from: usize) -> bool {
        self.link(to, from) != Link::None
    }

    /// Queues the write-back of bytes of a tile behind the last kernel that uses it.
    fn write_back(&mut self, device: usize, tile: u32, bytes: f64) {
        let t = tile as usize;
        let cost = bytes / self.load.tiles[t].share;
        let ready = self.copies[device][t].done;
        let span = self.clocks.write_back(device, ready, bytes, cost);
        let end = span.end;
        self.copies[device][t].done = end;
        self.at_host[t] = end;
        self.schedule.bytes_out += bytes;
        self.schedule.seconds = self.schedule.seconds.max(end);
        self.tell(device, Did::WriteBack, bytes, span);
    }

    #[inline(always)]
    fn tell(&mut self, device: usize, did: Did, bytes: f64, Span { start, end }: Span) {
        self.watch.runs(Operation {
            device,
            did,
            bytes,
            start,
            end,
        });
    }
}

#[cfg(test)]
mod tests;
