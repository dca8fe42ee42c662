//! Plays random programs.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    clippy::disallowed_methods,
    reason = "a test program of its own"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::exit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Parser};
use semcache::base::{Dtype, Solver};
use semcache::runtime::report::Report;
use semcache_fuzz::drive::Runner;
use semcache_fuzz::play::{may_answer_faults, met, play};
use semcache_fuzz::program::Program;
use semcache_fuzz::setting::{GATES, Setting};
use semcache_fuzz::shrink::shrink;

/// Random programs with one right answer
#[derive(Parser)]
#[command(name = "semcache-fuzz")]
enum Command {
    /// Play one program in this process
    Play {
        /// The program; `-`: standard input
        file: PathBuf,
    },
    /// Print the program that belongs to a seed
    Show {
        seed: u64,
        #[arg(default_value_t = 200)]
        operations: usize,
    },
    /// Play many programs, each in a process and under settings of its own
    Drive(Options),
}

#[derive(Args)]
struct Options {
    /// The library to preload; without it programs run plainly, which tries the host BLAS and the fuzzer itself
    #[arg(long)]
    library: Option<PathBuf>,
    /// How many
    #[arg(long, default_value_t = 100, conflicts_with = "seconds")]
    programs: u64,
    /// Until this long after the start
    #[arg(long)]
    seconds: Option<u64>,
    /// The first one's seed
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// In each program
    #[arg(long, default_value_t = 200)]
    operations: usize,
    /// Processes at a time; default: as many as there are processors
    #[arg(long)]
    jobs: Option<usize>,
    /// The gates to draw from
    #[arg(long, value_delimiter = ',', default_values = GATES)]
    gates: Vec<String>,
    /// On this many GPUs, not on simulated devices
    #[arg(long)]
    cuda: Option<usize>,
    /// Where programs and reports go; default: the folder of temporary files
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Seconds that a program may take
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// Do not stop at the first difference
    #[arg(long)]
    keep_going: bool,
}

impl Options {
    fn runner(&self) -> Runner {
        Runner {
            player: std::env::current_exe().unwrap(),
            library: self.library.clone(),
            limit: Duration::from_secs(self.limit),
            dir: self.dir.clone().unwrap_or_else(std::env::temp_dir),
        }
    }
}

fn main() {
    match Command::parse() {
        Command::Play { file } => {
            let text = match file.to_str() {
                Some("-") => std::io::read_to_string(std::io::stdin()),
                _ => std::fs::read_to_string(&file),
            };
            let Some(program) = Program::parse(&text.unwrap()) else {
                eprintln!("semcache-fuzz: not a program");
                exit(2);
            };
            play(&program);
            for (name, done, closed) in met() {
                eprintln!("{BESIDE}{name} {done} {closed}");
            }
        }
        Command::Show { seed, operations } => {
            print!("{}", Program::of_seed(seed, operations).text());
        }
        Command::Drive(options) => drive(&options),
    }
}

/// The beginning of the line that reports a program's operations beside results.
const BESIDE: &str = "fuzz: beside ";

/// The value of SEMCACHE_DEVICES for this number of devices. Four stands for three simulated ones, of which one pair is linked,
/// five for four of two kinds.
fn machine(cuda: Option<usize>, devices: usize) -> String {
    match cuda {
        None if devices == 4 => "sim:everest".to_owned(),
        None if devices == 5 => "sim:makalu".to_owned(),
        None => format!("sim:{devices}"),
        Some(count) => {
            let list: Vec<_> = (0..devices.min(count).max(1))
                .map(|i| i.to_string())
                .collect();
            format!("cuda:{}", list.join(","))
        }
    }
}

