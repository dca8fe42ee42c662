//! Configuration: every `SEMCACHE_*` environment variable, with its name, the values it accepts, its default, and what
//! it does.
//!
//! Parsing is pure: the caller passes a function that looks variables up, and prints the warnings. A value that cannot
//! be understood is never fatal: the default is used, and the caller gets one warning line.

mod settings;
mod values;

use super::heuristics::Without;
pub use settings::{
    CudaSet, Devices, Fail, Gate, HostShare, Language, Memory, Offload, Peers, Pin, Ranks,
    RatesFile, Scheduler, Sim, SimMachine, Window,
};
use values::Bad;
pub use values::{parse_devices, parse_size};

/// One variable of the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    /// The variable's name in the environment.
    pub name: &'static str,
    /// The values that it accepts.
    pub values: &'static str,
    /// The value used if the variable is absent, empty or malformed.
    pub default: &'static str,
    /// What the variable does.
    pub doc: &'static str,
}

macro_rules! variables {
    ($($id:ident = $name:literal, $values:literal, $default:literal, $doc:literal;)*) => {
        $(
            #[doc = $doc]
            pub const $id: &str = $name;
        )*
        /// All variables, in the order in which `semcache env` prints them.
        pub const VARIABLES: &[Variable] = &[
            $(Variable { name: $name, values: $values, default: $default, doc: $doc },)*
        ];
    };
}

variables! {
    DEVICES = "SEMCACHE_DEVICES", "auto, none, cuda, cuda:0,2, sim:N, sim:PRESET, sim:PRESET:N", "auto",
        "Which devices to use; auto: all CUDA GPUs, else none; sim: simulated ones, N equal ones or those of a machine that is \
         modelled (PRESET), of which PRESET:N is the first N.";
    SIM = "SEMCACHE_SIM", "comma list: late, poison, virtual, hollow, seed=N, link=GB/s, slow=DEVICE:FACTOR, fail=refuse:N, fail=lost:N, fail=launches:N", "none",
        "How simulated devices behave: copies at the last permitted moment, invalid device memory \
         overwritten, the Nth operation refused or the device lost, every Nth kernel refused; virtual: the report has the \
         seconds of the modelled machine; hollow: nothing is moved or computed besides; slow: there, kernels of one device take \
         FACTOR times as long as the library predicts.";
    MEMORY = "SEMCACHE_MEMORY", "bytes per device (4GiB) or percent (50%)", "90%",
        "Device memory that this process may use.";
    OFFLOAD = "SEMCACHE_OFFLOAD", "auto, always, never", "auto",
        "auto predicts where a call is faster; always ignores prediction and floor; never runs all calls \
         on the host.";
    DISABLE = "SEMCACHE_DISABLE", "comma list of routine names", "none",
        "Routines that always run on the host, by plain name (dgemm).";
    TILE = "SEMCACHE_TILE", "auto, N", "auto",
        "Tile size in elements.";
    WINDOW = "SEMCACHE_WINDOW", "auto, off, N", "auto",
        "How many tasks of a call are queued ahead of each device, so that the rest can go to another device if one is \
         slower than predicted: all (off), or N. auto: three, where devices are unequal or differ from what is predicted.";
    SCHEDULER = "SEMCACHE_SCHEDULER", "planned, static, blasx, xkaapi", "planned",
        "Which device computes which tasks of a level-3 call: those of the plan, or, to compare with, what other libraries do \
         (docs/virtual-time.md).";
    GATE = "SEMCACHE_GATE", "auto, mprotect, wp-async, eager, mixed", "auto",
        "How accesses of the CPU are detected: by page protection (mprotect), also by write tracking of the kernel \
         (wp-async), or not at all (eager): each call writes its results back and uploads its inputs anew, or compares \
         them with what was uploaded. mixed, for tests: as auto, but each block is as with eager for eight calls, then protected for eight.";
    PANEL = "SEMCACHE_PANEL", "bytes, a multiple of the page", "2MiB",
        "Unit of page protection and write-back. With 4KiB small operands are protected, too.";
    OWN = "SEMCACHE_OWN", "bytes", "1MiB",
        "Allocations of at least this size are served by semcache; 0 leaves malloc alone.";
    HOST_BLAS = "SEMCACHE_HOST_BLAS", "path", "the caller's own, else libopenblas, libblas",
        "The library that runs what is not offloaded.";
    RANKS = "SEMCACHE_RANKS", "share, all", "share",
        "What the ranks of an MPI job (Slurm tasks, too) on one machine do with its devices: share them out by local \
         rank, or all use all.";
    PEERS = "SEMCACHE_PEERS", "auto, any, unranked, off", "auto",
        "From where a device gets bytes that the host has, too: from another device that has them if the link is faster \
         than the one to the host (auto), or if there is any (any), over the fastest of these links; from the first such \
         device whatever its link (unranked); or from the host (off).";
    PIN = "SEMCACHE_PIN", "auto, first, again, off", "auto",
        "When operands are page-locked: at their first use (first); when they are moved again, and the first time pass through \
         staging memory, by several threads (again); never (off). auto: again if that is faster, as with 16 cores or more.";
    HOST_SHARE = "SEMCACHE_HOST_SHARE", "auto, off, percent (25%)", "auto",
        "The share of a level-3 call on devices that the host BLAS computes meanwhile: what its rate tells, where the call \
         then ends sooner (auto), none (off), or this share of every such call.";
    JOINS = "SEMCACHE_JOINS", "on, off", "on",
        "Whether a device waits for bytes that are on their way to another device, and gets them from there, although the \
         host has them, too.";
    RATES = "SEMCACHE_RATES", "path, off", "what semcache calibrate wrote for this machine",
        "File with measured rates of this machine (docs/rates.md), by which calls are predicted instead of by the \
         built-in ones; off: no file (a file of that name is ./off).";
    REPORT = "SEMCACHE_REPORT", "path, - for a table on stderr", "none",
        "JSON report of all processes of the run at its end; with %p, which becomes the process id, each has one of its own.";
    SITES = "SEMCACHE_SITES", "native, python, r, octave", "native",
        "What a call site is in the report: an address in the program's code, or for calls with a decision the line of the \
         script in this language, for which each such call asks the interpreter (docs/report.md).";
    TRACE = "SEMCACHE_TRACE", "path", "none",
        "Trace of calls, copies, kernels and faults in Perfetto's format, written while the program runs; %p is \
         the process id. Without %p the main process writes PATH, others PATH.PID.";
    TRACE_LIMIT = "SEMCACHE_TRACE_LIMIT", "bytes", "1GiB",
        "Largest size of the trace; what has no room is counted in its summary.";
    WITHOUT = "SEMCACHE_WITHOUT", "comma list of heuristics (docs/heuristics.md)", "none",
        "What the library learns from earlier calls and does without, to measure what it is worth. No result depends on it.";
    LOG = "SEMCACHE_LOG", "error, warn, info, debug", "warn",
        "The least severe messages that appear on stderr.";
    LIB = "SEMCACHE_LIB", "path", "beside the command, else ../lib, ../lib/semcache",
        "The library that the command preloads, or the folder that has it. Read by the command only.";
}

