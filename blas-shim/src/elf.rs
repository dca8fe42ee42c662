//! Reads the dynamic section of a loaded ELF object, and the functions that the object exports. The code calls no
//! function of the dynamic linker, allocates nothing, takes no lock and makes no system call.

#![expect(
    unsafe_code,
    reason = "the dynamic linker's tables are C structures in memory"
)]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::iter;

use crate::link_map::LinkMap;

// From elf.h: the tags of a dynamic section's entries, and constants of the tables that the entries lead to.
pub(crate) const DT_NEEDED: usize = 1;
pub(crate) const DT_PLTRELSZ: usize = 2;
pub(crate) const DT_STRTAB: usize = 5;
pub(crate) const DT_SYMTAB: usize = 6;
pub(crate) const DT_RELA: usize = 7;
pub(crate) const DT_RELASZ: usize = 8;
pub(crate) const DT_JMPREL: usize = 23;
const DT_HASH: usize = 4;
const DT_SONAME: usize = 14;
const DT_GNU_HASH: usize = 0x6fff_fef5;
const DT_VERSYM: usize = 0x6fff_fff0;
const STB_GLOBAL: u8 = 1;
const STB_WEAK: u8 = 2;
const STB_GNU_UNIQUE: u8 = 10;
const STT_GNU_IFUNC: u8 = 10;
/// A bit of a symbol's version: only a reference that names this version is bound to the symbol.
const HIDDEN: u16 = 1 << 15;

/// The dynamic section of a loaded object that stays mapped while it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dynamic {
    /// Load bias of the object.
    pub(crate) bias: usize,
    /// Address of the section; zero if there is none.
    pub(crate) section: usize,
}

impl Dynamic {
    /// The entries: tag and value.
    pub(crate) fn entries(self) -> impl Iterator<Item = [usize; 2]> {
        let mut entry = self.section as *const [usize; 2];
        iter::from_fn(move || {
            if entry.is_null() {
                return None;
            }
            // SAFETY: a dynamic section is an array of pairs that ends with a zero tag, and the object is mapped.
            let pair = unsafe { *entry };
            entry = entry.wrapping_add(1);
            (pair[0] != 0).then_some(pair)
        })
    }

    /// The value of the entry with this tag; zero if there is none.
    pub(crate) fn value(self, tag: usize) -> usize {
        let found = self.entries().find(|entry| entry[0] == tag);
        found.map_or(0, |entry| entry[1])
    }

    /// The value of the entry with this tag as an address. glibc relocates these entries in place, except those of
    /// objects whose dynamic section is read-only.
    pub(crate) fn address(self, tag: usize) -> usize {
        match self.value(tag) {
            0 => 0,
            // An object that is mapped below the address it was linked for has a negative bias; its section is
            // writable, so glibc has relocated the entry.
            value if value < self.bias && self.bias.cast_signed() > 0 => self.bias + value,
            value => value,
        }
    }

    /// Whether the object is the library of this name (`DT_SONAME`), by which other objects name the libraries that
    /// they need.
    fn is_library(self, name: &CStr) -> bool {
        let (strings, at) = (self.address(DT_STRTAB), self.value(DT_SONAME));
        // SAFETY: the entry's value is an offset into the object's own table of strings.
        at != 0
            && strings != 0
            && unsafe { CStr::from_ptr((strings + at) as *const c_char) } == name
    }

    /// The address of the function that the object exports under a name, in the default version of the name.
    pub(crate) fn function(self, name: &CStr) -> Option<*mut c_void> {
        let symbols = self.address(DT_SYMTAB) as *const libc::Elf64_Sym;
        let strings = self.address(DT_STRTAB) as *const c_char;
        let versions = self.address(DT_VERSYM) as *const u16;
        if symbols.is_null() || strings.is_null() {
            return None;
        }
        let is_it = |at: &usize| {
            // SAFETY: the tables of a mapped object, which have an entry for each symbol that its hash table names.
            unsafe {
                let symbol = &*symbols.add(*at);
                symbol.st_shndx != 0
                    && matches!(symbol.st_info >> 4, STB_GLOBAL | STB_WEAK | STB_GNU_UNIQUE)
                    && CStr::from_ptr(strings.add(symbol.st_name as usize)) == name
                    && (versions.is_null() || *versions.add(*at) & HIDDEN == 0)
            }
        };
        let at = match (self.address(DT_GNU_HASH), self.address(DT_HASH)) {
            (0, 0) => return None,
            // SAFETY: a table of this format, of a mapped object.
            (0, table) => unsafe { (1..*(table as *const u32).add(1) as usize).find(is_it)? },
            // SAFETY: a hash table of GNU's format, of a mapped object.
            (table, _) => unsafe { in_bucket(table as *const u32, gnu_hash(name)).find(is_it)? },
        };
        // SAFETY: found above.
        let symbol = unsafe { &*symbols.add(at) };
        let address = self.bias.wrapping_add(symbol.st_value as usize);
        if symbol.st_info & 0xf != STT_GNU_IFUNC {
            return Some(address as *mut c_void);
        }
        // SAFETY: the function that chooses among the implementations of the symbol; on x86-64 it has no arguments, and its
        // object has been relocated.
        unsafe {
            let choose: extern "C" fn() -> *mut c_void = core::mem::transmute(address);
            Some(choose())
        }
    }
}

