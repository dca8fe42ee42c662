//! Parsers for the values of the environment variables.

use core::fmt;

use super::settings::{
    CudaSet, Devices, Fail, Gate, HostShare, Language, Memory, Offload, Peers, Pin, Ranks,
    RatesFile, Scheduler, Sim, SimMachine, Window,
};
use crate::base::heuristics::Without;
use crate::base::ids::MAX_DEVICES;

/// Why a value was not understood, as the end of the sentence "NAME=VALUE ...".
#[derive(Clone, Copy)]
pub(super) struct Bad(pub(super) &'static str);

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

fn number<T: core::str::FromStr>(v: &str) -> Result<T, Bad> {
    v.parse().map_err(|_| Bad("is not a number"))
}

/// A number of bytes: plain, or with a unit B, K, KiB, KB and so on up to T. A single letter means the binary unit.
#[must_use]
pub fn parse_size(v: &str) -> Option<usize> {
    let v = v.trim();
    let digits = v.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = v.split_at(digits);
    let number: usize = number.parse().ok()?;
    let scale: usize = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    number.checked_mul(scale)
}

pub(super) fn size(v: &str) -> Result<usize, Bad> {
    parse_size(v).ok_or(Bad("is not a size (such as 4KiB, 2MiB or 1048576)"))
}

pub(super) fn positive_size(v: &str) -> Result<usize, Bad> {
    match size(v)? {
        0 => Err(Bad("must be above zero")),
        n => Ok(n),
    }
}

/// A path; `-`, which means stderr elsewhere, is none: a trace is no text.
pub(super) fn trace(v: &str) -> Result<Option<String>, Bad> {
    match v {
        "-" => Err(Bad("is not a path")),
        path => Ok(Some(path.to_owned())),
    }
}

/// The devices that a text names as `SEMCACHE_DEVICES` does. Whether there are such devices, and a machine of that name to
/// simulate, is not known here.
///
/// # Errors
/// What the text is not, as the end of a sentence that begins with it.
pub fn parse_devices(v: &str) -> Result<Devices, &'static str> {
    devices(v).map_err(|Bad(why)| why)
}

pub(super) fn devices(v: &str) -> Result<Devices, Bad> {
    const WHAT: Bad =
        Bad("is not one of auto, none, cuda, cuda:0,2, sim:N, sim:PRESET, sim:PRESET:N");
    let (kind, rest) = match v.split_once(':') {
        Some((kind, rest)) => (kind.trim(), Some(rest.trim())),
        None => (v, None),
    };
    match (kind.to_ascii_lowercase().as_str(), rest) {
        ("auto", None) => Ok(Devices::Auto),
        ("none", None) => Ok(Devices::None),
        ("cuda", None) => Ok(Devices::Cuda(CudaSet::All)),
        ("cuda", Some(list)) => {
            let mut set = Vec::new();
            for one in list.split(',') {
                let index: usize = number(one.trim())
                    .map_err(|_| Bad("does not list GPU numbers (such as cuda:0,2)"))?;
                if !set.contains(&index) {
                    set.push(index);
                }
            }
            if set.len() > MAX_DEVICES {
                return Err(Bad("names more devices than semcache drives (64)"));
            }
            Ok(Devices::Cuda(CudaSet::List(set)))
        }
        ("sim", None) => Ok(Devices::Sim(SimMachine::Count(1))),
        ("sim", Some(count)) if count.starts_with(|c: char| c.is_ascii_digit()) => {
            match number(count)? {
                0 => Err(Bad("must be above zero (none switches devices off)")),
                n if n > MAX_DEVICES => Err(Bad("names more devices than semcache drives (64)")),
                n => Ok(Devices::Sim(SimMachine::Count(n))),
            }
        }
        ("sim", Some(name)) if !name.is_empty() => {
            Ok(Devices::Sim(SimMachine::Preset(name.to_ascii_lowercase())))
        }
        _ => Err(WHAT),
    }
}

