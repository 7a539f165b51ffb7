//! Neighbours taken together.

/// Calls `act` for each run of items: the first, and how many places follow each other from its own on. A place is that
/// of whom, and a number. An item may be there more than once.
pub fn for_runs<T, K: PartialEq>(items: &[T], place: impl Fn(&T) -> (K, u64), mut act: impl FnMut(&T, usize)) {
    let mut rest = items;
    while let Some(first) = rest.first() {
        let (whose, start) = place(first);
        let mut run = 1_u64;
        let mut taken = 1;
        for item in rest.iter().skip(1) {
            let (other, at) = place(item);
            if other != whose || at < start || at - start > run {
                break;
            }
            run = run.max(at - start + 1);
            taken += 1;
        }
        act(first, usize::try_from(run).unwrap_or(usize::MAX));
        rest = rest.get(taken..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::for_runs;

    fn runs(items: &[(char, u64)]) -> Vec<(char, u64, usize)> {
        let mut runs = Vec::new();
        for_runs(items, |item| *item, |first, run| runs.push((first.0, first.1, run)));
        runs
    }

    #[test]
    fn neighbours_are_taken_together() {
        let items = [('a', 1), ('a', 2), ('a', 2), ('a', 3), ('a', 5), ('b', 6), ('b', 7)];
        assert_eq!(runs(&items), [('a', 1, 3), ('a', 5, 1), ('b', 6, 2)]);
        assert_eq!(runs(&[('a', 4), ('a', 3), ('a', 4)]), [('a', 4, 1), ('a', 3, 2)]);
        assert!(runs(&[]).is_empty());
    }
}
