//! The settings of the stand-in, from environment variables.

use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;

/// The settings that the environment variables ask for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Settings {
    pub(crate) devices: usize,
    pub(crate) memory: usize,
    pub(crate) late: bool,
    pub(crate) poison: bool,
    pub(crate) seed: u64,
    /// Every call allocates from the process's heap.
    pub(crate) system: bool,
    /// How many libraries are loaded and unloaded while the driver, or a context, is initialised.
    pub(crate) loads: usize,
    /// How many files the driver has open.
    pub(crate) files: usize,
    /// Microseconds that the first call of each function takes which queues a kernel of cuBLAS: its code is loaded.
    pub(crate) code: u64,
    /// The bytes of each device that another process takes, from this process's Nth allocation on.
    pub(crate) taken: (usize, u64),
    pub(crate) fail: Option<Fail>,
    pub(crate) counts: Option<OsString>,
    /// The part of the settings that could not be understood; if there is one, `cuInit` fails.
    pub(crate) wrong: Option<String>,
}

/// An injected failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fail {
    /// The function; `None` for any.
    pub(crate) name: Option<String>,
    /// Which call, from 1.
    pub(crate) call: u64,
    /// From that call on, every call of every function fails.
    pub(crate) sticky: bool,
}

/// The settings of this process, read at the first call.
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let text = |name: &str| std::env::var_os(name).unwrap_or_default();
        parse(
            &text("SEMCACHE_STANDIN"),
            &text("SEMCACHE_STANDIN_FAIL"),
            std::env::var_os("SEMCACHE_STANDIN_COUNTS"),
        )
    })
}

fn parse(machine: &OsStr, fail: &OsStr, counts: Option<OsString>) -> Settings {
    let mut settings = Settings {
        devices: 1,
        memory: 2 << 30,
        late: false,
        poison: false,
        seed: 0,
        system: false,
        loads: 0,
        files: 0,
        code: 0,
        taken: (0, 0),
        fail: None,
        counts,
        wrong: None,
    };
    let machine = machine.to_string_lossy();
    for word in machine.split(',').filter(|w| !w.is_empty()) {
        if settings.word(word).is_none() {
            settings.wrong = Some(format!("SEMCACHE_STANDIN has {word}"));
        }
    }
    let fail = fail.to_string_lossy();
    if !fail.is_empty() {
        settings.fail = failure(&fail);
        if settings.fail.is_none() {
            settings.wrong = Some(format!("SEMCACHE_STANDIN_FAIL is {fail}"));
        }
    }
    settings
}

impl Settings {
    fn word(&mut self, word: &str) -> Option<()> {
        match word.split_once('=') {
            None if word == "late" => self.late = true,
            None if word == "poison" => self.poison = true,
            None if word == "system" => self.system = true,
            Some(("seed", n)) => self.seed = n.parse().ok()?,
            Some(("devices", n)) => self.devices = n.parse().ok()?,
            Some(("memory", n)) => self.memory = n.parse().ok()?,
            Some(("loads", n)) => self.loads = n.parse().ok()?,
            Some(("files", n)) => self.files = n.parse().ok()?,
            Some(("code", n)) => self.code = n.parse().ok()?,
            Some(("taken", what)) => {
                let (bytes, call) = what.split_once('@')?;
                self.taken = (bytes.parse().ok()?, call.parse().ok()?);
            }
            _ => return None,
        }
        Some(())
    }
}

fn failure(text: &str) -> Option<Fail> {
    let mut parts = text.split(':');
    let name = parts.next()?;
    let call = parts.next()?.parse().ok().filter(|n| *n > 0)?;
    let sticky = match parts.next() {
        None => false,
        Some("sticky") => true,
        Some(_) => return None,
    };
    let known = name == "any" || crate::table::NAMES.contains(&name);
    if !known || parts.next().is_some() {
        return None;
    }
    let name = (name != "any").then(|| name.to_owned());
    Some(Fail { name, call, sticky })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let s = parse(
            OsStr::new(
                "late,poison,seed=3,devices=2,memory=4096,loads=7,files=5,code=9,taken=2048@5",
            ),
            OsStr::new("cuMemAlloc_v2:4:sticky"),
            None,
        );
        assert!(s.late && s.poison && !s.system && s.wrong.is_none());
        assert_eq!((s.seed, s.devices, s.memory), (3, 2, 4096));
        assert_eq!((s.loads, s.files, s.code), (7, 5, 9));
        assert_eq!(s.taken, (2048, 5));
        let fail = s.fail.expect("a failure");
        assert_eq!(fail.name.as_deref(), Some("cuMemAlloc_v2"));
        assert!(fail.call == 4 && fail.sticky);
        assert_eq!(failure("any:1").expect("any").name, None);
    }

    #[test]
    fn nonsense_is_found() {
        for (machine, fail) in [
            ("fast", ""),
            ("devices=x", ""),
            ("", "cuInit"),
            ("", "cuInit:0"),
            ("", "cuNothing:1"),
            ("", "cuInit:1:often"),
        ] {
            let s = parse(OsStr::new(machine), OsStr::new(fail), None);
            assert!(s.wrong.is_some(), "{machine} {fail}");
        }
        assert_eq!(parse(OsStr::new(""), OsStr::new(""), None).wrong, None);
    }
}