fn drive(o: &Options) {
    let runner = &o.runner();
    let jobs = o
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let began = Instant::now();
    let (next, stop, done) = (
        AtomicU64::new(o.first),
        AtomicBool::new(false),
        AtomicU64::new(0),
    );
    let failed = Mutex::new(Vec::new());
    let plainly = Mutex::new(Vec::new());
    let sums = Mutex::new(BTreeMap::<String, f64>::new());
    let took = Mutex::new(Vec::<(f64, u64)>::new());
    std::fs::create_dir_all(&runner.dir).unwrap();
    if !may_answer_faults() {
        eprintln!("fuzz: no userfaultfd for this user: programs go without missing pages");
    }
    std::thread::scope(|scope| {
        for job in 0..jobs {
            let (next, stop, done, failed, plainly, sums, took) =
                (&next, &stop, &done, &failed, &plainly, &sums, &took);
            scope.spawn(move || {
                let report = runner.dir.join(format!("report.{job}.json"));
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let over = match o.seconds {
                        Some(seconds) => began.elapsed().as_secs() >= seconds,
                        None => seed >= o.first + o.programs,
                    };
                    if over {
                        return;
                    }
                    let program = Program::of_seed(seed, o.operations);
                    let setting = Setting::of_seed(seed, &o.gates, &|n| machine(o.cuda, n));
                    let _ = std::fs::remove_file(&report);
                    let at = Instant::now();
                    let ending = runner.run(&program, &setting, Some(&report));
                    took.lock()
                        .unwrap()
                        .push((at.elapsed().as_secs_f64(), seed));
                    done.fetch_add(1, Ordering::Relaxed);
                    if ending.fine {
                        add(&report, &mut sums.lock().unwrap());
                        add_beside(&ending.said, &mut sums.lock().unwrap());
                        continue;
                    }
                    eprintln!(
                        "fuzz: seed {seed} under {}: {}",
                        setting.text(),
                        ending.said
                    );
                    if runner.library.is_some() && !ending.late && runner.fails_plainly(&program) {
                        eprintln!("fuzz: seed {seed} fails without the library, too");
                        plainly.lock().unwrap().push(seed);
                        continue;
                    }
                    failed.lock().unwrap().push(seed);
                    if !o.keep_going {
                        stop.store(true, Ordering::Relaxed);
                    }
                    if failed.lock().unwrap().len() <= 3 {
                        minimise(runner, seed, &program, &setting);
                    }
                }
            });
        }
    });
    let sums = sums.into_inner().unwrap();
    let text: Vec<_> = sums.iter().map(|(k, v)| format!("{k} {v}")).collect();
    let mut took = took.into_inner().unwrap();
    took.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!(
        "fuzz: {} programs of {} operations from seed {} in {:.0} s, {} with a difference; {}; the longest {:?}",
        done.load(Ordering::Relaxed),
        o.operations,
        o.first,
        began.elapsed().as_secs_f64(),
        failed.lock().unwrap().len(),
        text.join(", "),
        took.first(),
    );
    let failed = failed.into_inner().unwrap();
    if !failed.is_empty() {
        println!("fuzz: seeds with a difference: {failed:?}");
        exit(1);
    }
    let plainly = plainly.into_inner().unwrap();
    if !plainly.is_empty() {
        println!("fuzz: seeds that fail without the library, too: {plainly:?}");
        // A crash of the host BLAS is rare. More of them than one in a thousand would hide what the library does.
        if plainly.len() as u64 > done.load(Ordering::Relaxed) / 1000 {
            println!("fuzz: FAILED: more than one in a thousand");
            exit(1);
        }
    }
    // Without such operations the run proves nothing. In fewer than a hundred programs some kinds may not have
    // happened.
    if runner.library.is_some() && done.load(Ordering::Relaxed) >= 100 {
        for key in [
            "offloaded",
            "cache.closes",
            "cache.evictions",
            "cache.mapped",
            "cache.replayed",
            "faults.read",
            "faults.write",
            "faults.false_sharing",
            "sparse",
            "solvers",
        ] {
            if sums.get(key).copied().unwrap_or(0.0) < 1.0 {
                println!("fuzz: FAILED: no {key}");
                exit(1);
            }
        }
        for (name, _, _) in met() {
            let closed = sums.get(&format!("{name}.closed")).copied();
            if closed.unwrap_or(0.0) < 1.0 && (name != "missing" || may_answer_faults()) {
                println!("fuzz: FAILED: no {name} beside closed pages");
                exit(1);
            }
        }
    }
}

