//! A queue of work that one thread does in its order. The thread is made when there is work, and ends when none is left.

use core::fmt;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{ending, threads};

/// Stack of the thread: enough for drivers. Address space only; untouched pages cost no memory.
const STACK: usize = 8 << 20;

/// What became of a piece of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It was done.
    Done,
    /// It panicked.
    Panicked,
    /// It was not begun: the process ends, or its use of devices.
    Refused,
}

/// A piece of work.
pub trait Work: Send + 'static {
    /// Does it, on the queue's thread.
    fn run(&mut self);

    /// Told once of each piece that the queue took.
    fn ended(&mut self, end: End);
}

/// See the module.
pub struct Queue<W> {
    /// The thread's name.
    name: &'static str,
    /// The most pieces that may wait.
    most: usize,
    waiting: Mutex<Waiting<W>>,
    idle: Condvar,
}

struct Waiting<W> {
    all: VecDeque<W>,
    /// Whether there is a thread that does them.
    running: bool,
}

impl<W: Work> Waiting<W> {
    fn refuse(&mut self) {
        for mut work in self.all.drain(..) {
            work.ended(End::Refused);
        }
    }
}

impl<W> fmt::Debug for Queue<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }
}

impl<W: Work> Queue<W> {
    /// An empty queue.
    #[must_use]
    pub fn new(name: &'static str, most: usize) -> Arc<Queue<W>> {
        Arc::new(Queue {
            name,
            most,
            waiting: Mutex::new(Waiting {
                all: VecDeque::new(),
                running: false,
            }),
            idle: Condvar::new(),
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<W>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a piece of work.
    ///
    /// # Errors
    /// The piece: the process ends, too many wait, or no thread can be made.
    pub fn add(self: &Arc<Self>, work: W) -> Result<(), W> {
        let mut waiting = self.waiting();
        if ending::ending() || waiting.all.len() >= self.most {
            return Err(work);
        }
        if !waiting.running {
            let queue = Arc::clone(self);
            let begun = threads::spawn(self.name, STACK, move || queue.run());
            waiting.running = begun.is_ok();
        }
        if !waiting.running {
            return Err(work);
        }
        waiting.all.push_back(work);
        Ok(())
    }

    /// The body of the thread.
    fn run(&self) {
        /// The piece in hand; dropped also by a panic, so that nobody waits for it in vain.
        struct InHand<'a, W: Work>(&'a Queue<W>, W);
        impl<W: Work> Drop for InHand<'_, W> {
            fn drop(&mut self) {
                if !std::thread::panicking() {
                    return self.1.ended(End::Done);
                }
                self.1.ended(End::Panicked);
                let mut waiting = self.0.waiting();
                waiting.refuse();
                waiting.running = false;
                self.0.idle.notify_all();
            }
        }
        while let Some(work) = self.next() {
            InHand(self, work).1.run();
        }
    }

    /// The next piece. If there is none, the thread counts as ended: what is queued from now on needs another one.
    fn next(&self) -> Option<W> {
        let mut waiting = self.waiting();
        if ending::ending() {
            waiting.refuse();
        }
        let next = waiting.all.pop_front();
        waiting.running = next.is_some();
        if next.is_none() {
            self.idle.notify_all();
        }
        next
    }

    /// At the end of the process, or of its use of devices: refuses what waits, and returns when the thread is not in the middle of
    /// something, or after `patience`.
    pub fn stop(&self, patience: Duration) {
        let mut waiting = self.waiting();
        waiting.refuse();
        let running = |waiting: &mut Waiting<W>| waiting.running;
        let waited = self.idle.wait_timeout_while(waiting, patience, running);
        drop(waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Tells its number when it is done, and how it ended.
    struct Told(i32, Sender<(i32, Option<End>)>);

    impl Work for Told {
        fn run(&mut self) {
            assert!(self.0 >= 0, "on purpose");
            self.1.send((self.0, None)).expect("the test listens");
        }

        fn ended(&mut self, end: End) {
            self.1.send((self.0, Some(end))).expect("the test listens");
        }
    }

    fn settle(queue: &Queue<Told>) {
        while queue.waiting().running {
            std::thread::yield_now();
        }
    }

    #[test]
    fn work_is_done_in_its_order_by_threads_that_end() {
        let queue = Queue::new("semcache-test", 100);
        let (tell, told) = channel();
        for round in 0..3 {
            for i in 0..10 {
                let work = Told(10 * round + i, tell.clone());
                assert!(queue.add(work).is_ok());
            }
            settle(&queue);
        }
        drop(tell);
        let found: Vec<_> = told.iter().collect();
        let expected = (0..30).flat_map(|i| [(i, None), (i, Some(End::Done))]);
        assert_eq!(found, expected.collect::<Vec<_>>());
    }

    #[test]
    fn work_that_panics_is_told_and_the_next_piece_gets_a_thread() {
        let queue = Queue::new("semcache-test", 100);
        let (tell, told) = channel();
        assert!(queue.add(Told(-1, tell.clone())).is_ok());
        settle(&queue);
        assert!(queue.add(Told(1, tell)).is_ok());
        queue.stop(Duration::from_secs(10));
        assert!(!queue.waiting().running);
        let found: Vec<_> = told.iter().collect();
        assert_eq!(found[0], (-1, Some(End::Panicked)));
        assert_eq!(found.last().map(|(n, _)| *n), Some(1));
    }
}
