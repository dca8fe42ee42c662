//! `semcache machine`: the rates by which calls are predicted, and where each figure comes from.

use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use semcache::base::config::{Config, CudaSet, Devices, RatesFile};
use semcache::base::{DeviceId, Hardware};
use semcache::blas::offload_policy;
use semcache::device::api::Backend as _;
use semcache::device::cuda::{self, CudaError};
use semcache::model::first::{self, Gpu};
use semcache::model::rates::{HostRates, Rates};
use semcache::model::rates_file::{Given, file_name, gpus, listed};
use semcache::runtime::rates;
use serde::Serialize;

use crate::calibrate::{configuration, cores_and_threads, hooks};
use crate::output::{Output, VERSION};

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Which devices (SEMCACHE_DEVICES): cuda, cuda:0,2, sim:N, none
    #[arg(long, value_name = "WHICH")]
    devices: Option<String>,
    /// A file of rates, to show what it would give
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// All that is shown.
#[derive(Serialize)]
struct Shown {
    version: u32,
    /// A line about the devices.
    devices: String,
    /// A line about the file of rates, if there is something to say.
    file: Option<String>,
    figures: Vec<Figure>,
}

/// One of the rates.
#[derive(Serialize)]
struct Figure {
    /// Its key in a file of rates.
    key: &'static str,
    /// Of GPUs of several models, the number of the one that it holds for, from 1.
    model: Option<usize>,
    values: Vec<f64>,
    /// `None`: a plain number.
    unit: Option<&'static str>,
    /// Where it comes from.
    source: String,
}

/// The GPUs of this machine: their names, and what is known of them.
type Found = Vec<(String, Option<Hardware>)>;

/// A file of rates that is used, and how its figures are said to come from it.
struct File {
    given: Given,
    source: String,
}

/// Rates, and where those of their figures come from that an earlier stage has not.
struct Stage {
    rates: Rates,
    source: String,
    /// The same for figures of the host BLAS.
    of_host: String,
}

