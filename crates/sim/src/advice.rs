//! Conservation (SPC) or eviction lock (SPEL) for a region: the paper's rule (IV.C), from a profile.
//!
//! Those who touch a region, n reservations, each touch Max_r pages of it in all and Avg_r per period. Under SPC
//! each keeps its M_R frames. Under SPEL each locks the pages that it touches itself and needs M_R + Max_r − Avg_r
//! to have as much room for other pages; of the frames of a page that several lock, all but one go back to the
//! pool. So SPEL takes fewer frames exactly where the union of the pages touched, Max, is less than Σ Avg_r. Where
//! all touch the same pages this is the paper's Max < n·Avg.
//!
//! Frames are whole: a reservation grows by ⌈Max_r − Avg_r⌉, and where that eats up what SPEL would save, SPC is
//! chosen. Reservations that say themselves how they share the region, by an override or a lock list, stay as they
//! are; pages that they lock cost the others nothing more.

use freehold_core::UNLOCKED_FRAMES;
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
    /// It says itself how it shares the region.
    fixed: bool,
    used: &'a RegionProfile,
    frames_spc: u64,
    /// M_R′, and no less than the locks and what must stay unlocked.
    frames_spel: u64,
    /// M_R′ is less than that.
    too_small: bool,
}

impl Part<'_> {
    fn takes_part(&self) -> bool {
        !self.fixed && self.used.max() > 0
    }
}

/// Both choices for one region.
#[derive(Debug)]
struct Weighing<'a> {
    scenario: &'a Scenario,
    region: usize,
    parts: Vec<Part<'a>>,
    /// Pages that SPEL would lock beside those locked already.
    max: u64,
    sum_of_averages: f64,
    frames_spc: u64,
    frames_spel: u64,
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
        let locks_of = |part: &Part<'_>| scenario.reservations[part.reservation].regions[region].locks.clone();
        let fixed: Vec<PageRange> = parts.iter().filter(|part| part.fixed).flat_map(locks_of).collect();
        let own = parts.iter().filter(|part| part.takes_part());
        let all: Vec<PageRange> = own
            .flat_map(|part| part.used.touched())
            .chain(&fixed)
            .copied()
            .collect();
        let sizes = |of: fn(&Part<'_>) -> u64| parts.iter().map(of).sum::<u64>();
        let averages = parts
            .iter()
            .filter(|part| part.takes_part())
            .map(|part| part.used.average());
        Self {
            max: union(&all) - union(&fixed),
            // The sum of nothing would be minus zero.
            sum_of_averages: averages.fold(0.0, |sum, average| sum + average),
            frames_spc: sizes(|part| part.frames_spc).saturating_sub(given_back(&fixed)),
            frames_spel: sizes(|part| part.frames_spel).saturating_sub(given_back(&all)),
            scenario,
            region,
            parts,
        }
    }

    /// The advice, and the scenario with the locks where they are chosen.
    fn conclude(&self) -> (RegionAdvice, Option<Scenario>) {
        let below = self.is_below();
        let conserve = |reason: String| (Some(Sharing::Spc), reason, None);
        let (choice, reason, locked) = if let Some(reason) = self.nothing_to_choose() {
            (None, format!("nothing to choose: {reason}"), None)
        } else if !below {
            conserve(self.numbers("is not below", ""))
        } else if let Some(part) = self.parts.iter().find(|part| part.too_small) {
            let name = &self.scenario.reservations[part.reservation].name;
            let max = part.used.max();
            let why = format!(
                ", but grown by Max - Avg {name} is too small to lock {max} pages and leave {UNLOCKED_FRAMES} frames \
                 unlocked"
            );
            conserve(self.numbers("is below", &why))
        } else if self.frames_spel >= self.frames_spc {
            conserve(self.numbers("is below", ", but not in whole frames"))
        } else {
            match self.locked() {
                Ok(locked) => (Some(Sharing::Spel), self.numbers("is below", ""), Some(locked)),
                Err(why) => conserve(self.numbers("is below", &format!(", but it cannot be locked ({why})"))),
            }
        };
        let found = &self.scenario.regions[self.region];
        let n = self.n();
        let advice = RegionAdvice {
            name: found.name.clone(),
            asked: found.sharing,
            choice,
            reason,
            max: self.max,
            avg: self.sum_of_averages / as_float(n.max(1)),
            n,
            max_below_n_avg: below,
            frames_spc: self.frames_spc,
            frames_spel: self.frames_spel,
            reservations: self.parts.iter().map(|part| self.line(part)).collect(),
        };
        (advice, locked)
    }

    fn n(&self) -> u64 {
        self.parts.iter().filter(|part| part.takes_part()).count() as u64
    }

    fn is_below(&self) -> bool {
        as_float(self.max) < self.sum_of_averages
    }

    fn line(&self, part: &Part<'_>) -> ReservationAdvice {
        let found = &self.scenario.reservations[part.reservation];
        ReservationAdvice {
            name: found.name.clone(),
            takes_part: part.takes_part(),
            max: part.used.max(),
            avg: part.used.average(),
            frames: u64::from(found.capacity.get()),
            frames_spc: part.frames_spc,
            frames_spel: part.frames_spel,
        }
    }

    fn nothing_to_choose(&self) -> Option<String> {
        match &self.parts[..] {
            [] => Some("no reservation maps it".to_owned()),
            [only] => {
                let name = &self.scenario.reservations[only.reservation].name;
                Some(format!("of the reservations only {name} maps it"))
            }
            parts if parts.iter().all(|part| part.fixed) => {
                Some("every reservation that maps it says itself how it shares it".to_owned())
            }
            _ => None,
        }
    }

    fn numbers(&self, relation: &str, but: &str) -> String {
        format!(
            "Max(S) of {} pages {relation} n*Avg(S) of {:.1}{but}: the eviction lock takes {} frames, conservation {}",
            self.max, self.sum_of_averages, self.frames_spel, self.frames_spc
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
        for part in self.parts.iter().filter(|part| !part.fixed) {
            let reservation = &mut spec.reservations[part.reservation];
            reservation.size = ByteLen::new(part.frames_spel * PAGE_SIZE);
            if !part.takes_part() {
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
    let average = whole(used.average());
    // A reservation that locks by the region's own setting is as large as that takes.
    let frames_spc = match locked {
        0 => frames,
        _ if fixed => frames,
        _ => frames.saturating_sub(locked) + average,
    };
    let growth = if fixed { 0 } else { used.max().saturating_sub(average) };
    let (grown, least) = (frames_spc + growth, used.max() + u64::from(UNLOCKED_FRAMES));
    let too_small = !fixed && used.max() > 0 && grown < least;
    Part {
        reservation,
        fixed,
        used,
        frames_spc,
        frames_spel: if too_small { least } else { grown },
        too_small,
    }
}

/// Whole pages of a mean. A sum of quotients that is whole but for rounding is whole.
fn whole(mean: f64) -> u64 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of page counts: not negative, far below 2^53"
    )]
    let whole = (mean + 1e-6).floor() as u64;
    whole
}

fn as_float(count: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts of pages, far below 2^53")]
    let count = count as f64;
    count
}

fn pages_of(ranges: &[PageRange]) -> u64 {
    ranges.iter().map(|range| u64::from(range.pages.get())).sum()
}

/// Frames that locks of these ranges give back: all but one of each page.
fn given_back(ranges: &[PageRange]) -> u64 {
    pages_of(ranges) - union(ranges)
}

/// Distinct pages of ranges. O(ranges × log ranges).
fn union(ranges: &[PageRange]) -> u64 {
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
