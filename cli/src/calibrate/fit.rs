//! The models of the library, fitted to measured times by the least squares of relative errors.

/// The line `latency + seconds_per * x` through points `(x, seconds)`; `None` if it does not rise.
pub(super) fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    if points.len() < 2 {
        return None;
    }
    let (mut s, mut sx, mut sy, mut sxx, mut sxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, y) in points {
        let weight = 1.0 / (y * y);
        s += weight;
        sx += weight * x;
        sy += weight * y;
        sxx += weight * x * x;
        sxy += weight * x * y;
    }
    let determinant = s * sxx - sx * sx;
    // Not so for a determinant that is not a number.
    if determinant > 0.0 {
        let slope = (s * sxy - sx * sy) / determinant;
        (slope > 0.0).then_some(((sy - slope * sx) / s, slope))
    } else {
        None
    }
}

/// The times of square products of one element type.
#[derive(Debug)]
pub(super) struct Products {
    /// Floating-point operations on real numbers for each m n k.
    pub(super) flops: f64,
    /// Orders and seconds.
    pub(super) points: Vec<(f64, f64)>,
}

impl Products {
    /// The seconds of one operation at the peak rate that fit best for a half size, and the sum of the squared relative errors.
    fn fitted(&self, half: f64, launch: f64) -> (f64, f64) {
        let each = self.points.iter().map(|(n, seconds)| {
            let slower = ((n + half) / n).powi(3);
            (
                self.flops * n.powi(3) * slower / seconds,
                1.0 - launch / seconds,
            )
        });
        let each: Vec<(f64, f64)> = each.collect();
        let product: f64 = each.iter().map(|(u, v)| u * v).sum();
        let square: f64 = each.iter().map(|(u, _)| u * u).sum();
        let per_flop = product / square;
        let error = each.iter().map(|(u, v)| (per_flop * u - v).powi(2));
        (per_flop, error.sum())
    }
}

/// The peak rate of each type, and the half size of all of them, if each time is
/// `launch + flops / (peak (n / (n + half))^3)`. No product takes less than its launch: a launch that seems longer than the
/// shortest product is taken to be as long.
pub(super) fn products(types: &[Products], launch: f64) -> Option<(Vec<f64>, f64)> {
    if types.is_empty() || types.iter().any(|one| one.points.len() < 2) {
        return None;
    }
    let times = types.iter().flat_map(|one| &one.points);
    let launch = times.fold(launch, |least, (_, seconds)| least.min(*seconds));
    let halves = (0..16 * 12).map(|i| 2f64.powf(f64::from(i) / 16.0));
    let error = |half: f64| -> f64 { types.iter().map(|one| one.fitted(half, launch).1).sum() };
    let half = halves.min_by(|a, b| error(*a).total_cmp(&error(*b)))?;
    let peaks = types.iter().map(|one| 1.0 / one.fitted(half, launch).0);
    let peaks: Vec<f64> = peaks.collect();
    let sound = peaks.iter().all(|peak| peak.is_finite() && *peak > 0.0);
    sound.then_some((peaks, half))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, known: f64) {
        assert!((found / known - 1.0).abs() < 1e-9, "{found}, not {known}");
    }

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<(f64, f64)> = (16..29)
            .map(|i| f64::from(1 << i))
            .map(|bytes| (bytes, 7e-6 + bytes / 55e9))
            .collect();
        let (latency, slope) = line(&points).expect("a line");
        near(latency, 7e-6);
        near(1.0 / slope, 55e9);
        // Relative errors: one per cent on both ends counts the same.
        let (latency, slope) = line(&[(1.0, 1.01), (2.0, 1.98)]).expect("a line");
        near(latency + slope, 1.01);
    }

    #[test]
    fn what_is_no_line() {
        for points in [
            &[][..],
            &[(1.0, 1.0)],
            &[(1.0, 1.0), (1.0, 2.0)],
            &[(1.0, 2.0), (2.0, 1.0)],
            &[(1.0, f64::NAN), (2.0, 1.0)],
        ] {
            assert_eq!(line(points), None, "{points:?}");
        }
    }

    #[test]
    fn products_are_found_again() {
        let half = 2f64.powf(6.5);
        let of = |flops: f64, peak: f64| Products {
            flops,
            points: [256.0, 1024.0, 4096.0]
                .map(|n: f64| {
                    let slower = ((n + half) / n).powi(3);
                    (n, 4e-6 + flops * n.powi(3) * slower / peak)
                })
                .to_vec(),
        };
        let types = [of(2.0, 60e12), of(8.0, 30e12)];
        let (peaks, found) = products(&types, 4e-6).expect("a fit");
        near(found, half);
        near(peaks[0], 60e12);
        near(peaks[1], 30e12);
        assert!(products(&[], 0.0).is_none());
        let one = Products {
            flops: 2.0,
            points: vec![(256.0, 1.0)],
        };
        assert!(products(&[one], 0.0).is_none());
        // A launch that was measured while the machine was busy.
        assert!(products(&types, 1.0).is_some());
        let flat = Products {
            flops: 2.0,
            points: vec![(256.0, 1.0), (512.0, 1.0)],
        };
        assert!(products(&[flat], 1.0).is_none());
    }
}
