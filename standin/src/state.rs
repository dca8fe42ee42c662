//! The state of the stand-in's CUDA driver: the objects behind the program's handles. One lock guards all of it, as the
//! driver has locks of its own; no thread holds the lock while it waits for a stream or an event.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use semcache::base::DeviceId;
use semcache::device::api::Ticket;

use crate::descriptors::Objects;
use crate::machine::machine;
use crate::memory::Memory;
use crate::misuse::complain;
use crate::names::{Outcome, Status};
use crate::staging::Staging;
use crate::stream::{Event, Stream, Tickets};

static STATE: Mutex<State> = Mutex::new(State::new());

/// The most contexts that one thread may have pushed.
const DEPTH: usize = 64;

thread_local! {
    // Without destructors, so that calls of a thread that is ending still find them.
    static CURRENT: Cell<([usize; DEPTH], usize)> = const { Cell::new(([0; DEPTH], 0)) };
}

/// The state behind a `cublasHandle_t`, a `cusparseHandle_t` or a `cusolverDnHandle_t`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub(crate) context: usize,
    /// The stream's handle as the program passed it: 0 is the null stream.
    pub(crate) stream: usize,
    /// Scalars and results of the handle's functions are in device memory.
    pub(crate) device_pointers: bool,
}

/// The objects behind the program's handles.
#[derive(Debug)]
pub(crate) struct State {
    /// Contexts and their devices.
    pub(crate) contexts: BTreeMap<usize, DeviceId>,
    /// The primary contexts, one for each device for which the program has asked for it.
    pub(crate) primary: BTreeMap<DeviceId, usize>,
    /// Pairs of contexts between which peer access is enabled.
    pub(crate) peers: BTreeSet<(usize, usize)>,
    /// Streams; a context's null stream has the context's number.
    pub(crate) streams: BTreeMap<usize, Stream>,
    pub(crate) events: BTreeMap<usize, Event>,
    pub(crate) handles: BTreeMap<usize, Handle>,
    pub(crate) sparse_handles: BTreeMap<usize, Handle>,
    pub(crate) solver_handles: BTreeMap<usize, Handle>,
    /// The parameters that cuSOLVER has made (`cusolverDnParams_t`).
    pub(crate) solver_params: BTreeSet<usize>,
    pub(crate) descriptors: Objects,
    pub(crate) memory: Memory,
    pub(crate) staging: Staging,
    last: usize,
}

/// The state, locked.
pub(crate) fn lock() -> Outcome<MutexGuard<'static, State>> {
    machine()?;
    Ok(STATE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The context on top of the calling thread's stack, 0 for none.
pub(crate) fn top() -> usize {
    let (stack, depth) = CURRENT.get();
    depth.checked_sub(1).map_or(0, |i| stack[i])
}

/// Puts a context on the calling thread's stack.
pub(crate) fn push(context: usize) -> Outcome {
    let (mut stack, depth) = CURRENT.get();
    *stack.get_mut(depth).ok_or(Status::Unknown)? = context;
    CURRENT.set((stack, depth + 1));
    Ok(())
}

/// Takes the top off the calling thread's stack.
pub(crate) fn pop() -> Option<usize> {
    let (stack, depth) = CURRENT.get();
    let depth = depth.checked_sub(1)?;
    CURRENT.set((stack, depth));
    Some(stack[depth])
}

impl State {
    const fn new() -> Self {
        State {
            contexts: BTreeMap::new(),
            primary: BTreeMap::new(),
            peers: BTreeSet::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            handles: BTreeMap::new(),
            sparse_handles: BTreeMap::new(),
            solver_handles: BTreeMap::new(),
            solver_params: BTreeSet::new(),
            descriptors: Objects::new(),
            memory: Memory {
                blocks: BTreeMap::new(),
                pinned: BTreeMap::new(),
            },
            staging: Staging::new(),
            last: 0x5e_0000,
        }
    }

    /// A number for a new handle. No number is used twice, so that the use of a destroyed handle is always detected.
    pub(crate) fn fresh(&mut self) -> usize {
        self.last += 0x10;
        self.last
    }

    /// The calling thread's context.
    pub(crate) fn current(&self) -> Outcome<usize> {
        match top() {
            0 => Err(Status::InvalidContext),
            context if self.contexts.contains_key(&context) => Ok(context),
            _ => Err(Status::ContextDestroyed),
        }
    }

    /// The device of the calling thread's context.
    pub(crate) fn current_device(&self) -> Outcome<DeviceId> {
        let context = self.current()?;
        self.contexts
            .get(&context)
            .copied()
            .ok_or(Status::InvalidContext)
    }

    /// The number of a stream that the program names; a context must be current.
    pub(crate) fn stream(&self, handle: usize) -> Outcome<usize> {
        let context = self.current()?;
        let stream = if handle <= 1 { context } else { handle };
        if self.streams.contains_key(&stream) {
            Ok(stream)
        } else {
            complain(format_args!("{handle:#x} is no stream"));
            Err(Status::InvalidHandle)
        }
    }

    /// The tickets that the next operation of the stream waits for.
    pub(crate) fn order(&self, stream: usize) -> Tickets {
        let Some(this) = self.streams.get(&stream) else {
            return Tickets::default();
        };
        let mut order = this.frontier.clone();
        for (number, other) in &self.streams {
            let null = stream == this.context || *number == this.context;
            if other.context == this.context && null && this.blocking && other.blocking {
                order.add(&other.frontier);
            }
        }
        order
    }

    /// Makes the ticket of a new operation, which waits for all earlier ones, the only one that the stream's next
    /// operation waits for.
    pub(crate) fn book(&mut self, stream: usize, ticket: Ticket) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.frontier = Tickets::one(ticket);
        }
    }

    /// The tickets of all operations that are queued in the contexts for which `which` is true.
    pub(crate) fn everything(&self, which: impl Fn(usize) -> bool) -> Tickets {
        let mut all = Tickets::default();
        for stream in self.streams.values().filter(|s| which(s.context)) {
            all.add(&stream.frontier);
        }
        all
    }
}
