//! A matrix cannot be changed or freed while it is pinned.
use semcache_api::{Device, Error, Hints, View};

fn main() -> Result<(), Error> {
    let mut a = vec![1.0; 4];
    let pinned = View::new(&a, 2, 2, 2)?.pin(Device::All);
    a[0] = 2.0;
    drop(a);
    drop(pinned);
    Ok(())
}
