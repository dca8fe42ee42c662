//! What a call returns cannot leave the scope.
use semcache_api::{Error, Transpose, View, ViewMut, scope};

fn main() -> Result<(), Error> {
    let (a, mut c) = (vec![1.0; 4], vec![0.0; 4]);
    let result = scope(|s| {
        let input = View::new(&a, 2, 2, 2)?;
        s.gemm(Transpose::No, Transpose::No, 1.0, input, input, 0.0, ViewMut::new(&mut c, 2, 2, 2)?)
    })?;
    println!("{}", result.rows());
    Ok(())
}