/// Adds a report's numbers.
fn add(report: &std::path::Path, sums: &mut BTreeMap<String, f64>) {
    let Ok(text) = std::fs::read_to_string(report) else {
        return;
    };
    let Ok(report) = Report::parse(&text) else {
        return;
    };
    let (cache, faults) = (&report.sum.counts.cache, &report.sum.counts.faults);
    let of_solver = |name: &str| {
        let mut types = Dtype::ALL.iter();
        types.any(|&dtype| Solver::ALL.iter().any(|solver| solver.name(dtype) == name))
    };
    let calls = report.sum.calls.iter();
    let solvers = calls.filter(|(name, _)| of_solver(name));
    let solvers = solvers.map(|(_, calls)| calls.offloaded).sum();
    for (key, count) in [
        ("reports", 1),
        ("cache.closes", cache.closes),
        ("cache.evictions", cache.evictions),
        ("cache.hits", cache.hits),
        ("cache.mapped", cache.mapped),
        ("cache.replayed", cache.replayed),
        ("faults.read", faults.read),
        ("faults.write", faults.write),
        ("faults.false_sharing", faults.false_sharing),
        ("offloaded", report.sum.offloaded()),
        ("host", report.sum.calls.values().map(|c| c.host).sum()),
        ("host_parts", report.sum.counts.host_parts),
        ("fallbacks", report.sum.counts.fallbacks),
        ("sparse", report.sum.counts.sparse),
        ("sparse_host", report.sum.counts.sparse_host),
        ("sparse_links", report.sum.counts.sparse_links),
        ("solvers", solvers),
    ] {
        *sums.entry(key.into()).or_default() += count as f64;
    }
}

/// Adds the numbers of a program's operations beside results, and beside inaccessible results.
fn add_beside(said: &str, sums: &mut BTreeMap<String, f64>) {
    for line in said.lines().filter_map(|l| l.strip_prefix(BESIDE)) {
        let words: Vec<_> = line.split(' ').collect();
        if let [name, done, closed] = words[..] {
            *sums.entry(name.into()).or_default() += done.parse().unwrap_or(0.0);
            *sums.entry(format!("{name}.closed")).or_default() += closed.parse().unwrap_or(0.0);
        }
    }
}

fn minimise(runner: &Runner, seed: u64, program: &Program, setting: &Setting) {
    let short = Runner {
        limit: runner.limit.min(Duration::from_secs(20)),
        ..runner.clone()
    };
    // A program that fails only now and then is tried several times.
    let often = (0..6)
        .filter(|_| !short.run(program, setting, None).fine)
        .count();
    let file = runner.dir.join(format!("fuzz-{seed}.program"));
    let repeat = match often {
        0 => {
            eprintln!("fuzz: seed {seed} did not fail again in 6 runs");
            std::fs::write(&file, program.text()).unwrap();
            eprintln!("fuzz: again: {}", runner.again(setting, &file));
            return;
        }
        1..=4 => 6,
        _ => 2,
    };
    let least = shrink(program, 160, |p| {
        (0..repeat).any(|_| !short.run(p, setting, None).fine)
    });
    std::fs::write(&file, format!("# {}\n{}", setting.text(), least.text())).unwrap();
    eprintln!(
        "fuzz: seed {seed} fails {often} times in 6; {} of its {} operations, {} threads, do too:\n{}fuzz: again: {}",
        least.ops.len(),
        program.ops.len(),
        least.threads,
        least.text(),
        runner.again(setting, &file)
    );
}
