//! The same memory cannot be viewed as an input and as a result.
use semcache_api::{Error, Transpose, View, ViewMut, scope};

fn main() -> Result<(), Error> {
    let (a, mut c) = (vec![1.0; 4], vec![0.0; 4]);
    scope(|s| {
        let (a, b) = (View::new(&a, 2, 2, 2)?, View::new(&c, 2, 2, 2)?);
        s.gemm(Transpose::No, Transpose::No, 1.0, a, b, 0.0, ViewMut::new(&mut c, 2, 2, 2)?)?;
        Ok(())
    })
}
