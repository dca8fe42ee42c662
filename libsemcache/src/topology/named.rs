//! Whether devices can be had by a name (`SEMCACHE_DEVICES`, `--devices`): the syntax is `base::config`'s, the machines that
//! can be simulated are those of this floor.

use super::presets::{NAMES, preset};
use crate::base::config::{Devices, SimMachine, parse_devices};

/// Checks a text that says which devices to use, before a program starts: the library would warn and compute on the host.
/// Whether this machine has the GPUs that are named is not checked. A blank text stands for the default, as in the
/// environment.
///
/// # Errors
/// What is wrong with the text, in a sentence that begins with it.
pub fn check_devices(text: &str) -> Result<(), String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(());
    }
    let why = match parse_devices(text) {
        Ok(Devices::Sim(SimMachine::Preset(name))) => unknown(&name),
        Ok(_) => None,
        Err(why) if why.contains("PRESET") => Some(format!("{why}; {}", presets())),
        Err(why) => Some(why.to_owned()),
    };
    why.map_or(Ok(()), |why| Err(format!("{} {why}", text.escape_debug())))
}

/// Why no machine has this name of a preset or `NAME:N`; `None` if one has.
fn unknown(name: &str) -> Option<String> {
    if preset(name).is_some() {
        return None;
    }
    let whole = name.split_once(':').map_or(name, |(whole, _)| whole);
    Some(match preset(whole) {
        Some(machine) => format!(
            "is not sim:{whole}:N with N from 1 to {}, as many devices as it has",
            machine.engines.len()
        ),
        None => format!("names no machine that can be simulated; {}", presets()),
    })
}

fn presets() -> String {
    format!("the presets are {}", NAMES.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_can_be_had() {
        for text in [
            "",
            " ",
            "auto",
            "none",
            "cuda",
            "cuda:0,2",
            "CUDA:1",
            "sim",
            " sim:2 ",
            "sim:dgx1",
            "sim:DGX1:3",
            "sim:h200x8:8",
        ] {
            assert_eq!(check_devices(text), Ok(()), "{text:?}");
        }
        for name in NAMES {
            assert_eq!(check_devices(&format!("sim:{name}")), Ok(()));
        }
    }

    #[test]
    fn other_devices_cost_a_line_that_says_what_there_is() {
        let presets = "the presets are dgx1, everest, makalu, kepler, tesla, testbed1, testbed2, gtx680, titan, h100, h200, \
                       h200x4, h200x8";
        let forms = "is not one of auto, none, cuda, cuda:0,2, sim:N, sim:PRESET, sim:PRESET:N";
        for (text, line) in [
            ("foo", format!("foo {forms}; {presets}")),
            ("fo\no", format!("fo\\no {forms}; {presets}")),
            ("sim:", format!("sim: {forms}; {presets}")),
            ("auto:1", format!("auto:1 {forms}; {presets}")),
            (
                "sim:dgx-1",
                format!("sim:dgx-1 names no machine that can be simulated; {presets}"),
            ),
            (
                "sim:dgx1:9",
                "sim:dgx1:9 is not sim:dgx1:N with N from 1 to 8, as many devices as it has"
                    .to_owned(),
            ),
            (
                "sim:dgx1:",
                "sim:dgx1: is not sim:dgx1:N with N from 1 to 8, as many devices as it has"
                    .to_owned(),
            ),
            (
                "sim:0",
                "sim:0 must be above zero (none switches devices off)".to_owned(),
            ),
            (
                "sim:65",
                "sim:65 names more devices than semcache drives (64)".to_owned(),
            ),
            (
                "cuda:x",
                "cuda:x does not list GPU numbers (such as cuda:0,2)".to_owned(),
            ),
        ] {
            assert_eq!(check_devices(text), Err(line), "{text:?}");
        }
    }
}
