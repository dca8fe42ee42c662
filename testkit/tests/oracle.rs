//! The oracle against numbers worked out by hand.

use num_complex::Complex64;
use testkit::oracle::Dense;

fn number(re: f64, im: f64) -> Complex64 {
    Complex64::new(re, im)
}

/// By rows.
fn two(elements: [[Complex64; 2]; 2]) -> Dense {
    Dense::of(2, 2, |i, j| elements[i][j])
}

fn real(elements: [[f64; 2]; 2]) -> Dense {
    two(elements.map(|row| row.map(|x| number(x, 0.0))))
}

#[test]
fn products() {
    let a = real([[1.0, 2.0], [3.0, 4.0]]);
    let b = real([[5.0, 6.0], [7.0, 8.0]]);
    assert_eq!(a.times(&b).v, real([[19.0, 22.0], [43.0, 50.0]]).v);
    assert_eq!(a.op(b'T').times(&b).v, real([[26.0, 30.0], [38.0, 44.0]]).v);
    let i = two([[number(0.0, 1.0); 2]; 2]);
    assert_eq!(i.times(&i).v, real([[-2.0; 2]; 2]).v);
    assert_eq!(i.op(b'C').times(&i).v, real([[2.0; 2]; 2]).v);
}

#[test]
fn halves() {
    let (x, y, z) = (number(1.0, 5.0), number(2.0, 3.0), number(4.0, 0.0));
    let a = two([[x, y], [number(77.0, 77.0), z]]);
    assert_eq!(a.mirrored(b'U', false).v, [x, y, y, z]);
    assert_eq!(a.mirrored(b'U', true).v, [number(1.0, 0.0), y.conj(), y, z]);
    let (one, zero) = (Complex64::ONE, Complex64::ZERO);
    assert_eq!(a.triangle(b'U', b'N').v, [x, zero, y, z]);
    assert_eq!(a.triangle(b'U', b'U').v, [one, zero, y, one]);
}

#[test]
fn updates_and_solutions() {
    let (one, two) = (number(1.0, 0.0), number(2.0, 0.0));
    let c = real([[1.0; 2]; 2]);
    let (a, b) = (
        real([[1.0, 0.0], [2.0, 0.0]]),
        real([[3.0, 0.0], [4.0, 0.0]]),
    );
    let rank = c.updated(&a, None, false, (two, one));
    assert_eq!(rank.v, real([[3.0, 5.0], [5.0, 9.0]]).v);
    let rank = c.updated(&a, Some(&b), false, (one, two));
    assert_eq!(rank.v, real([[8.0, 12.0], [12.0, 18.0]]).v);
    let t = real([[1.0, 0.0], [3.0, -1.0]]);
    let x = real([[2.0, 1.0], [5.0, 4.0]]);
    assert_eq!(t.times(&x).solved(&t, true).v, x.v);
}