/// The symbols with this hash, by a hash table of GNU's format: four words, a Bloom filter of 64-bit words, the first
/// symbol of each bucket (zero if the bucket is empty), and a word for each symbol from the first hashed one on: the
/// symbol's hash, except the lowest bit, which marks the last symbol of a bucket.
///
/// # Safety
/// The pointer is to such a table, which stays mapped.
unsafe fn in_bucket(table: *const u32, hash: u32) -> impl Iterator<Item = usize> {
    // SAFETY: by the contract.
    let (lists, first, begin) = unsafe {
        let [buckets, first, filter] = [0, 1, 2].map(|i| *table.add(i) as usize);
        let heads = table.add(4 + 2 * filter);
        let bucket = (hash as usize).checked_rem(buckets);
        let begin = bucket.map_or(0, |bucket| *heads.add(bucket) as usize);
        (heads.add(buckets), first, begin)
    };
    let mut next = (begin != 0 && begin >= first).then_some(begin);
    let bucket = iter::from_fn(move || {
        let at = next?;
        // SAFETY: the table has a word for each hashed symbol.
        let listed = unsafe { *lists.add(at - first) };
        next = (listed & 1 == 0).then_some(at + 1);
        Some((at, listed))
    });
    bucket.filter_map(move |(at, listed)| ((listed ^ hash) >> 1 == 0).then_some(at))
}

/// The hash of a name in GNU's hash tables.
fn gnu_hash(name: &CStr) -> u32 {
    let add = |hash: u32, byte: &u8| hash.wrapping_mul(33).wrapping_add(u32::from(*byte));
    name.to_bytes().iter().fold(5381, add)
}

#[repr(C)]
struct Debug {
    version: c_int,
    map: *const LinkMap,
}

unsafe extern "C" {
    /// The dynamic linker's list of objects, in load order, for debuggers.
    static _r_debug: Debug;
    /// The dynamic section of the object that this code is linked into.
    static _DYNAMIC: [usize; 2];
}

/// The function of a name in the objects that follow this library in load order, up to libc: the definition that the
/// program would be bound to without this library. If libc comes before this library, libc's function. None if none of
/// these objects has the function, or if this library is in a namespace of its own (`dlmopen`). Auditors (`LD_AUDIT`)
/// are not asked.
///
/// `dlsym` with `RTLD_NEXT` finds the same function; but `dlsym` begins by freeing the text of its last error, which
/// calls the program's allocator, which may call a hook whose libc function has not been looked up yet.
pub(crate) fn next_function(name: &CStr) -> Option<*mut c_void> {
    let own = &raw const _DYNAMIC as usize;
    // SAFETY: the variable is the dynamic linker's; it is set before any other object's code runs.
    let mut map = unsafe { _r_debug.map };
    let mut behind = false;
    loop {
        // SAFETY: libc is one of the objects that a process starts with, as are all those before it: they are never unloaded,
        // and nothing is put between them. The walk ends there.
        let LinkMap {
            bias,
            name: path,
            section,
            next,
        } = *unsafe { map.as_ref() }?;
        let object = Dynamic { bias, section };
        if object.is_library(c"libc.so.6") {
            // A libc that follows this library is the libc that this library is bound to; a libc before this library
            // may belong to another namespace.
            let ours = libc::gnu_get_libc_version as *const () as *mut c_void;
            let is_ours = behind || object.function(c"gnu_get_libc_version") == Some(ours);
            return is_ours.then(|| object.function(name)).flatten();
        }
        // SAFETY: the path of a loaded object.
        let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) });
        // The vDSO, an object of the kernel's without a file, is in the list, but programs are not bound to its
        // symbols.
        let is_file = path.is_some_and(|path| path.to_bytes().contains(&b'/'));
        if behind
            && is_file
            && let Some(found) = object.function(name)
        {
            return Some(found);
        }
        behind |= section == own;
        map = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next definition is the one that the dynamic linker finds. The test program has all hooks, and only its
    /// libraries follow it in load order.
    #[test]
    fn next_functions_are_those_of_dlsym() {
        for name in [
            c"malloc",
            c"poll",
            c"clock_gettime",
            c"gettimeofday",
            c"pthread_create",
            c"memcpy",
            c"sin",
        ] {
            // SAFETY: a C string.
            let theirs = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            let found = next_function(name);
            // libm may follow libc in load order.
            if found.is_some() || name != c"sin" {
                assert_eq!(found, Some(theirs), "{name:?}");
            }
        }
        assert_eq!(next_function(c"there is no such function"), None);
        assert_eq!(next_function(c""), None);
    }

    #[test]
    fn hashes() {
        assert_eq!(gnu_hash(c""), 5381);
        assert_eq!(gnu_hash(c"printf"), 0x156b_2bb8);
    }
}
