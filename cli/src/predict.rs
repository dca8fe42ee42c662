//! `semcache predict`: the time of one BLAS call on a machine that need not be present, what the library would decide there,
//! what bounds the call, what each published model says, and a chart of the copies and kernels.

mod call;
mod json;
mod machine;
mod page;

use std::path::PathBuf;
use std::process::ExitCode;

use semcache::blas::predict::{Asking, Prediction, predict as ask};

use crate::trace::{Drawn, chart, print, write_file};
use call::Call;
use machine::Described;

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The routine by its BLAS name, with the letter of its type: dgemm, zherk, saxpy
    routine: String,
    /// Its sizes, in the order of its arguments: dgemm m n k, dsyrk n k, dtrsm m n, dgemv m n, daxpy n
    #[arg(required = true, allow_negative_numbers = true)]
    sizes: Vec<String>,
    /// Where the operands are before the call: `host`, `device`, or for each one, as in `a=device,b=host`; an operand that is
    /// not named is at the host. The newest bytes of a result that is on devices are there only
    #[arg(long, value_name = "PLACE", default_value = "host")]
    from: String,
    /// Where results are wanted: `host`, the CPU reads them after the call, or `device`
    #[arg(long, value_name = "PLACE", default_value = "host")]
    to: String,
    /// A machine: dgx1, everest, makalu, 2xk20, h200, h200x8, or a file of rates as `SEMCACHE_RATES` takes
    #[arg(long, value_name = "NAME|FILE", default_value = "h200")]
    machine: String,
    /// The first N devices of the machine; of a file of rates, N equal devices
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    devices: Option<String>,
    /// Memory of each device, as in 80GiB; without it that of the machine, or 80GiB for a file of rates
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Threads of the host BLAS, on cores with AVX-512. A file of rates that has figures of the host overrides them
    #[arg(
        long,
        value_name = "N",
        default_value = "16",
        allow_negative_numbers = true
    )]
    threads: String,
    /// Tile size of level 3 (`SEMCACHE_TILE`); without it the one with the shortest time
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    tile: Option<String>,
    /// Host memory is page-locked already, as it is from the second call on
    #[arg(long)]
    locked: bool,
    /// The side on which the symmetric or triangular matrix stands
    #[arg(long, value_name = "left|right", default_value = "left")]
    side: String,
    /// Which triangle of a matrix is stored
    #[arg(long, value_name = "lower|upper", default_value = "lower")]
    uplo: String,
    /// The transposition of A, or of both inputs of a rank-k update: `n`, `t` or `c`
    #[arg(long, value_name = "OP", default_value = "n")]
    transa: String,
    /// The transposition of B: `n`, `t` or `c`
    #[arg(long, value_name = "OP", default_value = "n")]
    transb: String,
    /// The scalar beta: with 0 a result is not read before it is written
    #[arg(
        long,
        value_name = "NUMBER",
        default_value = "0",
        allow_negative_numbers = true
    )]
    beta: String,
    /// Print the same as JSON
    #[arg(long)]
    json: bool,
    /// Draw the chart as a PNG picture in this file, too
    #[arg(long, value_name = "PATH")]
    png: Option<PathBuf>,
}

/// Everything that is told.
#[derive(Debug)]
struct Told<'a> {
    call: &'a Call,
    machine: &'a Described,
    options: &'a Options,
    prediction: &'a Prediction,
}

pub(crate) fn predict(options: &Options) -> Result<ExitCode, String> {
    let call = Call::new(options)?;
    let machine = Described::new(options)?;
    let tile = match &options.tile {
        Some(text) => Some(number("--tile", text, 1 << 20)?),
        None => None,
    };
    let asking = Asking {
        problem: &call.problem,
        on_devices: &call.on_devices,
        read_back: call.read_back,
        locked: options.locked,
        tile,
    };
    let prediction = ask(&machine.machine, &asking);
    let told = Told {
        call: &call,
        machine: &machine,
        options,
        prediction: &prediction,
    };
    let drawn = told.drawn();
    if let (Some(path), Some(drawn)) = (&options.png, &drawn) {
        write_file(path, &drawn.picture()?)?;
    }
    let text = if options.json {
        json::text(&told)
    } else {
        page::page(&told) + &drawn.as_ref().map_or(Ok(String::new()), chart)?
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

impl Told<'_> {
    /// The chart of the timeline, if the devices have room for the call.
    fn drawn(&self) -> Option<Drawn> {
        let on = self.prediction.on_devices.as_ref()?;
        let timed = on.timed.as_ref()?;
        let devices = on.devices.ids().map(|id| {
            let name = self.machine.names.get(id.index());
            (id, name.map_or("", String::as_str))
        });
        Some(Drawn::new(
            &self.call.title(),
            &devices.collect::<Vec<_>>(),
            &timed.operations,
            |task| {
                let kernel = &timed.plan.tasks[task].kernel;
                kernel.routine.record().names[kernel.dtype as usize]
            },
        ))
    }
}

/// A number of an argument, from 1 to `most`.
fn number(what: &str, text: &str, most: usize) -> Result<usize, String> {
    let number = text.parse::<usize>().ok();
    let legal = number.filter(|n| (1..=most).contains(n));
    legal.ok_or_else(|| format!("{what} {text}: not a whole number from 1 to {most}"))
}
