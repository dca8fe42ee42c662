//! The shared objects that the process has loaded: which object an address lies in, which symbols an object imports and
//! exports.

#![expect(
    unsafe_code,
    reason = "the dynamic linker's tables are C structures in memory"
)]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;
use std::ffi::CString;

use crate::elf::{
    DT_JMPREL, DT_NEEDED, DT_PLTRELSZ, DT_RELA, DT_RELASZ, DT_STRTAB, DT_SYMTAB, Dynamic,
};
use crate::hooks::close;
use crate::link_map::LinkMap;
use crate::sites;
use semcache::host::loader;
use semcache::process::loads::Loading;
use semcache::process::signals_blocked::lifted;

/// One loaded object.
#[derive(Debug)]
pub(crate) struct Object {
    /// Path as the dynamic linker knows it; empty for the program itself.
    pub(crate) path: CString,
    /// Addresses of the object's segments, from the start of the lowest to the end of the highest.
    pub(crate) start: usize,
    end: usize,
    dynamic: Dynamic,
    /// The range that the dynamic linker makes read-only after it has relocated the object (`PT_GNU_RELRO`).
    relro: Range<usize>,
}

/// All objects, in load order.
pub(crate) fn loaded() -> Vec<Object> {
    let mut objects = Vec::new();
    // SAFETY: the callback gets the pointer it expects and does not call the dynamic linker.
    unsafe { loader::objects(collect, (&raw mut objects).cast::<c_void>()) };
    objects
}

unsafe extern "C" fn collect(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    objects: *mut c_void,
) -> c_int {
    // SAFETY: `loaded` passes its vector, and the dynamic linker a valid record whose name and program
    // headers stay mapped during the callback.
    let (info, objects, path) = unsafe {
        let info = &*info;
        let path = if info.dlpi_name.is_null() {
            CString::default()
        } else {
            CStr::from_ptr(info.dlpi_name).to_owned()
        };
        (info, &mut *objects.cast::<Vec<Object>>(), path)
    };
    let bias = info.dlpi_addr as usize;
    let mut object = Object {
        path,
        start: usize::MAX,
        end: 0,
        dynamic: Dynamic { bias, section: 0 },
        relro: 0..0,
    };
    for index in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: `dlpi_phnum` says how many program headers there are.
        let header = unsafe { &*info.dlpi_phdr.add(index) };
        let start = bias.wrapping_add(header.p_vaddr as usize);
        match header.p_type {
            libc::PT_LOAD => {
                object.start = object.start.min(start);
                object.end = object.end.max(start + header.p_memsz as usize);
            }
            libc::PT_DYNAMIC => object.dynamic.section = start,
            libc::PT_GNU_RELRO => object.relro = start..start + header.p_memsz as usize,
            _ => {}
        }
    }
    objects.push(object);
    0
}

/// The object that an address lies in.
pub(crate) fn of(objects: &[Object], address: usize) -> Option<&Object> {
    objects.iter().find(|object| object.contains(address))
}

/// A relocation entry, from elf.h.
#[repr(C)]
struct Rela {
    offset: u64,
    info: u64,
    addend: i64,
}

impl Object {
    /// The end of its highest segment.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// What is added to an address in the file.
    pub(crate) fn bias(&self) -> usize {
        self.dynamic.bias
    }

    /// The name of its file, without the folders; empty for the program itself.
    pub(crate) fn file_name(&self) -> &[u8] {
        let path = self.path.to_bytes();
        path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
    }

    /// Whether an address lies in this object.
    pub(crate) fn contains(&self, address: usize) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Whether a relocation of this object names the symbol, that is, whether the object's own code can have called it
    /// by name.
    pub(crate) fn imports(&self, name: &CStr) -> bool {
        self.slot(name).is_some()
    }

    /// The word that a relocation fills with the address of a symbol, and through which the object's code calls it.
    pub(crate) fn slot(&self, name: &CStr) -> Option<usize> {
        let mut slots = self.relocations();
        slots.find_map(|(named, at)| (named == name).then_some(at))
    }

