//! Transfer time of a link: `t = t_l + t_b * bytes` (CoCoPeLia, section IV-A).

use super::rates::LinkRate;

impl LinkRate {
    /// Seconds for one transfer while the opposite direction is idle; zero for no bytes.
    #[must_use]
    pub fn time(&self, bytes: f64) -> f64 {
        if bytes <= 0.0 {
            0.0
        } else {
            self.latency_s + bytes / self.bytes_per_s
        }
    }

    /// Seconds for one transfer while the opposite direction is in use all the time.
    #[must_use]
    pub fn time_bid(&self, bytes: f64) -> f64 {
        self.bid_slowdown * self.time(bytes)
    }

    /// A link that moves the share `first` of all bytes at its own rate and the rest at the rate of `other`.
    #[must_use]
    pub fn blend(&self, first: f64, other: &LinkRate) -> LinkRate {
        let seconds = first / self.bytes_per_s + (1.0 - first) / other.bytes_per_s;
        LinkRate {
            latency_s: self.latency_s.max(other.latency_s),
            bytes_per_s: 1.0 / seconds,
            bid_slowdown: self.bid_slowdown.max(other.bid_slowdown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let link = LinkRate {
            latency_s: 1.0,
            bytes_per_s: 4.0,
            bid_slowdown: 2.0,
        };
        assert_eq!(link.time(0.0), 0.0);
        assert_eq!(link.time(8.0), 3.0);
        assert_eq!(link.time_bid(8.0), 6.0);
        let fast = LinkRate {
            bytes_per_s: 12.0,
            ..link
        };
        // A quarter of the bytes at a rate of 4, the rest at 12: 1/16 + 1/16 seconds per byte.
        assert_eq!(link.blend(0.25, &fast).bytes_per_s, 8.0);
        assert_eq!(link.blend(1.0, &fast).bytes_per_s, 4.0);
    }
}
