//! `semcache trace`: reads the trace of a process and says where the time went.

mod fields;
pub(crate) mod gantt;
pub(crate) mod gaps;
pub(crate) mod host;
mod issuing;
pub(crate) mod model;
pub(crate) mod page;
pub(crate) mod predicted;
mod read;
pub(crate) mod shares;
pub(crate) mod tell;
pub(crate) mod threads;
mod timeline;

#[cfg(test)]
pub(crate) mod tests;

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gantt::Choice;
pub(crate) use gantt::write_file;
use model::Trace;
use read::Reader;
pub(crate) use tell::{amount, length};
pub(crate) use timeline::{Drawn, chart};

/// How many bytes of the file are read at a time.
const PIECE: usize = 1 << 20;

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The trace (`semcache run --trace FILE`, `SEMCACHE_TRACE`)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Draw a chart of this call: which operations devices ran for it and when, and what its thread waited for. `longest` is
    /// the call that takes longest until its last operation ends
    #[arg(long, value_name = "ID|longest", allow_hyphen_values = true)]
    call: Option<String>,
    /// Draw a chart that begins at this moment, in seconds since the trace began
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    from: Option<String>,
    /// Draw a chart that ends at this moment, in seconds since the trace began
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    to: Option<String>,
    /// Draw the chart as a PNG picture in this file; without `--call`, `--from` and `--to`, that of the whole trace
    #[arg(long, value_name = "PATH")]
    png: Option<PathBuf>,
    /// Print, for each call on devices, its predicted and its measured seconds, separated by tabs
    #[arg(long, conflicts_with_all = ["call", "from", "to", "png"])]
    predictions: bool,
}

pub(crate) fn trace(options: &Options) -> Result<ExitCode, String> {
    let choice = Choice::of(
        options.call.as_deref(),
        options.from.as_deref(),
        options.to.as_deref(),
    )?;
    let trace = load(&options.file)?;
    let named = |error| format!("{}: {error}", options.file.display());
    if let Some(path) = &options.png {
        let picture = gantt::png(&trace, choice).map_err(named)?;
        gantt::write_file(path, &picture)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = match choice {
        _ if options.predictions => predicted::list(&trace),
        Choice::All => page::page(&trace),
        _ => gantt::page(&trace, choice).map_err(named)?,
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a trace from its file.
pub(crate) fn load(path: &Path) -> Result<Trace, String> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(named)?;
    let mut reader = Reader::new();
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => {
                if !reader.feed(&piece[..read]) {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(named(error)),
        }
    }
    reader
        .finish()
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Prints to the standard output, whose reader may go before the end.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("stdout: {error}")),
        _ => Ok(()),
    }
}
