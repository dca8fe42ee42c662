//! Calls every routine of a host BLAS, in a process that a faulty library may crash, for [`super::host`]. Every routine
//! is called on small integers, so that exactly one result is right, and its results are compared with those of plain
//! loops.
//!
//! The process prints one line for each thing that it finds out: `try NAME` before the calls of a routine, so that the
//! parent process knows which routine ended the process; `absent NAME`; `wrong NAME WHAT` for a routine with a wrong
//! result, `extension NAME WHAT` if the routine is an extension of the BLAS; `core NAME` and `config TEXT` for
//! OpenBLAS; `error WHY`; and `done N` at the end.

mod call;
mod data;
mod extensions;
mod level1;
mod level2;
mod level3;
mod trial;

use std::io::Write as _;
use std::process::ExitCode;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use semcache::base::Dtype;

pub(crate) use call::Library;
use call::Wrong;
use data::Draw;
use extensions::EXTENSIONS;
use level1::Of;
use level2::Storage::{Band, Full, Packed};
use trial::{Entry, Trial};

/// The routines of the BLAS.
const ROUTINES: &[Entry] = &[
    ("*axpy", "sdcz", |t| {
        level1::two(t, |a, x, y| [x, a * x + y], true)
    }),
    ("*copy", "sdcz", |t| level1::two(t, |_, x, _| [x, x], false)),
    ("*swap", "sdcz", |t| level1::two(t, |_, x, y| [y, x], false)),
    ("*scal", "sdcz", |t| level1::scal(t, false)),
    ("csscal", "c", |t| level1::scal(t, true)),
    ("zdscal", "z", |t| level1::scal(t, true)),
    ("*rot", "sd", level1::rot),
    ("csrot", "c", level1::rot),
    ("zdrot", "z", level1::rot),
    ("*rotm", "sd", level1::rotm),
    ("*rotg", "sdcz", level1::rotg),
    ("*rotmg", "sd", level1::rotmg),
    ("*dot", "sd", |t| level1::dot(t, false, false, t.dtype)),
    ("*dotu", "cz", |t| level1::dot(t, false, false, t.dtype)),
    ("*dotc", "cz", |t| level1::dot(t, true, false, t.dtype)),
    ("dsdot", "s", |t| level1::dot(t, false, false, Dtype::D)),
    ("sdsdot", "s", |t| level1::dot(t, false, true, Dtype::S)),
    ("*asum", "sd", |t| level1::sum(t, Of::Magnitudes)),
    ("scasum", "c", |t| level1::sum(t, Of::Magnitudes)),
    ("dzasum", "z", |t| level1::sum(t, Of::Magnitudes)),
    ("*nrm2", "sd", |t| level1::sum(t, Of::Norm)),
    ("scnrm2", "c", |t| level1::sum(t, Of::Norm)),
    ("dznrm2", "z", |t| level1::sum(t, Of::Norm)),
    ("i*amax", "sdcz", |t| level1::index(t, true)),
    ("scabs1", "c", level1::magnitude),
    ("dcabs1", "z", level1::magnitude),
    ("*gemv", "sdcz", |t| level2::general(t, Full)),
    ("*gbmv", "sdcz", |t| level2::general(t, Band)),
    ("*symv", "sd", |t| level2::symmetric(t, Full, false)),
    ("*sbmv", "sd", |t| level2::symmetric(t, Band, false)),
    ("*spmv", "sd", |t| level2::symmetric(t, Packed, false)),
    ("*hemv", "cz", |t| level2::symmetric(t, Full, true)),
    ("*hbmv", "cz", |t| level2::symmetric(t, Band, true)),
    ("*hpmv", "cz", |t| level2::symmetric(t, Packed, true)),
    ("*trmv", "sdcz", |t| level2::triangular(t, Full, false)),
    ("*tbmv", "sdcz", |t| level2::triangular(t, Band, false)),
    ("*tpmv", "sdcz", |t| level2::triangular(t, Packed, false)),
    ("*trsv", "sdcz", |t| level2::triangular(t, Full, true)),
    ("*tbsv", "sdcz", |t| level2::triangular(t, Band, true)),
    ("*tpsv", "sdcz", |t| level2::triangular(t, Packed, true)),
    ("*ger", "sd", |t| level2::ger(t, false)),
    ("*geru", "cz", |t| level2::ger(t, false)),
    ("*gerc", "cz", |t| level2::ger(t, true)),
    ("*syr", "sd", |t| level2::update(t, Full, false, 1)),
    ("*spr", "sd", |t| level2::update(t, Packed, false, 1)),
    ("*syr2", "sd", |t| level2::update(t, Full, false, 2)),
    ("*spr2", "sd", |t| level2::update(t, Packed, false, 2)),
    ("*her", "cz", |t| level2::update(t, Full, true, 1)),
    ("*hpr", "cz", |t| level2::update(t, Packed, true, 1)),
    ("*her2", "cz", |t| level2::update(t, Full, true, 2)),
    ("*hpr2", "cz", |t| level2::update(t, Packed, true, 2)),
    ("*gemm", "sdcz", level3::gemm),
    ("*symm", "sdcz", |t| level3::symm(t, false)),
    ("*hemm", "cz", |t| level3::symm(t, true)),
    ("*syrk", "sdcz", |t| level3::rank_k(t, false, 1)),
    ("*herk", "cz", |t| level3::rank_k(t, true, 1)),
    ("*syr2k", "sdcz", |t| level3::rank_k(t, false, 2)),
    ("*her2k", "cz", |t| level3::rank_k(t, true, 2)),
    ("*trmm", "sdcz", |t| level3::triangular(t, false)),
    ("*trsm", "sdcz", |t| level3::triangular(t, true)),
];

/// Prints a line and flushes it, since the next call may end the process.
fn say(line: &str) {
    let mut out = std::io::stdout();
    // The write fails only if the parent process has ended, and then the line has no reader.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Checks the library in this file, or the library that the dynamic linker finds under this name.
pub(crate) fn check(path: &str) -> ExitCode {
    // A crash is a result here, so no core file is written.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_CORE) {
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, most);
    }
    say("try loading");
    let mut library = match Library::open(path) {
        Ok(library) => library,
        Err(why) => {
            say(&format!("error {why}"));
            return ExitCode::FAILURE;
        }
    };
    for (what, function) in [
        ("core", c"openblas_get_corename"),
        ("config", c"openblas_get_config"),
    ] {
        if let Some(text) = library.says(function) {
            say(&format!("{what} {text}"));
        }
    }
    library.probe();
    let mut checked = 0;
    for (routines, wrong) in [(ROUTINES, "wrong"), (EXTENSIONS, "extension")] {
        for (name, letters, check) in routines {
            for dtype in Dtype::ALL
                .into_iter()
                .filter(|d| letters.contains(d.letter()))
            {
                let name = name.replace('*', &dtype.letter().to_string());
                say(&format!("try {name}"));
                let Some(routine) = library.routine(&name) else {
                    // A library that lacks some of the extensions is as it should be.
                    if wrong == "wrong" {
                        say(&format!("absent {name}"));
                    }
                    continue;
                };
                let draw = Draw::new();
                let tried = check(&mut Trial {
                    routine,
                    dtype,
                    draw,
                });
                checked += 1;
                if let Err(Wrong(what)) = tried {
                    let file = library.elsewhere(&name);
                    let of = file.map_or_else(String::new, |file| format!(", of {file}"));
                    say(&format!("{wrong} {name} {what}{of}"));
                }
            }
        }
    }
    say(&format!("done {checked}"));
    ExitCode::SUCCESS
}
