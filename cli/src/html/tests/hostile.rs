//! Names from outside, which may be anything.

use super::check::check;
use super::{given, report, trace};
use crate::html::page;
use crate::trace::model::{Did, Side, Trace};

const NAME: &str = "<script>alert(\"x\")</script>' onload=\"y\" &amp; a\nb\r\t\x1b[31m\u{9b}\u{202e}\0--><!--]]></style></svg>";

/// A trace all of whose names are hostile.
fn hostile() -> Trace {
    let mut trace = trace();
    trace.program = NAME.to_owned();
    let name = trace.names.add(NAME);
    for thread in &mut trace.threads {
        thread.name = NAME.to_owned();
        for slice in &mut thread.slices {
            slice.name = name;
            if let Did::Call(Side::Host(why), _) = &mut slice.did {
                *why = name;
            }
        }
    }
    for device in &mut trace.devices {
        device.name = NAME.to_owned();
        let ops = device.lanes.iter_mut().flat_map(|lane| &mut lane.ops);
        ops.for_each(|op| op.name = name);
    }
    trace.summary = vec![
        (format!("host.{NAME}.{NAME}"), 3),
        (format!("dropped.{NAME}"), 4),
    ];
    trace
}

#[test]
fn nothing_from_outside_is_markup() {
    let mut told = report();
    for device in &mut told.sum.devices {
        (device.name, device.kind) = (NAME.to_owned(), NAME.to_owned());
        device.left_out = [(NAME.to_owned(), 2)].into();
    }
    told.processes[0].command = NAME.to_owned();
    let mut calls = told.sum.calls["dgemm"].clone();
    calls.add_host(NAME, 9);
    told.sum.calls.insert(NAME.to_owned(), calls);
    told.sum.degraded.insert(NAME.to_owned());
    let (tame, plain) = (
        page(&given(Some(report()), [trace()])),
        page(&given(None, [trace()])),
    );
    for (report, tame) in [(Some(told), tame), (None, plain)] {
        let mut given = given(report, [hostile(), hostile()]);
        given
            .reports
            .iter_mut()
            .for_each(|name| NAME.clone_into(name));
        given
            .traces
            .iter_mut()
            .for_each(|traced| NAME.clone_into(&mut traced.file));
        let page = page(&given);
        check(&page);
        assert!(page.contains("&lt;script&gt;alert(&quot;x&quot;)"));
        for raw in ["alert(\"", "onload=\"", "<!--", "]]></"] {
            assert!(!page.contains(raw), "{raw}");
        }
        for closed in ["</style>", "<style>", "<body>"] {
            assert_eq!(page.matches(closed).count(), 1, "{closed}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        // No line feed but those between the sections.
        assert_eq!(page.lines().count(), tame.lines().count());
    }
}
