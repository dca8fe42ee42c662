//! Rates of copies between devices by the class of their link, where the topology of the machine is known.

use crate::base::Link;

/// The most classes of links faster than the host's that are told apart.
const MOST: usize = 4;

/// Bytes per second of a device's copies from others, over each class of its links. Zero: not known.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ClassRates {
    faster: [f64; MOST],
    slower: f64,
}

impl ClassRates {
    /// Of a device with these links: the class of each, and its bytes per second. Links of one class have one rate.
    #[must_use]
    pub fn new(links: impl IntoIterator<Item = (Link, f64)>) -> ClassRates {
        let mut found = ClassRates::default();
        for (link, bytes_per_s) in links {
            if let Some(rate) = found.at(link) {
                *rate = bytes_per_s;
            }
        }
        found
    }

    fn at(&mut self, link: Link) -> Option<&mut f64> {
        match link {
            Link::Faster(class) => self.faster.get_mut(usize::from(class)),
            Link::Slower => Some(&mut self.slower),
            Link::None => None,
        }
    }

    /// Bytes per second over a link, if that is known.
    #[must_use]
    pub fn of(mut self, link: Link) -> Option<f64> {
        self.at(link).copied().filter(|rate| *rate > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_class_have_its_rate() {
        let links = [
            (Link::None, 1.0),
            (Link::Faster(1), 24.0),
            (Link::Faster(0), 48.0),
            (Link::Slower, 8.0),
            (Link::Faster(9), 7.0),
        ];
        let rates = ClassRates::new(links);
        let of = |link| rates.of(link);
        assert_eq!(of(Link::Faster(0)), Some(48.0));
        assert_eq!(of(Link::Faster(1)), Some(24.0));
        assert_eq!(of(Link::Slower), Some(8.0));
        for unknown in [
            Link::None,
            Link::Faster(2),
            Link::Faster(9),
            Link::Faster(255),
        ] {
            assert_eq!(of(unknown), None);
        }
    }
}
