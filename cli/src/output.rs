//! How the commands that examine this machine print what they have found: as text, or as JSON (`docs/schema`).

use serde::Serialize;

use crate::trace::print;

/// The version of the JSON of `doctor`, `env` and `machine`; a command's rises when one of its keys goes or changes its meaning.
/// New keys do not change it.
pub(crate) const VERSION: u32 = 1;

#[derive(clap::Args, Debug)]
pub(crate) struct Output {
    /// Print the same as JSON
    #[arg(long)]
    json: bool,
}

impl Output {
    /// Prints what a command has found.
    ///
    /// # Errors
    /// Why stdout cannot be written.
    pub(crate) fn print<T: Serialize>(
        &self,
        found: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), String> {
        if !self.json {
            return print(&text(found));
        }
        let json = serde_json::to_string_pretty(found);
        print(&(json.map_err(|error| error.to_string())? + "\n"))
    }
}
