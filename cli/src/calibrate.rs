//! `semcache calibrate`: measures the rates of this machine and writes the file that predictions follow from.
//!
//! Devices are measured through the library's own code ([`semcache::device::api::Backend`]), so that each time has what a
//! program's operations take. Every measurement is repeated until the 95 % confidence interval of its mean is narrow; links are
//! then described by a latency and a rate, fitted by least squares, and by how much slower a copy is while the opposite direction is
//! busy (Anastasiadis et al., CoCoPeLia, IV-A; van Werkhoven et al., Performance models for CPU-GPU data transfers, V).

mod copies;
mod figures;
mod file;
mod fit;
mod host;
mod kernels;
mod machine;
mod pages;
mod progress;
mod session;
mod statistics;
mod tasks;
mod watched;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use semcache::base::Dtype;
use semcache::base::config::{Config, DEVICES};
use semcache::blas::offload_policy;
use semcache::model::rates_file::{file_name, gpus};
use semcache::runtime::rates::processor;
use semcache::topology::check_devices;

use file::About;
use host::HostBlas;
use machine::{Machine, Sizes};
use session::{Measured, Sample, Session, stopped, take_interrupts};
use tasks::{Operation, Task, Way, plan};

pub(crate) use machine::hooks;

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Which devices (SEMCACHE_DEVICES): cuda, cuda:0,2, sim:N
    #[arg(long, value_name = "WHICH")]
    devices: Option<String>,
    /// The file; without it, semcache/GPU.toml in the user's folder for caches, where the library finds it
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Tiny sizes: does everything run? The figures have no meaning
    #[arg(long)]
    quick: bool,
}

/// The time for all measurements with one GPU, for each further one, and at most.
const FIRST: Duration = Duration::from_secs(180);
const EACH: Duration = Duration::from_secs(40);
const MOST: Duration = Duration::from_secs(300);

/// The exit status of a shell's command that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// The configuration of the environment, with the devices that an option names. A value that is not understood is an error: the
/// default would measure other devices.
pub(crate) fn configuration(devices: Option<&str>) -> Result<Config, String> {
    let lookup = |name: &str| match devices {
        Some(devices) if name == DEVICES => Some(devices.to_owned()),
        _ => std::env::var(name).ok(),
    };
    check_devices(&lookup(DEVICES).unwrap_or_default())
        .map_err(|why| format!("{DEVICES}={why}"))?;
    let page = usize::try_from(procfs::page_size()).unwrap_or(1);
    Ok(Config::parse(&lookup, page).0)
}

/// The number of cores that this process may use, and that of threads of the host BLAS.
pub(crate) fn cores_and_threads() -> (usize, usize) {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = offload_policy::host_threads(&|name| std::env::var(name).ok(), cores);
    (cores, threads)
}

pub(crate) fn calibrate(options: &Options) -> Result<ExitCode, String> {
    let begun = Instant::now();
    let config = configuration(options.devices.as_deref())?;
    let mut machine = machine::open(&config)?;
    let names = machine.devices().iter().map(|caps| caps.name.as_str());
    let gpu = gpus(names);
    // The place is tried before anything is measured.
    let file = file::begin(&place(options, &config, &machine, &gpu)?)?;
    take_interrupts()?;
    let (cores, threads) = cores_and_threads();
    let mut notes = Vec::new();
    let mut host = match host::open(&offload_policy::host_rates(threads), options.quick) {
        Ok(host) => Some(host),
        Err(why) => {
            notes.push(format!("the host BLAS is not measured: {why}"));
            None
        }
    };
    if !machine.is_alike() {
        notes.push(format!(
            "figures of single GPUs are left out, since these are of several models: {gpu}"
        ));
    }
    machine.sizes = sizes(&machine, options.quick);
    let tasks = plan(&machine, host.as_ref().map(|host| host.sizes));
    let further = EACH * u32::try_from(machine.devices().len().saturating_sub(1)).unwrap_or(1);
    let time = if options.quick {
        Duration::ZERO
    } else {
        (FIRST + further).min(MOST)
    };
    let mut session = Session::new(&tasks, begun + time);
    all(&mut machine, host.as_mut(), &tasks, &mut session);
    let measured = session.finish();
    notes.extend(said(&tasks, &measured, options.quick));
    let figures = figures::figures(&machine, &tasks, &measured);
    for note in notes {
        eprintln!("semcache: {note}");
    }
    if figures.is_empty() {
        return Err("nothing was measured".into());
    }
    let about = About {
        gpu,
        gpus: machine.devices().len(),
        driver: driver(&machine),
        cpu: processor(),
        cores,
        threads,
        measured: time::OffsetDateTime::now_utc().date().to_string(),
        command: command(),
        unsettled: measured.unsettled.iter().map(Task::name).collect(),
    };
    let path = file.write(&file::text(&figures, &about))?;
    let path = std::path::absolute(&path).unwrap_or(path);
    println!("{}", path.display());
    Ok(if stopped() {
        ExitCode::from(INTERRUPTED)
    } else {
        ExitCode::SUCCESS
    })
}

