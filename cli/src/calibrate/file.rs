//! The file that a calibration writes: docs/rates.md has its format.

use std::fs::DirBuilder;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use semcache::model::rates_file::{VERSION, allowed};
use tempfile::NamedTempFile;

use super::figures::Figures;

/// What the file says of the machine and of the measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct About {
    pub(super) gpu: String,
    pub(super) gpus: usize,
    pub(super) driver: String,
    pub(super) cpu: String,
    pub(super) cores: usize,
    /// Threads of the host BLAS.
    pub(super) threads: usize,
    /// The day.
    pub(super) measured: String,
    pub(super) command: String,
    /// The measurements whose interval did not become narrow.
    pub(super) unsettled: Vec<String>,
}

/// The text of the file. Figures that the library would not take are left out.
pub(super) fn text(figures: &Figures, about: &About) -> String {
    let mut text = format!(
        "# Rates of one machine, by semcache calibrate: docs/rates.md says what each figure is.\nversion = {VERSION}\n"
    );
    let usable = figures
        .iter()
        .filter(|(path, values)| allowed(path, values));
    let mut sections: Vec<(&str, String)> = Vec::new();
    for (path, values) in usable {
        let (section, key) = path.rsplit_once('.').unwrap_or(("", path));
        let line = format!("{key} = {}\n", written(path, values));
        match sections.iter_mut().find(|(name, _)| *name == section) {
            Some((_, lines)) => lines.push_str(&line),
            None => sections.push((section, line)),
        }
    }
    // Keys without a section come before all sections.
    let lines = sections.iter().filter(|(name, _)| name.is_empty());
    lines.for_each(|(_, lines)| text += lines);
    text += &machine(about);
    for (name, lines) in sections.iter().filter(|(name, _)| !name.is_empty()) {
        text += &format!("\n[{name}]\n{lines}");
    }
    text
}

fn machine(about: &About) -> String {
    let unsettled: Vec<String> = about.unsettled.iter().map(|name| quoted(name)).collect();
    format!(
        "\n[machine]\ngpu = {}\ngpus = {}\ndriver = {}\ncpu = {}\ncores = {}\nthreads = {}\nmeasured = {}\ncommand = {}\n\
         unsettled = [{}]\n",
        quoted(&about.gpu),
        about.gpus,
        quoted(&about.driver),
        quoted(&about.cpu),
        about.cores,
        about.threads,
        quoted(&about.measured),
        quoted(&about.command),
        unsettled.join(", ")
    )
}

/// A text in quotes. The format has no inline tables, and a brace anywhere counts as one.
fn quoted(text: &str) -> String {
    let plain = text.replace(|c: char| c.is_control() || matches!(c, '{' | '}'), "?");
    format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A number, or a list of numbers.
fn written(path: &str, values: &[f64]) -> String {
    const LISTS: [&str; 5] = [
        "h2d_all",
        "d2h_all",
        "pin",
        "device.runs",
        "host.gemm_flops",
    ];
    let each: Vec<String> = values.iter().copied().map(number).collect();
    if LISTS.contains(&path) {
        format!("[{}]", each.join(", "))
    } else {
        each.join("")
    }
}

/// A number with five digits.
fn number(value: f64) -> String {
    let text = format!("{value:.4e}");
    match text.parse::<f64>() {
        Ok(value) if (1e-3..1e6).contains(&value) => value.to_string(),
        Ok(value) => format!("{value:e}"),
        Err(_) => text,
    }
}

/// A file that does not have its name yet.
pub(super) struct Unnamed {
    file: NamedTempFile,
    path: PathBuf,
}

/// Makes the file in its folder, before anything is measured: the folder may be missing or not writable.
pub(super) fn begin(path: &Path) -> Result<Unnamed, String> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if path.is_dir() || path.file_name().is_none() {
        return Err(format!("{} is a folder", path.display()));
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|e| format!("cannot make the folder {}: {e}", folder.display()))?;
    let file = tempfile::Builder::new()
        .prefix(".rates-")
        .tempfile_in(folder);
    Ok(Unnamed {
        file: file.map_err(|e| format!("cannot write to {}: {e}", folder.display()))?,
        path: path.to_owned(),
    })
}

