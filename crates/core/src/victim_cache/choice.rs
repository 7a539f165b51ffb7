//! Where a device that opens goes: the place of the least cost (paper 003, equations 1 and 2; its policies, 5.4).

use super::VictimCache;
use super::index::mix;
use super::regions::MOST_REGIONS;
use super::spec::{FrameRange, MOST_DEVICES, Placement, Policy, VictimCacheSpec};

/// How places are chosen.
#[derive(Debug)]
pub(super) struct Chooser {
    policy: Policy,
    placement: Placement,
    granule: u32,
    opens: u64,
}

/// The place for a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) place: FrameRange,
    pub(super) used: FrameRange,
    pub(super) cost: u64,
    pub(super) candidates: u32,
}

impl Chooser {
    pub(super) fn new(spec: &VictimCacheSpec<'_>) -> Self {
        Self {
            policy: spec.policy,
            placement: spec.placement,
            granule: spec.granule.get(),
            opens: 0,
        }
    }

    pub(super) fn granule(&self) -> u32 {
        self.granule
    }

    /// Whether the places that are chosen leave a safe state.
    pub(super) fn places_safely(&self) -> bool {
        self.placement == Placement::Safe && !matches!(self.policy, Policy::Static { .. })
    }

    pub(super) fn count_open(&mut self) {
        self.opens += 1;
    }
}

/// The cost of the frames before each base region's first.
struct Costs {
    before: [u64; MOST_REGIONS + 1],
    count: usize,
}

impl VictimCache {
    /// The cheapest place for a device and for the part of it that is used. `None`: no place is possible.
    pub(super) fn choose(&self, device: usize, used: u32) -> Option<Choice> {
        let size = self.layout.size(device);
        let (open, count, closed) = self.occupied();
        let open = &open[..count];
        let free = match (self.chooser.policy, self.chooser.placement) {
            (Policy::Static { order }, _) => return self.fixed(device, used, &order),
            (_, Placement::Safe) => self.layout.safe_places(device, closed, open),
            (_, Placement::Paper) => self.layout.free_places(device, open),
        };
        let costs = self.costs();
        let mut places = free.firsts();
        if let Policy::Random { seed } = self.chooser.policy
            && !places.is_empty()
        {
            let draw = mix(seed ^ mix(self.chooser.opens)) % u64::try_from(places.len()).ok()?;
            places = &places[usize::try_from(draw).ok()?..][..1];
        }
        let mut best: Option<Choice> = None;
        for first in places {
            let choice = self.used_part(*first, size, used, &costs);
            if best.is_none_or(|best| choice.cost < best.cost) {
                best = Some(choice);
            }
        }
        best.map(|best| Choice {
            candidates: u32::try_from(free.firsts().len()).unwrap_or(u32::MAX),
            ..best
        })
    }

    /// The one place of a device under the static policy.
    fn fixed(&self, device: usize, used: u32, order: &[u8; MOST_DEVICES]) -> Option<Choice> {
        let before = order.iter().take_while(|other| usize::from(**other) != device);
        let first = before.map(|other| self.layout.size(usize::from(*other))).sum();
        Some(self.used_part(first, self.layout.size(device), used, &self.costs()))
    }

    /// The prefix or the suffix of a place, whichever costs less.
    fn used_part(&self, first: u32, size: u32, used: u32, costs: &Costs) -> Choice {
        let place = FrameRange { first, count: size };
        let prefix = FrameRange { first, count: used };
        let suffix = FrameRange {
            first: first + (size - used),
            count: used,
        };
        let (prefix_cost, suffix_cost) = (self.cost(prefix, costs), self.cost(suffix, costs));
        let prefix_wins = prefix_cost <= suffix_cost;
        Choice {
            place,
            used: if prefix_wins { prefix } else { suffix },
            cost: prefix_cost.min(suffix_cost),
            candidates: 1,
        }
    }

    /// The cost of a range. Of a base region that it cuts, each frame counts the same.
    fn cost(&self, range: FrameRange, costs: &Costs) -> u64 {
        self.cost_before(range.end(), costs) - self.cost_before(range.first, costs)
    }

    fn cost_before(&self, frame: u32, costs: &Costs) -> u64 {
        let rows = self.regions.rows();
        let region = rows.partition_point(|row| row.range.end() <= frame);
        let Some(row) = rows.get(region) else {
            return costs.before[costs.count];
        };
        let (before, whole) = (costs.before[region], costs.before[region + 1] - costs.before[region]);
        let part = u128::from(whole) * u128::from(frame - row.range.first) / u128::from(row.range.count);
        before + u64::try_from(part).unwrap_or(whole)
    }

    /// What each base region costs by the policy, added up from the lowest address on.
    fn costs(&self) -> Costs {
        let mut single = [0_u64; MOST_REGIONS];
        let rows = self.regions.rows();
        let single = &mut single[..rows.len()];
        match self.chooser.policy {
            Policy::Lru | Policy::Random { .. } | Policy::Static { .. } => self.buckets.costs(single),
            Policy::LruExact => self.exact_costs(single),
            Policy::Worth => {
                for (cost, row) in single.iter_mut().zip(rows) {
                    *cost = row.worth;
                }
            }
        }
        let mut costs = Costs {
            before: [0; MOST_REGIONS + 1],
            count: rows.len(),
        };
        for (region, cost) in single.iter().enumerate() {
            costs.before[region + 1] = costs.before[region] + cost;
        }
        costs
    }

    /// Twice the sum of distances, each counted from the middle of its page: one walk through all pages.
    pub(super) fn exact_costs(&self, costs: &mut [u64]) {
        let mut distance = 0_u64;
        for frame in self.order.iter(&self.nodes) {
            let node = &self.nodes[frame];
            if self.regions.is_live(node) {
                costs[usize::from(node.region)] += 2 * distance + 1;
                distance += 1;
            }
        }
    }
}

#[cfg(test)]
#[path = "choice_tests.rs"]
mod tests;
