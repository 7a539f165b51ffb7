//! The access generator: what each pattern yields, and that all ways of asking yield the same.

mod common;

use freehold_core::units::{ByteLen, Duration};
use freehold_scenario::{
    Access, AccessGenerator, AccessSpec, ComputeSpread, Pattern, RegionSpec, Run, Scenario, ScenarioSpec, TaskIndex,
    TaskSpec,
};
use proptest::prelude::*;

/// Three jobs of one task over a region of `pages` pages.
fn jobs(pages: u64, amount: u64, pattern: Pattern) -> Vec<Vec<u32>> {
    let mut spec = ScenarioSpec::new("s", Duration::from_millis(1), ByteLen::new(1 << 20));
    spec.regions.push(RegionSpec::new("g", ByteLen::new(pages * 4096)));
    let mut task = TaskSpec::new("t");
    let mut access = AccessSpec::new("g", pattern);
    access.amount = Some(ByteLen::new(amount * 4096 - 1));
    task.accesses.push(access);
    spec.tasks.push(task);
    let scenario = Scenario::try_from(spec).expect("a legal scenario");
    let mut generator = AccessGenerator::new(&scenario, TaskIndex::new(0), 1);
    assert_eq!(generator.next(), None, "no job has begun");
    let mut job = || {
        generator.begin_job();
        generator.by_ref().map(|access| access.page.get()).collect()
    };
    vec![job(), job(), job()]
}

#[test]
fn sequential_goes_on_and_wraps() {
    assert_eq!(jobs(5, 3, Pattern::Sequential), [[0, 1, 2], [3, 4, 0], [1, 2, 3]]);
    assert_eq!(jobs(2, 5, Pattern::Sequential)[1], [1, 0, 1, 0, 1]);
}

#[test]
fn windows_move_and_wrap() {
    let slow = |size: u64, shift: u64, every: u32| Pattern::Window {
        size: ByteLen::new(size * 4096),
        shift: ByteLen::new(shift * 4096),
        every,
    };
    let window = |size, shift| slow(size, shift, 1);
    assert_eq!(jobs(5, 3, window(3, 2)), [[0, 1, 2], [2, 3, 4], [4, 0, 1]]);
    assert_eq!(jobs(5, 4, window(2, 1)), [[0, 1, 0, 1], [1, 2, 1, 2], [2, 3, 2, 3]]);
    assert_eq!(jobs(5, 2, window(2, 0))[2], [0, 1]);
    assert_eq!(jobs(4, 2, window(4, 4))[2], [0, 1]);
    assert_eq!(jobs(6, 2, slow(2, 3, 2)), [[0, 1], [0, 1], [3, 4]]);
}

#[test]
fn random_and_zipf_stay_inside_and_depend_on_the_seed_alone() {
    for pattern in [Pattern::Random, Pattern::Zipf { exponent: 1.2 }] {
        let first = jobs(7, 400, pattern.clone());
        assert_eq!(first, jobs(7, 400, pattern));
        assert_ne!(first[0], first[1]);
        assert!(first.iter().flatten().all(|page| *page < 7));
        assert!(
            (0..7).all(|page| first.iter().flatten().any(|other| *other == page)),
            "every page is met"
        );
    }
}

#[test]
fn traces_come_from_a_file_beside_the_scenario() {
    let directory = std::env::temp_dir().join(format!("freehold-trace-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("pages.txt"), "# three\n1\n2\n0 w\n").unwrap();
    let trace = "pattern = \"trace\"\nfile = \"pages.txt\"";
    let text = common::replaced("pattern = \"sequential\"\namount = \"10MiB\"\nwrite = false", trace);
    let path = directory.join("s.toml");
    std::fs::write(&path, &text).unwrap();
    let scenario = Scenario::load(&path, &["region.shm.size=16KiB"]).unwrap();
    let mut generator = AccessGenerator::new(&scenario, TaskIndex::new(0), 1);
    generator.begin_job();
    let found: Vec<_> = generator.map(|access| (access.page.get(), access.write)).collect();
    assert_eq!(found, [(1, false), (2, false), (0, true)]);
    let again = Scenario::parse(&scenario.to_toml(), &path.display().to_string()).unwrap();
    assert_eq!(again, scenario);

    let message = Scenario::load(&path, &["region.shm.size=8KiB"])
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("`pages.txt` line 3: page 2 is outside the region of 2 pages"),
        "{message}"
    );
    std::fs::write(directory.join("pages.txt"), "1\nx\n").unwrap();
    let message = Scenario::load::<&str>(&path, &[]).unwrap_err().to_string();
    assert!(
        message.contains(":26: task.tau1.access.0.file: ") && message.contains("pages.txt:2: "),
        "{message}"
    );
    std::fs::remove_dir_all(&directory).unwrap();
}

fn flattened(run: Run) -> impl Iterator<Item = Access> {
    let page = move |at: u32| freehold_core::units::PageIndex::new(run.first.get() + at);
    (0..run.len.get()).map(move |at| Access {
        region: run.region,
        page: page(at),
        write: run.write,
    })
}

proptest! {
    #[test]
    fn runs_are_the_accesses(spec in common::spec(), maxima in proptest::collection::vec(0_u32..9, 1..20)) {
        let Ok(scenario) = Scenario::try_from(spec) else { return Ok(()) };
        let mut maxima = maxima.into_iter().cycle();
        for (position, task) in (0_u16..).zip(&scenario.tasks) {
            let mut single = AccessGenerator::new(&scenario, TaskIndex::new(position), 5);
            let mut runs = single.clone();
            for _ in 0..4 {
                single.begin_job();
                runs.begin_job();
                let mut joined = Vec::new();
                while let Some(run) = { let max = maxima.next().unwrap_or(1); runs.next_run(max) } {
                    let pages = scenario.regions[run.region.get()].pages.get();
                    let end = run.first.get().saturating_add(run.len.get());
                    prop_assert!(run.len.get() > 0 && end <= pages);
                    joined.extend(flattened(run));
                }
                let accesses: Vec<Access> = single.by_ref().collect();
                prop_assert_eq!(accesses.len() as u64, task.accesses_per_job());
                prop_assert_eq!(accesses, joined);
            }
        }
    }

    #[test]
    fn computation_is_spread_exactly(spec in common::spec(), split in 0_u64..300) {
        let Ok(scenario) = Scenario::try_from(spec) else { return Ok(()) };
        for task in &scenario.tasks {
            let spread = ComputeSpread::of(task);
            let sum: u64 = (0..spread.accesses().max(1)).map(|access| spread.after(access).get()).sum();
            prop_assert_eq!(sum, task.compute.get());
            let parts = spread.after_run(0, split).get() + spread.after_run(split, u64::MAX).get();
            prop_assert_eq!(parts, task.compute.get());
        }
    }
}
