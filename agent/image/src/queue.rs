//! A bounded queue for several producers and consumers that gives up
//! promptly when the write stops.

use std::collections::VecDeque;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;

use crate::control::Control;
use crate::control::Stopped;
use crate::control::TICK;
use crate::control::lock;

/// First in, first out, at most `cap` items.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    /// An item came, or the end. Everybody who waits has a condition of their
    /// own: one event wakes one thread.
    came: Condvar,
    /// An item went.
    went: Condvar,
    /// The last item is done.
    finished: Condvar,
    cap: usize,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    /// Items handed out and not yet reported done.
    busy: usize,
}

/// What a consumer got.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Popped<T> {
    /// An item.
    Item(T),
    /// Nothing came in the last tick.
    Idle,
    /// Nothing will come any more.
    Closed,
}

impl<T> Queue<T> {
    pub(crate) fn new(cap: usize) -> Self {
        let state = Mutex::new(State {
            items: VecDeque::new(),
            closed: false,
            busy: 0,
        });
        Self {
            state,
            came: Condvar::new(),
            went: Condvar::new(),
            finished: Condvar::new(),
            cap: cap.max(1),
        }
    }

    /// Waits for room.
    pub(crate) fn push(&self, item: T, control: &Control) -> Result<(), Stopped> {
        let mut state = lock(&self.state);
        while state.items.len() >= self.cap {
            control.running()?;
            state = wait(&self.went, state);
        }
        control.running()?;
        state.items.push_back(item);
        drop(state);
        self.came.notify_one();
        Ok(())
    }

    /// As [`pop`](Self::pop), without waiting.
    pub(crate) fn pop_now(&self, control: &Control) -> Result<Popped<T>, Stopped> {
        control.running()?;
        Ok(self.next(&mut lock(&self.state)))
    }

    fn next(&self, state: &mut State<T>) -> Popped<T> {
        if let Some(item) = state.items.pop_front() {
            state.busy += 1;
            self.went.notify_one();
            Popped::Item(item)
        } else if state.closed {
            Popped::Closed
        } else {
            Popped::Idle
        }
    }

    /// Waits one tick at most. Every item taken must be followed by
    /// [`done`](Self::done) where [`drained`](Self::drained) is used.
    pub(crate) fn pop(&self, control: &Control) -> Result<Popped<T>, Stopped> {
        let mut state = lock(&self.state);
        control.running()?;
        match self.next(&mut state) {
            Popped::Idle => {
                state = wait(&self.came, state);
                control.running()?;
                Ok(self.next(&mut state))
            }
            popped => Ok(popped),
        }
    }

    /// An item taken from the queue has been dealt with.
    pub(crate) fn done(&self) {
        let mut state = lock(&self.state);
        state.busy = state.busy.saturating_sub(1);
        if state.busy == 0 && state.items.is_empty() {
            self.finished.notify_all();
        }
    }

    /// Waits one tick at most; true when the queue is empty and every item
    /// taken from it is done.
    pub(crate) fn drained(&self, control: &Control) -> Result<bool, Stopped> {
        let mut state = lock(&self.state);
        if !(state.items.is_empty() && state.busy == 0) {
            control.running()?;
            state = wait(&self.finished, state);
        }
        control.running()?;
        Ok(state.items.is_empty() && state.busy == 0)
    }

    /// No more items will be pushed.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.came.notify_all();
    }

    /// More items will be pushed after all.
    pub(crate) fn reopen(&self) {
        lock(&self.state).closed = false;
    }
}

/// Waits one tick at most.
fn wait<'a, T>(changed: &Condvar, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
    match changed.wait_timeout(state, TICK) {
        Ok((state, _)) => state,
        Err(poisoned) => poisoned.into_inner().0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_in_order_and_end() {
        let control = Control::default();
        let queue = Queue::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..100 {
                    queue.push(number, &control).unwrap();
                }
                queue.close();
            });
            let mut expected = 0;
            loop {
                match queue.pop(&control).unwrap() {
                    Popped::Item(number) => assert_eq!(number, expected),
                    Popped::Idle => continue,
                    Popped::Closed => break,
                }
                expected += 1;
                queue.done();
            }
            assert_eq!(expected, 100);
        });
        assert_eq!(queue.drained(&control), Ok(true));
    }

    #[test]
    fn a_failure_wakes_a_waiting_producer() {
        let control = Control::default();
        let queue = Queue::new(1);
        queue.push(1, &control).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| queue.push(2, &control));
            control.fail(crate::error::Error::cancelled(crate::error::Stage::Write));
            assert_eq!(waiter.join().unwrap(), Err(Stopped));
        });
    }
}
