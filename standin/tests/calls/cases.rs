//! Tests of the stand-in, one function each.

mod closed;
mod copies;
mod indefinite;
pub(crate) mod life;
mod products;
mod qr;
mod solver;
mod sparse;
mod streams;

use crate::End;

const ALL: &[&str] = &[
    "",
    "late",
    "poison",
    "seed=1",
    "system",
    "late,poison,seed=2",
];
const PAIR: &[&str] = &["devices=2", "devices=2,late", "devices=3,poison,seed=3"];

/// A case: its name, its function, the settings that it runs with, and how it must end.
type Case = (&'static str, unsafe fn(), &'static [&'static str], End);

pub(crate) const CASES: &[Case] = &[
    ("product", products::product, ALL, End::Fine),
    ("triangles", products::triangles, ALL, End::Fine),
    (
        "half_and_vectors",
        products::half_and_vectors,
        ALL,
        End::Fine,
    ),
    ("matrices", products::matrices, ALL, End::Fine),
    ("pageable", copies::pageable, ALL, End::Fine),
    ("reductions", products::reductions, ALL, End::Fine),
    ("guests", copies::guests, ALL, End::Fine),
    ("fills", copies::fills, ALL, End::Fine),
    ("peers", copies::peers, PAIR, End::Fine),
    ("statuses", life::statuses, &["", "memory=65536"], End::Fine),
    ("polls", streams::polls, ALL, End::Fine),
    ("events", streams::events, &["late"], End::Fine),
    (
        "times",
        streams::times,
        &["late", "late,poison,seed=2"],
        End::Fine,
    ),
    ("null_stream", streams::null_stream, ALL, End::Fine),
    ("closed", closed::closed, ALL, End::Fine),
    ("replaced", closed::replaced, ALL, End::Fine),
    (
        "closed_small",
        closed::closed_small,
        &["", "late"],
        End::Signal(11, "the CPU reads 32767 closed bytes"),
    ),
    (
        "closed_row",
        closed::closed_row,
        &[""],
        End::Signal(11, "the CPU reads 16384 closed bytes"),
    ),
    (
        "closed_pageable",
        closed::closed_pageable,
        &[""],
        End::Signal(11, "the CPU writes 65536 closed bytes"),
    ),
    ("sparse", sparse::products, ALL, End::Fine),
    ("sparse_relies", sparse::relies, ALL, End::Fine),
    ("sparse_refused", sparse::refused, &[""], End::Fine),
    (
        "sparse_destroyed",
        sparse::destroyed,
        &[""],
        End::Reported("is None, not Sparse"),
    ),
    (
        "sparse_short_scratch",
        sparse::short_scratch,
        &[""],
        End::Reported("are no memory of"),
    ),
    ("solver", solver::solutions, ALL, End::Fine),
    ("solver_space", solver::space, &["late"], End::Fine),
    ("solver_refused", solver::refused, &[""], End::Fine),
    (
        "solver_overlap",
        solver::overlap,
        &[""],
        End::Reported("two operands overlap"),
    ),
    (
        "solver_elsewhere",
        solver::elsewhere,
        &[""],
        End::Reported("are no memory of"),
    ),
    (
        "solver_unaligned",
        solver::unaligned,
        &[""],
        End::Reported("is not aligned to"),
    ),
    (
        "solver_confused",
        solver::confused,
        &[""],
        End::Reported("are no parameters of cuSOLVER"),
    ),
    ("qr", qr::products, ALL, End::Fine),
    ("qr_types", qr::types, ALL, End::Fine),
    ("qr_space", qr::space, &["late"], End::Fine),
    ("qr_refused", qr::refused, &[""], End::Fine),
    (
        "qr_overlap",
        qr::overlap,
        &[""],
        End::Reported("two operands overlap"),
    ),
    (
        "qr_elsewhere",
        qr::elsewhere,
        &[""],
        End::Reported("are no memory of"),
    ),
    (
        "qr_unaligned",
        qr::unaligned,
        &[""],
        End::Reported("is not aligned to"),
    ),
    (
        "qr_confused",
        qr::confused,
        &[""],
        End::Reported("is no host memory"),
    ),
    ("indefinite", indefinite::solutions, ALL, End::Fine),
    ("indefinite_types", indefinite::types, ALL, End::Fine),
    ("indefinite_space", indefinite::space, &["late"], End::Fine),
    ("indefinite_refused", indefinite::refused, &[""], End::Fine),
    (
        "indefinite_overlap",
        indefinite::overlap,
        &[""],
        End::Reported("two operands overlap"),
    ),
    (
        "indefinite_elsewhere",
        indefinite::elsewhere,
        &[""],
        End::Reported("are no memory of"),
    ),
    (
        "indefinite_unaligned",
        indefinite::unaligned,
        &[""],
        End::Reported("is not aligned to"),
    ),
    (
        "indefinite_confused",
        indefinite::confused,
        &[""],
        End::Reported("is no host memory"),
    ),
    ("forked", life::forked, &[""], End::Fine),
    ("nothing", life::nothing, &["devices=0"], End::Fine),
    ("chain", life::chain, &[""], End::Fine),
];
