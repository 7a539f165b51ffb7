//! Frames that firm reservations borrow of the pool, and how far they have come on their way back.

/// What one reservation has borrowed.
#[derive(Debug)]
pub(crate) struct Loans {
    /// Frames, those being taken back included until they are back.
    borrowed: u32,
    /// When it last borrowed, as a running number.
    borrowed_at: u64,
    /// Frames on their way back to the pool that lent them: in flight, as soon as the page above them is gone, or
    /// recalled from outside.
    returning: u32,
    /// Pages ever evicted because their frames were taken back.
    taken_back: u64,
}

impl Loans {
    pub(crate) const NONE: Self = Self {
        borrowed: 0,
        borrowed_at: 0,
        returning: 0,
        taken_back: 0,
    };

    pub(crate) const fn borrowed(&self) -> u32 {
        self.borrowed
    }

    pub(crate) const fn borrowed_at(&self) -> u64 {
        self.borrowed_at
    }

    pub(crate) const fn returning(&self) -> u32 {
        self.returning
    }

    /// Frames that nobody has begun to take back.
    pub(crate) const fn kept(&self) -> u32 {
        self.borrowed - self.returning
    }

    pub(crate) const fn taken_back(&self) -> u64 {
        self.taken_back
    }

    pub(crate) fn count_taken_back(&mut self) {
        self.taken_back += 1;
    }
}

/// The same of all reservations together. Every change is made through these, so that the sums hold.
#[derive(Debug)]
pub(crate) struct AllLoans {
    /// How often any was made.
    made: u64,
    borrowed: u32,
    returning: u32,
}

impl AllLoans {
    pub(crate) const NONE: Self = Self {
        made: 0,
        borrowed: 0,
        returning: 0,
    };

    pub(crate) const fn borrowed(&self) -> u32 {
        self.borrowed
    }

    pub(crate) const fn returning(&self) -> u32 {
        self.returning
    }

    pub(crate) fn lend(&mut self, to: &mut Loans, frames: u32) {
        self.made += 1;
        self.borrowed += frames;
        to.borrowed_at = self.made;
        to.borrowed += frames;
    }

    /// Frames are on their way back.
    pub(crate) fn begin_return(&mut self, from: &mut Loans, frames: u32) {
        from.returning += frames;
        self.returning += frames;
    }

    /// Frames are on their way no more: they are back, or stay after all.
    pub(crate) fn end_return(&mut self, from: &mut Loans, frames: u32) {
        from.returning -= frames;
        self.returning -= frames;
    }

    /// Frames are back in the pool.
    pub(crate) fn repay(&mut self, from: &mut Loans, frames: u32) {
        from.borrowed -= frames;
        self.borrowed -= frames;
    }
}
