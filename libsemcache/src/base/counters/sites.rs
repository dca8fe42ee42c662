//! Counters by call site (the instruction behind a call of a BLAS routine, or of a function of MPI), and by the instructions whose accesses
//! faulted.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::reasons::WhyHost;
use super::table::Counter;
use super::text::Text;
use crate::base::routine::MAX_ROUTINES;

/// How many call sites have counters that are numbered in the order of their first calls.
pub const NUMBERED: usize = 512;

/// How many sites there are: behind the numbered ones those that are found by their key.
const SITES: usize = 1024;

/// What a site does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It calls the routine of this index.
    Call(usize),
    /// It loads from protected memory.
    Load,
    /// It stores to protected memory.
    Store,
    /// It calls a function of MPI, whose name its label begins with.
    Message,
}

impl Kind {
    fn code(self) -> u64 {
        (match self {
            Kind::Call(routine) => routine + 3,
            Kind::Load => 1,
            Kind::Store => 2,
            Kind::Message => MAX_ROUTINES + 3,
        }) as u64
    }

    fn of(code: u64) -> Option<Kind> {
        let code = usize::try_from(code).ok()?;
        match code {
            0 => None,
            1 => Some(Kind::Load),
            2 => Some(Kind::Store),
            _ if code == MAX_ROUTINES + 3 => Some(Kind::Message),
            _ => (code - 3 < MAX_ROUTINES).then_some(Kind::Call(code - 3)),
        }
    }
}

/// What was done at a site.
#[derive(Debug)]
pub struct Site {
    /// The key of a site that is found by it; 0: free.
    key: AtomicU64,
    kind: Counter,
    /// The return address of the calls, or the address of the instruction that faulted.
    pub address: Counter,
    /// Where the function returns to, if the instruction that faulted is in a library of C (`memcpy`).
    pub caller: Counter,
    /// What the address does not tell: the line of a program in another language (`script.py:12`), or the function of MPI that is called
    /// and, behind a space, such a line.
    pub label: Text<16>,
    /// Calls that ran on devices.
    pub offloaded: Counter,
    host: [Counter; WhyHost::ALL.len()],
    /// Bytes copied to devices for these calls or accesses.
    pub h2d: Counter,
    /// Bytes copied to the host for them.
    pub d2h: Counter,
    /// Faults.
    pub faults: Counter,
    /// Those on bytes that no device holds.
    pub false_sharing: Counter,
    /// Buffers of operations of MPI that had to be made accessible.
    pub buffers: Counter,
    /// Nanoseconds of the calls that the runtime took part in, or of serving the faults, or of making buffers accessible.
    pub ns: Counter,
}

impl Site {
    const fn new() -> Site {
        Site {
            key: AtomicU64::new(0),
            kind: Counter::new(),
            address: Counter::new(),
            caller: Counter::new(),
            label: Text::new(),
            offloaded: Counter::new(),
            host: [const { Counter::new() }; WhyHost::ALL.len()],
            h2d: Counter::new(),
            d2h: Counter::new(),
            faults: Counter::new(),
            false_sharing: Counter::new(),
            buffers: Counter::new(),
            ns: Counter::new(),
        }
    }

    /// What it does; `None` for a site that was never told.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        Kind::of(self.kind.get())
    }

    /// Counts a call that ran on the host.
    pub fn host(&self, why: WhyHost) {
        self.host[why as usize].add(1);
    }

    /// The calls that ran on the host, by reason; only numbers above zero.
    pub fn hosts(&self) -> impl Iterator<Item = (WhyHost, u64)> {
        let all = WhyHost::ALL.iter().zip(&self.host);
        all.map(|(why, n)| (*why, n.get())).filter(|(_, n)| *n > 0)
    }

    fn is(&self, kind: Kind, address: usize, caller: usize) {
        self.kind.set(kind.code());
        self.address.set(address as u64);
        self.caller.set(caller as u64);
    }
}

/// The sites of a process.
#[derive(Debug)]
pub struct SiteTable {
    sites: [Site; SITES],
    /// The number of the last call site that was told, plus 1.
    numbered: Counter,
    /// Sites that found no room.
    pub left_out: Counter,
}

impl SiteTable {
    pub(super) const fn new() -> SiteTable {
        SiteTable {
            sites: [const { Site::new() }; SITES],
            numbered: Counter::new(),
            left_out: Counter::new(),
        }
    }

