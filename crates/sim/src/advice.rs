//! Conservation (SPC) or eviction lock (SPEL) for a region: the paper's rule (IV.C), from a profile.
//!
//! The rule itself is [`choice`]. Reservations that say themselves how they share the
//! region, by an override or a lock list, stay as they are; pages that they lock cost the others nothing more.

use freehold_core::UNLOCKED_FRAMES;
use freehold_core::sharing::choice::{self, Choice, Sharer, Union, Weighed};
use freehold_core::units::{ByteLen, PAGE_SIZE};
use freehold_scenario::results::{RegionAdvice, ReservationAdvice, RunResult};
use freehold_scenario::{LockSpec, PageRange, RegionIndex, ReservationIndex, Scenario, Sharing};

use crate::error::SimError;
use crate::options::Options;
use crate::profile::{Profile, RegionProfile, profile};
use crate::world::World;

/// What `auto` came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The scenario without `auto`: regions under SPC as they were, those under SPEL with locks and larger
    /// reservations.
    pub scenario: Scenario,
    /// For each region that asked, in the scenario's order: the choice, never null, why, and what each choice costs.
    pub advice: Vec<RegionAdvice>,
}

impl Decision {
    /// Says in a run's result what was asked and what was decided.
    pub fn annotate(&self, result: &mut RunResult) {
        for advice in &self.advice {
            let Some(region) = result.regions.iter_mut().find(|region| region.name == advice.name) else {
                continue;
            };
            let choice = advice.choice.unwrap_or(Sharing::Spc);
            region.asked = Sharing::Auto;
            region.sharing = choice;
            region.advice = Some(advice.clone());
            let mut note = format!(
                "region.{}.sharing: auto is {}: {}",
                advice.name,
                choice.name(),
                advice.reason
            );
            if choice == Sharing::Spel {
                for part in advice.reservations.iter().filter(|part| part.frames_spel > part.frames) {
                    let (name, from, to) = (&part.name, part.frames, part.frames_spel);
                    note.push_str(&format!("; {name} grows from {from} to {to} frames"));
                }
            }
            result.warnings.push(note);
        }
    }
}

/// Decides for every region that asks for `auto`, in file order, from one profile of the simulator. Where no profile
/// can be taken, or the locks cannot be admitted, it is SPC, and the advice says why. O(a run), where any region asks.
///
/// # Errors
/// [`SimError::Changed`] alone: a bug.
pub fn decide(scenario: &Scenario) -> Result<Decision, SimError> {
    let asks = |region: usize| {
        let found = scenario.regions.get(region);
        found.is_some_and(|region| region.sharing == Sharing::Auto)
    };
    if !(0..scenario.regions.len()).any(asks) {
        let (scenario, advice) = (scenario.clone(), Vec::new());
        return Ok(Decision { scenario, advice });
    }
    match profile(scenario) {
        Ok(profile) => weigh(scenario, &profile, asks),
        Err(reason) => unprofiled(scenario, &reason),
    }
}

/// The one place where `auto` is resolved for a run: decides, runs what was decided, and says so in the result.
///
/// # Errors
/// Of `run`, and what `refused` makes of the errors of [`decide`].
pub fn run_decided<O, E>(
    scenario: &Scenario,
    refused: impl FnOnce(SimError) -> E,
    run: impl FnOnce(&Scenario) -> Result<O, E>,
    result: impl FnOnce(&mut O) -> &mut RunResult,
) -> Result<O, E> {
    let decision = decide(scenario).map_err(refused)?;
    let mut outcome = run(&decision.scenario)?;
    decision.annotate(result(&mut outcome));
    Ok(outcome)
}

/// What `auto` would choose for each region, whatever its sharing is; regions that do ask for `auto` are decided in
/// passing, so that those after them are weighed beside their locks.
///
/// # Errors
/// [`SimError::Changed`] alone: a bug.
pub fn advise(scenario: &Scenario, profile: &Profile) -> Result<Vec<RegionAdvice>, SimError> {
    weigh(scenario, profile, |_| true).map(|decision| decision.advice)
}

fn weigh(scenario: &Scenario, profile: &Profile, wanted: impl Fn(usize) -> bool) -> Result<Decision, SimError> {
    let (mut current, mut advice) = (scenario.clone(), Vec::new());
    for region in (0..scenario.regions.len()).filter(|region| wanted(*region)) {
        let asks = current.regions[region].sharing == Sharing::Auto;
        let (mut found, locked) = Weighing::new(&current, profile, region).conclude();
        if asks {
            found.choice = found.choice.or(Some(Sharing::Spc));
            current = match locked {
                Some(locked) => locked,
                None => conserved(&current, region)?,
            };
        }
        advice.push(found);
    }
    Ok(Decision {
        scenario: current,
        advice,
    })
}

