//! Parser for the text of /proc/self/maps.

/// One mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping<'a> {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// The permissions, as in `rw-p`.
    pub access: &'a str,
}

/// The mappings in the order of their addresses.
pub fn mappings(text: &str) -> impl Iterator<Item = Mapping<'_>> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(Mapping {
            start: number(start)?,
            end: number(end)?,
            access: fields.next()?,
        })
    })
}

/// Whether `[start, end)` is mapped without a hole, and `fit` holds for each of its mappings.
pub fn covered(text: &str, start: usize, end: usize, fit: impl Fn(&Mapping<'_>) -> bool) -> bool {
    let mut at = start;
    for m in mappings(text).filter(|m| m.end > start) {
        if at >= end {
            break;
        }
        if m.start > at || !fit(&m) {
            return false;
        }
        at = m.end;
    }
    at >= end
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "1000-3000 rw-p 00000000 00:00 0 \n3000-4000 r--p 00000000 00:00 0 [name]\n\
        6000-7000 ---p 00000000 00:00 0\n";

    #[test]
    fn mappings_are_read() {
        let all: Vec<_> = mappings(TEXT).collect();
        assert_eq!(all.len(), 3);
        assert_eq!(
            all[1],
            Mapping {
                start: 0x3000,
                end: 0x4000,
                access: "r--p"
            }
        );
    }

    #[test]
    fn what_is_covered() {
        let any = |start, end| covered(TEXT, start, end, |_| true);
        let writable = |start, end| covered(TEXT, start, end, |m| m.access.starts_with("rw"));
        assert!(any(0x1000, 0x4000) && any(0x1800, 0x3001) && any(0x6fff, 0x7000));
        assert!(!any(0x1000, 0x4001) && !any(0xfff, 0x2000) && !any(0x7000, 0x7001));
        assert!(writable(0x1000, 0x3000) && !writable(0x2fff, 0x3001));
    }
}
