//! The victim cache in device memory (paper 003) beside what its parts cost without it.

mod choose;
mod hand_over;
mod libcachesim;
mod lru;
mod pages;
mod replay;

pub(super) use choose::CHOOSE;
pub(super) use hand_over::{TRUSTED, ZEROED};
pub(super) use pages::{GET, PUT};
pub(super) use replay::REPLAY;

/// Numbers below `count`, a power of two, each once, none near the one before.
fn scattered(count: u32) -> impl Iterator<Item = u32> {
    // Odd: coprime to the count.
    const STEP: u32 = 0x9e37_79b1;
    (0..count).map(move |at| at.wrapping_mul(STEP) & (count - 1))
}

#[cfg(test)]
mod tests {
    #[test]
    fn scattered_numbers_come_once_each() {
        let mut numbers: Vec<u32> = super::scattered(1 << 14).collect();
        assert!(numbers.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 64));
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..1 << 14));
    }
}