/// Tells a process whether it is the main one: the id of the process that `semcache run` started, or of the first
/// process into which the library was preloaded. Set by semcache, not by users.
pub const MAIN_PID: &str = "SEMCACHE_MAIN_PID";

/// Where the processes of a run count: `PID:FD:RUN`, a descriptor in the table of a process, and the name of the run, followed by `+`
/// if that process is `semcache run`, which gathers the counts. Set by `semcache run`, or by the first process into which the library was preloaded with [`REPORT`]; not by users.
pub const COUNTERS: &str = "SEMCACHE_COUNTERS";

/// Path of the library by which a tool gets the annotations of NVTX: its name is NVTX's.
pub const NVTX_INJECTION: &str = "NVTX_INJECTION64_PATH";

/// The folder for files that can be made again, in which `semcache calibrate` keeps its file: its name is that of the XDG Base
/// Directory Specification. If it is not set, that folder is `.cache` in the user's folder.
pub const CACHE_HOME: &str = "XDG_CACHE_HOME";

/// The user's folder.
pub const USER_FOLDER: &str = "HOME";

/// Variables that semcache reads but that are not in the table for users.
const OTHER_NAMES: &[&str] = &[
    MAIN_PID,
    COUNTERS,
    "SEMCACHE_BLESS",
    "SEMCACHE_GPU",
    "SEMCACHE_STANDIN",
    "SEMCACHE_STANDIN_COUNTS",
    "SEMCACHE_STANDIN_FAIL",
];

