//! `semcache env`: prints the environment variables, from the table that the library parses them by, and the machines that can
//! be simulated.

use std::borrow::Cow;
use std::process::ExitCode;

use semcache::base::config::{DEVICES, VARIABLES};
use semcache::topology::{NAMES, preset};
use serde::Serialize;

use crate::output::{Output, VERSION};

/// What programs are told by their environment.
#[derive(Serialize)]
struct Environment {
    version: u32,
    variables: Vec<Variable>,
    /// The machines that `sim:PRESET` names.
    presets: Vec<Preset>,
}

#[derive(Serialize)]
struct Variable {
    name: &'static str,
    doc: &'static str,
    /// The values that it accepts.
    values: &'static str,
    default: &'static str,
    /// The value now.
    value: Option<String>,
}

#[derive(Serialize)]
struct Preset {
    name: Cow<'static, str>,
    title: Cow<'static, str>,
}

pub(crate) fn env(output: &Output) -> Result<ExitCode, String> {
    let set = |name: &str| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
    output.print(&environment(&set), text)?;
    Ok(ExitCode::SUCCESS)
}

fn environment(lookup: &dyn Fn(&str) -> Option<String>) -> Environment {
    let variables = VARIABLES.iter().map(|v| Variable {
        name: v.name,
        doc: v.doc,
        values: v.values,
        default: v.default,
        value: lookup(v.name),
    });
    let presets = NAMES.into_iter().filter_map(preset).map(|machine| Preset {
        name: machine.name,
        title: machine.title,
    });
    Environment {
        version: VERSION,
        variables: variables.collect(),
        presets: presets.collect(),
    }
}

fn text(environment: &Environment) -> String {
    let mut out = String::new();
    for v in &environment.variables {
        out.push_str(v.name);
        if let Some(value) = &v.value {
            out.push_str(&format!(" = {}", value.escape_debug()));
        }
        out.push_str(&format!(
            "\n    {}\n    values   {}\n    default  {}\n",
            v.doc, v.values, v.default
        ));
        if v.name == DEVICES {
            for (i, preset) in environment.presets.iter().enumerate() {
                let word = if i == 0 { "presets" } else { "" };
                out.push_str(&format!(
                    "    {word:7}  {:9} {}\n",
                    preset.name, preset.title
                ));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_printed_with_its_value_now() {
        let set = |name: &str| (name == "SEMCACHE_TILE").then(|| "5\n12".into());
        let text = text(&environment(&set));
        for v in VARIABLES {
            assert!(text.contains(v.name) && text.contains(v.doc));
        }
        assert!(text.contains("SEMCACHE_TILE = 5\\n12\n"));
    }

    #[test]
    fn what_only_the_command_reads_is_printed_too() {
        let text = text(&environment(&|_| None));
        assert!(text.contains("\nSEMCACHE_LIB\n"), "{text}");
    }

    #[test]
    fn every_preset_is_printed_with_the_machine_that_it_models() {
        let text = text(&environment(&|_| None));
        let lines: Vec<&str> = text.lines().take(4 + NAMES.len()).collect();
        assert_eq!(lines[0], "SEMCACHE_DEVICES");
        assert_eq!(lines[4], "    presets  dgx1      DGX-1, 8 Tesla V100");
        for (line, name) in lines[4..].iter().zip(NAMES) {
            let mut words = line[13..].split_whitespace();
            assert_eq!(words.next(), Some(name));
            assert!(words.next().is_some(), "{line}");
        }
        assert_eq!(
            lines[16],
            "             h200x8    8 NVIDIA H200 behind NVSwitch"
        );
    }
}
