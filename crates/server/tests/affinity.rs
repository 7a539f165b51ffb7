//! A client is served from the CPU on which it runs, and loses nothing when it moves.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::units::FrameCount;
use freehold_linux::ThreadId;
use freehold_linux::sched;
use freehold_server::{Settings, StoreMedium};
use std::time::Duration;
use support::{Client, Server};

/// Reads pages one after another in the program's first thread.
fn read_all(program: &Client, memory: u64, pages: u64, seed: u64) {
    for page in 0..pages {
        let expected = support::client::pattern(seed, page);
        assert_eq!(program.read_at(memory, page), expected, "page {page}");
    }
}

#[test]
fn a_client_that_moves_is_handed_over_with_transfers_under_way() {
    let cpus = sched::allowed_cpus().unwrap();
    if cpus.len() < 2 {
        println!("passed over: one CPU");
        return;
    }
    // Transfers take long enough that there are always some under way.
    let settings = Settings {
        store: StoreMedium::Memory {
            latency: Duration::from_micros(200),
            parallel: 8,
        },
        ..Settings::new(FrameCount::new(256))
    };
    let server = Server::with(&settings);
    let program = Client::program(&server);
    program.task(Some(server.reserve(48)));
    let memory = program.anonymous(200);
    program.fill(memory, 0, 200, 1);
    let first = ThreadId::from_raw(i32::try_from(program.pid()).unwrap()).unwrap();
    for round in 0..6 {
        let cpu = cpus[round % 2];
        sched::pin(first, cpu).unwrap();
        read_all(&program, memory, 200, 1);
        let view = server.shared.engine().view().unwrap();
        let serving: Vec<_> = view.pagers.iter().filter(|pager| pager.clients > 0).collect();
        assert_eq!(serving.len(), 1, "{serving:?}");
        assert_eq!(serving[0].cpu, cpu as u64, "round {round}");
        let agent = program.agent();
        if let Ok(set) = sched::affinity(agent) {
            assert!(set.is_set(cpu) && set.count() == 1, "the agent is beside it");
        }
        server.check();
    }
    assert!(
        server
            .shared
            .engine()
            .take_notices()
            .iter()
            .all(|notice| !notice.text.contains("waited for"))
    );
}
