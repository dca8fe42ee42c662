//! Which calls have the same key in the host-decision cache, and how often they go to the host without a decision.

use super::*;
use crate::base::{Form, Op, Side, Value};

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
    let alone = calls.iter().map(|call| of(std::slice::from_ref(call)));
    let batches = (2..calls.len()).map(|n| of(&calls[..n]));
    let mut keys: Vec<u64> = alone.chain(batches).map(|key| key & !LEFT).collect();
    let many = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), many);
}

#[test]
fn a_call_is_asked_again_in_the_end() {
    let host_decisions = HostDecisions::default();
    let key = of(&calls()[..1]);
    assert!(!host_decisions.take(key));
    // At 20 us for each call, 25 calls go to the host without a decision.
    host_decisions.put(key, 1, 20e-6);
    assert_eq!(
        (0..1000).take_while(|_| host_decisions.take(key)).count(),
        25
    );
    assert!(!host_decisions.take(of(&calls()[1..2])));
    // A call of a millisecond gets a decision every time.
    host_decisions.put(key, 1, 1e-3);
    assert!(!host_decisions.take(key));
    host_decisions.put(key, 1, 0.0);
    assert!(host_decisions.take(key));
}

#[test]
fn slots_are_spread() {
    let mut used = std::collections::BTreeSet::new();
    for i in 0..256 {
        let operands = [0x7f00_0000_0000 + i * 0x20_0000, 0x7f80_0000_0000];
        used.insert(slot(key(
            Routine::Axpy,
            Dtype::D,
            [1 << 17, 1, 1],
            operands.into_iter(),
        )));
    }
    assert!(used.len() > 160, "{}", used.len());
}
