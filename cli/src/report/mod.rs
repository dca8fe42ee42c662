//! `semcache report`: prints the sum of JSON reports as a table; with `--keys`, the meaning of every key, reason and
//! degraded feature that a report may name.

pub(crate) mod advice;
mod by;
mod compare;
pub(crate) mod lines;
mod values;

use core::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use semcache::base::counters::{Degraded, KEYS, LeftOut, WhyHost};

use semcache::runtime::report::{Report, time};

use crate::{html, summary};
use values::{Assertion, SUMS};

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Print what every key, reason and degraded feature in a report means, as Markdown
    #[arg(long, conflicts_with = "files")]
    keys: bool,
    /// Print the sum as JSON
    #[arg(long)]
    json: bool,
    /// Print a table by this
    #[arg(long, value_name = "WHAT")]
    by: Option<By>,
    /// Print these numbers alone, separated by spaces, by their path in the report (bytes.h2d, calls.dgemm.offloaded)
    #[arg(long, value_name = "KEY")]
    print: Vec<String>,
    /// Say nothing and end with status 1 unless this holds of the sum: KEY OP NUMBER, OP one of > >= < <= == !=, or KEY for KEY>0
    #[arg(long = "assert", value_name = "EXPR")]
    asserted: Vec<String>,
    /// Print the numbers in which the second of two reports differs from the first
    #[arg(long)]
    compare: bool,
    /// Write a page in one HTML file, with charts, instead of printing
    #[arg(long, value_name = "PATH", conflicts_with_all = ["keys", "json", "by", "print", "asserted", "compare"])]
    html: Option<PathBuf>,
    /// A trace for the page; may be given several times
    #[arg(long, value_name = "FILE", requires = "html")]
    trace: Vec<PathBuf>,
    /// Report files, or folders of *.json; their counts are summed
    #[arg(required_unless_present_any = ["keys", "trace"], value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// What the lines of a table are.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum By {
    /// The routines of the BLAS
    Routine,
    /// The processes of the run
    Process,
    /// The places in the code that make calls, or whose accesses to matrices faulted
    Site,
    /// The blocks of host memory with operands of calls on devices
    Matrix,
}

pub(crate) fn report(options: &Options) -> Result<ExitCode, String> {
    if options.keys {
        print!("{}", keys());
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &options.html {
        let given = !options.files.is_empty();
        let sum = given.then(|| sum(&options.files)).transpose()?;
        html::write(
            path,
            sum.map(|(sum, _)| sum),
            &options.files,
            &options.trace,
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.compare {
        let [first, second] = options.files.as_slice() else {
            return Err("--compare wants two reports".to_owned());
        };
        let numbers = |path: &PathBuf| {
            sum(std::slice::from_ref(path)).map(|(sum, files)| values::of(&sum, files))
        };
        print!("{}", compare::table(&numbers(first)?, &numbers(second)?));
        return Ok(ExitCode::SUCCESS);
    }
    let (sum, files) = sum(&options.files)?;
    let mut quiet = false;
    if !options.print.is_empty() {
        let all = values::of(&sum, files);
        let numbers: Result<Vec<String>, String> = options
            .print
            .iter()
            .map(|key| values::get(&all, key).map(|n| n.to_string()))
            .collect();
        println!("{}", numbers?.join(" "));
        quiet = true;
    }
    if !options.asserted.is_empty() {
        let all = values::of(&sum, files);
        let mut broken = Vec::new();
        for text in &options.asserted {
            broken.extend(Assertion::parse(text)?.broken(&all)?);
        }
        if !broken.is_empty() {
            for line in broken {
                eprintln!("semcache: {line}");
            }
            return Ok(ExitCode::FAILURE);
        }
        quiet = true;
    }
    match (options.json, options.by) {
        (true, _) => print!("{}", sum.json()),
        (false, Some(By::Process)) => print!("{}", by::process(&sum)),
        (false, Some(By::Routine)) => print!("{}", by::routine(&sum)),
        (false, Some(By::Site)) => print!("{}", by::site(&sum)),
        (false, Some(By::Matrix)) => print!("{}", by::matrix(&sum)),
        (false, None) if quiet => {}
        (false, None) => print!("{}", summary::table(&sum)),
    }
    Ok(ExitCode::SUCCESS)
}

/// The sum of the reports in files and folders, and how many there were.
fn sum(paths: &[PathBuf]) -> Result<(Report, usize), String> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            found(path, &mut files)?;
        } else {
            files.push(path.clone());
        }
    }
    if files.is_empty() {
        return Err("no reports there".to_owned());
    }
    files.sort();
    let mut sum = Report::default();
    for file in &files {
        let named = |e: &dyn Display| format!("{}: {e}", file.display());
        let text = std::fs::read_to_string(file).map_err(|e| named(&e))?;
        sum.add(&Report::parse(&text).map_err(|e| named(&e))?);
    }
    Ok((sum, files.len()))
}

