//! What the arguments of a function of MPI mean for the program's memory, from `mpi.txt`.

/// For how long MPI uses the buffers of a function, as `mpi.txt` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Call,
    Request,
    Persistent,
    Window,
    Begin,
    End,
    Start,
    Wait,
    Release,
    Sync,
    Memory,
    Free,
    Init,
    Connect,
    Finalize,
}

/// Which elements a buffer has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    One,
    Each,
    Vector,
    Types,
    Sum,
    Block,
    Own,
    Single,
    Parts,
    Bytes,
}

/// For which processes a buffer has parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ends {
    /// Those of the communicator, or of the remote group.
    Group,
    /// Those from which this one receives in the communicator's topology.
    Sources,
    /// Those to which this one sends in it.
    Destinations,
}

/// At which processes a buffer has a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Who {
    All,
    Root,
    Leaf,
    Both,
}

/// A buffer among the arguments of a function. The other fields are places of arguments that belong to it; those that its shape
/// has no use for are 0.
#[derive(Debug)]
pub(super) struct Operand {
    pub(super) at: usize,
    pub(super) written: bool,
    pub(super) shape: Shape,
    pub(super) ends: Ends,
    pub(super) who: Who,
    pub(super) count: usize,
    /// Whether the count, or counts, are of 64 bits.
    pub(super) wide: bool,
    pub(super) displacements: usize,
    /// Whether the displacements are of 64 bits.
    pub(super) far: bool,
    pub(super) datatype: usize,
    pub(super) parts: usize,
    /// Whether the function's counts are an array, one for each process (of an operand of shape `Own`).
    pub(super) scattered: bool,
}

/// The places of a function's arguments, as `mpi.txt` names them.
#[derive(Debug)]
pub(super) struct Row {
    /// The function's name.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) buffers: &'static [Operand],
    pub(super) comm: Option<usize>,
    pub(super) root: Option<usize>,
    pub(super) request: Option<usize>,
    pub(super) handle: Option<usize>,
    pub(super) number: Option<usize>,
    pub(super) flag: Option<usize>,
    pub(super) index: Option<usize>,
    pub(super) indices: Option<usize>,
    pub(super) window: Option<usize>,
    pub(super) window_at: Option<usize>,
    pub(super) file: Option<usize>,
    pub(super) rank: Option<usize>,
    pub(super) base: Option<usize>,
    pub(super) size: Option<usize>,
    pub(super) given_up: Option<usize>,
}