/// The scenario with one region under SPC.
fn conserved(scenario: &Scenario, region: usize) -> Result<Scenario, SimError> {
    let mut spec = scenario.spec().clone();
    spec.regions[region].sharing = Sharing::Spc;
    Scenario::try_from(spec).map_err(SimError::Changed)
}

/// SPC for all, which fits whatever tasks touch.
fn unprofiled(scenario: &Scenario, reason: &SimError) -> Result<Decision, SimError> {
    let mut decision = weigh(scenario, &Profile::default(), |region| {
        scenario.regions[region].sharing == Sharing::Auto
    })?;
    for advice in &mut decision.advice {
        advice.reason = format!("no profile could be taken: {reason}");
    }
    Ok(decision)
}

/// One reservation that maps the region.
#[derive(Debug)]
struct Part<'a> {
    reservation: usize,
    used: &'a RegionProfile,
    sharer: Sharer,
}

/// Both choices for one region.
#[derive(Debug)]
struct Weighing<'a> {
    scenario: &'a Scenario,
    region: usize,
    parts: Vec<Part<'a>>,
    weighed: Weighed,
}

impl<'a> Weighing<'a> {
    fn new(scenario: &'a Scenario, profile: &'a Profile, region: usize) -> Self {
        let maps = |reservation: &usize| {
            let uses = &scenario.reservations[*reservation].regions;
            uses.get(region).is_some_and(|used| used.mapped)
        };
        let reservations = (0..scenario.reservations.len()).filter(maps);
        let parts: Vec<Part<'_>> = reservations
            .map(|reservation| part(scenario, profile, region, reservation))
            .collect();
        let fixed = parts.iter().filter(|part| part.sharer.fixed.is_some());
        let locks_of = |part: &Part<'_>| scenario.reservations[part.reservation].regions[region].locks.clone();
        let fixed: Vec<PageRange> = fixed.flat_map(locks_of).collect();
        let own = parts.iter().filter(|part| part.sharer.takes_part());
        let own = own.flat_map(|part| part.used.touched());
        let all: Vec<PageRange> = own.chain(&fixed).copied().collect();
        let sharers: Vec<Sharer> = parts.iter().map(|part| part.sharer).collect();
        let (all, fixed) = (distinct(&all), distinct(&fixed));
        Self {
            weighed: choice::choose(&sharers, Union { all, fixed }),
            scenario,
            region,
            parts,
        }
    }

    /// The advice, and the scenario with the locks where they are chosen.
    fn conclude(&self) -> (RegionAdvice, Option<Scenario>) {
        let weighed = &self.weighed;
        let conserve = |relation, but: &str| (Some(Sharing::Spc), self.numbers(relation, but), None);
        let (choice, reason, locked) = match (self.nothing_to_choose(), weighed.choice) {
            (Some(reason), _) => (None, format!("nothing to choose: {reason}"), None),
            (None, Choice::NotBelow) => conserve("is not below", ""),
            (None, Choice::TooSmall(position)) => conserve("is below", &self.too_small(position)),
            (None, Choice::NothingSaved) => conserve("is below", ", but not in whole frames"),
            (None, Choice::Spel) => match self.locked() {
                Ok(locked) => (Some(Sharing::Spel), self.numbers("is below", ""), Some(locked)),
                Err(why) => conserve("is below", &format!(", but it cannot be locked ({why})")),
            },
        };
        let found = &self.scenario.regions[self.region];
        let advice = RegionAdvice {
            name: found.name.clone(),
            asked: found.sharing,
            choice,
            reason,
            max: weighed.max,
            avg: weighed.sum_of_averages / as_float(weighed.n.max(1)),
            n: weighed.n,
            max_below_n_avg: weighed.is_below(),
            frames_spc: weighed.frames_spc,
            frames_spel: weighed.frames_spel,
            reservations: self.parts.iter().map(|part| self.line(part)).collect(),
        };
        (advice, locked)
    }

    fn too_small(&self, position: usize) -> String {
        let part = &self.parts[position];
        let (name, max) = (&self.scenario.reservations[part.reservation].name, part.used.max());
        format!(
            ", but grown by Max - Avg {name} is too small to lock {max} pages and leave {UNLOCKED_FRAMES} frames \
             unlocked"
        )
    }

