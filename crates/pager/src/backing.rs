//! Which frames the backing stands for: those in use by the books that are in no object, without what is set aside.

use crate::context::Context;
use crate::error::ReserveError;
use crate::pager::Pager;
use crate::shared::Shared;
use freehold_core::Memory;
use freehold_core::frames::Frames;
use freehold_core::units::FrameCount;

/// Frames in use that are in objects or in the backing: what is set aside lies elsewhere.
pub(crate) fn frames_to_back(core: &Memory) -> usize {
    let view = core.pool_view();
    (view.memory_used.get() - view.outside.get()) as usize
}

impl Pager {
    /// Takes frames out of the pool, for memory that the pager does not manage. They are out for as long as the pager
    /// lives.
    ///
    /// # Errors
    /// See [`ReserveError`]; nothing is taken then.
    pub fn set_aside(&self, frames: FrameCount) -> Result<Frames, ReserveError> {
        let mut control = self.shared().control.lock();
        let taken = self
            .shared()
            .step(&mut control.context, |core, _| core.set_aside(frames));
        drop(control);
        let taken = taken.map_err(ReserveError::Refused)?;
        self.adjust_reserve().map_err(ReserveError::NoFrames)?;
        Ok(taken)
    }
}

impl Shared {
    /// Between two jobs: makes the backing follow the books, if it is off by enough.
    pub(crate) fn adjust_backing_between_jobs(&self, context: &mut Context) {
        if self.locked.wants_adjustment() {
            let used = self.step(context, |core, _| frames_to_back(core));
            // Without frames for the backing the next fills find fewer; the headroom is what remains.
            let _ = self.locked.adjust(used);
        }
    }
}
