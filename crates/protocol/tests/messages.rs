//! Messages: what is written is read back; what is cut off, prolonged or changed is refused or means what it says.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use freehold_protocol::VERSION;
use freehold_protocol::field::{Malformed, TEXT_LIMIT};
use freehold_protocol::message::{
    Answer, CapacityRule, Duration, Grant, HEADER, Inheritance, JobReport, Judgement, LIMIT, PageCount, PinningPolicy,
    PinningSettings, Question, Ratio, Refusal, Regime, RegionKind, Request, ReservationKind, Role, Stranger,
    SwapBudgetRule, TaskCounts, UnpinnedGoTo,
};
use proptest::prelude::*;

/// A request of each kind, with the values given.
fn requests(text: &str, small: u8, word: u32, long: u64, flag: bool) -> Vec<Request<'_>> {
    let mut all = requests_that_make(text, small, word, long, flag);
    all.extend(requests_that_use(text, small, word, long, flag));
    all.extend(requests_about_pools(text, word, long, flag));
    all.extend(requests_about_private_memory(word, long, flag));
    all
}

fn requests_about_pools(text: &str, word: u32, long: u64, flag: bool) -> Vec<Request<'_>> {
    let (policy, unpinned_go_to) = if flag {
        (PinningPolicy::All, UnpinnedGoTo::Text)
    } else {
        (PinningPolicy::Adaptive, UnpinnedGoTo::Listing)
    };
    let ratio = |number: u32| Ratio::from_millionths(number % 1_000_000 + 1).unwrap();
    let settings = PinningSettings {
        policy,
        budget: Duration::new(!long),
        period: Duration::new(long),
        initial_capacity: PageCount::new(word),
        highest_capacity: PageCount::new(!word),
        alpha: ratio(word / 2),
        beta: ratio(word / 3),
        gamma: word / 5,
        lambda: ratio(word / 7),
        unpinned_go_to,
        swap_budget: flag,
        highest_swap_budget: Duration::new(long / 2),
        memory_share: !flag,
        steady: flag,
        restore: PageCount::new(word / 11),
    };
    vec![
        Request::OpenPool { name: text, settings },
        Request::Lend {},
        Request::AnswerBy { agent_thread: word },
        Request::Stranger {
            process: word,
            why: if flag { Stranger::Static } else { Stranger::Filter },
            name: text,
        },
        Request::ReportJob {
            pool: word,
            job: JobReport {
                missed: flag,
                running: Duration::new(long),
                remaining: Duration::new(!long),
                swap_ins: !word,
                swap_time: Duration::new(long / 2),
                swap_delay: Duration::new(long / 3),
                delay: Duration::new(long / 5),
                memory_delay: Duration::new(long / 7),
                slack: Duration::new(long / 11),
            },
            next_release: long / 13,
        },
    ]
}

fn requests_about_private_memory(process: u32, address: u64, flag: bool) -> Vec<Request<'static>> {
    let (length, other) = (!address, address / 3);
    let how = if flag { Inheritance::Zeros } else { Inheritance::Mapping };
    vec![
        Request::Inherit { address, length, how },
        Request::InheritAlike { address, length, other },
        Request::Relinquish {
            process,
            address,
            length,
        },
    ]
}

fn requests_that_make(text: &str, small: u8, word: u32, long: u64, flag: bool) -> Vec<Request<'_>> {
    let regime = if flag { Regime::Conserve } else { Regime::Unmanaged };
    let kind = if flag { RegionKind::Private } else { RegionKind::Shared };
    let firm = if flag {
        ReservationKind::Hard
    } else {
        ReservationKind::Firm
    };
    let roles = [Role::Program, Role::Library, Role::Observer];
    let role = roles[usize::from(small) % roles.len()];
    let (reservation, task, pages) = (word, !word, word / 3);
    vec![
        Request::Hello {
            role,
            agent_thread: word,
            name: text,
        },
        Request::Reserve {
            name: text,
            frames: word,
            kind: firm,
        },
        Request::Join {
            ticket_high: long,
            ticket_low: !long,
        },
        Request::Release { reservation },
        Request::AddTask {
            membership: reservation,
            urgency: small,
            name: text,
        },
        Request::RemoveTask { task },
        Request::OpenFile { regime, path: text },
        Request::OpenRegion {
            name: text,
            pages,
            kind,
            regime,
        },
    ]
}

