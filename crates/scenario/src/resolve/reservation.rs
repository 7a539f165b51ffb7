//! The rules of reservations: sizes, sharing overrides, eviction locks, the pool.

use super::checks::{Lookup, pages, refuse, whole_pages};
use crate::error::{Fault, Warning};
use crate::model::{PageRange, Region, RegionIndex, RegionUse, Reservation, ReservationIndex, Sharing, Task};
use crate::quantity::format_size;
use crate::spec::{ReservationSpec, ScenarioSpec};
use freehold_core::units::{ByteLen, FrameCount, PAGE_SIZE, PageIndex};

/// Frames of a reservation that its locks must leave: one store may need two pages at once.
const UNLOCKED: u32 = 8;
/// Frames for each task bound to a reservation, and the smallest reservation.
const PER_TASK: u32 = 2;

pub(super) fn resolve(
    spec: &ScenarioSpec,
    pool: FrameCount,
    regions: &[Region],
    tasks: &[Task],
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Reservation>, Fault> {
    Lookup::new(
        "reservation",
        spec.reservations.iter().map(|reservation| reservation.name.as_str()),
    )?;
    let names = Lookup::new("region", spec.regions.iter().map(|region| region.name.as_str()))?;
    let mut reservations = Vec::with_capacity(spec.reservations.len());
    for (position, reservation) in (0_u16..).zip(&spec.reservations) {
        let path = format!("reservation.{position}");
        let bound = || {
            tasks
                .iter()
                .filter(move |task| task.reservation == Some(ReservationIndex::new(position)))
        };
        let capacity = capacity(&path, reservation, pool, bound().count())?;
        let touched = |region| bound().any(|task| task.accesses.iter().any(|step| step.region == region));
        let uses = uses(&path, reservation, regions, &names, touched)?;
        let resolved = Reservation {
            name: reservation.name.clone(),
            capacity,
            kind: reservation.kind,
            regions: uses,
        };
        leave_unlocked(&path, reservation, &resolved)?;
        copies_not_locked(&path, regions, &resolved, tasks)?;
        reservations.push(resolved);
    }
    against_pool(pool, regions, &reservations, tasks, warnings)?;
    Ok(reservations)
}

fn capacity(path: &str, spec: &ReservationSpec, pool: FrameCount, tasks: usize) -> Result<FrameCount, Fault> {
    let path = format!("{path}.size");
    let capacity = pages(&path, spec.size, u32::MAX)?.to_frames();
    if capacity > pool {
        let (size, pool) = (format_size(spec.size), format_size(pool.to_bytes()));
        let message = format!("is {size}: more than the pool of {pool}; make it smaller or `memory.pool` larger");
        return Err(Fault::new(path, message).with("memory.pool"));
    }
    let least = u64::from(PER_TASK) * (tasks as u64).max(1);
    if u64::from(capacity.get()) < least {
        let (size, least) = (format_size(spec.size), format_size(ByteLen::new(least * PAGE_SIZE)));
        let message = match tasks {
            0 => format!("is {size}: a reservation has at least {least}"),
            1 => format!("is {size}: its task needs at least {least}"),
            _ => format!("is {size}: its {tasks} tasks need at least {least}, {PER_TASK} frames each"),
        };
        return refuse(path, message);
    }
    Ok(capacity)
}

fn uses(
    path: &str,
    spec: &ReservationSpec,
    regions: &[Region],
    names: &Lookup<'_>,
    touched: impl Fn(RegionIndex) -> bool,
) -> Result<Vec<RegionUse>, Fault> {
    let overrides = overrides(path, spec, regions, names)?;
    let mut locks = lock_lists(path, spec, regions, names)?;
    let mut uses = Vec::with_capacity(regions.len());
    for (position, region) in (0_u16..).zip(regions) {
        let touched = touched(RegionIndex::new(position));
        let overridden = overrides
            .iter()
            .find(|(index, _)| *index == position)
            .map(|(_, sharing)| *sharing);
        let declared = overridden.unwrap_or(region.sharing);
        let mut listed = std::mem::take(&mut locks[usize::from(position)]);
        let whole = declared == Sharing::Spel && (touched || overridden.is_some());
        if listed.is_empty() && whole {
            listed.push(PageRange {
                first: PageIndex::ZERO,
                pages: region.pages,
            });
        }
        let sharing = if listed.is_empty() { declared } else { Sharing::Spel };
        uses.push(RegionUse {
            mapped: touched || !listed.is_empty(),
            sharing,
            locks: listed,
        });
    }
    Ok(uses)
}

fn overrides(
    path: &str,
    spec: &ReservationSpec,
    regions: &[Region],
    names: &Lookup<'_>,
) -> Result<Vec<(u16, Sharing)>, Fault> {
    let mut overrides: Vec<(u16, Sharing)> = Vec::new();
    for (name, sharing) in &spec.sharing {
        let path = format!("{path}.sharing.{name}");
        let position = names.find(&path, name)?;
        let of_region = regions
            .get(usize::from(position))
            .map_or(Sharing::Spc, |region| region.sharing);
        if (*sharing == Sharing::None && of_region != Sharing::None) || *sharing == Sharing::Auto {
            let word = sharing.name();
            let message = format!(
                "an override to \"{word}\" is not possible: `{word}` concerns a region and all who map it, set it there"
            );
            return Err(Fault::new(path, message).with(format!("region.{position}.sharing")));
        }
        if *sharing != Sharing::None && of_region == Sharing::None {
            let message =
                format!("region `{name}` has sharing \"none\", which cannot be overridden: change the region's");
            return Err(Fault::new(path, message).with(format!("region.{position}.sharing")));
        }
        if overrides.iter().any(|(index, _)| *index == position) {
            return refuse(path, "is given twice: keep one");
        }
        overrides.push((position, *sharing));
    }
    Ok(overrides)
}

/// The `lock` list as ranges per region, ascending and disjoint.
fn lock_lists(
    path: &str,
    spec: &ReservationSpec,
    regions: &[Region],
    names: &Lookup<'_>,
) -> Result<Vec<Vec<PageRange>>, Fault> {
    let mut lists: Vec<Vec<(PageRange, usize)>> = vec![Vec::new(); regions.len()];
    for (number, lock) in spec.locks.iter().enumerate() {
        let path = format!("{path}.lock.{number}");
        let position = usize::from(names.find(&format!("{path}.region"), &lock.region)?);
        let first = whole_pages(&format!("{path}.offset"), lock.offset)?;
        let length = pages(&format!("{path}.size"), lock.size, u32::MAX)?;
        let (Some(region), Some(list)) = (regions.get(position), lists.get_mut(position)) else {
            continue;
        };
        let end = u64::from(first.get()) + u64::from(length.get());
        if end > u64::from(region.pages.get()) {
            let message = format!(
                "the range ends at page {end}, outside region `{}` of {}",
                region.name, region.pages
            );
            let fault = Fault::new(format!("{path}.size"), message);
            return Err(fault
                .with(format!("{path}.offset"))
                .with(format!("region.{position}.size")));
        }
        if region.sharing == Sharing::None {
            let message = format!(
                "region `{}` has sharing \"none\": nothing of it can be locked",
                region.name
            );
            return Err(Fault::new(format!("{path}.region"), message).with(format!("region.{position}.sharing")));
        }
        let range = PageRange {
            first: PageIndex::new(first.get()),
            pages: length,
        };
        list.push((range, number));
    }
    lists.into_iter().map(|list| disjoint(path, list)).collect()
}

/// Ranges in ascending order, each with its number in the list of the file. O(ranges × log ranges).
fn disjoint(path: &str, mut list: Vec<(PageRange, usize)>) -> Result<Vec<PageRange>, Fault> {
    list.sort_unstable();
    let overlaps = |pair: &&[(PageRange, usize)]| pair[1].0.first.get() < end_of(&pair[0].0);
    if let Some(pair) = list.windows(2).find(overlaps) {
        let later = pair[0].1.max(pair[1].1);
        return refuse(
            format!("{path}.lock.{later}.offset"),
            "overlaps another range of the list: list every page once",
        );
    }
    Ok(list.into_iter().map(|(range, _)| range).collect())
}

fn end_of(range: &PageRange) -> u32 {
    range.first.get().saturating_add(range.pages.get())
}

/// Law 4: all locks of a reservation together leave at least 8 of its frames.
fn leave_unlocked(path: &str, spec: &ReservationSpec, reservation: &Reservation) -> Result<(), Fault> {
    let locked = reservation.locked();
    let capacity = reservation.capacity;
    if locked.is_zero() || locked.get().saturating_add(UNLOCKED) <= capacity.get() {
        return Ok(());
    }
    let key = if spec.locks.is_empty() { "size" } else { "lock" };
    let message = format!(
        "locks {locked} of its {capacity}: at least {UNLOCKED} frames must stay unlocked, \
         so lock less or make the reservation {} frames",
        u64::from(locked.get()) + u64::from(UNLOCKED)
    );
    Err(Fault::new(format!("{path}.{key}"), message).with(format!("{path}.size")))
}

/// Law 4: a writable copy-on-write range cannot be locked.
fn copies_not_locked(path: &str, regions: &[Region], reservation: &Reservation, tasks: &[Task]) -> Result<(), Fault> {
    for (position, (region, used)) in (0_u16..).zip(regions.iter().zip(&reservation.regions)) {
        let writes = |task: &Task| {
            let index = RegionIndex::new(position);
            task.accesses.iter().any(|step| step.region == index && step.writes())
        };
        if region.copy_of.is_some() && !used.locks.is_empty() && tasks.iter().any(writes) {
            let message = format!(
                "locks pages of `{}`, a copy-on-write view that a task writes: it cannot be locked",
                region.name
            );
            return refuse(path, message);
        }
    }
    Ok(())
}

/// The reservations together against the pool. Frames that locks or `none` give back may let a sum above the pool
/// fit: that is for admission in the core to find out; what can never fit is refused here.
fn against_pool(
    pool: FrameCount,
    regions: &[Region],
    reservations: &[Reservation],
    tasks: &[Task],
    warnings: &mut Vec<Warning>,
) -> Result<(), Fault> {
    let sum: u64 = reservations
        .iter()
        .map(|reservation| u64::from(reservation.capacity.get()))
        .sum();
    let pool_frames = u64::from(pool.get());
    if sum <= pool_frames {
        let unreserved = tasks
            .iter()
            .find(|task| task.reservation.is_none() && !task.accesses.is_empty());
        if let Some(task) = unreserved
            && pool_frames - sum < u64::from(PER_TASK)
        {
            let message = format!(
                "has no reservation, and the reservations leave it {} frames",
                pool_frames - sum
            );
            warnings.push(Warning {
                key: format!("task.{}", task.name),
                message,
            });
        }
        return Ok(());
    }
    let saved: u64 = (0..regions.len())
        .map(|region| savings(region, regions, reservations))
        .sum();
    let last = reservations.len().saturating_sub(1);
    let sums: Vec<String> = reservations
        .iter()
        .map(|r| format!("{} {}", r.name, r.capacity.get()))
        .collect();
    let sums = sums.join(", ");
    if sum.saturating_sub(saved) > pool_frames {
        let message = format!(
            "the reservations ({sums}) ask for {sum} frames of a pool of {pool_frames}: make them smaller or \
             `memory.pool` at least {}KiB",
            sum * 4
        );
        let fault = Fault::new(format!("reservation.{last}.size"), message).with("memory.pool");
        return Err((0..last).fold(fault, |fault, position| {
            fault.with(format!("reservation.{position}.size"))
        }));
    }
    let message = format!(
        "the reservations ({sums}) ask for {sum} frames of a pool of {pool_frames}: they fit only with the frames \
         that sharing gives back"
    );
    warnings.push(Warning {
        key: "memory.pool".to_owned(),
        message,
    });
    Ok(())
}

/// At most so many frames of one region return to the pool by locks or `none`.
fn savings(region: usize, regions: &[Region], reservations: &[Reservation]) -> u64 {
    let used = || {
        reservations
            .iter()
            .filter_map(move |reservation| reservation.regions.get(region))
    };
    let none = regions
        .get(region)
        .is_some_and(|region| region.sharing == Sharing::None);
    let whole = |_: &RegionUse| regions.get(region).map_or(0, |region| u64::from(region.pages.get()));
    let locked = |used: &RegionUse| {
        used.locks
            .iter()
            .fold(0, |sum, range| sum + u64::from(range.pages.get()))
    };
    let shares: Vec<u64> = match none {
        true => used().filter(|used| used.mapped).map(whole).collect(),
        false => used().map(locked).collect(),
    };
    // One pays for the pages: the one who shares the most of them, at the least.
    shares.iter().sum::<u64>() - shares.iter().max().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{LockSpec, RegionSpec};
    use crate::{Error, Scenario};
    use freehold_core::units::{ByteLen, Duration};

    fn kib(kib: u64) -> ByteLen {
        ByteLen::new(kib << 10)
    }

    fn spec() -> ScenarioSpec {
        let mut spec = ScenarioSpec::new("s", Duration::from_millis(1), kib(400));
        spec.regions.push(RegionSpec::new("a", kib(80)));
        spec.reservations.push(ReservationSpec::new("r", kib(112)));
        spec
    }

    fn lock(offset: u64, size: u64) -> LockSpec {
        LockSpec {
            region: "a".into(),
            offset: kib(offset),
            size: kib(size),
        }
    }

    #[test]
    fn lock_lists_are_sorted_and_win_over_the_whole_region() -> Result<(), Error> {
        let mut spec = spec();
        spec.reservations[0].sharing = vec![("a".into(), Sharing::Spel)];
        assert_eq!(Scenario::try_from(spec.clone())?.reservations[0].locked().get(), 20);
        spec.reservations[0].locks = vec![lock(40, 8), lock(0, 4)];
        let locks = Scenario::try_from(spec)?.reservations[0].regions[0].locks.clone();
        assert_eq!(locks.iter().map(|range| range.first.get()).collect::<Vec<_>>(), [0, 10]);
        Ok(())
    }

    #[test]
    fn eight_frames_stay_unlocked() {
        let mut spec = spec();
        spec.reservations[0].locks = vec![lock(0, 80)];
        assert!(Scenario::try_from(spec.clone()).is_ok());
        spec.reservations[0].size = kib(108);
        let error = Scenario::try_from(spec).unwrap_err().to_string();
        assert!(
            error.contains("reservation.r.lock") && error.contains("28 frames"),
            "{error}"
        );
    }

    #[test]
    fn what_locks_give_back_lets_a_sum_above_the_pool_pass_with_a_warning() {
        let mut spec = spec();
        spec.memory.pool = kib(160);
        spec.reservations.push(ReservationSpec::new("q", kib(112)));
        let error = Scenario::try_from(spec.clone()).unwrap_err().to_string();
        assert!(error.contains("56 frames of a pool of 40"), "{error}");
        spec.reservations.iter_mut().for_each(|r| r.locks = vec![lock(0, 80)]);
        let warnings = Scenario::try_from(spec)
            .map(|scenario| scenario.warnings)
            .unwrap_or_default();
        assert!(
            warnings
                .iter()
                .any(|warning| warning.message.contains("sharing gives back")),
            "{warnings:?}"
        );
    }
}
