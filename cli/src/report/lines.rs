//! Files and lines of places in the code, from the debug information of the files that have it.

use std::collections::HashMap;
use std::path::Path;

use addr2line::Loader;
use semcache::runtime::report::places::Place;

/// The files that were opened; `None`: it cannot be read.
#[derive(Default)]
pub(crate) struct Lines(HashMap<String, Option<Loader>>);

impl Lines {
    /// Where a place is, for people: file and line, else the function, else the address in the file.
    pub(crate) fn of(&mut self, place: &Place, is_call: bool) -> String {
        let mut text = match (place.line.is_empty(), place.object.is_empty()) {
            (false, _) => place.line.clone(),
            (true, true) => "unknown code".to_owned(),
            (true, false) => self.native(place, is_call),
        };
        if !place.through.is_empty() {
            text += &format!(" (in {})", name(&place.through));
        }
        text.escape_debug().to_string()
    }

    fn native(&mut self, place: &Place, is_call: bool) -> String {
        // Behind a call the next line may begin.
        let back = is_call || !place.through.is_empty();
        let at = place.offset.saturating_sub(u64::from(back));
        let object = name(&place.object);
        let opened = self
            .0
            .entry(place.object.clone())
            .or_insert_with(|| open(&place.object));
        let Some(loader) = opened else {
            return format!("{object}+{at:#x}");
        };
        let line = loader.find_location(at).ok().flatten();
        let line = line.and_then(|l| Some(format!("{}:{}", name(l.file?), l.line?)));
        let function = loader.find_symbol(at);
        match (line, function) {
            (Some(line), Some(function)) => format!("{line} ({function})"),
            (Some(line), None) => line,
            (None, Some(function)) => format!("{function} in {object}"),
            (None, None) => format!("{object}+{at:#x}"),
        }
    }
}

/// Opens a file that a report names: it may have gone, or be something else by now.
fn open(path: &str) -> Option<Loader> {
    let path = Path::new(path);
    path.is_file().then(|| Loader::new(path).ok()).flatten()
}

/// The last part of a path.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_without_information_have_addresses() {
        let mut lines = Lines::default();
        let mut place = Place {
            object: "/nowhere/lib\nx.so".to_owned(),
            offset: 0x1234,
            ..Place::default()
        };
        assert_eq!(lines.of(&place, true), "lib\\nx.so+0x1233");
        assert_eq!(lines.of(&place, false), "lib\\nx.so+0x1234");
        place.through = "/lib/libc.so.6".to_owned();
        assert_eq!(lines.of(&place, false), "lib\\nx.so+0x1233 (in libc.so.6)");
        place.line = "a.py:3".to_owned();
        assert_eq!(lines.of(&place, true), "a.py:3 (in libc.so.6)");
        assert_eq!(lines.of(&Place::default(), true), "unknown code");
    }
}
