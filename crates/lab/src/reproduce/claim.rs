//! Rows: what the paper says, what we found, and whether our claim about it holds.

use freehold_scenario::results::ReproduceRow;

/// What is claimed of our number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is this.
    Equal(u64),
    /// It is not more than this.
    AtMost(u64),
    /// It is not less than this.
    AtLeast(u64),
    /// It is shown only.
    Shown,
}

/// Compares `ours` with what is claimed. A number that is missing keeps no claim. A bound that is not the paper's
/// number is named.
#[allow(
    clippy::cast_precision_loss,
    reason = "documents carry numbers as JSON does; ours are below 2^53"
)]
pub(super) fn row(
    what: impl Into<String>,
    unit: &str,
    paper: Option<u64>,
    ours: Option<u64>,
    claim: Claim,
) -> ReproduceRow {
    let is = |test: fn(&u64, &u64) -> bool, bound: u64| ours.is_some_and(|ours| test(&ours, &bound));
    let (name, bound, holds) = match claim {
        Claim::Equal(bound) => ("equal", Some(bound), is(u64::eq, bound)),
        Claim::AtMost(bound) => ("at most", Some(bound), is(u64::le, bound)),
        Claim::AtLeast(bound) => ("at least", Some(bound), is(u64::ge, bound)),
        Claim::Shown => ("holds", None, ours.is_some()),
    };
    let bound = bound.filter(|bound| paper != Some(*bound));
    let what = what.into();
    let what = bound.map_or_else(|| what.clone(), |bound| format!("{what} ({name} {bound})"));
    let number = |number: u64| number as f64;
    let ours = ours.map_or(f64::NAN, number);
    ReproduceRow {
        what,
        paper: paper.map(number),
        ours,
        interval: None,
        unit: unit.to_owned(),
        claim: name.to_owned(),
        holds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(ours: Option<u64>, claim: Claim) -> bool {
        row("x", "pages", None, ours, claim).holds
    }

    #[test]
    fn claims() {
        assert!(holds(Some(3), Claim::Equal(3)) && !holds(Some(4), Claim::Equal(3)));
        assert!(holds(Some(3), Claim::AtMost(3)) && !holds(Some(4), Claim::AtMost(3)));
        assert!(holds(Some(3), Claim::AtLeast(3)) && !holds(Some(2), Claim::AtLeast(3)));
        assert!(holds(Some(0), Claim::Shown) && !holds(None, Claim::Shown));
        assert!(!holds(None, Claim::AtMost(u64::MAX)));
    }

    #[test]
    fn a_bound_is_named_unless_it_is_the_papers() {
        assert_eq!(row("x", "pages", Some(3), Some(3), Claim::Equal(3)).what, "x");
        assert_eq!(row("x", "pages", None, Some(3), Claim::AtMost(4)).what, "x (at most 4)");
    }
}
