//! The machine for which a call is predicted.

use std::fs;
use std::path::Path;

use semcache::base::Links;
use semcache::base::config::parse_size;
use semcache::base::ids::MAX_DEVICES;
use semcache::blas::predict::Machine;
use semcache::device::sim::SimConfig;
use semcache::model::rates_file::Given;
use semcache::model::{HostRates, Rates};
use semcache::topology;

use super::options::{Options, number};

/// Memory of a device of which a file of rates says nothing.
const MEMORY: usize = 80 << 30;
/// The most threads of a host BLAS, and the most bytes of a device's memory.
const MOST_THREADS: usize = 4096;
const MOST_MEMORY: usize = 1 << 50;
/// The most bytes of a file of rates.
const LONGEST: u64 = 1 << 20;

/// A machine with what is told of it.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) machine: Machine,
    /// The machine's name, or the file.
    pub(super) name: String,
    /// The product name of each device.
    pub(super) names: Vec<String>,
    pub(super) threads: usize,
}

impl Described {
    /// The machine that the options describe.
    ///
    /// # Errors
    /// Which word cannot be understood, or why a file is not used.
    pub(super) fn new(options: &Options) -> Result<Described, String> {
        let threads = number("--threads", &options.threads, MOST_THREADS)?;
        let host = HostRates::of_cores(threads);
        let mut described = match topology::preset(&options.machine) {
            Some(machine) => preset(&machine, host, options)?,
            None => file(host, options)?,
        };
        described.threads = threads;
        if let Some(text) = &options.memory {
            let bytes = parse_size(text).filter(|n| (1..=MOST_MEMORY).contains(n));
            let bytes =
                bytes.ok_or_else(|| format!("--memory {text}: not a size, such as 80GiB"))?;
            described.machine.memory.fill(bytes);
        }
        Ok(described)
    }
}

fn preset(
    machine: &topology::Machine,
    host: HostRates,
    options: &Options,
) -> Result<Described, String> {
    let all = machine.engines.len();
    let devices = match &options.devices {
        Some(text) => number("--devices", text, all)
            .map_err(|error| format!("{error}, as many as {} has", machine.name))?,
        None => all,
    };
    let config = SimConfig::preset(&machine.name).unwrap_or_default();
    let engines = machine.engines.iter().take(devices);
    Ok(Described {
        machine: Machine {
            rates: Rates::modelled(machine, host),
            links: config.links(),
            memory: vec![config.memory; devices],
        },
        name: machine.name.to_string(),
        names: engines.map(|engine| engine.name.to_string()).collect(),
        threads: 0,
    })
}

fn file(host: HostRates, options: &Options) -> Result<Described, String> {
    let path = Path::new(&options.machine);
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", options.machine);
    let known = match fs::metadata(path) {
        Ok(known) => known,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let names = topology::NAMES.join(", ");
            return Err(named(&format!(
                "neither a file of rates nor one of {names}"
            )));
        }
        Err(error) => return Err(named(&error)),
    };
    if !known.is_file() || known.len() > LONGEST {
        return Err(named(&"not a file of rates"));
    }
    let text = fs::read_to_string(path).map_err(|error| named(&error))?;
    let given = Given::parse(&text).map_err(|why| format!("{} {why}", options.machine))?;
    let devices = match &options.devices {
        Some(text) => number("--devices", text, MAX_DEVICES)?,
        None => 1,
    };
    let rates = given.over(Rates::generic(host));
    // Devices that reach each other faster than the host are taken to read each other's memory directly.
    let fast = rates
        .kinds
        .each()
        .iter()
        .all(|d| d.p2p.bytes_per_s > d.h2d.bytes_per_s);
    let links = if fast {
        Links::fast(devices)
    } else {
        Links::DIRECT
    };
    Ok(Described {
        machine: Machine {
            rates,
            links,
            memory: vec![MEMORY; devices],
        },
        name: options.machine.clone(),
        names: vec![String::new(); devices],
        threads: 0,
    })
}
