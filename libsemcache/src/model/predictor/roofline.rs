//! The roofline of a call on devices.

use super::case::{Answer, Case, Predictor};

/// The bound of van Werkhoven et al., section III-A (*full overlap*): the roofline model with the link as one more roof. The
/// paper bounds the rate by the least of peak arithmetic, memory bandwidth times operational intensity, and link bandwidth
/// times data intensity (operations for each byte that crosses the link); here is the time, the longest of the three. Uploads
/// and write-backs cross the link in opposite directions, so the longer of the two counts. Each byte is uploaded to one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Roofline;

impl Predictor for Roofline {
    fn name(&self) -> &'static str {
        "roofline bound"
    }

    fn source(&self) -> &'static str {
        "van Werkhoven et al., CCGrid 2014, III-A (full overlap)"
    }

    fn answer(&self, case: &Case<'_>) -> Option<Answer> {
        let (part, rates, devices) = (case.part(), case.rates, case.devices as f64);
        let arithmetic = part.flops() / rates.gemm(part.dtype).peak_flops;
        let memory = part.traffic() / rates.memory_bandwidth;
        let uploaded: f64 = case
            .bytes
            .iter()
            .zip(case.moved)
            .map(|(&bytes, fetch)| bytes as f64 * fetch.get)
            .sum();
        let written_back: f64 = case.write_backs().sum();
        let link =
            (uploaded / devices / rates.h2d.bytes_per_s).max(written_back / rates.d2h.bytes_per_s);
        Some(Answer {
            seconds: arithmetic.max(memory).max(link),
            pieces: 1,
        })
    }
}
