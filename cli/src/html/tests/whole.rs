//! Whole pages.

use super::check::check;
use super::{given, report, trace};
use crate::html::page;
use crate::trace::model::{Device, Trace, What};

#[test]
fn a_page_of_a_report_and_a_trace() {
    let page = page(&given(Some(report()), [trace()]));
    // Two bars of devices and one of the thread, two timelines, and the bytes of two devices.
    assert_eq!(check(&page), 8, "{page}");
    for text in [
        "<b>3</b><span>of 9 calls on devices</span>",
        "<b>99 MB</b><span>less than copying at every call</span>",
        "kernels 38.0 us (46 %)",
        "waiting at page faults 10.0 us (10 %)",
        "<td>device 0 → device 1</td>",
        "device 0 sim0 (sim)",
        "from the host: 5.0 GB/s",
        "<td class=\"n\">2</td><td class=\"n\">1.2</td>",
        "<code>./prog 7</code>",
        "in virtual time: kernels 2.00 us",
        "give each matrix a block of memory of its own",
        "does not know the reason",
        "<dt><code>of_later</code></dt>",
        "<code>faults.p50_us</code></td><td class=\"n\">1.5",
        "uploaded 1.0 MB",
        "1 eviction.",
        "dgemm: 38.0 us",
    ] {
        assert!(page.contains(text), "{text} in {page}");
    }
}

#[test]
fn a_page_of_a_report_alone_says_that_times_are_missing() {
    let page = page(&given(Some(report()), []));
    assert_eq!(check(&page), 0);
    assert!(page.contains("There is no trace") && page.contains("id=\"reasons\""));
    assert!(!page.contains("id=\"timeline\""));
}

#[test]
fn a_page_of_a_trace_alone_counts_its_calls() {
    let page = page(&given(None, [trace()]));
    assert_eq!(check(&page), 8);
    assert!(
        page.contains("<b>1</b><span>of 9 calls on devices</span>"),
        "{page}"
    );
    assert!(page.contains("There is no report") && page.contains("<code>daxpy</code>"));
    assert!(!page.contains("id=\"numbers\""));
}

#[test]
fn a_trace_that_is_cut_off_says_so() {
    let mut cut = trace();
    (cut.cut_off, cut.damaged) = (true, 2);
    let page = page(&given(None, [cut]));
    check(&page);
    assert!(page.contains("cut off: the file ends before its summary"));
    assert!(page.contains("2 packets could not be read"));
}

#[test]
fn traces_with_little_in_them_have_pages() {
    let mut idle = Trace::default();
    idle.devices.push(Device::default());
    let mut host = trace();
    host.devices.clear();
    let mut moment = trace();
    moment.threads.clear();
    moment.devices[0].lanes[0].ops.truncate(1);
    (moment.from, moment.to) = (20_000, 20_000);
    for (trace, charts) in [(Trace::default(), 0), (idle, 0), (host, 3)] {
        assert_eq!(check(&page(&given(None, [trace]))), charts);
    }
    check(&page(&given(Some(report()), [moment, Trace::default()])));
    check(&page(&given(None, [])));
}

#[test]
fn the_largest_numbers_have_a_page() {
    let mut late = trace();
    (late.from, late.to) = (0, u64::MAX);
    late.devices[0].evictions.push((u64::MAX, u64::MAX));
    late.devices[0].memory.push((u64::MAX, u64::MAX));
    for lane in late.devices.iter_mut().flat_map(|d| &mut d.lanes) {
        lane.ops.iter_mut().for_each(|op| op.amount = u64::MAX);
        lane.untimed = vec![(What::Upload, u64::MAX); 2];
        if let Some(op) = lane.ops.last_mut() {
            op.to = u64::MAX;
        }
    }
    check(&page(&given(Some(report()), [late])));
}

#[test]
fn of_many_traces_the_first_have_charts() {
    let page = page(&given(None, (0..10).map(|_| trace())));
    assert_eq!(check(&page), 8 * 8);
    assert!(page.contains("Not shown: 2 more traces."), "{page}");
}