pub(super) fn sim(v: &str) -> Result<Sim, Bad> {
    let mut sim = Sim::default();
    for item in v.split(',').map(str::trim).filter(|i| !i.is_empty()) {
        match item.split_once('=') {
            None if item == "none" => {}
            None if item == "late" => sim.late = true,
            None if item == "poison" => sim.poison = true,
            None if item == "virtual" => sim.virtual_time = true,
            None if item == "hollow" => (sim.virtual_time, sim.hollow) = (true, true),
            Some(("seed", n)) => sim.seed = number(n)?,
            Some(("link", n)) => {
                let gbs: f64 = number(n)?;
                if !gbs.is_finite() || gbs <= 0.0 {
                    return Err(Bad("needs a link speed above zero"));
                }
                sim.link_gbs = Some(gbs);
            }
            Some(("slow", what)) => {
                let slow = what.split_once(':');
                let (device, factor) = slow.ok_or(Bad("needs slow=DEVICE:FACTOR"))?;
                let (device, factor) = (number::<usize>(device)?, number::<f64>(factor)?);
                if device >= MAX_DEVICES || !factor.is_finite() || factor <= 0.0 {
                    return Err(Bad("needs a device, and a factor above zero"));
                }
                sim.slow = Some((device, factor));
            }
            Some(("fail", what)) => {
                sim.fail = Some(match what.split_once(':') {
                    Some(("refuse", n)) => Fail::Refuse(index(n)?),
                    Some(("lost", n)) => Fail::Lost(index(n)?),
                    Some(("launches", n)) => Fail::Launches(index(n)?),
                    _ => return Err(Bad("needs fail=refuse:N, fail=lost:N or fail=launches:N")),
                });
            }
            _ => {
                return Err(Bad(
                    "is not a list of late, poison, virtual, hollow, seed=N, link=GB/s, slow=DEVICE:FACTOR, fail=refuse:N, fail=lost:N, fail=launches:N",
                ));
            }
        }
    }
    Ok(sim)
}

fn index(v: &str) -> Result<u64, Bad> {
    match number(v)? {
        0 => Err(Bad("counts operations from 1")),
        n => Ok(n),
    }
}

pub(super) fn memory(v: &str) -> Result<Memory, Bad> {
    if let Some(percent) = v.strip_suffix('%') {
        return match number::<u8>(percent.trim()) {
            Ok(p @ 1..=100) => Ok(Memory::Percent(p)),
            _ => Err(Bad("is not a percentage from 1 to 100")),
        };
    }
    positive_size(v).map(Memory::Bytes)
}

pub(super) fn offload(v: &str) -> Result<Offload, Bad> {
    match v {
        "auto" => Ok(Offload::Auto),
        "always" => Ok(Offload::Always),
        "never" => Ok(Offload::Never),
        _ => Err(Bad("is not one of auto, always, never")),
    }
}

pub(super) fn rates(value: &str) -> Result<RatesFile, Bad> {
    Ok(match value {
        "off" => RatesFile::Off,
        path => RatesFile::Path(path.to_owned()),
    })
}

/// The folder with semcache's files in a folder of a user; `None` if that folder's path is not absolute.
pub(super) fn folder(of_user: &str, within: &str) -> Option<String> {
    let absolute = of_user.starts_with('/');
    absolute.then(|| format!("{}/{within}", of_user.trim_end_matches('/')))
}

pub(super) fn ranks(v: &str) -> Result<Ranks, Bad> {
    match v {
        "share" => Ok(Ranks::Share),
        "all" => Ok(Ranks::All),
        _ => Err(Bad("is not one of share, all")),
    }
}

pub(super) fn scheduler(v: &str) -> Result<Scheduler, Bad> {
    match v {
        "planned" => Ok(Scheduler::Planned),
        "static" => Ok(Scheduler::Static),
        "blasx" => Ok(Scheduler::Blasx),
        "xkaapi" => Ok(Scheduler::Xkaapi),
        _ => Err(Bad("is not one of planned, static, blasx, xkaapi")),
    }
}

