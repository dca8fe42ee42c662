//! Texts of a screen: names without control characters, in a given width; numbers for people.

use core::cmp::Reverse;

use semcache::base::counters::{Calls, WhyHost};
use semcache::runtime::report::table::human;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A name without characters that a terminal would obey or not show.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\'' | '"' | '\\' => out.push(c),
            _ => out.extend(c.escape_debug()),
        }
    }
    out
}

/// The columns that a text takes in a terminal.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// The text, or its beginning with an ellipsis, in at most `most` columns.
pub(crate) fn fit(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > most {
            break;
        }
        out.push(c);
    }
    if most > 0 {
        out.push('\u{2026}');
    }
    out
}

/// The text in exactly `columns` columns: at their left, or at their right.
pub(super) fn filled(text: &str, columns: usize, left: bool) -> String {
    let text = fit(text, columns);
    let spaces = " ".repeat(columns.saturating_sub(width(&text)));
    match left {
        true => text + &spaces,
        false => spaces + &text,
    }
}

/// The words of a text in lines of at most `most` columns.
pub(super) fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(fit(word, most)),
        }
    }
    lines
}

/// Events per second.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        n if n <= 0.0 => "0".to_owned(),
        n if n < 0.05 => "<0.1".to_owned(),
        n if n < 9.95 => format!("{n:.1}"),
        n if n < 99_999.5 => format!("{n:.0}"),
        n if n < 999_999.5 => format!("{:.0} k", n / 1e3),
        n if n < 1e9 => format!("{:.1} M", n / 1e6),
        n => format!("{:.1} G", n / 1e9),
    }
}

/// Bytes per second.
pub(crate) fn bytes_rate(per_second: f64) -> String {
    format!("{}/s", human(per_second.max(0.0) as u64))
}

/// The reasons of calls that ran on the host, the most frequent first.
pub(super) fn told(calls: &Calls) -> String {
    let mut why: Vec<(&String, &u64)> = calls.why_host.iter().collect();
    why.sort_by_key(|(_, n)| Reverse(**n));
    let of = |(name, n): &(&String, &u64)| match WhyHost::named(name) {
        Some(why) => format!("{n} {}", why.said()),
        None => format!("{n} {}", plain(name)),
    };
    why.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// Hours, minutes and seconds.
pub(crate) fn duration(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    match s / 3600 {
        0 => format!("{}:{:02}", s / 60, s % 60),
        hours => format!("{hours}:{:02}:{:02}", s / 60 % 60, s % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_harmless() {
        assert_eq!(
            plain("a\u{1b}[2J\n'b' \u{202e}\"c\""),
            r#"a\u{1b}[2J\n'b' \u{202e}"c""#
        );
    }

    #[test]
    fn texts_fit() {
        assert_eq!(fit("abcd", 4), "abcd");
        assert_eq!(fit("abcde", 4), "abc\u{2026}");
        assert_eq!(fit("abcde", 0), "");
        // Each of these takes two columns.
        assert_eq!(fit("\u{65e5}\u{672c}\u{8a9e}", 4), "\u{65e5}\u{2026}");
        assert_eq!(filled("ab", 4, true), "ab  ");
        assert_eq!(filled("ab", 4, false), "  ab");
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("overlong", 5), ["over\u{2026}"]);
    }

    #[test]
    fn numbers_for_people() {
        for (n, text) in [
            (0.0, "0"),
            (0.01, "<0.1"),
            (1.25, "1.2"),
            (9.96, "10"),
            (12_345.4, "12345"),
            (123_456.0, "123 k"),
            (1_230_000.0, "1.2 M"),
            (2.5e9, "2.5 G"),
        ] {
            assert_eq!(rate(n), text);
        }
        assert_eq!(bytes_rate(1_500.0), "1.5 kB/s");
        for (s, text) in [(0.0, "0:00"), (61.9, "1:01"), (3600.0, "1:00:00")] {
            assert_eq!(duration(s), text);
        }
    }
}
