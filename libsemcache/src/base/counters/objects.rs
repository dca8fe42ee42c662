//! The shared objects of a process: which file has the code at an address, also after the process has ended.

use super::table::Counter;
use super::text::Text;

const OBJECTS: usize = 384;

/// A loaded object.
#[derive(Debug)]
struct Object {
    start: Counter,
    end: Counter,
    /// What is added to an address in the file.
    bias: Counter,
    path: Text<24>,
    /// 1 for the library of C.
    of_c: Counter,
}

/// The objects.
#[derive(Debug)]
pub struct ObjectTable {
    objects: [Object; OBJECTS],
    used: Counter,
}

impl ObjectTable {
    pub(super) const fn new() -> ObjectTable {
        ObjectTable {
            objects: [const {
                Object {
                    start: Counter::new(),
                    end: Counter::new(),
                    bias: Counter::new(),
                    path: Text::new(),
                    of_c: Counter::new(),
                }
            }; OBJECTS],
            used: Counter::new(),
        }
    }

    /// Stores all objects, in place of those that were stored before.
    pub fn tell<'a>(&self, all: impl Iterator<Item = (usize, usize, usize, &'a [u8])>) {
        let mut used = 0;
        for (object, (start, end, bias, path)) in self.objects.iter().zip(all) {
            object.start.set(start as u64);
            object.end.set(end as u64);
            object.bias.set(bias as u64);
            object.path.set(path);
            let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
            object.of_c.set(u64::from(
                name.starts_with(b"libc.") || name.starts_with(b"libc-"),
            ));
            used += 1;
        }
        self.used.set(used);
    }

    /// Whether the code at an address is that of the library of C.
    #[must_use]
    pub fn is_of_c(&self, address: usize) -> bool {
        let mut of_c = self.objects.iter().filter(|o| o.of_c.get() == 1);
        of_c.any(|o| (o.start.get()..o.end.get()).contains(&(address as u64)))
    }

    /// The file with the code at an address, and the address in that file.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<(String, u64)> {
        let used = usize::try_from(self.used.get()).unwrap_or(0);
        let mut objects = self.objects.iter().take(used);
        let object = objects.find(|o| (o.start.get()..o.end.get()).contains(&address))?;
        Some((object.path.get(), address.wrapping_sub(object.bias.get())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lie_in_files() {
        let table = Box::new(ObjectTable::new());
        let all = [
            (0x1000, 0x2000, 0x400, &b"/a"[..]),
            (0x5000, 0x6000, 0x5000, &b"/b"[..]),
        ];
        table.tell(all.into_iter());
        assert_eq!(table.find(0x1fff), Some(("/a".to_owned(), 0x1bff)));
        assert_eq!(table.find(0x5000), Some(("/b".to_owned(), 0)));
        assert_eq!((table.find(0x2000), table.find(0)), (None, None));
        table.tell(
            [
                (0x1000, 0x2000, 0, &b"/lib/libc.so.6"[..]),
                (0x2000, 0x3000, 0, b"/x/libcuda.so"),
            ]
            .into_iter(),
        );
        assert!(table.is_of_c(0x1000) && !table.is_of_c(0x2000));
        table.tell(std::iter::empty());
        assert_eq!(table.find(0x5000), None);
    }
}