pub(super) fn peers(v: &str) -> Result<Peers, Bad> {
    match v {
        "auto" => Ok(Peers::Auto),
        "any" => Ok(Peers::Any),
        "unranked" => Ok(Peers::Unranked),
        "off" => Ok(Peers::Off),
        _ => Err(Bad("is not one of auto, any, unranked, off")),
    }
}

pub(super) fn pin(v: &str) -> Result<Pin, Bad> {
    match v {
        "auto" => Ok(Pin::Auto),
        "first" => Ok(Pin::First),
        "again" => Ok(Pin::Again),
        "off" => Ok(Pin::Off),
        _ => Err(Bad("is not one of auto, first, again, off")),
    }
}

pub(super) fn host_share(v: &str) -> Result<HostShare, Bad> {
    match (v, v.strip_suffix('%')) {
        ("auto", _) => Ok(HostShare::Auto),
        ("off", _) => Ok(HostShare::Off),
        (_, Some(percent)) => match number::<u8>(percent.trim()) {
            Ok(p @ 1..=99) => Ok(HostShare::Percent(p)),
            _ => Err(Bad("is not a percentage from 1 to 99")),
        },
        _ => Err(Bad("is not one of auto, off, or a percentage (25%)")),
    }
}

pub(super) fn on_off(v: &str) -> Result<bool, Bad> {
    match v {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(Bad("is not one of on, off")),
    }
}

pub(super) fn sites(v: &str) -> Result<Option<Language>, Bad> {
    match v {
        "native" => Ok(None),
        "python" => Ok(Some(Language::Python)),
        "r" => Ok(Some(Language::R)),
        "octave" => Ok(Some(Language::Octave)),
        _ => Err(Bad("is not one of native, python, r, octave")),
    }
}

pub(super) fn without(v: &str) -> Result<Without, Bad> {
    match v {
        "none" => Ok(Without::default()),
        names => Without::parse(names).ok_or(Bad("names a heuristic that does not exist")),
    }
}

pub(super) fn gate(v: &str) -> Result<Gate, Bad> {
    match v {
        "auto" => Ok(Gate::Auto),
        "mprotect" => Ok(Gate::Mprotect),
        "wp-async" => Ok(Gate::WpAsync),
        "eager" => Ok(Gate::Eager),
        "mixed" => Ok(Gate::Mixed),
        _ => Err(Bad("is not one of auto, mprotect, wp-async, eager, mixed")),
    }
}

pub(super) fn tile(v: &str) -> Result<Option<usize>, Bad> {
    if v == "auto" {
        return Ok(None);
    }
    match number(v)? {
        0 => Err(Bad("must be above zero")),
        n => Ok(Some(n)),
    }
}

pub(super) fn window(v: &str) -> Result<Window, Bad> {
    match v {
        "auto" => Ok(Window::Auto),
        "off" => Ok(Window::Off),
        _ => match number(v)? {
            0 => Err(Bad("must be above zero (off queues all tasks at once)")),
            n => Ok(Window::Tasks(n)),
        },
    }
}

pub(super) fn level(v: &str) -> Result<log::LevelFilter, Bad> {
    match v {
        "error" => Ok(log::LevelFilter::Error),
        "warn" => Ok(log::LevelFilter::Warn),
        "info" => Ok(log::LevelFilter::Info),
        "debug" => Ok(log::LevelFilter::Debug),
        _ => Err(Bad("is not one of error, warn, info, debug")),
    }
}

pub(super) fn routines(v: &str) -> Vec<String> {
    v.split(',')
        .map(|n| n.trim().to_ascii_lowercase())
        .map(|n| {
            n.strip_prefix("cblas_")
                .unwrap_or(&n)
                .trim_end_matches('_')
                .to_owned()
        })
        .filter(|n| !n.is_empty() && n != "none")
        .collect()
}
