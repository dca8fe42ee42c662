//! While a kernel of the program may change a matrix, nothing else can use it.
use semcache_api::{Device, Error, Hints, ViewMut};

fn main() -> Result<(), Error> {
    let mut a = vec![1.0; 4];
    let mut a = ViewMut::new(&mut a, 2, 2, 2)?;
    a.write_gpu(0, |found| {
        println!("{:#x}", found.address);
        a.prefetch(Device::All)
    })??;
    Ok(())
}
