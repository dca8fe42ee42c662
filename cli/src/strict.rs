//! What a run demands: that there are devices, and that no call runs on the host for certain reasons.

use semcache::base::config::{self, Config, Devices, parse_devices};
use semcache::base::counters::WhyHost;
use semcache::device::cuda;
use semcache::runtime::report::Report;
use semcache::topology::check_devices;

use crate::calibrate::hooks;

/// The exit status of a run whose demands are not met: EX_UNAVAILABLE of sysexits.h.
pub(crate) const UNMET: u8 = 69;

#[derive(clap::Args, Debug)]
pub(crate) struct Demands {
    /// End with status 69 before the program starts if there is no device to use, and after it if none was used although it made
    /// BLAS calls that need one
    #[arg(long)]
    require_devices: bool,
    /// End with status 69 after the program if a call ran on the host for one of these reasons (semcache report --keys lists
    /// them), or for any but small calls with no reason named
    #[arg(
        long,
        value_name = "REASONS",
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    fail_on_host: Option<Vec<String>>,
}

/// The devices that are asked for, by the option or the environment; checked, since the library would warn and compute on the host.
pub(crate) fn devices(option: Option<&str>) -> Result<String, String> {
    let text = match option {
        Some(text) => text.to_owned(),
        None => std::env::var(config::DEVICES).unwrap_or_default(),
    };
    let from = if option.is_some() {
        "--devices "
    } else {
        "SEMCACHE_DEVICES="
    };
    check_devices(&text).map_err(|why| format!("{from}{why}"))?;
    Ok(text)
}

impl Demands {
    /// Checks, before the program starts, the reasons and that there are devices. The second error is that of a demand.
    ///
    /// # Errors
    /// What is wrong, and whether it is a demand that is not met.
    pub(crate) fn before(&self, devices: &str) -> Result<(), (String, bool)> {
        for name in self.fail_on_host.iter().flatten().filter(|n| !n.is_empty()) {
            if WhyHost::named(name).is_none() {
                let all: Vec<&str> = WhyHost::ALL.iter().map(|why| why.name()).collect();
                let told = format!(
                    "--fail-on-host: {} is no reason; they are {}",
                    name.escape_debug(),
                    all.join(", ")
                );
                return Err((told, false));
            }
        }
        match self.require_devices.then(|| lacking(devices)).flatten() {
            None => Ok(()),
            Some(why) => Err((format!("no device: {why} (--require-devices)"), true)),
        }
    }

    /// Which demand the run did not meet.
    pub(crate) fn after(&self, report: &Report) -> Option<String> {
        let sum = &report.sum;
        let large = |why: &str| why != WhyHost::Small.name();
        let host = || sum.calls.values().flat_map(|c| &c.why_host);
        if self.require_devices && sum.devices.is_empty() && host().any(|(why, _)| large(why)) {
            return Some("no device was used (--require-devices)".to_owned());
        }
        let reasons = self.fail_on_host.as_ref()?;
        let any = reasons.iter().all(String::is_empty);
        let forbidden = |why: &str| {
            if any {
                large(why)
            } else {
                reasons.iter().any(|r| r == why)
            }
        };
        let mut found: Vec<String> = Vec::new();
        for (name, calls) in &sum.calls {
            let why = calls.why_host.iter().filter(|(why, _)| forbidden(why));
            found.extend(why.map(|(why, n)| format!("{name} {why} {n}")));
        }
        (!found.is_empty()).then(|| {
            format!(
                "calls ran on the host: {} (--fail-on-host)",
                found.join(", ")
            )
        })
    }
}

/// Why the devices that are asked for cannot be used, if they cannot.
fn lacking(devices: &str) -> Option<String> {
    let wanted = match devices.trim() {
        "" => Config::default().devices,
        text => parse_devices(text).ok()?,
    };
    let set = match wanted {
        Devices::None => return Some("none is asked for".to_owned()),
        Devices::Sim(_) => return None,
        Devices::Auto => config::CudaSet::All,
        Devices::Cuda(set) => set,
    };
    let opened = cuda::open(&set, Config::default().memory, &hooks());
    opened
        .and_then(|machine| machine.bring_up())
        .err()
        .map(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use semcache::runtime::report::{Did, Process};

    use super::*;

    fn demands(require_devices: bool, reasons: Option<&[&str]>) -> Demands {
        Demands {
            require_devices,
            fail_on_host: reasons.map(|all| all.iter().map(|r| (*r).to_owned()).collect()),
        }
    }

    fn report(text: &str) -> Report {
        let did: Did = serde_json::from_str(text).expect("what a process did");
        let mut report = Report::new("run");
        report.add_process(Process {
            pid: 1,
            processes: 1,
            did,
            ..Process::default()
        });
        report
    }

    #[test]
    fn reasons_are_checked_and_found() {
        let calls = r#"{"calls":{"dgemm":{"host":5,"why_host":{"small":3,"starting":2}}}}"#;
        let after = |reasons: &[&str]| demands(false, Some(reasons)).after(&report(calls));
        assert_eq!(after(&["aliased"]), None);
        assert_eq!(
            after(&["aliased", "starting"]),
            Some("calls ran on the host: dgemm starting 2 (--fail-on-host)".to_owned())
        );
        assert_eq!(
            after(&[""]),
            Some("calls ran on the host: dgemm starting 2 (--fail-on-host)".to_owned())
        );
        assert!(after(&["small"]).is_some());
        assert_eq!(demands(false, None).after(&report(calls)), None);
        let before = |reasons: &[&str]| demands(false, Some(reasons)).before("");
        assert_eq!(before(&["small", "starting"]), Ok(()));
        assert!(
            before(&["small", "smal"])
                .is_err_and(|(told, unmet)| told.contains("smal is no reason") && !unmet)
        );
    }

    #[test]
    fn devices_are_demanded() {
        assert_eq!(demands(true, None).before("sim:2"), Ok(()));
        assert!(
            demands(true, None)
                .before("none")
                .is_err_and(|(_, unmet)| unmet)
        );
        let after = |text| demands(true, None).after(&report(text));
        assert!(after(r#"{"calls":{"dgemm":{"host":5,"why_host":{"no_device":5}}}}"#).is_some());
        assert_eq!(
            after(r#"{"calls":{"dgemm":{"host":5,"why_host":{"small":5}}}}"#),
            None
        );
        assert_eq!(
            after(
                r#"{"devices":[{"name":"sim0"}],"calls":{"dgemm":{"host":5,"why_host":{"no_device":5}}}}"#
            ),
            None
        );
    }
}