    fn line(&self, part: &Part<'_>) -> ReservationAdvice {
        let found = &self.scenario.reservations[part.reservation];
        ReservationAdvice {
            name: found.name.clone(),
            takes_part: part.sharer.takes_part(),
            max: part.used.max(),
            avg: part.used.average(),
            frames: u64::from(found.capacity.get()),
            frames_spc: part.sharer.frames,
            frames_spel: part.sharer.grown().max(part.sharer.least()),
        }
    }

    fn nothing_to_choose(&self) -> Option<String> {
        match &self.parts[..] {
            [] => Some("no reservation maps it".to_owned()),
            [only] => {
                let name = &self.scenario.reservations[only.reservation].name;
                Some(format!("of the reservations only {name} maps it"))
            }
            parts if parts.iter().all(|part| part.sharer.fixed.is_some()) => {
                Some("every reservation that maps it says itself how it shares it".to_owned())
            }
            _ => None,
        }
    }

    fn numbers(&self, relation: &str, but: &str) -> String {
        format!(
            "Max(S) of {} pages {relation} n*Avg(S) of {:.1}{but}: the eviction lock takes {} frames, conservation {}",
            self.weighed.max, self.weighed.sum_of_averages, self.weighed.frames_spel, self.weighed.frames_spc
        )
    }

    /// The scenario with everybody's pages locked, if it can be admitted; else why not.
    fn locked(&self) -> Result<Scenario, String> {
        let mut spec = self.scenario.spec().clone();
        let name = spec.regions[self.region].name.clone();
        if spec.regions[self.region].copy_of.is_some() {
            return Err("it is a copy-on-write view".to_owned());
        }
        spec.regions[self.region].sharing = Sharing::Spel;
        for part in self.parts.iter().filter(|part| part.sharer.fixed.is_none()) {
            let reservation = &mut spec.reservations[part.reservation];
            reservation.size = ByteLen::new(part.sharer.grown() * PAGE_SIZE);
            if !part.sharer.takes_part() {
                reservation.sharing.push((name.clone(), Sharing::Spc));
            }
            let lock = |range: &PageRange| LockSpec {
                region: name.clone(),
                offset: ByteLen::new(u64::from(range.first.get()) * PAGE_SIZE),
                size: range.pages.to_bytes(),
            };
            reservation.locks.extend(part.used.touched().iter().map(lock));
        }
        let scenario = Scenario::try_from(spec).map_err(|error| format!("{} {}", error.key(), error.message()))?;
        admitted(&scenario).map_err(|error| error.to_string())?;
        Ok(scenario)
    }
}

/// Whether the core admits it all, one reservation after the other, and can lock what is to be locked.
fn admitted(scenario: &Scenario) -> Result<(), SimError> {
    let options = Options {
        check_every: Some(0),
        ..Options::default()
    };
    World::new(scenario, &options).map(drop)
}

fn part<'a>(scenario: &'a Scenario, profile: &'a Profile, region: usize, reservation: usize) -> Part<'a> {
    const UNUSED: &RegionProfile = &RegionProfile::UNUSED;
    let index = |position: usize| u16::try_from(position).unwrap_or(u16::MAX);
    let used = profile.usage(
        ReservationIndex::new(index(reservation)),
        RegionIndex::new(index(region)),
    );
    let used = used.unwrap_or(UNUSED);
    let (written, found) = (
        &scenario.spec().reservations[reservation],
        &scenario.reservations[reservation],
    );
    let name = &scenario.regions[region].name;
    let fixed =
        written.sharing.iter().any(|(other, _)| other == name) || written.locks.iter().any(|lock| lock.region == *name);
    let locked = pages_of(&found.regions[region].locks);
    let frames = u64::from(found.capacity.get());
    // A reservation that locks by the region's own setting is as large as that takes.
    let frames_spc = match locked {
        0 => frames,
        _ if fixed => frames,
        _ => frames.saturating_sub(locked) + choice::whole(used.average()),
    };
    Part {
        reservation,
        used,
        sharer: Sharer {
            frames: frames_spc,
            max: used.max(),
            avg: used.average(),
            fixed: fixed.then_some(locked),
        },
    }
}

fn as_float(count: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts of pages, far below 2^53")]
    let count = count as f64;
    count
}

fn pages_of(ranges: &[PageRange]) -> u64 {
    ranges.iter().map(|range| u64::from(range.pages.get())).sum()
}

/// Distinct pages of ranges. O(ranges × log ranges).
fn distinct(ranges: &[PageRange]) -> u64 {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    let (mut pages, mut end) = (0, 0);
    for range in ranges {
        let from = u64::from(range.first.get()).max(end);
        let to = u64::from(range.first.get()) + u64::from(range.pages.get());
        pages += to.saturating_sub(from);
        end = end.max(to);
    }
    pages
}
