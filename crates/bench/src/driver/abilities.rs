//! What several processes or threads may do with a store at once, what it tells the kernel, and what is safe when a
//! change has returned: facts of a driver, with their names in results.

/// What several processes may do with one store at once, the way its driver opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Only one of them may open it.
    Alone,
    /// Any number may read it while nobody changes it.
    Readers,
    /// And one may change it meanwhile.
    Writer,
}

impl Sharing {
    /// The name in results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Sharing::Alone => "alone",
            Sharing::Readers => "readers",
            Sharing::Writer => "writer",
        }
    }

    /// Whether several may read it, with or without a writer beside them.
    pub(crate) fn allows(self, with_writer: bool) -> bool {
        self == Sharing::Writer || self == Sharing::Readers && !with_writer
    }
}

/// How several threads of one process read one store at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// Not at all: the library is not made for it, or the way the workbench reads is not.
    One,
    /// Each with a handle that it opens itself.
    Handles,
    /// All with one handle.
    Shared,
}

impl Threads {
    /// The name in results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Threads::One => "one",
            Threads::Handles => "handles",
            Threads::Shared => "shared",
        }
    }
}

/// How a store that is opened to be read tells the kernel in which order that will be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announces {
    /// Not at all.
    Nothing,
    /// As random, whatever is asked for: the library does so itself.
    Random,
    /// As [`super::Reading`] says.
    AsAsked,
}

/// What is safe when a change has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    /// The change is in the memory of a server, and goes with it.
    Memory,
    /// The change outlives the process.
    Buffered,
    /// Nothing outlives the process before the store was closed.
    AtClose,
    /// The change is on the disk.
    Sync,
}

impl Changes {
    pub(crate) const ALL: [Changes; 4] =
        [Changes::Memory, Changes::Buffered, Changes::AtClose, Changes::Sync];

    /// A higher number for what is safer.
    pub(crate) const fn strength(self) -> u8 {
        match self {
            Changes::Memory => 0,
            Changes::AtClose => 1,
            Changes::Buffered => 2,
            Changes::Sync => 3,
        }
    }

    /// The name of the class in results.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Changes::Memory => "memory",
            Changes::Buffered => "buffered",
            Changes::AtClose => "at-close",
            Changes::Sync => "sync",
        }
    }
    /// The class of this name in results.
    pub(crate) fn named(name: &str) -> Option<Changes> {
        Changes::ALL.into_iter().find(|of| of.class() == name)
    }
}
