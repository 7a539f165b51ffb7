//! A request of each kind, all of them claims that nothing bears out.

use freehold_protocol::message::{
    Duration, Inheritance, JobReport, PageCount, PinningPolicy, PinningSettings, Question, Regime, Request,
    ReservationKind, Role,
};

/// A request of each kind.
pub(crate) fn requests() -> Vec<Request<'static>> {
    let mut all = requests_of_everybody();
    all.extend(requests_of_processes());
    all.extend(requests_about_private_memory());
    all.extend(requests_about_pools());
    all
}

fn requests_of_everybody() -> Vec<Request<'static>> {
    let (reservation, task) = (7, 8);
    let (regime, kind) = (Regime::Conserve, ReservationKind::Hard);
    vec![
        Request::Hello {
            role: Role::Observer,
            agent_thread: 0,
            name: "x",
        },
        Request::Reserve {
            name: "x",
            frames: 1 << 30,
            kind,
        },
        Request::Join {
            ticket_high: 1,
            ticket_low: 2,
        },
        Request::Release { reservation },
        Request::AddTask {
            membership: reservation,
            urgency: 255,
            name: "x",
        },
        Request::RemoveTask { task },
        Request::OpenFile { regime, path: "x" },
    ]
}

fn requests_of_processes() -> Vec<Request<'static>> {
    let (reservation, task, object, first, pages) = (7, 8, 9, 0, 1);
    let regime = Regime::Conserve;
    vec![
        Request::OpenRegion {
            name: "x",
            pages,
            kind: freehold_protocol::message::RegionKind::Shared,
            regime,
        },
        Request::Map {
            task,
            object,
            address: u64::MAX,
            first: u32::MAX,
            pages: u32::MAX,
            writable: true,
        },
        Request::Unmap { mapping: 1 },
        Request::Lock {
            reservation,
            object,
            first,
            pages,
        },
        Request::Unlock {
            reservation,
            object,
            first,
            pages,
        },
        Request::JobEnd {
            task,
            response: u64::MAX,
            missed: true,
        },
        Request::Count { task },
        Request::Ask {
            question: Question::Explain,
            target: "nobody",
        },
        Request::Sample { period: 1, process: 1 },
        Request::Forked { parent: 1 },
        Request::Keep {
            address: u64::MAX,
            length: u64::MAX,
        },
        Request::CloseObject { object },
        Request::CountProcess { process: u32::MAX },
        Request::AnswerBy { agent_thread: 1 },
    ]
}

fn requests_about_private_memory() -> Vec<Request<'static>> {
    vec![
        Request::Inherit {
            address: u64::MAX - 4095,
            length: 4096,
            how: Inheritance::Zeros,
        },
        Request::Inherit {
            address: 0,
            length: 1 << 47,
            how: Inheritance::Nothing,
        },
        Request::InheritAlike {
            address: u64::MAX - 4095,
            length: u64::MAX,
            other: u64::MAX,
        },
        Request::Relinquish {
            process: 1,
            address: 0,
            length: 0,
        },
        Request::Relinquish {
            process: 0,
            address: 1,
            length: u64::MAX,
        },
    ]
}

fn requests_about_pools() -> Vec<Request<'static>> {
    vec![
        Request::OpenPool {
            name: "x",
            settings: PinningSettings {
                policy: PinningPolicy::All,
                initial_capacity: PageCount::new(u32::MAX),
                gamma: 0,
                highest_swap_budget: Duration::new(u64::MAX),
                restore: PageCount::new(u32::MAX),
                ..PinningSettings::paper(Duration::new(2), Duration::new(1))
            },
        },
        Request::ReportJob {
            pool: 7,
            job: JobReport {
                missed: true,
                running: Duration::new(u64::MAX),
                remaining: Duration::ZERO,
                swap_ins: u32::MAX,
                swap_time: Duration::new(u64::MAX),
                swap_delay: Duration::new(u64::MAX),
                delay: Duration::new(u64::MAX),
                memory_delay: Duration::new(u64::MAX),
                slack: Duration::new(u64::MAX),
            },
            next_release: u64::MAX,
        },
    ]
}
