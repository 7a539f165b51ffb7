//! How many units each component ought to have, by policy. Algorithm 1 ([`Schedule`](super::Schedule)) is one of them;
//! the others are what paper 004 compares it with.

use super::ComponentFacts;

/// How units are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Each component has its minimum.
    Minimum,
    /// Each component has as many as it may, whatever that takes.
    Maximum,
    /// Each component has the same number from the beginning on, whatever it uses.
    Static,
    /// What there is goes in equal parts to those that want it.
    Fair,
    /// A component gets what it asks for at the request, as long as there is some, and keeps it.
    Greedy,
    /// A component gets what it wanted since the last run, as long as there is some, and keeps it. Not the paper's:
    /// who has the fewest comes first, where under [`Policy::Greedy`] the first comes first.
    Demand,
    /// Units move to where they lower the largest tardiness: Algorithm 1.
    Tardiness,
}

/// What each component ought to have, under a policy other than [`Policy::Tardiness`], which leaves everything as it
/// is. `most` is what each may have, `free` what no component has. `desired` receives the answer; the sum is at most
/// what there is, but for [`Policy::Maximum`]. O(units × components).
pub fn share_out(policy: Policy, components: &[ComponentFacts], most: &[u32], free: u32, desired: &mut [u32]) {
    let all = components.iter().zip(most).zip(desired.iter_mut());
    let mut left = free;
    for ((facts, most), desired) in all {
        left = left.saturating_add(facts.allocated);
        *desired = match policy {
            Policy::Maximum => *most,
            Policy::Greedy | Policy::Demand | Policy::Tardiness => facts.allocated,
            Policy::Minimum | Policy::Static | Policy::Fair => facts.minimum.min(*most),
        };
    }
    left = left.saturating_sub(desired.iter().fold(0, |sum: u32, units| sum.saturating_add(*units)));
    let want = |at: usize, has: u32| match policy {
        Policy::Static => has < most[at],
        Policy::Fair | Policy::Demand => has < most[at] && has < components[at].requested,
        Policy::Minimum | Policy::Maximum | Policy::Greedy | Policy::Tardiness => false,
    };
    // One unit after the other, to whom has the fewest; the first of equals.
    while left > 0 {
        let wanting = (0..desired.len().min(components.len())).filter(|at| want(*at, desired[*at]));
        let Some(at) = wanting.min_by_key(|at| (desired[*at], *at)) else {
            break;
        };
        desired[at] += 1;
        left -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(allocated: u32, requested: u32) -> ComponentFacts {
        ComponentFacts {
            allocated,
            requested,
            minimum: 1,
            ..ComponentFacts::default()
        }
    }

    #[test]
    fn each_policy_shares_out_what_there_is() {
        let components = [facts(1, 6), facts(4, 2), facts(1, 3)];
        let most = [8, 8, 2];
        for (policy, expected) in [
            (Policy::Minimum, [1, 1, 1]),
            (Policy::Maximum, [8, 8, 2]),
            (Policy::Static, [3, 3, 2]),
            (Policy::Fair, [4, 2, 2]),
            (Policy::Greedy, [1, 4, 1]),
            (Policy::Demand, [2, 4, 2]),
            (Policy::Tardiness, [1, 4, 1]),
        ] {
            let mut desired = [0; 3];
            share_out(policy, &components, &most, 2, &mut desired);
            assert_eq!(desired, expected, "{policy:?}");
        }
    }
}
