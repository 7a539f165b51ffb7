//! A separate task that walks over its memory, a page in each period: how many page faults its periodic path has, by
//! its own account and by the kernel's.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use freehold_linux::ThreadId;
use freehold_linux::faults::FaultEvents;

use crate::control::Insert;
use crate::directory::{Directory, Kind};
use crate::fifo::peer::ProcessSide;
use crate::fifo::reader::Reader;
use crate::list::{self, ModuleView};
use crate::load::{self, Place, RtlError, Space};
use crate::program;

const NAME: &str = "walk";
const FIFO: &str = "1";
/// Numbers of a message: the period's, and page faults so far, minor and major.
const NUMBERS: usize = 3;
/// How often the FIFO is read; it holds some three thousand periods.
const LOOK: Duration = Duration::from_millis(20);
/// No period takes so long, whatever is beside the task.
const SILENT: Duration = Duration::from_secs(20);

/// How the task gets its memory.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// What starts its process.
    pub launcher: Vec<OsString>,
    /// Its memory is left to the kernel.
    pub pageable: bool,
}

/// What was seen of the task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Periods that were looked at.
    pub periods: u64,
    /// Those of them at whose end the next release had passed.
    pub missed: u64,
    /// Page faults without input in them, by getrusage.
    pub minor: u64,
    /// And with input.
    pub major: u64,
    /// The kernel's events of page faults of the thread; None without the right to count them.
    pub events: Option<u64>,
}

/// Loads the task and looks at so many periods after `warm_up`.
///
/// # Errors
/// It does not compile or load, or it stops.
pub fn run(directory: &Directory, how: &How, warm_up: u64, periods: u64) -> Result<Walk, RtlError> {
    let object = program::build(directory, NAME, include_str!("../programs/walk.c"))?;
    let place = Place {
        space: Space::Separate,
        launcher: how.launcher.clone(),
    };
    let insert = Insert {
        pageable: how.pageable,
        ..Insert::default()
    };
    load::insert(directory, &object, &place, insert)?;
    let walk = follow(directory, warm_up, periods);
    load::remove(directory, NAME, true)?;
    walk
}

fn failed(error: impl ToString) -> RtlError {
    RtlError::Failed(error.to_string())
}

fn follow(directory: &Directory, warm_up: u64, periods: u64) -> Result<Walk, RtlError> {
    let side = directory.find(Kind::Fifo, FIFO).and_then(ProcessSide::of);
    let mut told = Told {
        reader: Reader::new(side.map_err(failed)?),
        last: [0; NUMBERS],
    };
    told.until(warm_up)?;
    let thread = view(directory)?.threads.first().map_or(0, |thread| thread.thread);
    let thread = i32::try_from(thread).ok().and_then(ThreadId::from_raw);
    let events = thread.and_then(|thread| FaultEvents::of(thread).ok());
    let (begun, missed) = (told.last, missed(&view(directory)?));
    told.until(begun[0] + periods)?;
    let events = events.and_then(|events| events.count().ok());
    let since = |number: usize| told.last[number].saturating_sub(begun[number]);
    Ok(Walk {
        periods: since(0),
        missed: self::missed(&view(directory)?).saturating_sub(missed),
        minor: since(1),
        major: since(2),
        events,
    })
}

fn view(directory: &Directory) -> Result<ModuleView, RtlError> {
    let mut modules = list::modules(directory).into_iter();
    modules
        .find(|module| module.name == NAME)
        .ok_or_else(|| failed("the task has ended"))
}

fn missed(module: &ModuleView) -> u64 {
    module.threads.iter().map(|thread| thread.missed).sum()
}

/// What the task has told.
struct Told {
    reader: Reader,
    last: [u64; NUMBERS],
}

impl Told {
    /// Reads until the period `number` has been told of.
    fn until(&mut self, number: u64) -> Result<(), RtlError> {
        let mut heard = Instant::now();
        while self.last[0] < number {
            let mut message = [[0; size_of::<u64>()]; NUMBERS];
            while self.reader.read(message.as_flattened_mut()) == size_of_val(&message) {
                self.last = message.map(u64::from_ne_bytes);
                heard = Instant::now();
            }
            if heard.elapsed() > SILENT {
                return Err(failed("the task does not go on"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}
