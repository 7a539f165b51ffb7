//! A thread's jobs, what comes between them and what comes after the last touch no page for the first time. Alone in
//! its binary: it takes the program's pages away.

use std::ops::ControlFlow;
use std::time::Duration;

use freehold_linux::{clock, faults, program, stack};
use freehold_rt::job::Delays;
use freehold_rt::pacer::Pacer;
use freehold_rt::record::Record;
use freehold_rt::runner::{self, Work};
use freehold_rt::stop::StopFlag;
use freehold_rt::timing::Timing;

const JOBS: u64 = 20;
const PERIOD: Duration = Duration::from_millis(1);
/// Of releases. It is far off: a busy machine makes jobs late, but leaves none out.
const LONGEST: Duration = Duration::from_secs(10);

/// Nothing, in some of its stack.
struct Shallow<'a>(&'a StopFlag);

impl Work for Shallow<'_> {
    fn job(&mut self, number: u64, _: &Pacer) -> ControlFlow<()> {
        std::hint::black_box([0_u8; 64 << 10]);
        if number + 1 == JOBS {
            self.0.raise();
        }
        ControlFlow::Continue(())
    }

    fn delays(&self) -> Delays {
        Delays::default()
    }
}

/// Page faults from before the first job to after the last.
fn faults_of_jobs() -> u64 {
    let first = clock::now().saturating_add(Duration::from_millis(5));
    let timing = Timing {
        first,
        period: Some(PERIOD),
        deadline: None,
        end: first.saturating_add(LONGEST),
    };
    let mut record = Record::for_timing(&timing);
    let stop = StopFlag::new();
    let before = faults::of_this_thread();
    runner::run(&timing, &stop, &mut Shallow(&stop), &mut record);
    let faults = faults::of_this_thread() - before;
    assert_eq!(record.jobs().len() as u64, JOBS);
    faults
}

/// Has the kernel forget which pages of this program's code are in memory.
fn forget_the_code() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("of this process");
    let program = std::env::current_exe().expect("it has a name");
    let own = |line: &&str| line.contains(" r-xp ") && line.ends_with(&*program.to_string_lossy());
    let mut forgotten = 0;
    for line in maps.lines().filter(own) {
        let (start, rest) = line.split_once('-').expect("a range");
        let end = rest.split(' ').next().expect("an end");
        let address = |digits| usize::from_str_radix(digits, 16).expect("an address");
        let (start, end) = (address(start), address(end));
        // SAFETY: the mapping is the file's, never written to: its pages come back with the same content.
        let outcome = unsafe {
            let at = std::ptr::with_exposed_provenance_mut(start);
            libc::madvise(at, end - start, libc::MADV_DONTNEED)
        };
        assert_eq!(outcome, 0, "{line}");
        forgotten += 1;
    }
    assert!(forgotten > 0, "{maps}");
}

#[test]
fn neither_jobs_nor_their_end_touch_code_or_stack_for_the_first_time() {
    let in_a_new_thread = |bring_in: bool| {
        let thread = move || {
            forget_the_code();
            if bring_in {
                stack::bring_in_current().expect("there is memory");
                let _ = program::lock().expect("there is memory");
            }
            faults_of_jobs()
        };
        std::thread::spawn(thread).join().expect("it ends")
    };
    let without = in_a_new_thread(false);
    assert!(without > 0, "nothing was forgotten");
    assert_eq!(in_a_new_thread(true), 0, "beside {without} without");
}
