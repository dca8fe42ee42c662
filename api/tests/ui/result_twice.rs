//! A view that may be changed is given away with a call: further calls take what the call returns.
use semcache_api::{Error, Transpose, View, ViewMut, scope};

fn main() -> Result<(), Error> {
    let (a, mut c) = (vec![1.0; 4], vec![0.0; 4]);
    scope(|s| {
        let (a, c) = (View::new(&a, 2, 2, 2)?, ViewMut::new(&mut c, 2, 2, 2)?);
        s.gemm(Transpose::No, Transpose::No, 1.0, a, a, 0.0, c)?;
        s.gemm(Transpose::No, Transpose::No, 1.0, a, a, 1.0, c)?;
        Ok(())
    })
}
