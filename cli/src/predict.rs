//! `semcache predict`: the time of one BLAS call on a machine that need not be present, what the library would decide there,
//! what bounds the call, what each published model says, and a chart of the copies and kernels.

mod call;
mod json;
mod machine;
mod options;
mod page;
mod told;

use std::process::ExitCode;

use semcache::blas::predict::{Asking, predict as ask};

use crate::trace::{chart, print, write_file};
use call::Call;
use machine::Described;
pub(crate) use options::Options;
use options::number;
use told::Told;

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
