//! The search for the smallest size. Second chance is not monotone: a larger size may miss where a smaller one does
//! not, so bisection may answer with a size above which another fails. This walks down instead.

/// Where to search; all in the same unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Where to begin: as much as can be of use.
    pub(crate) from: u32,
    /// The smallest size worth trying.
    pub(crate) to: u32,
    /// How far apart the sizes of the fine walk are; not zero.
    pub(crate) step: u32,
    /// How many coarse steps come first: from `from` down to the first size that fails.
    pub(crate) coarse: u32,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The smallest size tried such that it and every larger size tried hold; `None` where the first fails.
    pub(crate) smallest: Option<u32>,
    /// The largest size tried that fails; `None` where all hold.
    pub(crate) failing: Option<u32>,
    /// How many sizes were tried.
    pub(crate) tried: u32,
}

/// As many coarse steps as a search takes whose trials are cheap.
pub(crate) const COARSE_STEPS: u32 = 64;

/// Walks down from `range.from` in coarse steps to the first size that fails, then from the last that held in fine
/// steps. `holds` tells whether a size keeps every deadline.
///
/// # Errors
/// Those of `holds`.
pub(crate) fn walk<E>(range: Range, mut holds: impl FnMut(u32) -> Result<bool, E>) -> Result<Found, E> {
    let step = range.step.max(1);
    let span = range.from.saturating_sub(range.to);
    let coarse = (span / range.coarse.max(1) / step).max(1) * step;
    let mut found = Found::default();
    descend(&mut found, range.from, range.to, coarse, &mut holds)?;
    let below = found.failing.map_or(range.to, |failing| failing.saturating_add(1));
    if let Some(smallest) = found.smallest
        && smallest.saturating_sub(step) >= below
    {
        let failing = found.failing;
        found.failing = None;
        descend(&mut found, smallest - step, below, step, &mut holds)?;
        found.failing = found.failing.or(failing);
    }
    Ok(found)
}

/// Tries `from`, `from - step`, .. down to `to`, and stops at the first that fails.
fn descend<E>(
    found: &mut Found,
    from: u32,
    to: u32,
    step: u32,
    holds: &mut impl FnMut(u32) -> Result<bool, E>,
) -> Result<(), E> {
    let mut size = from;
    while size >= to {
        found.tried += 1;
        if !holds(size)? {
            found.failing = Some(size);
            return Ok(());
        }
        found.smallest = Some(size);
        let Some(next) = size.checked_sub(step) else { break };
        size = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(range: Range, holds: impl Fn(u32) -> bool) -> (Found, Vec<u32>) {
        let mut tried = Vec::new();
        let found = walk::<()>(range, |size| {
            tried.push(size);
            Ok(holds(size))
        });
        (found.expect("never fails"), tried)
    }

    const RANGE: Range = Range {
        from: 3000,
        to: 2,
        step: 1,
        coarse: COARSE_STEPS,
    };

    #[test]
    fn finds_every_threshold() {
        for threshold in [2, 3, 47, 48, 49, 1000, 2816, 2999, 3000] {
            let (found, tried) = search(RANGE, |size| size >= threshold);
            assert_eq!(found.smallest, Some(threshold));
            assert_eq!(found.failing, (threshold > 2).then(|| threshold - 1));
            assert_eq!(found.tried as usize, tried.len());
            assert!(tried.len() <= 64 + 48 + 2, "{}", tried.len());
        }
    }

    #[test]
    fn is_not_misled_by_a_hole() {
        // 1000..=1100 fail, though 500 would hold: the answer is above the hole.
        let (found, _) = search(RANGE, |size| size >= 500 && !(1000..=1100).contains(&size));
        assert_eq!((found.smallest, found.failing), (Some(1101), Some(1100)));
    }

    #[test]
    fn every_larger_size_tried_holds() {
        let holds = |size: u32| size % 7 != 3 && size > 900;
        let (found, tried) = search(RANGE, holds);
        let smallest = found.smallest.expect("3000 holds");
        assert!(tried.iter().filter(|size| **size >= smallest).all(|size| holds(*size)));
        assert!(!holds(found.failing.expect("a size fails")));
    }

    #[test]
    fn nothing_holds() {
        let (found, _) = search(RANGE, |_| false);
        assert_eq!(
            found,
            Found {
                smallest: None,
                failing: Some(3000),
                tried: 1
            }
        );
    }

    #[test]
    fn wide_steps_and_tiny_ranges() {
        let (found, tried) = search(Range { step: 256, ..RANGE }, |size| size >= 1000);
        assert_eq!((found.smallest, found.failing), (Some(1208), Some(952)));
        assert!(tried.windows(2).all(|pair| pair[0] > pair[1]));
        let (found, _) = search(
            Range {
                from: 2,
                to: 2,
                step: 1,
                coarse: COARSE_STEPS,
            },
            |_| true,
        );
        assert_eq!(
            found,
            Found {
                smallest: Some(2),
                failing: None,
                tried: 1
            }
        );
    }
}