/// Where the file goes.
fn place(
    options: &Options,
    config: &Config,
    machine: &Machine,
    gpu: &str,
) -> Result<PathBuf, String> {
    match (&options.output, &config.cache_folder) {
        (Some(path), _) => Ok(path.clone()),
        (None, _) if machine.is_simulated() => Err(
            "simulated devices are predicted as the machine that they model; --output FILE writes a file nevertheless".into(),
        ),
        (None, Some(folder)) => Ok(PathBuf::from(folder).join(file_name(gpu))),
        (None, None) => {
            Err("neither XDG_CACHE_HOME nor HOME is the path of a folder; --output FILE".into())
        }
    }
}

/// The largest sizes that fit into the devices.
fn sizes(machine: &Machine, quick: bool) -> Sizes {
    if quick {
        return Sizes {
            bytes: 4 << 20,
            order: 128,
        };
    }
    let memory = machine.devices().iter().map(|caps| caps.memory).min();
    let memory = memory.unwrap_or(0);
    let bytes = if memory >= 2 << 30 {
        256 << 20
    } else {
        64 << 20
    };
    // Three operands in double precision complex, in half of the memory.
    let fits = |order: &usize| 3 * order * order * Dtype::Z.size() <= memory / 2;
    let order = [8192, 4096, 2048].into_iter().find(fits);
    Sizes {
        bytes,
        order: order.unwrap_or(1024),
    }
}

/// Measures all tasks, until the user ends it.
fn all(
    machine: &mut Machine,
    mut host: Option<&mut HostBlas>,
    tasks: &[Task],
    session: &mut Session,
) {
    let mut stage = Stage::default();
    for task in tasks {
        if stopped() {
            break;
        }
        if let Err(why) = stage.prepare(machine, task) {
            session.skip(task, &why);
            continue;
        }
        session.measure(task, || match (task.operation, host.as_deref_mut()) {
            (_, Some(host)) if task.is_host() => host.sample(task),
            (Operation::Pin, _) => machine.lock_pages().map(|s| Sample::of(Some(s))),
            (Operation::Together(way), _) => copies::together(machine, way, task.size),
            (Operation::Copy(way), _) => copies::alone(machine, way, task.size),
            (Operation::Beside(way), _) => copies::beside(machine, way, task.size),
            (Operation::Runs, _) => copies::runs(machine, task.size, stage.busy),
            _ => kernels::sample(machine, task, stage.busy),
        });
    }
}

/// What has been done so that a task can be measured.
#[derive(Debug, Default)]
struct Stage {
    /// Why the devices' operations cannot be timed, or that they can.
    watched: Option<Result<(), String>>,
    /// Whether the operands of products hold singles.
    single: bool,
    /// The seconds of one of the products that keep the first device busy.
    busy: f64,
    /// Why the memory could not be allocated, or that it was.
    allocated: Option<Result<(), String>>,
}

impl Stage {
    /// Brings the machine to where the task can be measured.
    fn prepare(&mut self, machine: &mut Machine, task: &Task) -> Result<(), String> {
        if task.is_host() {
            return Ok(());
        }
        if task.operation == Operation::Pin {
            return machine.raise(task.size);
        }
        let busy = &mut self.busy;
        self.allocated
            .get_or_insert_with(|| {
                machine.raise(machine.devices().len())?;
                machine.allocate()?;
                if machine.is_alike() {
                    *busy = kernels::busy(machine)?;
                }
                Ok(())
            })
            .clone()?;
        if let Operation::Row(which) | Operation::Product(Way::In, which) = task.operation {
            let single = matches!(tasks::dtype(which), Dtype::S | Dtype::C);
            if single != self.single {
                machine.factors(single)?;
                self.single = single;
            }
        }
        if task.is_watched() {
            return self
                .watched
                .get_or_insert_with(|| watched::begin(machine))
                .clone();
        }
        Ok(())
    }
}

/// What the user should know of the measurements, a line each.
fn said(tasks: &[Task], measured: &Measured, quick: bool) -> Vec<String> {
    let names = |tasks: &[Task]| {
        let names: Vec<String> = tasks.iter().map(Task::name).collect();
        names.join("; ")
    };
    let mut lines = Vec::new();
    if stopped() {
        lines.push(format!(
            "ended after {} of {} measurements; the other figures stay as built in",
            measured.seconds.len(),
            tasks.len()
        ));
    }
    if let Some((task, why)) = measured.failed.first() {
        let more = match measured.failed.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        lines.push(format!("not measured: {}{more}: {why}", task.name()));
    }
    if quick {
        return lines;
    }
    if !measured.unsettled.is_empty() {
        lines.push(format!(
            "less precise than 5 %: {}",
            names(&measured.unsettled)
        ));
    }
    if !measured.uncovered.is_empty() {
        lines.push(format!(
            "too good, since the work beside the copy ended before it: {}",
            names(&measured.uncovered)
        ));
    }
    lines
}

/// The version of the driver.
fn driver(machine: &Machine) -> String {
    if machine.is_simulated() {
        return "none".into();
    }
    let version = std::fs::read_to_string("/sys/module/nvidia/version").unwrap_or_default();
    match version.trim() {
        "" => "unknown".into(),
        version => version.to_owned(),
    }
}

/// The command line, without the path of the command.
fn command() -> String {
    let words = std::env::args_os().skip(1);
    words.fold("semcache".to_owned(), |line, word| {
        line + " " + &word.to_string_lossy()
    })
}
