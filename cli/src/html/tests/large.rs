//! A trace of a million operations.

use std::time::{Duration, Instant};

use semcache::base::DeviceId;
use semcache::trace::OpId;

use super::check::check;
use super::given;
use crate::html::page;
use crate::trace::model::What;
use crate::trace::tests::hand::{Hand, IN, KERNEL, OUT};

#[test]
fn a_million_operations_make_a_small_page() {
    let mut hand = Hand::new(8);
    let (mut at, mut seq) = (0, 0);
    let mut random = 1_u64;
    while seq < 1_000_000 / 24 {
        seq += 1;
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        at += 20 + (random >> 60);
        hand = hand
            .call(seq, (at, at + 10))
            .decided(seq, at + 1, (9.0, 0.0));
        for device in 0..8 {
            let id = |lane| OpId::new(DeviceId(device), lane, seq);
            let long = 1 + (random >> (4 * device) & 15);
            hand = hand
                .op(
                    id(IN),
                    What::Upload,
                    seq,
                    at + 1,
                    (at + 1, at + 1 + long),
                    &[],
                )
                .op(
                    id(KERNEL),
                    What::Kernel,
                    seq,
                    at + 2,
                    (at + 1 + long, at + 18),
                    &[id(IN)],
                )
                .op(
                    id(OUT),
                    What::Download,
                    seq,
                    at + 3,
                    (at + 18, at + 19),
                    &[],
                );
        }
    }
    let given = given(None, [hand.done()]);
    let begin = Instant::now();
    let page = page(&given);
    let took = begin.elapsed();
    check(&page);
    println!("{} bytes in {took:?}", page.len());
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    assert!(took < Duration::from_secs(60), "{took:?}");
}
