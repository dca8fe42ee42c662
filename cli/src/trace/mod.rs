//! `semcache trace`: reads the trace of a process and says where the time went.

mod fields;
mod gaps;
mod model;
mod page;
mod read;
mod shares;
mod tell;
mod threads;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use model::Trace;
use read::Reader;

/// How many bytes of the file are read at a time.
const PIECE: usize = 1 << 20;

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The trace (`semcache run --trace FILE`, `SEMCACHE_TRACE`)
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn trace(options: &Options) -> Result<ExitCode, String> {
    let trace = load(&options.file)?;
    print(&page::page(&trace))?;
    Ok(ExitCode::SUCCESS)
}

fn load(path: &Path) -> Result<Trace, String> {
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
fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("stdout: {error}")),
        _ => Ok(()),
    }
}
