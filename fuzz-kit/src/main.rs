//! Plays random programs.
//!
//!   semcache-fuzz play FILE                      one program; `-`: standard input
//!   semcache-fuzz show SEED [OPERATIONS]         the program that belongs to a seed
//!   semcache-fuzz drive [--library FILE] [--programs N | --seconds N] [--first SEED] [--operations N] [--jobs N]
//!                       [--gates LIST] [--cuda COUNT] [--dir DIR] [--keep-going]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    clippy::disallowed_methods,
    reason = "a test program of its own"
)]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::exit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use semcache_fuzz::drive::Runner;
use semcache_fuzz::play::{may_answer_faults, met, play};
use semcache_fuzz::program::Program;
use semcache_fuzz::setting::{GATES, Setting};
use semcache_fuzz::shrink::shrink;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("play") => {
            let mut text = String::new();
            match words.get(1).map(String::as_str) {
                None | Some("-") => drop(std::io::stdin().read_to_string(&mut text)),
                Some(file) => text = std::fs::read_to_string(file).unwrap(),
            }
            let Some(program) = Program::parse(&text) else {
                eprintln!("semcache-fuzz: not a program");
                exit(2);
            };
            play(&program);
            for (name, done, closed) in met() {
                eprintln!("{BESIDE}{name} {done} {closed}");
            }
        }
        Some("show") => {
            let seed = words[1].parse().unwrap();
            let ops = words.get(2).map_or(200, |n| n.parse().unwrap());
            print!("{}", Program::of_seed(seed, ops).text());
        }
        Some("drive") => drive(&words[1..]),
        _ => {
            eprintln!("usage: semcache-fuzz play FILE | show SEED [OPERATIONS] | drive OPTION...");
            exit(2);
        }
    }
}

/// How a line begins that says what a program did beside results.
const BESIDE: &str = "fuzz: beside ";

struct Options {
    runner: Runner,
    programs: u64,
    seconds: Option<u64>,
    first: u64,
    operations: usize,
    jobs: usize,
    gates: Vec<String>,
    cuda: Option<usize>,
    keep_going: bool,
}

fn options(words: &[String]) -> Options {
    let mut o = Options {
        runner: Runner {
            player: std::env::current_exe().unwrap(),
            library: None,
            limit: Duration::from_secs(120),
            dir: std::env::temp_dir(),
        },
        programs: 100,
        seconds: None,
        first: 1,
        operations: 200,
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        gates: GATES.iter().map(|&g| g.into()).collect(),
        cuda: None,
        keep_going: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--keep-going" {
            o.keep_going = true;
            continue;
        }
        let Some(value) = words.next() else {
            eprintln!("semcache-fuzz: {word} needs a value");
            exit(2);
        };
        let number = || value.parse::<u64>().unwrap();
        let count = || value.parse::<usize>().unwrap();
        match word.as_str() {
            "--library" => o.runner.library = Some(PathBuf::from(value)),
            "--programs" => o.programs = number(),
            "--seconds" => o.seconds = Some(number()),
            "--first" => o.first = number(),
            "--operations" => o.operations = count(),
            "--jobs" => o.jobs = count(),
            "--gates" => o.gates = value.split(',').map(str::to_owned).collect(),
            "--cuda" => o.cuda = Some(count()),
            "--limit" => o.runner.limit = Duration::from_secs(number()),
            "--dir" => o.runner.dir = PathBuf::from(value),
            _ => {
                eprintln!("semcache-fuzz: unknown option {word}");
                exit(2);
            }
        }
    }
    o
}

/// SEMCACHE_DEVICES for so many devices.
fn machine(cuda: Option<usize>, devices: usize) -> String {
    match cuda {
        None => format!("sim:{devices}"),
        Some(count) => {
            let list: Vec<_> = (0..devices.min(count).max(1))
                .map(|i| i.to_string())
                .collect();
            format!("cuda:{}", list.join(","))
        }
    }
}

fn drive(words: &[String]) {
    let o = options(words);
    let began = Instant::now();
    let (next, stop, done) = (
        AtomicU64::new(o.first),
        AtomicBool::new(false),
        AtomicU64::new(0),
    );
    let failed = Mutex::new(Vec::new());
    let sums = Mutex::new(BTreeMap::<String, f64>::new());
    let took = Mutex::new(Vec::<(f64, u64)>::new());
    std::fs::create_dir_all(&o.runner.dir).unwrap();
    if !may_answer_faults() {
        eprintln!("fuzz: no userfaultfd for this user: programs go without missing pages");
    }
    std::thread::scope(|scope| {
        for job in 0..o.jobs {
            let (o, next, stop, done, failed, sums, took) =
                (&o, &next, &stop, &done, &failed, &sums, &took);
            scope.spawn(move || {
                let report = o.runner.dir.join(format!("report.{job}.json"));
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
                    let ending = o.runner.run(&program, &setting, Some(&report));
                    took.lock()
                        .unwrap()
                        .push((at.elapsed().as_secs_f64(), seed));
                    done.fetch_add(1, Ordering::Relaxed);
                    if ending.fine {
                        add(&report, &mut sums.lock().unwrap());
                        add_beside(&ending.said, &mut sums.lock().unwrap());
                        continue;
                    }
                    failed.lock().unwrap().push(seed);
                    eprintln!(
                        "fuzz: seed {seed} under {}: {}",
                        setting.text(),
                        ending.said
                    );
                    eprintln!("fuzz: seed {seed}: {}", o.runner.blame(&program));
                    if !o.keep_going {
                        stop.store(true, Ordering::Relaxed);
                    }
                    if failed.lock().unwrap().len() <= 3 {
                        minimise(&o.runner, seed, &program, &setting);
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
    // Without them the run proves nothing. Before a hundred programs they need not all have happened.
    if o.runner.library.is_some() && done.load(Ordering::Relaxed) >= 100 {
        for key in [
            "offloaded",
            "cache.closes",
            "cache.evictions",
            "faults.read",
            "faults.write",
            "faults.false_sharing",
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
    let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) else {
        return;
    };
    *sums.entry("reports".into()).or_default() += 1.0;
    for (group, key) in [
        ("cache", "closes"),
        ("cache", "evictions"),
        ("cache", "hits"),
        ("faults", "read"),
        ("faults", "write"),
        ("faults", "false_sharing"),
    ] {
        *sums.entry(format!("{group}.{key}")).or_default() +=
            value[group][key].as_f64().unwrap_or(0.0);
    }
    for call in value["calls"].as_object().into_iter().flatten() {
        *sums.entry("offloaded".into()).or_default() += call.1["offloaded"].as_f64().unwrap_or(0.0);
        *sums.entry("host".into()).or_default() += call.1["host"].as_f64().unwrap_or(0.0);
    }
    *sums.entry("fallbacks".into()).or_default() += value["fallbacks"].as_f64().unwrap_or(0.0);
}

/// Adds what a program did beside results, and beside how many closed ones.
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
    // One that fails now and then only is tried some times.
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