impl Unnamed {
    /// Writes the text, and gives the file its name in place of a file, or a link, that has the name.
    pub(super) fn write(mut self, text: &str) -> Result<PathBuf, String> {
        let failed = |e: std::io::Error| format!("cannot write {}: {e}", self.path.display());
        self.file.write_all(text.as_bytes()).map_err(failed)?;
        self.file.as_file().sync_all().map_err(failed)?;
        let persisted = self.file.persist(&self.path);
        persisted.map_err(|e| format!("cannot write {}: {}", self.path.display(), e.error))?;
        Ok(self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use semcache::model::rates::{HostRates, Rates};
    use semcache::model::rates_file::{Given, listed};

    use super::*;

    fn about() -> About {
        About {
            gpu: "NVIDIA H100 80GB HBM3".into(),
            gpus: 2,
            driver: "580.1".into(),
            cpu: "A \"processor\" \\ {x}\n".into(),
            cores: 8,
            threads: 4,
            measured: "2026-01-02".into(),
            command: "semcache calibrate".into(),
            unsettled: vec!["h2d, bytes: 4".into()],
        }
    }

    #[test]
    fn every_figure_is_read_again() {
        let rates = Rates::h100(HostRates::of_cores(8));
        let figures: Figures = listed(&rates, 0)
            .into_iter()
            .map(|(path, values)| (path.to_owned(), values))
            .collect();
        let given = Given::parse(&text(&figures, &about())).expect("a good file");
        let other = given.over(Rates::generic(HostRates::of_cores(1)));
        for ((path, ours), (_, read)) in listed(&rates, 0).iter().zip(listed(&other, 0)) {
            assert!(given.has(path), "{path}");
            for (a, b) in ours.iter().zip(read) {
                assert!((a / b - 1.0).abs() < 1e-3, "{path}: {a} {b}");
            }
        }
        let said = given.said();
        assert_eq!(said.gpu.as_deref(), Some("NVIDIA H100 80GB HBM3"));
        assert_eq!(said.cpu.as_deref(), Some("A \"processor\" \\ ?x??"));
        assert_eq!(said.threads, Some(4));
    }

    #[test]
    fn impossible_figures_are_left_out() {
        let figures: Figures = [
            ("device.launch_s", vec![0.0]),
            ("device.exec_s", vec![f64::NAN]),
            ("pin", vec![]),
            ("device.stream_s", vec![1e-6]),
        ]
        .map(|(path, values)| (path.to_owned(), values))
        .to_vec();
        let text = text(&figures, &about());
        let given = Given::parse(&text).expect("a good file");
        assert!(given.has("device.stream_s"), "{text}");
        assert!(!given.has("device.launch_s") && !given.has("device.exec_s") && !given.has("pin"));
    }

    #[test]
    fn the_file_replaces_a_link_and_is_the_users_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let (place, other) = (folder.path().join("new"), folder.path().join("other"));
        let path = place.join("a.toml");
        begin(&path)
            .and_then(|file| file.write("one"))
            .expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!((mode(&place), mode(&path)), (0o700, 0o600));
        fs::write(&other, "kept").expect("written");
        fs::remove_file(&path).expect("removed");
        symlink(&other, &path).expect("a link");
        begin(&path)
            .and_then(|file| file.write("two"))
            .expect("written");
        assert_eq!(fs::read_to_string(&other).expect("read"), "kept");
        assert_eq!(fs::read_to_string(&path).expect("read"), "two");
        assert!(!path.is_symlink());
        // Nothing else is left in the folder, also if the file was not written.
        drop(begin(&path).expect("begun"));
        assert_eq!(fs::read_dir(&place).expect("listed").count(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told() {
        for path in ["/proc/none/a.toml", "/", "/dev", "/dev/null/a.toml"] {
            let why = begin(Path::new(path)).err().expect(path);
            assert!(!why.contains('\n'), "{why}");
        }
    }
}
