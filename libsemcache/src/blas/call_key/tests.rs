//! Which calls have the same key.

use super::*;
use crate::base::{Dtype, Form, Op, Routine, Side, Value};

fn calls() -> Vec<Call> {
    let (a, b, c) = (0x10_0000, 0x20_0000, 0x30_0000);
    let new = |routine, sizes: &[i64], operands: &[(usize, i64)]| {
        let op_a = Op::Trans;
        let alpha = Value { re: 2.0, im: 0.0 };
        let call = Call::new(routine, Dtype::D, sizes, operands);
        Call {
            op_a,
            alpha,
            ..call
        }
    };
    let gemm = |sizes: [i64; 3]| new(Routine::Gemm, &sizes, &[(a, 200), (b, 200), (c, 200)]);
    let symm = |side| {
        let form = Form {
            side,
            ..Form::default()
        };
        let call = new(Routine::Symm, &[90, 80], &[(a, 100), (b, 100), (c, 100)]);
        Call { form, ..call }
    };
    vec![
        gemm([100, 120, 130]),
        gemm([120, 100, 130]),
        symm(Side::Left),
        symm(Side::Right),
        new(Routine::Syrk, &[90, 80], &[(a, 100), (c, 100)]),
        new(Routine::Syr2k, &[90, 80], &[(a, 100), (b, 100), (c, 100)]),
        new(Routine::Gemmt, &[90, 80], &[(a, 100), (b, 100), (c, 100)]),
        new(Routine::Trmm, &[90, 80], &[(a, 100), (b, 100)]),
        new(Routine::Trsm, &[90, 80], &[(a, 100), (b, 100)]),
        new(Routine::Gemv, &[90, 80], &[(a, 100), (b, 1), (c, 2)]),
        new(Routine::Ger, &[90, 80], &[(b, 1), (c, -1), (a, 100)]),
        new(Routine::Symv, &[90], &[(a, 100), (b, 1), (c, 2)]),
        new(Routine::Trsv, &[90], &[(a, 100), (b, 1)]),
        new(Routine::Syr, &[90], &[(b, 1), (a, 100)]),
        new(Routine::Syr2, &[90], &[(b, 1), (c, 1), (a, 100)]),
        new(Routine::Rot, &[70], &[(b, 1), (c, 1)]),
        new(Routine::Axpy, &[70], &[(b, -1), (c, 3)]),
        new(Routine::Dot, &[70], &[(b, 1), (c, 1)]),
        new(Routine::Scal, &[70], &[(b, 1)]),
        new(Routine::Nrm2, &[70], &[(b, 2)]),
    ]
}

#[test]
fn calls_have_keys_of_their_own() {
    let calls = calls();
    let alone = calls.iter().map(of);
    let batches = (2..calls.len()).map(|n| of_batch(&calls[..n]));
    let mut keys: Vec<u64> = alone.chain(batches).collect();
    assert!(keys.iter().all(|key| key & 1 == 1));
    let many = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), many);
}

#[test]
fn keys_spread_over_all_sets() {
    let base = calls()[0];
    let mut found = vec![0; 512];
    for n in 0..2048 {
        let mut call = base;
        call.at[1].addr += n << 12;
        found[(of(&call) >> 1) as usize % 512] += 1;
    }
    assert!(found.iter().all(|n| *n < 16));
    let used = found.iter().filter(|n| **n > 0).count();
    assert!(used > 256, "{used}");
}

#[test]
fn the_values_of_scalars_make_no_difference() {
    let gemv = |beta: f64, y: usize, ldy: i64| {
        let operands = [(0x1000, 7), (0x2000, 1), (y, ldy)];
        Call {
            beta: Value { re: beta, im: 0.0 },
            ..Call::new(Routine::Gemv, Dtype::D, &[7, 8], &operands)
        }
    };
    let base = of(&gemv(0.5, 0x3000, 1));
    assert_eq!(base, of(&gemv(f64::NAN, 0x3000, 1)));
    for other in [
        gemv(0.0, 0x3000, 1),
        gemv(1.0, 0x3000, 1),
        gemv(0.5, 0x3008, 1),
        gemv(0.5, 0x3000, -1),
    ] {
        assert_ne!(base, of(&other));
    }
}
