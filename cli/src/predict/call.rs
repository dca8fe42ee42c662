//! The call that is predicted, from the words of the command line.

use semcache::base::routine::{Dim, Flag, Slot, Usage};
use semcache::base::{Diag, Dtype, Form, Op, Routine, Side, Uplo, Value};
use semcache::blas::{self, Checked, check};
use semcache::plan::Problem;

use super::options::{Options, number};

/// The largest side of a matrix.
const MOST_SIZE: usize = 1 << 20;
/// The largest size of a vector.
const MOST_LENGTH: usize = 1 << 40;
/// How far apart the operands are taken to lie, in bytes.
const APART: usize = 1 << 54;

/// A call, and where its operands are.
#[derive(Debug)]
pub(super) struct Call {
    /// The routine's name with the letter of its type.
    pub(super) name: &'static str,
    /// Its size arguments.
    pub(super) sizes: Vec<usize>,
    pub(super) problem: Problem,
    /// The names of the operands, in the order of the routine's operands.
    pub(super) operands: Vec<&'static str>,
    /// For each operand, whether devices hold it before the call.
    pub(super) on_devices: Vec<bool>,
    /// Whether the CPU reads the results.
    pub(super) read_back: bool,
}

impl Call {
    /// The call that the options describe.
    ///
    /// # Errors
    /// Which word cannot be understood.
    pub(super) fn new(options: &Options) -> Result<Call, String> {
        let (routine, dtype) = routine(&options.routine)?;
        let name = routine.record().names[dtype as usize];
        let sizes = sizes(routine, name, &options.sizes)?;
        let problem = problem(options, (routine, dtype, name), &sizes)?;
        let operands = operands(routine);
        let on_devices = from(&options.from, &operands)?;
        Ok(Call {
            name,
            sizes,
            problem,
            operands,
            on_devices,
            read_back: place("--to", &options.to)? == Place::Host,
        })
    }

