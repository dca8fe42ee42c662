//! The options of `semcache predict`.

use std::path::PathBuf;

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The routine by its BLAS name, with the letter of its type: dgemm, zherk, saxpy
    pub(super) routine: String,
    /// Its sizes, in the order of its arguments: dgemm m n k, dsyrk n k, dtrsm m n, dgemv m n, daxpy n
    #[arg(required = true, allow_negative_numbers = true)]
    pub(super) sizes: Vec<String>,
    /// Where the operands are before the call: `host`, `device`, or for each one, as in `a=device,b=host`; an operand that is
    /// not named is at the host. The newest bytes of a result that is on devices are there only
    #[arg(long, value_name = "PLACE", default_value = "host")]
    pub(super) from: String,
    /// Where results are wanted: `host`, the CPU reads them after the call, or `device`
    #[arg(long, value_name = "PLACE", default_value = "host")]
    pub(super) to: String,
    /// A machine: dgx1, everest, makalu, kepler, tesla, testbed1, testbed2, gtx680, titan, h100, h200, h200x4, h200x8, or a file of rates as `SEMCACHE_RATES` takes
    #[arg(long, value_name = "NAME|FILE", default_value = "h200")]
    pub(super) machine: String,
    /// The first N devices of the machine; of a file of rates, N equal devices
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) devices: Option<String>,
    /// Memory of each device, as in 80GiB; without it that of the machine, or 80GiB for a file of rates
    #[arg(long, value_name = "SIZE")]
    pub(super) memory: Option<String>,
    /// Threads of the host BLAS, on cores with AVX-512. A file of rates that has figures of the host overrides them
    #[arg(
        long,
        value_name = "N",
        default_value = "16",
        allow_negative_numbers = true
    )]
    pub(super) threads: String,
    /// Tile size of level 3 (`SEMCACHE_TILE`); without it the one with the shortest time
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) tile: Option<String>,
    /// Host memory is page-locked already, as it is from the second call on
    #[arg(long)]
    pub(super) locked: bool,
    /// The side on which the symmetric or triangular matrix stands
    #[arg(long, value_name = "left|right", default_value = "left")]
    pub(super) side: String,
    /// Which triangle of a matrix is stored
    #[arg(long, value_name = "lower|upper", default_value = "lower")]
    pub(super) uplo: String,
    /// The transposition of A, or of both inputs of a rank-k update: `n`, `t` or `c`
    #[arg(long, value_name = "OP", default_value = "n")]
    pub(super) transa: String,
    /// The transposition of B: `n`, `t` or `c`
    #[arg(long, value_name = "OP", default_value = "n")]
    pub(super) transb: String,
    /// The scalar beta: with 0 a result is not read before it is written
    #[arg(
        long,
        value_name = "NUMBER",
        default_value = "0",
        allow_negative_numbers = true
    )]
    pub(super) beta: String,
    /// Print the same as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Draw the chart as a PNG picture in this file, too
    #[arg(long, value_name = "PATH")]
    pub(super) png: Option<PathBuf>,
}

/// A number of an argument, from 1 to `most`.
pub(super) fn number(what: &str, text: &str, most: usize) -> Result<usize, String> {
    let number = text.parse::<usize>().ok();
    let legal = number.filter(|n| (1..=most).contains(n));
    legal.ok_or_else(|| format!("{what} {text}: not a whole number from 1 to {most}"))
}
