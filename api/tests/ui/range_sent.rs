//! A range belongs to the thread that began it.
fn main() {
    let range = semcache_api::range("a");
    std::thread::spawn(move || drop(range));
}
