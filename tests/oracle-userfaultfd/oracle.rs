//! The oracle: memory on which every first write to a page is a write fault, which a thread records before the write goes on.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use userfaultfd::{Event, FaultKind, FeatureFlags, RegisterMode, Uffd, UffdBuilder};

use crate::memory::{Memory, page};

/// Memory of which crate userfaultfd says which pages are written.
pub(crate) struct Oracle {
    memory: Memory,
    uffd: Arc<Uffd>,
    written: Receiver<usize>,
    thread: Option<JoinHandle<()>>,
}

impl Oracle {
    /// An oracle on pages that are all present, none of them written so far.
    pub(crate) fn new(pages: usize, huge: bool) -> Oracle {
        // The page behind the others is not part of the memory: a write to it ends the thread.
        let memory = Memory::new(pages + 1, huge);
        let uffd = UffdBuilder::new()
            .close_on_exec(true)
            .user_mode_only(false)
            .require_features(FeatureFlags::PAGEFAULT_FLAG_WP)
            .create()
            .unwrap_or_else(|error| {
                panic!(
                    "no userfaultfd that also reports writes by the kernel: {error}. It needs Linux 5.7 or newer, and \
                     either root or vm.unprivileged_userfaultfd=1"
                )
            });
        uffd.register_with_mode(
            pointer(memory.start()),
            memory.len(),
            RegisterMode::WRITE_PROTECT,
        )
        .unwrap();
        uffd.write_protect(pointer(memory.start()), memory.len())
            .unwrap();
        let uffd = Arc::new(uffd);
        let (found, written) = channel();
        let (faults, start) = (Arc::clone(&uffd), memory.start());
        let thread = std::thread::spawn(move || {
            loop {
                let index = match faults.read_event() {
                    Ok(Some(Event::Pagefault {
                        kind: FaultKind::WriteProtected,
                        addr,
                        ..
                    })) => (addr.addr() - start) / page(),
                    // The writer would wait for good.
                    other => {
                        eprintln!("not a write fault: {other:?}");
                        std::process::abort();
                    }
                };
                found.send(index).unwrap();
                faults
                    .remove_write_protection(pointer(start + index * page()), page(), true)
                    .unwrap_or_else(|error| {
                        eprintln!("page {index} stays protected: {error}");
                        std::process::abort();
                    });
                if index == pages {
                    break;
                }
            }
        });
        Oracle {
            memory,
            uffd,
            written,
            thread: Some(thread),
        }
    }

    /// The memory, and the page behind it.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The pages that were written since the last call. A page that two threads write at once may have faulted twice. No
    /// thread writes meanwhile.
    pub(crate) fn written(&self) -> BTreeSet<usize> {
        let pages = self.written.try_iter().collect();
        self.uffd
            .write_protect(pointer(self.memory.start()), self.memory.len())
            .unwrap();
        pages
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let last = self.memory.len() - 1;
        self.memory.store(last, 1);
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

fn pointer(addr: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(addr)
}
