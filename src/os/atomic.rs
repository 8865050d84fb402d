//! The atomics of memory that threads and processes share: the standard library's.
//!
//! Built with `--cfg credenza_schedules`, each operation first calls a function that [`set_steps`] was given.
//! There `schedules/` lets another thread go on, so that it runs an engine through orders of steps that no
//! machine comes to by itself. All operations are sequentially consistent there: whether weaker orderings
//! suffice is what the thread sanitizer looks at.

#[cfg(not(credenza_schedules))]
pub(crate) use std::{
    hint::spin_loop as pause,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(credenza_schedules)]
pub use steps::set_steps;
#[cfg(credenza_schedules)]
pub(crate) use steps::{AtomicU32, AtomicU64, Ordering, fence, pause};

#[cfg(credenza_schedules)]
mod steps {
    #![allow(unsafe_code)]

    use std::sync::OnceLock;
    use std::sync::atomic;
    pub(crate) use std::sync::atomic::Ordering;

    static STEPS: OnceLock<[fn(); 2]> = OnceLock::new();

    /// Has `step` called before every operation on shared memory, and `pause` by who waits for another. The first
    /// call counts.
    pub fn set_steps(step: fn(), pause: fn()) {
        STEPS.get_or_init(|| [step, pause]);
    }

    fn step() {
        if let Some([step, _]) = STEPS.get() {
            step();
        }
    }

    /// What who waits for another does meanwhile.
    pub(crate) fn pause() {
        if let Some([_, pause]) = STEPS.get() {
            pause();
        }
    }

    pub(crate) fn fence(order: Ordering) {
        step();
        atomic::fence(order);
    }

    /// A word with the operations that the engines use.
    macro_rules! word {
        ($name:ident, $value:ty, [$($operation:ident),*]) => {
            #[derive(Debug, Default)]
            #[repr(transparent)]
            pub(crate) struct $name(atomic::$name);

            impl $name {
                pub(crate) const fn new(value: $value) -> $name {
                    $name(atomic::$name::new(value))
                }

                /// # Safety
                /// As for the standard library's.
                pub(crate) const unsafe fn from_ptr<'a>(word: *mut $value) -> &'a $name {
                    // SAFETY: the caller's promise; the types have one layout.
                    unsafe { &*word.cast::<$name>() }
                }

                pub(crate) fn load(&self, order: Ordering) -> $value {
                    step();
                    self.0.load(order)
                }

                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    step();
                    self.0.store(value, order);
                }

                pub(crate) fn try_update(
                    &self,
                    done: Ordering,
                    failed: Ordering,
                    change: impl FnMut($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    step();
                    self.0.try_update(done, failed, change)
                }

                $(
                    pub(crate) fn $operation(&self, value: $value, order: Ordering) -> $value {
                        step();
                        self.0.$operation(value, order)
                    }
                )*
            }
        };
    }

    word!(AtomicU32, u32, [fetch_add, fetch_and, fetch_or]);
    word!(AtomicU64, u64, [swap, fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max]);

    impl AtomicU32 {
        pub(crate) const fn as_ptr(&self) -> *mut u32 {
            self.0.as_ptr()
        }
    }

    impl AtomicU64 {
        pub(crate) fn compare_exchange(
            &self,
            from: u64,
            to: u64,
            done: Ordering,
            failed: Ordering,
        ) -> Result<u64, u64> {
            step();
            self.0.compare_exchange(from, to, done, failed)
        }
    }
}
