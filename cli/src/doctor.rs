//! `semcache doctor`: finds out which devices and which BLAS of this machine semcache can use, and what to do about the
//! rest.
//!
//! The command changes nothing. It initialises the GPUs in this process as a program's first large call would,
//! self-test included; it calls the routines of the host BLAS in another process ([`check()`]).

mod check;
mod finding;
mod host;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use procfs::process::{MMapPath, MemoryMaps};
use semcache::base::config::{CudaSet, Memory};
use semcache::base::{DeviceId, Link};
use semcache::device::api::Backend;
use semcache::device::cuda::{self, CudaError, CudaMachine};
use semcache::runtime::report::table::human;
use serde::Serialize;

use crate::calibrate::hooks;
use crate::library;
use crate::output::{Output, VERSION};
use finding::{Finding, find_library, ok, warn};

pub(crate) use check::{Library, check};
pub(crate) use host::{CHECK, library as host_library};

/// All that was found.
#[derive(Serialize)]
struct Examination {
    version: u32,
    /// Whether semcache can work at all on this machine.
    works: bool,
    findings: Vec<Finding>,
}

/// Prints all findings; the exit status is 1 if semcache cannot work at all on this machine.
pub(crate) fn doctor(output: &Output) -> Result<ExitCode, String> {
    let examination = examine();
    output.print(&examination, |found| {
        table(&found.findings).trim_fmt() + "\n"
    })?;
    Ok(if examination.works {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn examine() -> Examination {
    let library = match library::find() {
        Ok(path) => ok("library", path.display().to_string()),
        Err(error) => warn("library", error, "build it: cargo build --release"),
    };
    let memory = proc_mem();
    let works = library.ok && memory.ok;
    let mut findings = vec![library, memory, driver(), gpus()];
    findings.extend(machine());
    findings.extend(host::blas());
    findings.extend([
        host::solvers(),
        host_cores(),
        huge_pages(),
        userfaultfd(),
        map_count(),
        memlock(),
    ]);
    Examination {
        version: VERSION,
        works,
        findings,
    }
}

/// A row for each finding, and one below it with the advice.
fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    for f in findings {
        table.add_row([if f.ok { "ok" } else { "warn" }, &f.what, &f.found]);
        if let Some(advice) = &f.advice {
            table.add_row(["", "", &format!("-> {advice}")]);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Simulated devices fill inaccessible pages through this file.
fn proc_mem() -> Finding {
    const WHAT: &str = "/proc/self/mem";
    match fs::OpenOptions::new().write(true).open(WHAT) {
        Ok(_) => ok(WHAT, "writable"),
        Err(e) => warn(
            WHAT,
            e.to_string(),
            "mount /proc; without it results are written back at the end of every call",
        ),
    }
}

fn driver() -> Finding {
    const NAME: &str = "libcuda.so.1";
    let version = fs::read_to_string("/proc/driver/nvidia/version").ok();
    let version = version
        .as_deref()
        .and_then(|v| v.lines().next())
        .unwrap_or("");
    match find_library(NAME) {
        Some(path) => ok("CUDA driver", format!("{} {version}", path.display())),
        None => warn(
            "CUDA driver",
            format!("{NAME} not found"),
            "install the NVIDIA driver; or use simulated devices: semcache run --devices sim:2",
        ),
    }
}

fn gpus() -> Finding {
    const WHAT: &str = "GPUs";
    let mut models = Vec::new();
    for entry in fs::read_dir("/proc/driver/nvidia/gpus")
        .into_iter()
        .flatten()
        .flatten()
    {
        let text = fs::read_to_string(entry.path().join("information")).unwrap_or_default();
        let model = text.lines().find_map(|l| l.strip_prefix("Model:"));
        models.push(model.unwrap_or("unknown model").trim().to_owned());
    }
    let nodes = (0..64)
        .filter(|n| Path::new(&format!("/dev/nvidia{n}")).exists())
        .count();
    match (models.len().max(nodes), nodes) {
        (0, _) => warn(
            WHAT,
            "none",
            "semcache then only forwards to the host BLAS, or simulates (sim:N)",
        ),
        (_, 0) => warn(
            WHAT,
            format!("{}, but no /dev/nvidia*", models.join(", ")),
            "give this container or user access to the devices",
        ),
        (n, _) => ok(WHAT, format!("{n}: {}", models.join(", "))),
    }
}

/// Findings about the GPUs, initialised as the runtime does it; none without a driver, about which another line
/// reports.
fn machine() -> Vec<Finding> {
    match cuda::open(&CudaSet::All, Memory::Percent(90), &hooks()) {
        Ok(machine) => {
            let failure = machine.bring_up().err();
            let mut found = Vec::new();
            found.extend(cublas());
            found.extend((0..machine.devices().len()).map(|i| gpu(&machine, i, failure.as_ref())));
            found
        }
        Err(CudaError::NoDriver) => Vec::new(),
        Err(error) => vec![warn(
            "CUDA",
            error.to_string(),
            "calls run on the host until this is mended; cuBLAS: pip install nvidia-cublas, or LD_LIBRARY_PATH",
        )],
    }
}

fn gpu(machine: &CudaMachine, i: usize, failure: Option<&CudaError>) -> Finding {
    let what = format!("GPU {i}");
    let caps = &machine.devices()[i];
    let found = format!("{}, {} for semcache", caps.name, human(caps.memory as u64));
    let id = DeviceId::at(i);
    if i < machine.usable() {
        let tested = machine.describe(id).unwrap_or_default();
        return ok(what, format!("{found}; {tested}{}", reads(&caps.links, i)));
    }
    let why = failure.map(ToString::to_string).unwrap_or_default();
    warn(
        what,
        format!("{found}; does not come up: {why}"),
        "nvidia-smi shows who uses it; SEMCACHE_DEVICES=cuda:N,M leaves it out",
    )
}

/// Over which links GPU `i` reads other GPUs' memory.
fn reads(links: &[Link], i: usize) -> String {
    let all = links.iter().enumerate().filter(|(j, _)| *j != i);
    let told = all.map(|(j, link)| match link {
        Link::Faster(_) => format!("GPU {j} over a link faster than the host's"),
        Link::Slower => format!("GPU {j} over a link no faster than the host's"),
        Link::None => format!("GPU {j} through host memory"),
    });
    let told: Vec<_> = told.collect();
    match &told[..] {
        [] => String::new(),
        told => format!("; reads {}", told.join(", ")),
    }
}

/// The path of the cuBLAS library that was loaded.
fn cublas() -> Option<Finding> {
    let maps = procfs::process::Process::myself().and_then(|me| me.maps());
    let path = mapped(&maps.ok()?, "libcublas.so")?;
    Some(ok("cuBLAS", path.display().to_string()))
}

/// The path of the first mapped file whose name begins with `name`.
fn mapped(maps: &MemoryMaps, name: &str) -> Option<PathBuf> {
    maps.iter().find_map(|map| match &map.pathname {
        MMapPath::Path(path) => {
            let file = path.file_name()?.to_str()?;
            file.starts_with(name).then(|| path.clone())
        }
        _ => None,
    })
}

fn host_cores() -> Finding {
    // The process's CPU affinity and the quota of its control group limit the number.
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads =
        semcache::blas::offload_policy::host_threads(&|name| std::env::var(name).ok(), cores);
    let found = format!("{threads} of {cores} cores for the host BLAS");
    ok("host cores", found)
}

fn huge_pages() -> Finding {
    const WHAT: &str = "huge pages";
    const FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = fs::read_to_string(FILE).unwrap_or_default();
    match text.split(['[', ']']).nth(1) {
        Some(mode @ ("always" | "madvise")) => ok(WHAT, mode),
        Some(mode) => warn(
            WHAT,
            mode,
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: protecting and pinning get much cheaper",
        ),
        None => warn(
            WHAT,
            "not offered by this kernel",
            "registration and protection will be slower",
        ),
    }
}

fn userfaultfd() -> Finding {
    const WHAT: &str = "userfaultfd";
    let allowed = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
    let node = Path::new("/dev/userfaultfd");
    match allowed.as_deref().map(str::trim) {
        Ok("1") => ok(WHAT, "for every user"),
        Ok(_) if nix::unistd::geteuid().is_root() => ok(WHAT, "for root"),
        Ok(_) if fs::File::open(node).is_ok() => ok(WHAT, "through /dev/userfaultfd"),
        Ok(_) => warn(
            WHAT,
            "accesses by this user's own code only",
            "enough for semcache; sysctl vm.unprivileged_userfaultfd=1 shows it the kernel's accesses too",
        ),
        Err(_) => warn(
            WHAT,
            "not in this kernel",
            "the wp-async gate is not available; mprotect is used",
        ),
    }
}

fn map_count() -> Finding {
    const WHAT: &str = "mappings";
    const ENOUGH: u64 = 262_144;
    match procfs::sys::vm::max_map_count() {
        Ok(n) if n >= ENOUGH => ok(WHAT, format!("vm.max_map_count = {n}")),
        Ok(n) => warn(
            WHAT,
            format!("vm.max_map_count = {n}"),
            "enough for large matrices; many small ones at once may need sysctl vm.max_map_count=1048576",
        ),
        Err(_) => warn(WHAT, "vm.max_map_count cannot be read", "mount /proc"),
    }
}

fn memlock() -> Finding {
    const WHAT: &str = "locked memory";
    match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((soft, _)) if soft == RLIM_INFINITY => ok(WHAT, "unlimited"),
        Ok((soft, _)) if soft >= 1 << 30 => ok(WHAT, human(soft)),
        Ok((soft, _)) => warn(
            WHAT,
            human(soft),
            "a driver that counts pinned memory may refuse it: ulimit -l unlimited",
        ),
        Err(e) => warn(WHAT, e.to_string(), "ulimit -l unlimited"),
    }
}

#[cfg(test)]
mod tests {
    use procfs::FromRead as _;

    use super::*;

    #[test]
    fn mapped_libraries() {
        let text = "7f0-7f1 r--p 0 08:01 5    /usr/lib/libc.so.6\n\
                    7f2-7f3 rw-p 0 00:00 0 \n\
                    7f4-7f5 r-xp 0 08:01 6    /opt/nvidia/cublas/lib/libcublas.so.12\n";
        let maps = MemoryMaps::from_read(text.as_bytes()).expect("maps");
        let path = Some(PathBuf::from("/opt/nvidia/cublas/lib/libcublas.so.12"));
        assert_eq!(mapped(&maps, "libcublas.so"), path);
        assert_eq!(mapped(&maps, "libcublasLt.so"), None);
    }
}