    /// The names that the object's relocations have, each with the word that the relocation fills. The object stays mapped meanwhile:
    /// it is on the call stack, or held.
    pub(crate) fn relocations(&self) -> impl Iterator<Item = (&CStr, usize)> {
        let dynamic = self.dynamic;
        let (symbols, strings) = (dynamic.address(DT_SYMTAB), dynamic.address(DT_STRTAB));
        let tables = [
            (dynamic.address(DT_JMPREL), dynamic.value(DT_PLTRELSZ)),
            (dynamic.address(DT_RELA), dynamic.value(DT_RELASZ)),
        ];
        let named = symbols != 0 && strings != 0;
        let tables = tables
            .into_iter()
            .filter(move |(table, _)| named && *table != 0);
        let entries = tables.flat_map(|(table, bytes)| {
            (0..bytes / size_of::<Rela>())
                .map(move |index| (table as *const Rela).wrapping_add(index))
        });
        entries.filter_map(move |entry| {
            // SAFETY: the table has this number of entries; an entry's symbol index and that symbol's name are in the tables of the
            // same object, which stays mapped.
            unsafe {
                let entry = &*entry;
                let symbol = (entry.info >> 32) as usize;
                if symbol == 0 {
                    return None;
                }
                let offset = (*(symbols as *const libc::Elf64_Sym).add(symbol)).st_name as usize;
                let name = CStr::from_ptr((strings + offset) as *const c_char);
                Some((name, dynamic.bias.wrapping_add(entry.offset as usize)))
            }
        })
    }

    /// Whether the dynamic linker has made the page of this address read-only.
    pub(crate) fn is_sealed(&self, address: usize) -> bool {
        let page = rustix::param::page_size();
        let end = self.relro.end & !(page - 1);
        ((self.relro.start & !(page - 1))..end).contains(&address)
    }

    /// Whether this object names `other` as one of the libraries that it needs (`DT_NEEDED`).
    pub(crate) fn needs(&self, other: &Object) -> bool {
        let name = other.file_name();
        let strings = self.dynamic.address(DT_STRTAB);
        strings != 0
            && self.dynamic.entries().any(|[tag, value]| {
                // SAFETY: the entry's value is an offset into the object's own table of strings.
                tag == DT_NEEDED
                    && unsafe { CStr::from_ptr((strings + value) as *const c_char) }.to_bytes()
                        == name
            })
    }

    /// A handle for symbol lookups, if the object can be opened by its path.
    pub(crate) fn open(&self) -> Option<Handle> {
        if self.path.is_empty() {
            return None;
        }
        // SAFETY: opens an object that is loaded already; nothing runs.
        let raw = unsafe { libc::dlopen(self.path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!raw.is_null()).then_some(Handle(raw))
    }

    /// Keeps the object mapped while the value lives; `None` if it has been unloaded since it was listed.
    pub(crate) fn held(&self) -> Option<Held> {
        if self.path.is_empty() {
            return Some(Held(None));
        }
        let handle = self.open()?;
        // SAFETY: the handle is open.
        let map = unsafe { LinkMap::of(handle.0) }?;
        let is_it = (map.bias, map.section) == (self.dynamic.bias, self.dynamic.section);
        is_it.then_some(Held(Some(handle)))
    }

    /// Keeps the object mapped for the rest of the process.
    pub(crate) fn pin(&self) {
        if !self.path.is_empty() {
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
            // SAFETY: as in `open`; the reference is kept on purpose.
            unsafe { libc::dlopen(self.path.as_ptr(), flags) };
        }
    }

    /// The object's own definition of a symbol.
    pub(crate) fn definition(&self, name: &CStr) -> Option<usize> {
        self.open()?
            .symbol(name)
            .filter(|address| self.contains(*address))
    }
}

/// Keeps an object mapped; nothing is needed for the program itself.
#[derive(Debug)]
pub(crate) struct Held(#[expect(dead_code, reason = "dropped only")] Option<Handle>);

/// A handle of an open object; dropping it closes the object.
#[derive(Debug)]
pub(crate) struct Handle(*mut c_void);

impl Handle {
    /// The first definition of a symbol in the object or what it depends on.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<usize> {
        symbol(self.0, name)
    }

    /// The handle as the dynamic linker knows it, valid as long as `self`.
    pub(crate) fn raw(&self) -> *mut c_void {
        self.0
    }

    /// Opens a library privately (`RTLD_LOCAL`), binds all its symbols at once, and keeps the library open.
    pub(crate) fn load(path: &CStr) -> Option<*mut c_void> {
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        let _loading = Loading::new();
        // Signals are not blocked meanwhile: threads that the library's constructors make inherit the signal mask and
        // must receive the program's signals.
        // SAFETY: runs the library's constructors, which is what the user or the fallback asked for.
        let raw = lifted(|| unsafe { libc::dlopen(path.as_ptr(), flags) });
        (!raw.is_null()).then_some(raw)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle came from `dlopen` and is closed once.
        unsafe { close(self.0) };
        // The program may have closed the object meanwhile.
        sites::forget_unloaded();
    }
}

/// Looks a symbol up by a handle of the dynamic linker or `RTLD_NEXT`.
pub(crate) fn symbol(handle: *mut c_void, name: &CStr) -> Option<usize> {
    // SAFETY: a valid handle and a C string.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!address.is_null()).then_some(address as usize)
}
