//! What is simulated.

/// Units of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindModel {
    /// Frames of one.
    pub frames: u32,
    /// Units that are always there.
    pub minimum: u32,
    /// Units that it may have.
    pub most: u32,
}

/// A component.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentModel {
    /// Its stacks, then its buffers.
    pub kinds: [KindModel; 2],
    /// Whom it calls, with what probability; together 1, or nobody. Only components that come later.
    pub calls: Vec<(usize, f64)>,
}

/// A thread that does jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadModel {
    /// Components of which each job enters one.
    pub entries: Vec<usize>,
    /// Between releases.
    pub period: u64,
    /// From a release on.
    pub deadline: u64,
    /// CPU time of a job, in nanoseconds.
    pub work: u64,
    /// The larger, the more urgent. 0: no real-time thread, of which the policy knows nothing.
    pub priority: u32,
    /// The time of its first release, and the time from which on it releases no more.
    pub active: (u64, u64),
    /// Whether releases are left out that came while a job ran: without it they are made up for.
    pub skips: bool,
}

/// Everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Components; calls lead to later ones only.
    pub components: Vec<ComponentModel>,
    /// Threads.
    pub threads: Vec<ThreadModel>,
}

impl Model {
    /// Frames of all minima together.
    #[must_use]
    pub fn minima(&self) -> u32 {
        let kinds = self.components.iter().flat_map(|component| component.kinds);
        kinds.map(|kind| kind.minimum * kind.frames).sum()
    }
}