fn requests_that_use(text: &str, small: u8, word: u32, long: u64, flag: bool) -> Vec<Request<'_>> {
    let questions = [
        Question::Status,
        Question::Metrics,
        Question::Explain,
        Question::WhatIf,
        Question::Advise,
        Question::Recording,
        Question::Laws,
    ];
    let question = questions[usize::from(small) % questions.len()];
    let (reservation, task, object, first, pages) = (word, !word, word ^ 1, word / 2, word / 3);
    vec![
        Request::Map {
            task,
            object,
            address: long,
            first,
            pages,
            writable: flag,
        },
        Request::Unmap { mapping: word },
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
            response: long,
            missed: flag,
        },
        Request::Count { task },
        Request::Ask { question, target: text },
        Request::Sample {
            period: long,
            process: word,
        },
        Request::Forked { parent: word },
        Request::Keep {
            address: long,
            length: !long,
        },
        Request::CloseObject { object },
        Request::CountProcess { process: word },
    ]
}

/// An answer of each kind, with the values given.
fn answers(text: &str, small: u8, word: u32, long: u64) -> Vec<Answer<'_>> {
    let reasons = [
        Refusal::Malformed,
        Refusal::Version,
        Refusal::Forbidden,
        Refusal::Exhausted,
        Refusal::Unknown,
        Refusal::Descriptor,
        Refusal::State,
        Refusal::Ending,
    ];
    let why = reasons[usize::from(small) % reasons.len()];
    vec![
        Answer::Done {},
        Answer::Refused { why, text },
        Answer::Welcome {
            server: word,
            transfer_pages: !word,
            client: word / 2,
        },
        Answer::Reserved {
            reservation: word,
            frames: !word,
            ticket_high: long,
            ticket_low: !long,
        },
        Answer::Made { handle: word },
        Answer::Opened {
            object: word,
            grant: Grant {
                first: word / 2,
                pages: !word,
                descriptors: word / 3,
            },
        },
        Answer::Counts {
            counts: TaskCounts {
                soft_faults: long,
                zero_fills: !long,
                swap_ins: long / 2,
                shared_swap_ins: long / 3,
                file_reads: long / 5,
                copies: long / 19,
                write_faults: long / 7,
                ahead: long / 23,
                read_ahead: long / 17,
                evictions: long / 11,
                waited: Duration::new(long / 13),
            },
        },
        Answer::Document { length: long },
        judged(small, word, long),
    ]
}

fn judged(small: u8, word: u32, long: u64) -> Answer<'static> {
    let capacity_rules = [
        CapacityRule::Grown,
        CapacityRule::AtLimit,
        CapacityRule::Shrunk,
        CapacityRule::Held,
        CapacityRule::NotMemory,
        CapacityRule::Steady,
    ];
    let swap_budget_rules = [
        SwapBudgetRule::Raised,
        SwapBudgetRule::AtLimit,
        SwapBudgetRule::Lowered,
        SwapBudgetRule::Held,
        SwapBudgetRule::Off,
    ];
    Answer::Judged {
        judgement: Judgement {
            capacity: PageCount::new(word),
            capacity_rule: capacity_rules[usize::from(small) % capacity_rules.len()],
            swap_budget: Duration::new(long),
            swap_budget_rule: swap_budget_rules[usize::from(small) % swap_budget_rules.len()],
        },
        pinned: PageCount::new(!word),
        restored: long / 2,
    }
}

fn text_strategy() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z]{1,20}", any::<String>(), "[ -~]{1000,1024}"]
        .prop_filter("a text has a limit", |text| text.len() <= TEXT_LIMIT)
}

