//! A short text in memory that several processes share: plain atomics, so that any bytes in it are valid.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WORD: usize = size_of::<u64>();

/// At most `8 N` bytes of text, which ends at the first zero.
#[derive(Debug)]
#[repr(C)]
pub struct Text<const N: usize>([AtomicU64; N]);

impl<const N: usize> Text<N> {
    pub(super) const fn new() -> Self {
        Text([const { AtomicU64::new(0) }; N])
    }

    /// Stores the text's first bytes. Meanwhile readers may see parts of the old text.
    pub fn set(&self, text: &[u8]) {
        for (i, word) in self.0.iter().enumerate() {
            let mut bytes = [0; WORD];
            for (to, from) in bytes.iter_mut().zip(text.iter().skip(i * WORD)) {
                *to = *from;
            }
            word.store(u64::from_le_bytes(bytes), Relaxed);
        }
    }

    /// The text; bytes that are no UTF-8 are replaced.
    #[must_use]
    pub fn get(&self) -> String {
        let words = self.0.iter().map(|word| word.load(Relaxed).to_le_bytes());
        let bytes: Vec<u8> = words.flatten().take_while(|b| *b != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn what_fits_is_kept() {
        let text = Text::<2>::new();
        assert_eq!(text.get(), "");
        for (given, kept) in [
            ("dgemm", "dgemm"),
            ("sixteen letters.", "sixteen letters."),
            ("more than sixteen letters", "more than sixtee"),
            ("", ""),
        ] {
            text.set(given.as_bytes());
            assert_eq!(text.get(), kept);
        }
        text.set(b"\xff1");
        assert_eq!(text.get(), "\u{fffd}1");
    }
}
