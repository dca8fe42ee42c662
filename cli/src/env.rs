//! `semcache env`: prints the environment variables, from the table that the library parses them by.

use std::process::ExitCode;

use semcache::base::config::VARIABLES;

pub(crate) fn env() -> ExitCode {
    print!(
        "{}",
        text(&|name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()))
    );
    ExitCode::SUCCESS
}

fn text(lookup: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    for v in VARIABLES {
        out.push_str(v.name);
        if let Some(value) = lookup(v.name) {
            out.push_str(&format!(" = {}", value.escape_debug()));
        }
        out.push_str(&format!(
            "\n    {}\n    values   {}\n    default  {}\n",
            v.doc, v.values, v.default
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_printed_with_its_value_now() {
        let text = text(&|name| (name == "SEMCACHE_TILE").then(|| "5\n12".into()));
        for v in VARIABLES {
            assert!(text.contains(v.name) && text.contains(v.doc));
        }
        assert!(text.contains("SEMCACHE_TILE = 5\\n12\n"));
    }
}
