//! Why something was not faster, and what to do about it, in a sentence.

use semcache::base::counters::WhyHost;
use semcache::runtime::report::places::{Matrix, Place, Site};
use semcache::runtime::report::table::human;

use super::lines::Lines;

/// Bytes that a call on devices may move without a word about it.
const FEW: u64 = 1 << 20;

/// What is to be said of a site.
pub(crate) fn site(site: &Site) -> String {
    if site.faults > 0 {
        return access(site);
    }
    if site.buffers > 0 {
        return message(site);
    }
    let (host, devices) = (site.host(), site.offloaded);
    let most = site.why_host.iter().max_by_key(|(_, n)| **n);
    if let Some((name, n)) = most.filter(|_| host >= devices) {
        return match WhyHost::named(name) {
            Some(why) => format!("{n} {}: {}", why.said(), why.advice()),
            None => format!("{n} {name}"),
        };
    }
    let moved = site.h2d + site.d2h;
    match moved.checked_div(devices).filter(|each| *each >= FEW) {
        Some(each) => format!(
            "each call on devices moves {}: what it uses does not stay there",
            human(each)
        ),
        None => "runs on devices".to_owned(),
    }
}

fn access(site: &Site) -> String {
    if site.false_sharing * 2 >= site.faults {
        return "the CPU uses other data on pages of a matrix that devices hold: give the matrix pages of its own".to_owned();
    }
    match site.does.as_str() {
        "store" => "the CPU changes a matrix that devices hold: what it changes is sent again at the next call".to_owned(),
        _ => format!("the CPU reads results of devices: {} were copied back for it", human(site.d2h)),
    }
}

fn message(site: &Site) -> String {
    match site.d2h {
        0 => "MPI writes what devices hold: it is sent again at the next call".to_owned(),
        bytes => format!(
            "MPI gets results of devices: {} were copied back, for {} buffers",
            human(bytes),
            site.buffers
        ),
    }
}

/// Where the first call with a matrix was made, and what is to be said of it.
pub(crate) fn told(of: &Matrix, lines: &mut Lines) -> (String, String) {
    let mut at = |place: &Option<Place>| place.as_ref().map(|place| lines.of(place, false));
    let (load, store) = (at(&of.load), at(&of.store));
    let said = matrix(of, load.as_deref(), store.as_deref());
    (lines.of(&of.first, true), said)
}

/// What is to be said of a matrix. `load` and `store` say where the CPU last read and changed it.
fn matrix(matrix: &Matrix, load: Option<&str>, store: Option<&str>) -> String {
    let faults = matrix.loads + matrix.stores;
    let at = |place: Option<&str>| {
        place
            .map(|place| format!(" at {place}"))
            .unwrap_or_default()
    };
    let mut told = Vec::new();
    if faults > 0 && matrix.false_sharing * 2 >= faults {
        let place = if matrix.stores > 0 { store } else { load };
        told.push(format!(
            "the CPU uses other data on its pages{}: give it pages of its own (aligned to 4096 bytes, padded to the end)",
            at(place)
        ));
    } else if matrix.stores > 0 && matrix.h2d > matrix.bytes {
        told.push(format!(
            "the CPU changes it between calls{}, {}; {} were sent, {:.1} times its size",
            at(store),
            times(matrix.stores),
            human(matrix.h2d),
            ratio(matrix.h2d, matrix.bytes)
        ));
    } else if matrix.h2d > 2 * matrix.bytes {
        let times = ratio(matrix.h2d, matrix.bytes);
        told.push(format!(
            "sent {times:.1} times: it does not stay, for want of device memory or because it is changed"
        ));
    }
    if matrix.edges > 0 && matrix.calls > 1 {
        told.push(format!(
            "{} of results were copied back before calls returned, as their pages hold other data, too: give it pages of its own",
            human(matrix.edges)
        ));
    }
    if matrix.loads > 0 && matrix.d2h > matrix.edges {
        let came = human(matrix.d2h - matrix.edges);
        told.push(format!(
            "the CPU reads it{}, {}: {came} came back",
            at(load),
            times(matrix.loads)
        ));
    }
    if matrix.solver_calls > 0 {
        told.push(format!(
            "LAPACK computes with it on the host, {}, {:.3} s: its BLAS calls are out of sight",
            times(matrix.solver_calls),
            matrix.solver_seconds
        ));
    }
    match told.is_empty() {
        true => "stays on devices".to_owned(),
        false => told.join("; "),
    }
}

fn times(n: u64) -> String {
    if n == 1 {
        "once".to_owned()
    } else {
        format!("{n} times")
    }
}

fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_name_the_cause() {
        let calls = Site {
            does: "ddot".to_owned(),
            why_host: [("small".to_owned(), 9), ("starting".to_owned(), 1)].into(),
            ..Site::default()
        };
        assert!(site(&calls).starts_with("9 too small to gain: do the same work in fewer"));
        let moves = Site {
            offloaded: 10,
            h2d: 50 << 20,
            ..Site::default()
        };
        assert_eq!(
            site(&moves),
            "each call on devices moves 5.2 MB: what it uses does not stay there"
        );
        let writes = Site {
            does: "store".to_owned(),
            faults: 5,
            ..Site::default()
        };
        assert!(site(&writes).contains("changes a matrix"));
        let shares = Site {
            false_sharing: 3,
            ..writes
        };
        assert!(site(&shares).contains("pages of its own"));
        let sends = Site {
            does: "MPI_Send".to_owned(),
            buffers: 2,
            d2h: 1 << 20,
            ..Site::default()
        };
        assert_eq!(
            site(&sends),
            "MPI gets results of devices: 1.0 MB were copied back, for 2 buffers"
        );
        let receives = Site { d2h: 0, ..sends };
        assert!(site(&receives).contains("sent again at the next call"));
    }

    #[test]
    fn matrices_too() {
        let changed = Matrix {
            bytes: 1000,
            stores: 5,
            h2d: 6000,
            ..Matrix::default()
        };
        let told = matrix(&changed, None, Some("a.c:7"));
        assert_eq!(
            told,
            "the CPU changes it between calls at a.c:7, 5 times; 6 kB were sent, 6.0 times its size"
        );
        let shared = Matrix {
            false_sharing: 4,
            ..changed.clone()
        };
        assert!(matrix(&shared, None, Some("a.c:7")).contains("other data on its pages at a.c:7"));
        let shares = Matrix {
            calls: 9,
            edges: 2000,
            d2h: 2100,
            ..Matrix::default()
        };
        assert!(
            matrix(&shares, None, None)
                .starts_with("2 kB of results were copied back before calls returned")
        );
        let read = Matrix {
            bytes: 1000,
            loads: 2,
            d2h: 1000,
            ..Matrix::default()
        };
        assert!(matrix(&read, Some("b.c:1"), None).contains("reads it at b.c:1, 2 times"));
        let solved = Matrix {
            solver_calls: 3,
            solver_seconds: 0.5,
            ..Matrix::default()
        };
        assert_eq!(
            matrix(&solved, None, None),
            "LAPACK computes with it on the host, 3 times, 0.500 s: its BLAS calls are out of sight"
        );
        assert_eq!(matrix(&Matrix::default(), None, None), "stays on devices");
    }
}
