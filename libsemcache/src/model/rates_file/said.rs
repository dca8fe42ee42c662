//! What a file of rates says of the machine that it was measured on, and whether that is this machine.

use toml::de::DeValue;

/// What the table `machine` of a file says, as far as the library reads it. A text with a control character counts as
/// missing, so that all of these can be printed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Said {
    /// The names of the GPUs, as [`gpus`] makes one text of them.
    pub gpu: Option<String>,
    /// How many GPUs there were.
    pub gpus: Option<usize>,
    /// The model of the processor.
    pub cpu: Option<String>,
    /// The day of the measurement.
    pub measured: Option<String>,
    /// How many threads the host BLAS had.
    pub threads: Option<usize>,
}

impl Said {
    /// Reads the table.
    pub(super) fn read(machine: Option<&DeValue<'_>>) -> Said {
        let value = |name: &str| match machine {
            Some(DeValue::Table(table)) => table.get(name).map(|v| v.get_ref()),
            _ => None,
        };
        let text = |name: &str| match value(name) {
            Some(DeValue::String(text)) if !text.contains(char::is_control) => {
                Some(text.clone().into_owned())
            }
            _ => None,
        };
        let count = |name: &str| match value(name) {
            Some(DeValue::Integer(n)) if n.radix() == 10 => n.as_str().parse().ok(),
            _ => None,
        };
        Said {
            gpu: text("gpu"),
            gpus: count("gpus"),
            cpu: text("cpu"),
            measured: text("measured"),
            threads: count("threads"),
        }
    }

    /// Why the file is not of a machine with these GPUs and this processor, as the end of the sentence "PATH ...".
    #[must_use]
    pub fn foreign(&self, gpu: &str, cpu: &str) -> Option<String> {
        let differs = |what: &str, said: &Option<String>, here: &str| match said {
            Some(said) if said == here => None,
            Some(said) => Some(format!(
                "was measured with the {what} \"{said}\", and this machine has \"{here}\""
            )),
            None => Some(format!("does not say with which {what} it was measured")),
        };
        differs("GPU", &self.gpu, gpu).or_else(|| differs("processor", &self.cpu, cpu))
    }
}

/// One text for the names of all GPUs in use: each name once, in the order of the GPUs.
#[must_use]
pub fn gpus<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut each: Vec<&str> = Vec::new();
    for name in names {
        if !each.contains(&name) {
            each.push(name);
        }
    }
    each.join(" + ")
}

/// The name of the file that `semcache calibrate` writes for a machine with these GPUs, in the form of [`gpus`].
#[must_use]
pub fn file_name(gpu: &str) -> String {
    /// Names of files have at most 255 bytes.
    const LONGEST: usize = 100;
    let lower = gpu.to_ascii_lowercase();
    let lower = lower.strip_prefix("nvidia ").unwrap_or(&lower);
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut name = words.join("-");
    name.truncate(LONGEST);
    if name.is_empty() {
        name = "gpu".to_owned();
    }
    name + ".toml"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(gpu: &str, cpu: &str) -> Said {
        Said {
            gpu: Some(gpu.to_owned()),
            cpu: Some(cpu.to_owned()),
            ..Said::default()
        }
    }

    #[test]
    fn a_file_of_another_machine_says_why() {
        let (gpu, cpu) = ("NVIDIA H200", "Xeon");
        assert_eq!(said(gpu, cpu).foreign(gpu, cpu), None);
        for (said, why) in [
            (
                said("NVIDIA A2", cpu),
                "was measured with the GPU \"NVIDIA A2\"",
            ),
            (
                said(gpu, "EPYC"),
                "was measured with the processor \"EPYC\"",
            ),
            (
                Said::default(),
                "does not say with which GPU it was measured",
            ),
            (
                Said {
                    cpu: None,
                    ..said(gpu, cpu)
                },
                "does not say with which processor",
            ),
        ] {
            let found = said.foreign(gpu, cpu).expect(why);
            assert!(found.starts_with(why), "{found}");
        }
    }

    #[test]
    fn names_of_gpus_and_of_their_file() {
        assert_eq!(gpus(["A", "A"]), "A");
        assert_eq!(gpus(["B", "A", "B"]), "B + A");
        assert_eq!(gpus([]), "");
        for (gpu, name) in [
            ("NVIDIA H100 80GB HBM3", "h100-80gb-hbm3.toml"),
            ("B + A", "b-a.toml"),
            ("../../x", "x.toml"),
            ("", "gpu.toml"),
            ("\u{e4}\n", "gpu.toml"),
        ] {
            assert_eq!(file_name(gpu), name);
        }
        assert!(file_name(&"x".repeat(1000)).len() < 256);
    }
}
