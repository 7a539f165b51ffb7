//! The documents' field names and order are a contract; the tables are for people.

mod common;

use freehold_core::units::Duration;
use freehold_report::reservation::ReservationLists;
use freehold_scenario::Scenario;
use freehold_scenario::results::{
    BenchResult, BenchRow, Delays, Engine, Judged, LateJob, LateJobs, Laws, MemoryResult, Quantiles, Ratio,
    RegionResult, ReproduceResult, ReproduceRow, ReservationResult, RunHead, RunResult, StoreResult, TaskResult,
    Verdict, to_json,
};

fn run() -> RunResult {
    let scenario = Scenario::parse(common::BASE, "s.toml").expect("legal");
    let mut task = TaskResult {
        jobs: 20,
        misses: 7,
        ..TaskResult::of(&scenario, 0)
    };
    task.faults.swap_ins = 5;
    let mut late = LateJobs::new();
    for job in [3, 4, 8, 9, 10, 12, 13] {
        let delays = Delays {
            cpu_wait_ns: 4,
            store_wait_ns: 93,
            ..Delays::default()
        };
        let tardiness = if job == 12 { 1_500_000 } else { 10 };
        late.record(LateJob::new(
            job,
            0,
            Duration::new(100),
            Duration::new(tardiness),
            delays,
        ));
    }
    task.set_late_jobs(late);
    RunResult {
        head: RunHead::of(&scenario, Engine::Sim, None),
        tasks: vec![task],
        reservations: vec![ReservationResult {
            name: "r1".into(),
            lists: ReservationLists {
                capacity: 2816,
                ..ReservationLists::default()
            },
            ..ReservationResult::default()
        }],
        regions: vec![RegionResult {
            name: "shm".into(),
            resident: 0,
            max_use: vec![2560],
            avg_use: vec![12.5],
            ..RegionResult::of(&scenario, 0)
        }],
        memory: MemoryResult {
            pool: 16_384,
            ..MemoryResult::default()
        },
        store: StoreResult::default(),
        victim_cache: None,
        devices: Vec::new(),
        transient: None,
        laws: Laws::default(),
        lock: None,
        warnings: vec!["something".into()],
    }
}

/// Every quoted key of the contract, in its order, must occur in this order.
#[track_caller]
fn in_order(json: &str, keys: &[&str]) {
    let mut from = 0;
    for key in keys {
        let quoted = format!("\"{key}\":");
        let found = json[from..].find(&quoted);
        from += found.unwrap_or_else(|| panic!("{key} is absent or out of order in {json}"));
    }
}

#[test]
fn run_keeps_the_contract() {
    let json = to_json(&run()).unwrap();
    let keys = "scenario engine placement seed duration_ns tasks name jobs misses max_tardiness_ns response_ns p50 \
        p99 max soft_faults zero_fills swap_ins shared_swap_ins read_ahead evictions cpu_ns store_wait_ns \
        fault_service_ns swap_budget_ns pinned_pages class period_ns deadline_ns write_faults cpu_wait_ns \
        lock_wait_ns late_jobs job release_ns response_ns tardiness_ns cpu_wait_ns store_wait_ns fault_service_ns \
        lock_wait_ns reason late_jobs_total reservations name capacity active inactive free locked in_flight owed \
        borrowed owned conserved outside held peak regions name resident max_use avg_use sharing memory pool used peak \
        outside resident_measured store reads writes read_bytes laws checked violations lock warnings";
    in_order(&json, &keys.split_whitespace().collect::<Vec<_>>());
    for part in [
        "\"engine\": \"sim\"",
        "\"placement\": null",
        "\"sharing\": \"spc\"",
        "\"reason\": \"store-wait\"",
    ] {
        assert!(json.contains(part), "{part} in {json}");
    }
    assert_eq!(serde_json::from_str::<RunResult>(&json).unwrap(), run());
}

