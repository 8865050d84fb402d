//! The scheduler: each thread goes on for a while, and how long that is about is another matter in each run.
//!
//! Most faults of programs like these need one thread to stop at a certain step and another to do much before it
//! goes on. To draw the next thread anew at every step never comes to that, and PCT, which changes threads a few
//! times in a run, rarely. Neither found faults that were made on purpose, and this does within 600 runs, or 3,000: a
//! reader of the btree engine that does not look again whether its commit is the newest; a writer of the hash engine that
//! looks at no pins; a lookup that does not look through a batch.

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// How many steps a thread takes at a stretch, about.
const LENGTHS: [u64; 6] = [2, 8, 30, 100, 400, 1500];

/// Draws of run `n` depend on `n` alone.
pub(crate) struct Bursts {
    next: u64,
    end: u64,
    state: u64,
}

impl Bursts {
    pub(crate) fn new(first: u64, count: u64) -> Bursts {
        Bursts { next: first, end: first + count, state: 0 }
    }

    /// xorshift64.
    fn draw(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % below
    }
}

impl Scheduler for Bursts {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.next == self.end {
            return None;
        }
        self.state = (self.next + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.next += 1;
        Some(Schedule::new(self.next))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let length = LENGTHS[self.next as usize % LENGTHS.len()];
        let own = runnable.iter().position(|task| Some(task.id()) == current);
        let next = match own {
            Some(own) if !is_yielding && self.draw(length) > 0 => own,
            Some(own) if runnable.len() > 1 => {
                (own + 1 + self.draw(runnable.len() as u64 - 1) as usize) % runnable.len()
            }
            _ => self.draw(runnable.len() as u64) as usize,
        };
        Some(runnable[next].id())
    }

    fn next_u64(&mut self) -> u64 {
        self.draw(u64::MAX)
    }
}

impl Drop for Bursts {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in run {} (FIRST={0} SCHEDULES=1 repeats it)", self.next - 1);
        }
    }
}
