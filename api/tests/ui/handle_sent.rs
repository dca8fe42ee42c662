//! Another thread, whose calls would come at any time, cannot have a handle, nor the scope.
use semcache_api::{Error, Pending, Transpose, ViewMut, scope};

fn main() -> Result<(), Error> {
    let mut c = vec![0.0; 4];
    scope(|s| {
        let c = Pending::from(ViewMut::new(&mut c, 2, 2, 2)?);
        std::thread::scope(|threads| {
            threads.spawn(move || c.rows());
            threads.spawn(|| s.status());
        });
        s.syrk(semcache_api::Uplo::Lower, Transpose::No, 1.0, c, 0.0, c)?;
        Ok(())
    })
}
