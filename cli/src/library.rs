//! Finds the file of the preload library, `libsemcache_blas.so`.

use std::path::{Path, PathBuf};

use semcache::base::config::LIB;

/// The library's file name.
pub(crate) const NAME: &str = "libsemcache_blas.so";

/// The path of the library: what `SEMCACHE_LIB` names, else beside the command, else in `../lib`.
pub(crate) fn find() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|e| format!("cannot find my own path: {e}"))?;
    locate(std::env::var_os(LIB).map(PathBuf::from), &exe)
}

fn locate(named: Option<PathBuf>, exe: &Path) -> Result<PathBuf, String> {
    let candidates = match named {
        Some(path) if path.is_dir() => vec![path.join(NAME)],
        Some(path) => vec![path],
        None => {
            let dir = exe.parent().unwrap_or(Path::new("/"));
            vec![
                dir.join(NAME),
                dir.join("../lib").join(NAME),
                dir.join("../lib/semcache").join(NAME),
            ]
        }
    };
    let found = candidates.iter().find_map(|p| p.canonicalize().ok());
    let Some(found) = found else {
        let searched: Vec<String> = candidates.iter().map(|p| p.display().to_string()).collect();
        return Err(format!(
            "{NAME} not found; searched {}. Set {LIB} to its path",
            searched.join(", ")
        ));
    };
    Ok(found)
}

/// The value of `LD_PRELOAD` that lists `library` before the libraries that it lists already.
pub(crate) fn preload(library: &Path, existing: Option<&str>) -> Result<String, String> {
    let path = library
        .to_str()
        .filter(|p| !p.contains([':', ' ', '$']))
        .ok_or_else(|| {
            format!(
                "{}: the dynamic linker cannot preload a path with a space, colon or dollar sign; move it",
                library.display()
            )
        })?;
    Ok(match existing {
        Some(existing) if !existing.is_empty() => format!("{path}:{existing}"),
        _ => path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_by_name_beside_and_in_lib() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = dir.path().canonicalize().expect("it exists");
        let exe = root.join("bin/semcache");
        std::fs::create_dir_all(root.join("bin")).expect("made");
        std::fs::create_dir_all(root.join("lib")).expect("made");
        let error = locate(None, &exe).expect_err("nothing there");
        assert!(error.contains("../lib/libsemcache_blas.so") && error.contains(LIB));
        std::fs::write(root.join("lib").join(NAME), "").expect("written");
        assert_eq!(locate(None, &exe), Ok(root.join("lib").join(NAME)));
        std::fs::write(root.join("bin").join(NAME), "").expect("written");
        assert_eq!(locate(None, &exe), Ok(root.join("bin").join(NAME)));
        assert_eq!(
            locate(Some(root.join("lib")), &exe),
            Ok(root.join("lib").join(NAME))
        );
        assert!(locate(Some(root.join("no.so")), &exe).is_err());
    }

    #[test]
    fn preload_keeps_what_was_there() {
        let lib = Path::new("/a/l.so");
        assert_eq!(preload(lib, None).as_deref(), Ok("/a/l.so"));
        assert_eq!(preload(lib, Some("")).as_deref(), Ok("/a/l.so"));
        assert_eq!(
            preload(lib, Some("/b.so c.so")).as_deref(),
            Ok("/a/l.so:/b.so c.so")
        );
        assert!(preload(Path::new("/a b/l.so"), None).is_err());
    }
}