    /// The call in a line: `dgemm 100 200 300`.
    pub(super) fn title(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
        format!("{} {}", self.name, sizes.join(" "))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Host,
    Device,
}

fn place(option: &str, text: &str) -> Result<Place, String> {
    match text {
        "host" => Ok(Place::Host),
        "device" => Ok(Place::Device),
        _ => Err(format!("{option} {text}: neither `host` nor `device`")),
    }
}

/// The routine of this name, and its type.
fn routine(name: &str) -> Result<(Routine, Dtype), String> {
    let lower = name.to_ascii_lowercase();
    let all = Routine::ALL
        .iter()
        .flat_map(|r| Dtype::ALL.map(|d| (*r, d)));
    let mut named = all.filter(|(r, d)| r.record().names[*d as usize] == lower);
    match named.next() {
        Some((Routine::GemmBatch, _)) => Err(format!(
            "{name}: a batch is predicted as its products are; give the sizes of one product"
        )),
        Some(found) => Ok(found),
        None => Err(format!(
            "{name}: not a BLAS routine that devices run, such as dgemm, zherk, sgemv or daxpy"
        )),
    }
}

/// The sizes of a call of this routine.
fn sizes(routine: Routine, name: &str, given: &[String]) -> Result<Vec<usize>, String> {
    let record = routine.record();
    let wanted = record.signature.sizes;
    let letter = |dim: &Dim| match (dim, record.level) {
        (_, 1) => "n",
        (Dim::M, _) => "m",
        (Dim::N, _) => "n",
        (Dim::K, _) => "k",
    };
    if given.len() != wanted.len() {
        let letters: Vec<&str> = wanted.iter().map(letter).collect();
        let sizes = if wanted.len() == 1 { "size" } else { "sizes" };
        return Err(format!(
            "{name} has {} {sizes}, {}: {} given",
            wanted.len(),
            letters.join(" "),
            given.len()
        ));
    }
    let most = if record.level == 1 {
        MOST_LENGTH
    } else {
        MOST_SIZE
    };
    let each = wanted.iter().zip(given);
    each.map(|(dim, text)| number(&format!("size {}", letter(dim)), text, most))
        .collect()
}

/// The problem, as the library checks and builds it for a call of a program whose operands have no gaps.
fn problem(
    options: &Options,
    (routine, dtype, name): (Routine, Dtype, &str),
    sizes: &[usize],
) -> Result<Problem, String> {
    let signed: Vec<i64> = sizes
        .iter()
        .map(|&n| i64::try_from(n).unwrap_or(0))
        .collect();
    let mut call = blas::Call::new(routine, dtype, &signed, &[]);
    call.form = Form {
        side: word(
            "--side",
            &options.side,
            &[("left", Side::Left), ("right", Side::Right)],
        )?,
        uplo: word(
            "--uplo",
            &options.uplo,
            &[("lower", Uplo::Lower), ("upper", Uplo::Upper)],
        )?,
        diag: Diag::NonUnit,
    };
    let ops = [("n", Op::None), ("t", Op::Trans), ("c", Op::ConjTrans)];
    call.op_a = word("--transa", &options.transa, &ops)?;
    call.op_b = word("--transb", &options.transb, &ops)?;
    let flags = routine.record().signature.flags;
    for (option, text, plain, flag) in [
        ("--side", &options.side, "left", Flag::Side),
        ("--uplo", &options.uplo, "lower", Flag::Uplo),
        ("--transa", &options.transa, "n", Flag::TransA),
        ("--transb", &options.transb, "n", Flag::TransB),
    ] {
        if text != plain && !flags.contains(&flag) {
            return Err(format!("{option} {text}: {name} has no such argument"));
        }
    }
    let beta = options.beta.parse::<f64>().ok().filter(|b| b.is_finite());
    let beta = beta.ok_or_else(|| format!("--beta {}: not a number", options.beta))?;
    // Any alpha that is neither zero nor one: with these some routines have nothing to compute.
    (call.alpha, call.beta) = (real(2.0), real(beta));
    let [m, n, k] = call.sizes().map(|n| usize::try_from(n).unwrap_or(0));
    let shape = semcache::base::routine::Sizes {
        m,
        n,
        k,
        op_a: call.op_a,
        op_b: call.op_b,
    };
    for (i, (slot, at)) in routine.operands().iter().zip(&mut call.at).enumerate() {
        let rows = slot.extent.stored(&shape).0.max(1);
        let ld = if slot.extent.is_vector() { 1 } else { rows };
        at.addr = (i + 1) * APART;
        at.ld = i64::try_from(ld).unwrap_or(1);
    }
    match check(&call) {
        Checked::Run(problem, _) => Ok(*problem),
        Checked::Bad => Err(format!("{name}: the BLAS does not allow these arguments")),
        Checked::NoProduct | Checked::Host => Err(format!(
            "{name}: devices run no such call, the host BLAS does"
        )),
    }
}

fn real(re: f64) -> Value {
    Value { re, im: 0.0 }
}

fn word<T: Copy>(option: &str, text: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("{option} {text}: not one of {}", names.join(", "))
    })
}

/// The names of a routine's operands, as the BLAS names them.
fn operands(routine: Routine) -> Vec<&'static str> {
    let (mut matrices, mut vectors) = (["a", "b", "c"].into_iter(), ["x", "y"].into_iter());
    let sum = |slot: &Slot| routine.level() == 3 && slot.usage == Usage::Accumulate;
    let name = |slot: &Slot| match slot.extent.is_vector() {
        true => vectors.next(),
        false if sum(slot) => Some("c"),
        false => matrices.next(),
    };
    let names = routine.operands().iter().map(name);
    names.map(|name| name.unwrap_or("?")).collect()
}

/// For each operand, whether devices hold it.
fn from(text: &str, operands: &[&str]) -> Result<Vec<bool>, String> {
    if !text.contains('=') {
        let on = place("--from", text)? == Place::Device;
        return Ok(vec![on; operands.len()]);
    }
    let mut on = vec![false; operands.len()];
    for part in text.split(',') {
        let (name, at) = part.split_once('=').unwrap_or((part, ""));
        let lower = name.trim().to_ascii_lowercase();
        let Some(i) = operands.iter().position(|o| *o == lower) else {
            let known = operands.join(", ");
            return Err(format!(
                "--from {part}: no operand {name}; there are {known}"
            ));
        };
        on[i] = place(&format!("--from {name}"), at.trim())? == Place::Device;
    }
    Ok(on)
}
