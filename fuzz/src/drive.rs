//! Runs programs, each in a process of its own, under the preloaded library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::program::Program;
use crate::setting::Setting;

/// Set for OpenBLAS if the user has chosen no kernels: on processors with AVX512-BF16 version 0.3.21 takes the kernels
/// for Cooperlake, whose `scasum` is wrong from 9 elements on. `scripts/setting.sh` has the same rule.
fn kernels() -> Option<(&'static str, &'static str)> {
    const CHOICE: &str = "OPENBLAS_CORETYPE";
    let wrong = is_x86_feature_detected!("avx512bf16") && std::env::var_os(CHOICE).is_none();
    wrong.then_some((CHOICE, "Haswell"))
}

/// How a program is run.
#[derive(Clone, Debug)]
pub struct Runner {
    /// The program that plays: this crate's binary.
    pub player: PathBuf,
    /// The library to preload; without one, programs use the host BLAS directly.
    pub library: Option<PathBuf>,
    /// Time limit of one program.
    pub limit: Duration,
    /// Where reports and programs go.
    pub dir: PathBuf,
}

/// How one program ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Whether there was no difference.
    pub fine: bool,
    /// Whether it took longer than its limit.
    pub late: bool,
    /// Status or signal, and its output.
    pub said: String,
}

impl Runner {
    /// Plays a program. `report`: where the library's report goes.
    ///
    /// # Panics
    /// If no process can be started.
    #[must_use]
    pub fn run(&self, program: &Program, setting: &Setting, report: Option<&Path>) -> Ending {
        let mut command = Command::new(&self.player);
        command.arg("play").arg("-");
        command
            .env("OPENBLAS_NUM_THREADS", "1")
            .envs(kernels())
            .env("SEMCACHE_LOG", "error")
            .env("TMPDIR", &self.dir);
        if let Some(library) = &self.library {
            command
                .env("LD_PRELOAD", library)
                .envs(setting.0.iter().map(|(n, v)| (n, v)));
            if let Some(report) = report {
                command.env("SEMCACHE_REPORT", report);
            }
        }
        match testkit::run(&mut command, program.text().as_bytes(), self.limit) {
            Ok(output) => Ending {
                fine: output.status.success(),
                late: false,
                said: format!(
                    "{}\n{}",
                    output.status,
                    String::from_utf8_lossy(&output.stderr)
                ),
            },
            Err(state) => Ending {
                fine: false,
                late: true,
                said: format!("no end after {:?}\n{state}", self.limit),
            },
        }
    }

    /// Whether a program fails without the library, too: then the host BLAS is wrong, or this fuzzer.
    /// `OPENBLAS_CORETYPE` chooses OpenBLAS's kernels.
    #[must_use]
    pub fn fails_plainly(&self, program: &Program) -> bool {
        let plainly = Runner {
            library: None,
            ..self.clone()
        };
        let ending = plainly.run(program, &Setting(Vec::new()), None);
        !ending.fine && !ending.late
    }

    /// The command line that plays the program in a file again.
    #[must_use]
    pub fn again(&self, setting: &Setting, file: &Path) -> String {
        let preload = self
            .library
            .as_ref()
            .map_or(String::new(), |l| format!(" LD_PRELOAD={}", l.display()));
        let kernels = kernels().map_or(String::new(), |(name, value)| format!(" {name}={value}"));
        format!(
            "OPENBLAS_NUM_THREADS=1{kernels} {}{preload} {} play {}",
            setting.text(),
            self.player.display(),
            file.display()
        )
    }
}