pub(crate) fn machine(options: &Options) -> Result<ExitCode, String> {
    let config = configuration(options.devices.as_deref())?;
    let (_, threads) = cores_and_threads();
    let host = offload_policy::host_rates(threads);
    let (gpus_here, devices) = find(&config);
    let (file, about_file) = match &options.file {
        Some(path) => {
            let path = path.display().to_string();
            (Some(named(&path)?), None)
        }
        None => in_use(&config, &gpus_here),
    };
    let stages = stages(&config, &gpus_here, host, threads, file.as_ref());
    let shown = Shown {
        version: VERSION,
        devices,
        file: about_file,
        figures: figures(&stages, file.as_ref()),
    };
    options.output.print(&shown, |shown| {
        let about = [Some(&shown.devices), shown.file.as_ref()];
        let about: String = about
            .into_iter()
            .flatten()
            .map(|line| format!("{line}\n"))
            .collect();
        about + &table(&shown.figures)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The GPUs that the configuration names, and a line about the devices.
fn find(config: &Config) -> (Found, String) {
    let set = match &config.devices {
        Devices::Sim(_) => return (Vec::new(), "simulated devices".into()),
        Devices::None => {
            return (
                Vec::new(),
                "no devices are wanted (SEMCACHE_DEVICES)".into(),
            );
        }
        Devices::Auto => CudaSet::All,
        Devices::Cuda(set) => set.clone(),
    };
    let machine = match cuda::open(&set, config.memory, &hooks()) {
        Ok(machine) => machine,
        Err(CudaError::NoDriver) => {
            return (
                Vec::new(),
                "no GPU here: the figures of devices are those of GPUs without a table".into(),
            );
        }
        Err(error) => {
            return (
                Vec::new(),
                format!("no GPU can be used: {error}; semcache doctor says more"),
            );
        }
    };
    let failure = machine.bring_up().err();
    let found: Found = machine
        .devices()
        .iter()
        .enumerate()
        .map(|(i, caps)| {
            let up = i < machine.usable();
            let hardware = up.then(|| machine.hardware(DeviceId::at(i))).flatten();
            (caps.name.clone(), hardware)
        })
        .collect();
    let names = gpus(found.iter().map(|(name, _)| name.as_str()));
    let about = format!("{} GPUs: {names}", found.len());
    match failure {
        Some(why) => (found, format!("{about}; not all come up: {why}")),
        None => (found, about),
    }
}

/// The file that the user names.
fn named(path: &str) -> Result<File, String> {
    let given = rates::file(path).map_err(|why| format!("{} {why}", path.escape_debug()))?;
    let source = source(&given, path);
    Ok(File { given, source })
}

/// How figures of a file are said to come from it.
fn source(given: &Given, path: &str) -> String {
    match &given.said().measured {
        Some(day) => format!("measured {day} by semcache calibrate ({path})"),
        None => path.escape_debug().to_string(),
    }
}

/// The file by which a program on this machine is predicted; a line about it, if there is something to say.
fn in_use(config: &Config, here: &Found) -> (Option<File>, Option<String>) {
    match (&config.rates, &config.cache_folder) {
        (RatesFile::Off, _) => (
            None,
            Some("no file of rates is wanted (SEMCACHE_RATES)".into()),
        ),
        (RatesFile::Path(path), _) => match named(path) {
            Ok(file) => (Some(file), None),
            Err(why) => (None, Some(format!("{why}; the built-in rates hold"))),
        },
        (RatesFile::Calibrated, Some(folder)) if !here.is_empty() => {
            let gpu = gpus(here.iter().map(|(name, _)| name.as_str()));
            let path = format!("{folder}/{}", file_name(&gpu));
            match rates::measured(&path, (&gpu, here.len())) {
                Ok(Some(given)) => {
                    let source = source(&given, &path);
                    (Some(File { given, source }), None)
                }
                Ok(None) => (
                    None,
                    Some("not measured yet: semcache calibrate takes three to five minutes".into()),
                ),
                Err(why) => (
                    None,
                    Some(format!(
                        "{} {why}; semcache calibrate measures anew",
                        path.escape_debug()
                    )),
                ),
            }
        }
        _ => (None, None),
    }
}

/// The rates as they become known: by tables, by the driver's description, by what is timed when GPUs come up, by a file.
fn stages(
    config: &Config,
    here: &Found,
    host: HostRates,
    threads: usize,
    file: Option<&File>,
) -> Vec<Stage> {
    let mut stages = Vec::new();
    let mut add = |rates, source: String| {
        stages.push(Stage {
            rates,
            source,
            of_host: format!("table of the library (host BLAS with {threads} threads)"),
        });
    };
    if here.is_empty() {
        let said = file.and_then(|file| file.given.said().gpu.clone());
        match (&config.devices, said) {
            (Devices::Sim(_), _) => add(
                offload_policy::rates(config, None, host, None),
                "the machine that is modelled".into(),
            ),
            (_, said) => {
                let name = said.unwrap_or_default();
                add(Rates::by_name(&name, host), of_table(&name));
            }
        }
    } else {
        let known = |what: &dyn Fn(&Hardware) -> Hardware| {
            let gpus = here.iter().map(|(name, hardware)| Gpu {
                name,
                hardware: hardware.as_ref().map(what),
            });
            first::machine(&gpus.collect::<Vec<_>>(), host)
        };
        let names: Vec<Gpu<'_>> = here
            .iter()
            .map(|(name, _)| Gpu {
                name,
                hardware: None,
            })
            .collect();
        let name = &here[0].0;
        add(first::machine(&names, host), of_table(name));
        let described = known(&|hardware| Hardware {
            h2d_bytes_per_s: 0.0,
            d2h_bytes_per_s: 0.0,
            ..*hardware
        });
        add(described, "the driver's description".into());
        add(
            known(&|hardware| *hardware),
            "timed when the GPU came up".into(),
        );
    }
    if let (Some(file), Some(last)) = (file, stages.last()) {
        let rates = file.given.over(last.rates);
        stages.push(Stage {
            rates,
            source: file.source.clone(),
            of_host: file.source.clone(),
        });
    }
    stages
}

/// How figures of a table of the library are said to come from it.
fn of_table(name: &str) -> String {
    format!("table of the library ({})", Rates::table_of(name))
}

/// Where a figure comes from: the last stage that changed it, or the file, if it has the figure.
fn origin(stages: &[Stage], file: Option<&File>, kind: usize, at: usize, path: &str) -> String {
    if let Some(file) = file.filter(|file| file.given.has(path)) {
        return file.source.clone();
    }
    let values = |stage: &Stage| listed(&stage.rates, kind).swap_remove(at).1;
    let changed = stages
        .windows(2)
        .rev()
        .find(|pair| values(&pair[0]) != values(&pair[1]));
    let stage = changed.map(|pair| &pair[1]).or(stages.first());
    stage.map_or_else(String::new, |stage| {
        let of_host = path.starts_with("host.");
        if of_host {
            &stage.of_host
        } else {
            &stage.source
        }
        .clone()
    })
}

/// Every figure; for GPUs of several models, those of devices once for each.
fn figures(stages: &[Stage], file: Option<&File>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let Some(last) = stages.last() else {
        return figures;
    };
    let kinds = last.rates.kinds.each().len();
    for kind in 0..kinds {
        for (at, (key, values)) in listed(&last.rates, kind).into_iter().enumerate() {
            let of_device = key.starts_with("device.");
            if kind > 0 && !of_device {
                continue;
            }
            figures.push(Figure {
                key,
                model: (of_device && kinds > 1).then_some(kind + 1),
                values,
                unit: unit(key),
                source: origin(stages, file, kind, at, key),
            });
        }
    }
    figures
}

/// A row for each figure.
fn table(figures: &[Figure]) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    for figure in figures {
        let name = match figure.model {
            Some(model) => format!("{} (model {model})", figure.key),
            None => figure.key.to_owned(),
        };
        table.add_row([&name, &written(figure), &figure.source]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}

/// The values of a figure with their unit.
fn written(figure: &Figure) -> String {
    let each = figure.values.iter().map(|value| match figure.unit {
        Some(unit) => scaled(*value, unit),
        None => format!("{value:.3}"),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The unit of a figure; `None`: a plain number.
fn unit(key: &str) -> Option<&'static str> {
    match key.rsplit('.').next().unwrap_or(key) {
        "half_size" | "runs" | "bid_slowdown" => None,
        "peak_flops" | "gemm_flops" => Some("FLOP/s"),
        "cache_bytes" => Some("B"),
        "bytes_per_s" | "h2d_all" | "d2h_all" | "pin" => Some("B/s"),
        name if name.ends_with("bandwidth") => Some("B/s"),
        _ => Some("s"),
    }
}

/// A number with a unit and the prefix that leaves one to three digits before the point.
fn scaled(value: f64, unit: &str) -> String {
    const PREFIXES: [(f64, &str); 9] = [
        (1e15, "P"),
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
        (1.0, ""),
        (1e-3, "m"),
        (1e-6, "u"),
        (1e-9, "n"),
    ];
    let fits = PREFIXES.iter().find(|(size, _)| value >= *size);
    let (size, prefix) = fits.unwrap_or(&(1e-12, "p"));
    format!("{:.3} {prefix}{unit}", value / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units() {
        let figure = |key, values: &[f64]| Figure {
            key,
            model: None,
            values: values.to_vec(),
            unit: unit(key),
            source: String::new(),
        };
        for (key, value, text) in [
            ("device.h2d.latency_s", 7e-6, "7.000 us"),
            ("device.h2d.bytes_per_s", 55.4e9, "55.400 GB/s"),
            ("pin", 45e9, "45.000 GB/s"),
            ("device.gemm.d.peak_flops", 62.5e12, "62.500 TFLOP/s"),
            ("device.gemm.d.half_size", 16.0, "16.000"),
            ("host.cache_bytes", 64e6, "64.000 MB"),
            ("host.memory_bandwidth", 1e11, "100.000 GB/s"),
            ("task_s", 1e-12, "1.000 ps"),
        ] {
            assert_eq!(written(&figure(key, &[value])), text);
        }
        let two = figure("device.runs", &[0.5, 1.0]);
        assert_eq!(written(&two), "0.500, 1.000");
    }

    fn hardware() -> Hardware {
        Hardware {
            memory_bytes_per_s: 1e12,
            h2d_bytes_per_s: 12e9,
            ..Hardware::default()
        }
    }

    #[test]
    fn each_figure_says_where_it_comes_from() {
        let host = HostRates::of_cores(4);
        let here = vec![("NVIDIA H100 80GB HBM3".to_owned(), Some(hardware()))];
        let file = File {
            given: Given::parse("version = 1\ntask_s = 4e-6\nhost.call_s = 1e-6\n")
                .expect("a file"),
            source: "the file".into(),
        };
        let config = Config::default();
        let stages = stages(&config, &here, host, 4, Some(&file));
        let text = table(&figures(&stages, Some(&file)));
        let line = |path: &str| {
            let mut lines = text.lines();
            let line = lines.find(|line| line.split(' ').next() == Some(path));
            line.expect(path).to_owned()
        };
        // A figure of the file is the file's also where the table has the same value.
        assert!(line("task_s").ends_with("the file"), "{text}");
        assert!(line("host.call_s").ends_with("the file"));
        assert!(line("call_s").ends_with("table of the library (H100)"));
        assert!(
            line("host.half_size").ends_with("table of the library (host BLAS with 4 threads)")
        );
        assert!(line("device.memory_bandwidth").ends_with("the driver's description"));
        assert!(line("device.h2d.bytes_per_s").ends_with("timed when the GPU came up"));
        assert!(line("h2d_all").ends_with("timed when the GPU came up"));
        assert!(line("device.p2p.latency_s").ends_with("table of the library (H100)"));
        assert_eq!(text.lines().count(), 36);
        let mut two = here.clone();
        two.push(("NVIDIA A2".to_owned(), None));
        let stages = super::stages(&config, &two, host, 4, None);
        let text = table(&figures(&stages, None));
        assert!(text.contains("device.launch_s (model 2)"), "{text}");
    }
}