/// The default of `SEMCACHE_PANEL`: one huge page.
pub const DEFAULT_PANEL: usize = 2 << 20;
/// The default of `SEMCACHE_TRACE_LIMIT`.
pub const DEFAULT_TRACE_LIMIT: usize = 1 << 30;
/// The default of `SEMCACHE_OWN`.
pub const DEFAULT_OWN: usize = 1 << 20;

/// The values of all variables.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// `SEMCACHE_DEVICES`
    pub devices: Devices,
    /// `SEMCACHE_SIM`
    pub sim: Sim,
    /// `SEMCACHE_MEMORY`
    pub memory: Memory,
    /// `SEMCACHE_OFFLOAD`
    pub offload: Offload,
    /// `SEMCACHE_DISABLE`: plain lower-case names, without `cblas_` and underscores.
    pub disable: Vec<String>,
    /// `SEMCACHE_TILE` in elements; `None`: chosen per call.
    pub tile: Option<usize>,
    /// `SEMCACHE_WINDOW`
    pub window: Window,
    /// `SEMCACHE_SCHEDULER`
    pub scheduler: Scheduler,
    /// `SEMCACHE_GATE`
    pub gate: Gate,
    /// `SEMCACHE_PANEL` in bytes, a multiple of the page.
    pub panel: usize,
    /// `SEMCACHE_OWN` in bytes; 0: semcache serves no allocation.
    pub own: usize,
    /// `SEMCACHE_HOST_BLAS`
    pub host_blas: Option<String>,
    /// `SEMCACHE_RANKS`
    pub ranks: Ranks,
    /// `SEMCACHE_PEERS`
    pub peers: Peers,
    /// `SEMCACHE_PIN`
    pub pin: Pin,
    /// `SEMCACHE_HOST_SHARE`
    pub host_share: HostShare,
    /// `SEMCACHE_JOINS`
    pub joins: bool,
    /// `SEMCACHE_RATES`
    pub rates: RatesFile,
    /// The folder with the file of `semcache calibrate`, by [`CACHE_HOME`] or [`USER_FOLDER`].
    pub cache_folder: Option<String>,
    /// `SEMCACHE_REPORT`: `-` or a path that may hold `%p`.
    pub report: Option<String>,
    /// `SEMCACHE_SITES`: the language of whose scripts lines are the call sites.
    pub sites: Option<Language>,
    /// `SEMCACHE_TRACE`: a path that may hold `%p`.
    pub trace: Option<String>,
    /// `SEMCACHE_TRACE_LIMIT` in bytes.
    pub trace_limit: usize,
    /// Whether a tool that takes NVTX's annotations is attached: [`NVTX_INJECTION`] is set.
    pub nvtx: bool,
    /// `SEMCACHE_WITHOUT`
    pub without: Without,
    /// `SEMCACHE_LOG`
    pub log: log::LevelFilter,
    /// [`MAIN_PID`], when an earlier process of this program set it.
    pub main_pid: Option<u32>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            devices: Devices::Auto,
            sim: Sim::default(),
            memory: Memory::Percent(90),
            offload: Offload::Auto,
            disable: Vec::new(),
            tile: None,
            window: Window::Auto,
            scheduler: Scheduler::Planned,
            gate: Gate::Auto,
            panel: DEFAULT_PANEL,
            own: DEFAULT_OWN,
            host_blas: None,
            ranks: Ranks::Share,
            peers: Peers::Auto,
            pin: Pin::Auto,
            host_share: HostShare::Auto,
            joins: true,
            rates: RatesFile::Calibrated,
            cache_folder: None,
            report: None,
            sites: None,
            trace: None,
            trace_limit: DEFAULT_TRACE_LIMIT,
            nvtx: false,
            without: Without::default(),
            log: log::LevelFilter::Warn,
            main_pid: None,
        }
    }
}