proptest! {
    #[test]
    fn requests_come_back(
        text in text_strategy(), small: u8, word: u32, long: u64, flag: bool, serial: u32,
    ) {
        let mut buffer = [0; LIMIT];
        for request in requests(&text, small, word, long, flag) {
            let length = request.encode(serial, &mut buffer).unwrap();
            prop_assert_eq!(Request::decode(&buffer[..length]), Ok((serial, request)));
        }
    }

    #[test]
    fn answers_come_back(text in text_strategy(), small: u8, word: u32, long: u64, serial: u32) {
        let mut buffer = [0; LIMIT];
        for answer in answers(&text, small, word, long) {
            let length = answer.encode(serial, &mut buffer).unwrap();
            prop_assert_eq!(Answer::decode(&buffer[..length]), Ok((serial, answer)));
        }
    }

    /// There is one way to write a message: bytes that are read are the bytes that would be written.
    #[test]
    fn bytes_that_are_a_message_are_the_only_way_to_write_it(
        kind in 0_u16..28, serial: u32, body in proptest::collection::vec(prop_oneof![0_u8..8, any::<u8>()], 0..96),
    ) {
        let bytes = packet(VERSION, kind, serial, &body);
        let mut buffer = [0; LIMIT];
        if let Ok((serial, request)) = Request::decode(&bytes) {
            let length = request.encode(serial, &mut buffer).unwrap();
            prop_assert_eq!(&buffer[..length], &bytes[..]);
        }
        if let Ok((serial, answer)) = Answer::decode(&bytes) {
            let length = answer.encode(serial, &mut buffer).unwrap();
            prop_assert_eq!(&buffer[..length], &bytes[..]);
        }
    }

    #[test]
    fn no_bytes_make_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..LIMIT + 16)) {
        let _ = Request::decode(&bytes);
        let _ = Answer::decode(&bytes);
    }

    /// A changed byte changes the meaning or is refused: none is ignored.
    #[test]
    fn no_byte_is_ignored(which in 0_usize..22, place: prop::sample::Index, by in 1_u8..=255) {
        let request = requests("a name", 1, 77, 99, true)[which];
        let mut buffer = [0; LIMIT];
        let length = request.encode(5, &mut buffer).unwrap();
        buffer[place.index(length)] ^= by;
        prop_assert_ne!(Request::decode(&buffer[..length]), Ok((5, request)));
    }
}

fn packet(version: u16, kind: u16, serial: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = b"FRHD".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend(serial.to_le_bytes());
    bytes.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
    bytes.extend(body);
    bytes
}

#[test]
fn every_cut_and_every_addition_is_refused() {
    let mut buffer = [0; LIMIT];
    for request in requests("a name", 2, 0x0102_0304, 0x0102_0304_0506_0708, true) {
        let length = request.encode(9, &mut buffer).unwrap();
        for cut in 0..length {
            assert!(Request::decode(&buffer[..cut]).is_err(), "{request:?} cut to {cut}");
        }
        // Cut, with a header that says so: the fields do not fit any more.
        for cut in HEADER..length {
            let mut bytes = buffer[..cut].to_vec();
            bytes[12..HEADER].copy_from_slice(&u32::try_from(cut - HEADER).unwrap().to_le_bytes());
            assert_eq!(
                Request::decode(&bytes),
                Err(Malformed::CutOff),
                "{request:?} cut to {cut}"
            );
        }
        let mut longer = buffer[..length].to_vec();
        longer.push(0);
        assert_eq!(Request::decode(&longer), Err(Malformed::Length));
        longer[12..HEADER].copy_from_slice(&u32::try_from(length + 1 - HEADER).unwrap().to_le_bytes());
        assert_eq!(Request::decode(&longer), Err(Malformed::LeftOver));
    }
}

