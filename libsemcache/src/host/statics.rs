#![expect(unsafe_code, reason = "walks the loaded objects' program headers")]
//! Static data of loaded objects (.data, .bss, COMMON), where legacy Fortran programs keep their matrices: found in the
//! objects' program headers and adopted as blocks.
//!
//! Only private writable segments are adopted, from their first whole page and without the part that is read-only after
//! relocation. Objects that serve page faults, and objects that these use, are left out.

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use super::adopted::{self, Segment};
use super::loader;
use super::sys::{self, Table};

/// Objects whose data is never made inaccessible, by the beginning of their file name: libraries that this library
/// itself needs, language runtimes, and the drivers of devices.
const EXCLUDED: [&[u8]; 19] = [
    b"ld-linux",
    b"ld64",
    b"libc.",
    b"libc-",
    b"libm.",
    b"libm-",
    b"libpthread",
    b"libdl",
    b"librt",
    b"libgcc_s",
    b"libstdc++",
    b"libc++",
    b"libgfortran",
    b"libquadmath",
    b"libcu",
    b"libnv",
    b"libsemcache",
    b"linux-vdso",
    b"libasan",
];

/// The most segments that are kept; further segments are not adopted.
const MOST: usize = 4096;

/// The dynamic linker's counts of objects loaded and unloaded when the table was last made; they are never both 0 once
/// it was.
static LOADED: AtomicU64 = AtomicU64::new(0);
static UNLOADED: AtomicU64 = AtomicU64::new(0);

/// Updates the adopted static data if an object was loaded or unloaded since the last call. The calling thread holds no
/// lock of semcache while it holds the dynamic linker's.
pub(super) fn refresh() {
    let now = loader::changes();
    if (LOADED.load(Acquire), UNLOADED.load(Acquire)) == now {
        return;
    }
    let Some(table) = Table::<Segment>::map(MOST) else {
        return;
    };
    let mut found = Found {
        table,
        count: 0,
        least: adopted::least(),
        page: sys::page_size(),
    };
    // SAFETY: the callback writes to `found`, which outlives the call.
    unsafe { loader::objects(collect, (&raw mut found).cast()) };
    adopted::set_statics(&found.table.all()[..found.count]);
    LOADED.store(now.0, Release);
    UNLOADED.store(now.1, Release);
    found.table.unmap();
}

struct Found {
    table: Table<Segment>,
    count: usize,
    least: usize,
    page: usize,
}

unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _: usize, out: *mut c_void) -> c_int {
    // SAFETY: `out` is what `refresh` passed, and no other thread uses it meanwhile.
    let found = unsafe { &mut *out.cast::<Found>() };
    // SAFETY: the loader passes a valid record, whose name is a string or null, and whose headers are an
    // array of that length; none changes while the loader holds its lock.
    let (base, headers, name) = unsafe {
        let i = &*info;
        let headers: &[libc::Elf64_Phdr] = if i.dlpi_phdr.is_null() {
            &[]
        } else {
            core::slice::from_raw_parts(i.dlpi_phdr, usize::from(i.dlpi_phnum))
        };
        let name = if i.dlpi_name.is_null() {
            c""
        } else {
            core::ffi::CStr::from_ptr(i.dlpi_name)
        };
        (i.dlpi_addr, headers, name.to_bytes())
    };
    let file = name.rsplit(|b| *b == b'/').next().unwrap_or(name);
    let span = |h: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(h.p_vaddr) as usize;
        (start, start + h.p_memsz as usize)
    };
    let loads = || headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
    let own_code = (refresh as fn() as *const ()).addr();
    let own = loads()
        .map(span)
        .any(|(start, end)| (start..end).contains(&own_code));
    if own || EXCLUDED.iter().any(|e| file.starts_with(e)) {
        return 0;
    }
    let constant = headers
        .iter()
        .find(|h| h.p_type == libc::PT_GNU_RELRO)
        .map_or((0, 0), span);
    for h in loads().filter(|h| h.p_flags & (libc::PF_W | libc::PF_X) == libc::PF_W) {
        let s = interior(span(h), constant, found.page);
        if s.len >= found.least && found.count < MOST {
            found.table.all_mut()[found.count] = s;
            found.count += 1;
        }
    }
    0
}

/// `[start, end)` from the first whole page behind the part that becomes read-only, if that part lies in it. The last
/// page of a segment may be shared with other data (without randomisation older kernels begin the heap in it). It still
/// belongs to the segment, so that an array there lies in one block, but a partial page at the end of a block is never
/// made inaccessible.
fn interior((start, end): (usize, usize), constant: (usize, usize), page: usize) -> Segment {
    let from = if constant.0 < end && start < constant.1 {
        start.max(constant.1)
    } else {
        start
    };
    let first = from.next_multiple_of(page);
    Segment {
        start: first,
        len: end.saturating_sub(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interiors() {
        let seg = |start, len| Segment { start, len };
        assert_eq!(
            interior((0x1000, 0x3000), (0, 0), 0x1000),
            seg(0x1000, 0x2000)
        );
        assert_eq!(
            interior((0x1001, 0x2fff), (0, 0), 0x1000),
            seg(0x2000, 0xfff)
        );
        assert_eq!(
            interior((0x1800, 0x4800), (0x1800, 0x2800), 0x1000),
            seg(0x3000, 0x1800)
        );
        assert_eq!(interior((0x1800, 0x1900), (0, 0), 0x1000).len, 0);
    }
}