    /// Tells what the call site of a number is.
    pub fn tell(&self, number: usize, routine: usize, address: usize) {
        if let Some(site) = self.sites.get(number).filter(|_| number < NUMBERED) {
            site.is(Kind::Call(routine), address, 0);
            self.numbered
                .set(self.numbered.get().max(number as u64 + 1));
        }
    }

    /// The numbers of the call sites of a routine.
    pub(super) fn calling(&self, routine: usize) -> impl Iterator<Item = usize> {
        let numbered = usize::try_from(self.numbered.get()).unwrap_or(0);
        let sites = self.sites.iter().take(numbered.min(NUMBERED)).enumerate();
        let of = sites.filter(move |(_, site)| site.kind() == Some(Kind::Call(routine)));
        of.map(|(number, _)| number)
    }

    /// The site with this key, which is not 0; a new one is told what it is.
    pub fn find(
        &self,
        key: u64,
        kind: Kind,
        address: usize,
        caller: usize,
        label: &dyn Fn() -> String,
    ) -> Option<usize> {
        const PROBES: usize = 16;
        let first = (key >> 40) as usize;
        for step in 0..PROBES {
            let index = NUMBERED + (first + step) % (SITES - NUMBERED);
            let site = &self.sites[index];
            match site.key.compare_exchange(0, key, Relaxed, Relaxed) {
                Ok(_) => {
                    site.is(kind, address, caller);
                    site.label.set(label().as_bytes());
                    return Some(index);
                }
                Err(there) if there == key => return Some(index),
                Err(_) => {}
            }
        }
        self.left_out.add(1);
        None
    }

    /// A site by its index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Site> {
        self.sites.get(index)
    }

    /// All sites that were told what they are, with their index.
    pub fn all(&self) -> impl Iterator<Item = (usize, &Site, Kind)> {
        let sites = self.sites.iter().enumerate();
        sites.filter_map(|(i, site)| Some((i, site, site.kind()?)))
    }
}

/// A key for [`SiteTable::find`].
#[must_use]
pub fn key(parts: [usize; 3]) -> u64 {
    let mix = |hash: u64, part: usize| {
        (hash ^ part as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
    };
    parts.into_iter().fold(0x5EED, mix).max(1)
}

std::thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

/// The site for which the calling thread copies bytes from now on; `None`: no site. Returns the one before.
pub fn enter(site: Option<usize>) -> Option<usize> {
    let code = site.map_or(0, |index| index as u32 + 1);
    CURRENT
        .replace(code)
        .checked_sub(1)
        .map(|index| index as usize)
}

/// The site for which the calling thread copies bytes.
#[must_use]
pub fn current() -> Option<usize> {
    CURRENT.get().checked_sub(1).map(|index| index as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_found_again() {
        let table = Box::new(SiteTable::new());
        table.tell(3, 7, 0x1000);
        let label = || "a.py:3".to_owned();
        let one = table
            .find(key([1, 2, 3]), Kind::Store, 0x2000, 0x3000, &label)
            .expect("room");
        let two = table
            .find(key([1, 2, 4]), Kind::Call(5), 0x2000, 0, &String::new)
            .expect("room");
        assert_eq!(
            table.find(key([1, 2, 3]), Kind::Load, 1, 1, &String::new),
            Some(one)
        );
        assert!(one >= NUMBERED && two >= NUMBERED && one != two);
        let site = table.get(one).expect("a site");
        assert_eq!(
            (site.kind(), site.address.get(), site.caller.get()),
            (Some(Kind::Store), 0x2000, 0x3000)
        );
        assert_eq!(site.label.get(), "a.py:3");
        site.host(WhyHost::Small);
        assert_eq!(table.calling(7).collect::<Vec<_>>(), [3]);
        assert_eq!(site.hosts().collect::<Vec<_>>(), [(WhyHost::Small, 1)]);
        let kinds: Vec<Kind> = table.all().map(|(_, _, kind)| kind).collect();
        assert!(
            kinds.contains(&Kind::Call(7)) && kinds.contains(&Kind::Call(5)) && kinds.len() == 3
        );
    }

    #[test]
    fn a_full_table_leaves_sites_out() {
        let table = Box::new(SiteTable::new());
        let found =
            (0..2000).filter_map(|i| table.find(key([i, 0, 0]), Kind::Load, i, 0, &String::new));
        let found = found.count() as u64;
        assert!((400..=512).contains(&found), "{found}");
        assert_eq!(found + table.left_out.get(), 2000);
    }

    #[test]
    fn the_current_site_is_the_threads() {
        assert_eq!(enter(Some(5)), None);
        assert_eq!((current(), enter(None)), (Some(5), Some(5)));
        assert_eq!(current(), None);
    }
}