impl Config {
    /// Reads every variable through `lookup`; an empty value counts as absent. `page` is the page size of
    /// the machine. Returns the configuration and one ready-made line per value that was not understood.
    #[must_use]
    pub fn parse(lookup: &dyn Fn(&str) -> Option<String>, page: usize) -> (Config, Vec<String>) {
        let mut reader = Reader {
            lookup,
            warnings: Vec::new(),
        };
        let d = Config::default();
        let mut config = Config {
            devices: reader.read(DEVICES, d.devices, values::devices),
            sim: reader.read(SIM, d.sim, values::sim),
            memory: reader.read(MEMORY, d.memory, values::memory),
            offload: reader.read(OFFLOAD, d.offload, values::offload),
            disable: reader.read(DISABLE, d.disable, |v| Ok(values::routines(v))),
            tile: reader.read(TILE, d.tile, values::tile),
            window: reader.read(WINDOW, d.window, values::window),
            scheduler: reader.read(SCHEDULER, d.scheduler, values::scheduler),
            gate: reader.read(GATE, d.gate, values::gate),
            panel: reader.read(PANEL, d.panel, values::positive_size),
            own: reader.read(OWN, d.own, values::size),
            host_blas: reader.read(HOST_BLAS, d.host_blas, |v| Ok(Some(v.to_owned()))),
            ranks: reader.read(RANKS, d.ranks, values::ranks),
            peers: reader.read(PEERS, d.peers, values::peers),
            pin: reader.read(PIN, d.pin, values::pin),
            host_share: reader.read(HOST_SHARE, d.host_share, values::host_share),
            joins: reader.read(JOINS, d.joins, values::on_off),
            rates: reader.read(RATES, d.rates, values::rates),
            cache_folder: reader
                .read(CACHE_HOME, None, |v| Ok(values::folder(v, "semcache")))
                .or_else(|| {
                    reader.read(USER_FOLDER, None, |v| {
                        Ok(values::folder(v, ".cache/semcache"))
                    })
                }),
            report: reader.read(REPORT, d.report, |v| Ok(Some(v.to_owned()))),
            sites: reader.read(SITES, d.sites, values::sites),
            trace: reader.read(TRACE, d.trace, values::trace),
            trace_limit: reader.read(TRACE_LIMIT, d.trace_limit, values::positive_size),
            nvtx: reader.read(NVTX_INJECTION, d.nvtx, |_| Ok(true)),
            without: reader.read(WITHOUT, d.without, values::without),
            log: reader.read(LOG, d.log, values::level),
            main_pid: reader.read(MAIN_PID, d.main_pid, |v| {
                v.parse().map(Some).map_err(|_| Bad("is not a process id"))
            }),
        };
        let mut warnings = reader.warnings;
        let page = page.max(1);
        if !config.panel.is_multiple_of(page) {
            let asked = config.panel;
            config.panel = asked
                .checked_next_multiple_of(page)
                .unwrap_or(DEFAULT_PANEL.next_multiple_of(page));
            warnings.push(format!(
                "semcache: {PANEL}={asked} is not a multiple of the page ({page} bytes); using {}",
                config.panel
            ));
        }
        (config, warnings)
    }

    /// Drops every path that came from the environment. For processes that run with more rights than the user who set
    /// the environment (`AT_SECURE`).
    pub fn distrust_paths(&mut self) {
        self.host_blas = None;
        self.rates = RatesFile::Calibrated;
        self.cache_folder = None;
        self.report = None;
        self.trace = None;
        self.nvtx = false;
    }

    /// Whether `SEMCACHE_DISABLE` names this plain routine name.
    #[must_use]
    pub fn is_disabled(&self, routine: &str) -> bool {
        self.disable.iter().any(|d| d == routine)
    }
}

/// One warning line for each name in `present` that starts with `SEMCACHE_` and that semcache does not know.
pub fn unknown_names<'a>(present: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    present
        .into_iter()
        .filter(|n| n.starts_with("SEMCACHE_"))
        .filter(|n| !OTHER_NAMES.contains(n) && !VARIABLES.iter().any(|v| v.name == *n))
        .map(|n| {
            format!("semcache: {n} is not a variable of semcache; ignored (see `semcache env`)")
        })
        .collect()
}

