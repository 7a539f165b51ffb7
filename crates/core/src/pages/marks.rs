//! Marks: sets of bits with names, one byte for a page or an entry.

/// What every set of marks can do. The marks themselves are constants of the type, each one bit.
macro_rules! marks {
    ($name:ident) => {
        impl $name {
            pub(crate) const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            #[cfg(feature = "canary")]
            pub(crate) const fn bits(self) -> u8 {
                self.0
            }

            pub(crate) fn set(&mut self, other: Self) {
                self.0 |= other.0;
            }

            pub(crate) fn clear(&mut self, other: Self) {
                self.0 &= !other.0;
            }
        }
    };
}
pub(crate) use marks;