#[test]
fn the_header_is_checked() {
    let good = packet(VERSION, 4, 1, &7_u32.to_le_bytes());
    assert_eq!(Request::decode(&good), Ok((1, Request::Release { reservation: 7 })));
    let mut other = good.clone();
    other[0] = b'X';
    assert_eq!(Request::decode(&other), Err(Malformed::Magic));
    let newer = packet(VERSION + 1, 4, 1, &7_u32.to_le_bytes());
    assert_eq!(Request::decode(&newer), Err(Malformed::Version { theirs: VERSION + 1 }));
    for kind in [0, 29, u16::MAX] {
        assert_eq!(
            Request::decode(&packet(VERSION, kind, 1, &[])),
            Err(Malformed::Kind { kind })
        );
    }
    for kind in [0, 12, u16::MAX] {
        assert_eq!(
            Answer::decode(&packet(VERSION, kind, 1, &[])),
            Err(Malformed::Kind { kind })
        );
    }
    // Longer than any message may be, however true its header.
    let long = packet(VERSION, 4, 1, &vec![0; LIMIT]);
    assert_eq!(Request::decode(&long), Err(Malformed::Length));
}

#[test]
fn fields_are_checked() {
    let mut hello = 9_u8.to_le_bytes().to_vec();
    hello.extend([0; 6]);
    assert_eq!(
        Request::decode(&packet(VERSION, 1, 1, &hello)),
        Err(Malformed::Value { field: "role" })
    );
    let mut job = vec![0; 12];
    job.push(2);
    assert_eq!(
        Request::decode(&packet(VERSION, 13, 1, &job)),
        Err(Malformed::Value { field: "missed" })
    );
    // No such policy, after a name; no such ratio, after more numbers; and no such rule.
    assert_eq!(
        Request::decode(&packet(VERSION, 21, 1, &[0, 0, 4])),
        Err(Malformed::Value { field: "policy" })
    );
    for (place, field) in [(0, "alpha"), (4, "beta"), (12, "lambda")] {
        for millionths in [0, 1_000_001_u32] {
            let mut pool = vec![0; 36];
            pool[2] = 1;
            pool.extend([1_u32.to_le_bytes(); 4].as_flattened());
            pool.extend([1, 0, 0, 0, 0, 0, 0]);
            pool[36 + place..][..4].copy_from_slice(&millionths.to_le_bytes());
            let packet = packet(VERSION, 21, 1, &pool);
            assert_eq!(Request::decode(&packet), Err(Malformed::Value { field }));
        }
    }
    assert_eq!(
        Answer::decode(&packet(VERSION, 9, 1, &[1, 0, 0, 0, 7])),
        Err(Malformed::Value { field: "capacity_rule" })
    );
    let mut target = vec![1];
    target.extend(2_u16.to_le_bytes());
    target.extend([0xc3, 0x28]);
    assert_eq!(
        Request::decode(&packet(VERSION, 15, 1, &target)),
        Err(Malformed::Text { field: "target" })
    );
    let long = "x".repeat(TEXT_LIMIT + 1);
    let mut target = vec![1];
    target.extend(u16::try_from(long.len()).unwrap().to_le_bytes());
    target.extend(long.as_bytes());
    assert_eq!(
        Request::decode(&packet(VERSION, 15, 1, &target)),
        Err(Malformed::Text { field: "target" })
    );
}

#[test]
fn what_does_not_fit_is_not_written() {
    let mut buffer = [0; LIMIT];
    let long = "x".repeat(TEXT_LIMIT + 1);
    let request = Request::Ask {
        question: Question::Status,
        target: &long,
    };
    assert_eq!(request.encode(1, &mut buffer), Err(Malformed::Text { field: "text" }));
    let longest = "x".repeat(1 << 20);
    let request = Request::Ask {
        question: Question::Status,
        target: &longest,
    };
    assert_eq!(request.encode(1, &mut buffer), Err(Malformed::Text { field: "text" }));
    for room in 0..HEADER + 4 {
        let released = Request::Release { reservation: 1 }.encode(1, &mut buffer[..room]);
        assert_eq!(released, Err(Malformed::NoRoom), "{room} bytes");
    }
}

#[test]
fn every_refusal_has_words() {
    let errors = [
        Malformed::CutOff,
        Malformed::LeftOver,
        Malformed::Magic,
        Malformed::Version { theirs: 2 },
        Malformed::Kind { kind: 99 },
        Malformed::Length,
        Malformed::Value { field: "role" },
        Malformed::Text { field: "name" },
        Malformed::NoRoom,
    ];
    let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(texts[3].contains('2') && texts[3].contains(&VERSION.to_string()));
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), errors.len());
}