struct Reader<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    fn read<T>(&mut self, name: &str, default: T, parse: impl FnOnce(&str) -> Result<T, Bad>) -> T {
        let Some(text) = (self.lookup)(name) else {
            return default;
        };
        if text.trim().is_empty() {
            return default;
        }
        match parse(text.trim()) {
            Ok(value) => value,
            Err(why) => {
                let text: String = text
                    .chars()
                    .map(|c| if c.is_control() { '?' } else { c })
                    .collect();
                let table = VARIABLES.iter().find(|v| v.name == name);
                self.warnings.push(format!(
                    "semcache: {name}={text} {why}; using {}",
                    table.map_or("none", |v| v.default)
                ));
                default
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> (Config, Vec<String>) {
        let pairs: Vec<(String, String)> = pairs
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        Config::parse(
            &|name| {
                pairs
                    .iter()
                    .find(|(n, _)| n == name)
                    .map(|(_, v)| v.clone())
            },
            4096,
        )
    }

    #[test]
    fn nothing_set_gives_the_defaults_without_a_word() {
        assert_eq!(with(&[]), (Config::default(), vec![]));
        let empty: Vec<(&str, &str)> = VARIABLES.iter().map(|v| (v.name, " ")).collect();
        assert_eq!(with(&empty), (Config::default(), vec![]));
    }

    #[test]
    fn every_malformed_value_costs_one_line_and_the_default_holds() {
        for (name, value, line) in [
            (
                TILE,
                "abc",
                "semcache: SEMCACHE_TILE=abc is not a number; using auto",
            ),
            (
                TILE,
                "0",
                "semcache: SEMCACHE_TILE=0 must be above zero; using auto",
            ),
            (
                OFFLOAD,
                "yes",
                "semcache: SEMCACHE_OFFLOAD=yes is not one of auto, always, never; using auto",
            ),
            (
                MEMORY,
                "101%",
                "semcache: SEMCACHE_MEMORY=101% is not a percentage from 1 to 100; using 90%",
            ),
            (
                PANEL,
                "0",
                "semcache: SEMCACHE_PANEL=0 must be above zero; using 2MiB",
            ),
            (
                LOG,
                "lo\nud",
                "semcache: SEMCACHE_LOG=lo?ud is not one of error, warn, info, debug; using warn",
            ),
        ] {
            let (config, warnings) = with(&[(name, value)]);
            assert_eq!(config, Config::default(), "{name}={value}");
            assert_eq!(warnings, [line]);
        }
        for (name, value) in [
            (DEVICES, "gpu"),
            (DEVICES, "sim:0"),
            (DEVICES, "sim:65"),
            (DEVICES, "sim:"),
            (DEVICES, "sim:2x"),
            (DEVICES, "cuda:"),
            (DEVICES, "cuda:0,,1"),
            (DEVICES, "auto:1"),
            (SIM, "fast"),
            (SIM, "fail=refuse:0"),
            (SIM, "fail=launches:0"),
            (SIM, "fail=often"),
            (SIM, "link=0"),
            (SIM, "link=nan"),
            (SIM, "late,seed=x"),
            (MEMORY, "0"),
            (MEMORY, "-1"),
            (MEMORY, "4XiB"),
            (MEMORY, "99999999999999999999"),
            (MEMORY, "18446744073709551615KiB"),
            (GATE, "none"),
            (OWN, "1.5MiB"),
            (TILE, "-64"),
            (HOST_SHARE, "0%"),
            (HOST_SHARE, "100%"),
            (HOST_SHARE, "25"),
            (WITHOUT, "replay,luck"),
            (TRACE, "-"),
            (SITES, "perl"),
            (TRACE_LIMIT, "0"),
            (MAIN_PID, "me"),
        ] {
            let (config, warnings) = with(&[(name, value)]);
            assert_eq!(config, Config::default(), "{name}={value}");
            assert_eq!(warnings.len(), 1, "{name}={value}: {warnings:?}");
            assert!(!warnings[0].contains('\n'));
        }
    }

    #[test]
    fn devices_in_every_form() {
        for (text, devices) in [
            ("auto", Devices::Auto),
            ("none", Devices::None),
            ("cuda", Devices::Cuda(CudaSet::All)),
            ("cuda:2,0,2", Devices::Cuda(CudaSet::List(vec![2, 0]))),
            ("sim:1", Devices::Sim(SimMachine::Count(1))),
            ("sim:64", Devices::Sim(SimMachine::Count(64))),
            (
                "sim:dgx-1",
                Devices::Sim(SimMachine::Preset("dgx-1".into())),
            ),
        ] {
            let (config, warnings) = with(&[(DEVICES, text)]);
            assert_eq!((config.devices, warnings), (devices, vec![]), "{text}");
        }
    }

    #[test]
    fn sim_modes_combine() {
        let (config, warnings) = with(&[(
            SIM,
            "late, poison,hollow,seed=7,link=12.5,slow=2:1.5,fail=lost:3",
        )]);
        assert!(warnings.is_empty());
        assert_eq!(
            config.sim,
            Sim {
                late: true,
                poison: true,
                seed: 7,
                link_gbs: Some(12.5),
                fail: Some(Fail::Lost(3)),
                slow: Some((2, 1.5)),
                virtual_time: true,
                hollow: true,
            }
        );
    }

    #[test]
    fn sizes() {
        use values::parse_size;

        for (text, bytes) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("4KiB", Some(4096)),
            ("4 kib", Some(4096)),
            ("2MiB", Some(2 << 20)),
            ("4GiB", Some(4 << 30)),
            ("1TiB", Some(1 << 40)),
            ("4KB", Some(4000)),
            ("4k", Some(4096)),
            ("12B", Some(12)),
            ("", None),
            ("KiB", None),
            ("+4", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn memory_is_capped_by_the_device() {
        assert_eq!(Memory::Bytes(10).of(100, 3), 10);
        assert_eq!(Memory::Bytes(1000).of(100, 1), 100);
        assert_eq!(
            Memory::Percent(90).of(usize::MAX, 1),
            usize::MAX / 100 * 90 + usize::MAX % 100 * 90 / 100
        );
        assert_eq!(Memory::Percent(100).of(1234, 1), 1234);
        assert_eq!(Memory::Percent(50).of(1000, 4), 125);
    }

    #[test]
    fn a_panel_is_rounded_up_to_pages_with_a_line() {
        let (config, warnings) = with(&[(PANEL, "5000")]);
        assert_eq!(config.panel, 8192);
        assert_eq!(
            warnings,
            [
                "semcache: SEMCACHE_PANEL=5000 is not a multiple of the page (4096 bytes); using 8192"
            ]
        );
        let (config, warnings) = Config::parse(&|n| (n == PANEL).then(|| "4KiB".into()), 65536);
        assert_eq!((config.panel, warnings.len()), (65536, 1));
        let (config, warnings) = with(&[(PANEL, "18446744073709551615")]);
        assert_eq!((config.panel, warnings.len()), (DEFAULT_PANEL, 1));
    }

    #[test]
    fn disabled_names_are_plain() {
        let (config, _) = with(&[(DISABLE, "DGEMM_, cblas_sgemv,,none")]);
        assert_eq!(config.disable, ["dgemm", "sgemv"]);
        assert!(config.is_disabled("dgemm") && !config.is_disabled("gemm"));
    }

    #[test]
    fn the_folder_of_rates() {
        for (pairs, folder) in [
            (&[][..], None),
            (&[(CACHE_HOME, "/c/")], Some("/c/semcache")),
            (&[(USER_FOLDER, "/h")], Some("/h/.cache/semcache")),
            (&[(USER_FOLDER, "/")], Some("/.cache/semcache")),
            (
                &[(CACHE_HOME, "/c"), (USER_FOLDER, "/h")],
                Some("/c/semcache"),
            ),
            (
                &[(CACHE_HOME, "c"), (USER_FOLDER, "/h")],
                Some("/h/.cache/semcache"),
            ),
            (&[(CACHE_HOME, ""), (USER_FOLDER, "h")], None),
        ] {
            let (config, warnings) = with(pairs);
            assert_eq!(config.cache_folder.as_deref(), folder, "{pairs:?}");
            assert!(warnings.is_empty(), "{warnings:?}");
        }
        let rates = |value| with(&[(RATES, value)]).0.rates;
        assert_eq!(rates("off"), RatesFile::Off);
        assert_eq!(rates("./off"), RatesFile::Path("./off".into()));
    }

    #[test]
    fn unknown_names_are_named() {
        let lines = unknown_names(["SEMCACHE_DEVICE", "PATH", "SEMCACHE_TILE", MAIN_PID, LIB]);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("SEMCACHE_DEVICE "));
    }

    #[test]
    fn untrusted_paths_are_forgotten() {
        let (mut config, _) = with(&[
            (REPORT, "/x"),
            (TRACE, "/y"),
            (HOST_BLAS, "/z"),
            (RATES, "/r"),
            (CACHE_HOME, "/c"),
            (USER_FOLDER, "/h"),
            (NVTX_INJECTION, "/tool.so"),
            (TILE, "8"),
        ]);
        config.distrust_paths();
        assert_eq!(
            config,
            Config {
                tile: Some(8),
                ..Config::default()
            }
        );
    }

    #[test]
    fn the_table_is_complete_and_consistent() {
        for (i, v) in VARIABLES.iter().enumerate() {
            assert!(v.name.starts_with("SEMCACHE_") && !v.doc.is_empty() && !v.values.is_empty());
            assert!(VARIABLES[..i].iter().all(|w| w.name != v.name));
        }
        assert_eq!(VARIABLES.len(), 25);
    }
}
