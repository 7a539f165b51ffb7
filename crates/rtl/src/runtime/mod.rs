//! Threads of modules: what the functions of [`crate::api`] are made of. One runtime for each process.

pub(crate) mod call;
pub(crate) mod cpus;
pub(crate) mod exclusion;
pub(crate) mod fifos;
pub(crate) mod held;
pub(crate) mod life;
pub(crate) mod lines;
pub(crate) mod modules;
pub(crate) mod nudge;
pub(crate) mod output;
pub(crate) mod pi_word;
pub(crate) mod release;
pub(crate) mod thread;
pub(crate) mod timers;
pub(crate) mod waiting;