/// The files *.json in a folder, and in those below it.
fn found(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let named = |e: std::io::Error| format!("{}: {e}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(named)? {
        let path = entry.map_err(named)?.path();
        if path.is_dir() {
            found(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "json") {
            files.push(path);
        }
    }
    Ok(())
}

fn keys() -> String {
    let numbers = KEYS.iter().map(|k| {
        let dot = if k.group.is_empty() { "" } else { "." };
        (format!("{}{dot}{}", k.group, k.name), k.doc)
    });
    let numbers = time::keys().into_iter().chain(numbers);
    let reasons = WhyHost::ALL.iter().map(|w| (w.name().to_owned(), w.doc()));
    let left_out = LeftOut::ALL.iter().map(|w| (w.name().to_owned(), w.doc()));
    let degraded = Degraded::ALL.iter().map(|d| (d.name().to_owned(), d.doc()));
    let mut text = "\
# The report

`semcache run --report FILE`, or `SEMCACHE_REPORT=FILE` where the library is preloaded without the command, writes a JSON report of
all processes of the run on this machine: their sum, and each (`processes`: id, parent, MPI rank, command line, when it began in seconds since the machine
started (`begun_s`), seconds from the first call to the end, whether it told its end; beyond 256 processes the others share an entry). The processes count in memory that they
share, so nothing is lost when one is killed or ends by `_exit`; without the command, the next process that ends writes what a killed
one counted. Ranks of one MPI job add to one file; of a job on several machines each machine but the first has `FILE.NAME`, and
`semcache report` adds them up. With `%p` in the path, which becomes the process id, each process has a file of its own.

[schema/report.schema.json](schema/report.schema.json) is the schema of all. The report's `version` is 3 and
rises when a key is renamed, goes or changes its meaning; a new key does not change it. `run` names the run, `node` the machine,
`refused` counts processes that found no room among the counters. `devices` lists the devices that were
used, each with its `kind` (`cuda`, `sim`), its bytes of `memory`, the calls of which it ran a task (`calls`), its tasks, the bytes copied to it from the host (`h2d`), from it
to the host (`d2h`) and to it from other devices (`p2p`), and the calls that ran on other devices only, by reason (`left_out`; calls
that repeat an earlier one are not among these), and in virtual time what its kernels and copies took together and when the last of them
is complete, in nanoseconds (`virtual_time`). `calls` counts the calls of each routine: how many ran on devices (`offloaded`), how many on the host BLAS
(`host`), and those by reason (`why_host`). `sites` lists the places in the code that call the BLAS, whose accesses to a protected page faulted, or that
called MPI with buffers of which devices held a part, those that matter most first:
file with the code (`object`), address in it (`offset`), what it `does` (a routine, `load`, `store`, a function of MPI), the calls there as in `calls`,
the bytes copied for them, faults, buffers of MPI that had to be made accessible, and seconds. An access by a function of the library of C counts for its caller (`through`). The calls
of a script have the address of its interpreter's or module's call; with `SEMCACHE_SITES` `python`, `r` or `octave` those with a decision, and those
of LAPACK, have the line of the script (`line`): in Python that of the innermost function outside of installed modules, for which each
call takes Python's lock; in R that of
code that was read with `options(keep.source = TRUE)` and runs uncompiled (`R_ENABLE_JIT=0`); in Octave that of a file. `matrices` lists blocks of host memory that calls on devices had
operands in: the name that the program gave it (`name`, by `semcache_name`), size of the first operand, where that call was made
(`first`) and of which routine (`first_does`), calls, bytes copied, of them those copied back before calls returned as their pages hold
other data, too (`edges`), faults, and where the CPU last loaded (`load`) and stored (`store`) with a fault. Both have 200 entries at most.

`time` says what the program's threads spent on BLAS calls, in seconds, together and by routine (`time.routines`). No time counts twice:
the parts add up to `time.blas_s`. Times of several threads and processes are added up. Names that end in `_estimate_s` or `_sampled_s`
are estimates, all others are measured. What devices did meanwhile is not part of it (`sampled`, `virtual_time`).

`semcache report FILE...` adds reports up and prints them as a table, with `--by process`, `routine`, `site` or `matrix` a line for
each, with files and lines where there is debug information, and what to do in a sentence; `--json`
prints the sum, `--print KEY` numbers, `--assert EXPR` ends with status 1 unless `EXPR` holds (`--assert 'faults<10' --assert offloaded`),
`--compare A B` shows in what two reports differ. `semcache report --keys` prints this page.
"
    .to_owned();
    for (title, rows) in [
        ("Numbers", numbers.collect::<Vec<_>>()),
        (
            "Sums for `--print` and `--assert`",
            SUMS.iter()
                .map(|(name, doc)| ((*name).to_owned(), *doc))
                .collect(),
        ),
        ("Reasons in `why_host`", reasons.collect()),
        ("Reasons in `left_out`", left_out.collect()),
        ("Features in `degraded`", degraded.collect()),
    ] {
        text += &format!("\n## {title}\n\n| name | meaning |\n|---|---|\n");
        for (name, doc) in rows {
            text += &format!("| `{name}` | {} |\n", doc.trim());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_in_docs_is_the_table_in_the_code() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/report.md");
        let text = std::fs::read_to_string(page).expect("docs/report.md");
        assert_eq!(
            text,
            super::keys(),
            "docs/report.md is not what `semcache report --keys` prints"
        );
    }
}
