//! Pages and what the CPU may do with them.

/// What the CPU may do with a page or panel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Access {
    /// Closed: any access faults (`PROT_NONE`).
    None = 1,
    /// Reads pass, writes fault (`PROT_READ`).
    Read = 2,
    /// Open.
    ReadWrite = 3,
}
