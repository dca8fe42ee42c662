//! When a time has been measured often enough.

/// The least number of samples of a measurement.
pub(super) const LEAST: usize = 4;

/// Half the width of the confidence interval, as a share of the mean, at which a measurement ends.
const NARROW: f64 = 0.05;

/// The 97.5th percentile of Student's t distribution with 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The percentile of [`STUDENT`] for any number of degrees of freedom above zero.
fn student(freedom: usize) -> f64 {
    STUDENT.get(freedom - 1).copied().unwrap_or_else(|| {
        // The first term of the expansion of the percentile about that of the normal distribution.
        1.96 + 2.4 / freedom as f64
    })
}

/// Half the width of the 95 % confidence interval of the samples' mean, as a share of the mean; `None` for fewer than two samples.
pub(super) fn width(samples: &[f64]) -> Option<f64> {
    let count = samples.len();
    if count < 2 {
        return None;
    }
    let mean = samples.iter().sum::<f64>() / count as f64;
    let squares: f64 = samples.iter().map(|s| (s - mean).powi(2)).sum();
    let deviation = (squares / (count - 1) as f64).sqrt();
    Some(student(count - 1) * deviation / (count as f64).sqrt() / mean)
}

/// Whether the 95 % confidence interval of the samples' mean lies within 5 % of the mean.
pub(super) fn settled(samples: &[f64]) -> bool {
    samples.len() >= LEAST && width(samples).is_some_and(|width| width <= NARROW)
}

/// The median, which one sample that another process has delayed does not change; `None` without samples.
pub(super) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let high = *sorted.get(sorted.len() / 2)?;
    let low = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_samples_settle_at_the_least_number() {
        assert!(!settled(&[]));
        assert!(!settled(&[1.0; LEAST - 1]));
        assert!(settled(&[1.0; LEAST]));
        assert_eq!((width(&[1.0]), width(&[1.0; 2])), (None, Some(0.0)));
        assert!(settled(&[2.5e-6; 100]));
    }

    /// Of samples that are a to either side of 1, the deviation is a sqrt(n / (n - 1)), and the interval's half width
    /// t a / sqrt(n - 1).
    #[test]
    fn the_interval_decides() {
        for (count, t) in [(4, 3.182), (10, 2.262), (31, 2.042), (101, 1.984)] {
            let samples = |a: f64| -> Vec<f64> {
                let sides = (0..count).map(|i| if i % 2 == 0 { 1.0 + a } else { 1.0 - a });
                sides.collect()
            };
            if count % 2 == 0 {
                let limit = 0.05 * f64::from(count - 1).sqrt() / t;
                assert!(settled(&samples(limit * 0.999)), "{count}");
                assert!(!settled(&samples(limit * 1.001)), "{count}");
            }
            let freedom = usize::try_from(count - 1).expect("a number");
            assert!((student(freedom) - t).abs() < 1e-3, "{count}");
        }
        assert!(student(1_000_000) >= 1.96);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
    }
}