#[test]
fn run_reads_well() {
    let text = run().to_text();
    for part in [
        "two-tasks-one-region: sim, seed 1, 10.000s\n",
        "task  jobs  misses  max tardiness  p50",
        "tau1    20       7",
        "reservation  capacity",
        "tau1: 7 of 20 jobs late: store wait 93 %, CPU wait 4 %, own computation 3 %; worst job 12: late by 1.500ms",
        "warning: something\n",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(text.lines().all(|line| line.trim_end() == line), "no trailing blanks");
}

#[test]
fn reproduce_keeps_the_contract() {
    let row = |paper, holds| ReproduceRow {
        what: "{τ1,τ2} spc".into(),
        paper,
        ours: 3328.0,
        interval: None,
        unit: "pages".into(),
        claim: "equal".into(),
        holds,
    };
    let result = ReproduceResult {
        experiment: "spc-table3".into(),
        engine: Engine::Live,
        seed: 1,
        rows: vec![row(Some(3328.0), true), row(None, false)],
    };
    let json = serde_json::to_string(&result).unwrap();
    let first = r#"{"experiment":"spc-table3","engine":"live","seed":1,"rows":["#;
    assert!(json.starts_with(first), "{json}");
    let row = r#"{"what":"{τ1,τ2} spc","paper":3328,"ours":3328,"unit":"pages","claim":"equal","holds":true},"#;
    assert!(json.contains(row) && json.contains("\"paper\":null"), "{json}");
    assert_eq!(serde_json::from_str::<ReproduceResult>(&json).unwrap(), result);
    assert!(
        !result.holds() && result.to_text().contains("1 of 2 claims do not hold"),
        "{}",
        result.to_text()
    );
}

#[test]
fn bench_keeps_the_contract() {
    let floor_ns = Quantiles {
        p50: 4.0,
        p99: 8.0,
        p999: 9.5,
        max: 10.0,
    };
    let ours_ns = Quantiles {
        p50: 5.0,
        p99: 8.0,
        p999: 10.0,
        max: 20.0,
    };
    let result = BenchResult {
        bench: "fault-soft".into(),
        rounds: 5,
        floor_ns,
        ours_ns,
        ratio: Ratio::of(&ours_ns, &floor_ns),
        goal: 1.25,
        unit: "ns".into(),
        holds: true,
        verdict: Verdict::Held,
        judged: Judged::RatioP50,
        floor: "bare".into(),
        sides: Vec::new(),
        rows: vec![BenchRow::at_most("core", 1.5, "", 1.16)],
        notes: Vec::new(),
    };
    let json = serde_json::to_string(&result).unwrap();
    let expected = [
        r#"{"bench":"fault-soft","rounds":5,"floor_ns":{"p50":4,"p99":8,"p999":9.5,"max":10},"#,
        r#""ours_ns":{"p50":5,"p99":8,"p999":10,"max":20},"#,
        r#""ratio":{"p50":1.25,"p99":1.0,"p999":1.0526315789473684},"goal":1.25,"unit":"ns","#,
        r#""holds":true,"verdict":"held","judged":"ratio.p50","floor":"bare","sides":[],"#,
        r#""rows":[{"what":"core","value":1.5,"unit":"","goal":1.16,"holds":false,"verdict":"missed"}],"notes":[]}"#,
    ];
    assert_eq!(json, expected.concat());
    for (judged, goal, held) in [
        (Judged::RatioP50, 1.25, true),
        (Judged::RatioP999, 1.05, false),
        (Judged::OursP50, 4.9, false),
        (Judged::OursP50AtLeast, 4.9, true),
    ] {
        assert_eq!(judged.judge(&ours_ns, &result.ratio, goal), held, "{judged:?}");
    }
    assert!(!Judged::OursP50.judge(&Quantiles::default(), &result.ratio, 1.0));
    assert!(result.to_text().contains("MISSED"), "{}", result.to_text());
    assert!(result.to_text().contains("ratio  1.25"), "{}", result.to_text());
}

#[test]
fn a_goal_is_open_where_the_interval_has_both_sides_of_it() {
    for (low, high, verdict) in [
        (0.8, 1.0, Verdict::Held),
        (0.9, 1.1, Verdict::Open),
        (1.0, 1.1, Verdict::Open),
        (1.1, 1.2, Verdict::Missed),
        (f64::NAN, f64::NAN, Verdict::Missed),
    ] {
        let row = BenchRow::interval_at_most("x", low, high, "", 1.0);
        assert_eq!(
            (row.verdict, row.holds),
            (verdict, verdict == Verdict::Held),
            "{low} {high}"
        );
    }
    assert!(Verdict::Held < Verdict::Open && Verdict::Open < Verdict::Missed);
    let quantiles = Quantiles::default();
    let result = BenchResult {
        bench: "x".into(),
        rounds: 1,
        floor_ns: quantiles,
        ours_ns: quantiles,
        ratio: Ratio::of(&quantiles, &quantiles),
        goal: 1.0,
        unit: "ns".into(),
        holds: false,
        verdict: Verdict::Open,
        judged: Judged::RatioP50,
        floor: "bare".into(),
        sides: Vec::new(),
        rows: vec![BenchRow::interval_at_most("x", 0.9, 1.1, "", 1.0)],
        notes: Vec::new(),
    };
    assert!(result.to_text().contains("goal open"), "{}", result.to_text());
    let document = serde_json::to_value(&result).unwrap();
    assert_eq!(
        (&document["verdict"], &document["rows"][0]["verdict"]),
        (&"open".into(), &"open".into())
    );
}
