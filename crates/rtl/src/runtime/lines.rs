//! Virtual interrupt lines: 0 is a timer, 8 the clock whose rate CMOS register A sets, others are descriptors that
//! become readable (`--irq N=FILE`). A line's handler runs in a thread of its own, above every thread of a module.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use freehold_linux::ThreadId;
use freehold_linux::clock;
use freehold_linux::sched::{self, CpuSet, Policy};

use super::call::Call;
use super::modules;

/// A program's handler of a line.
pub(crate) type Handler = extern "C-unwind" fn(u32, *mut libc::c_void) -> u32;
/// A handler, the number that it is called with, and the CPUs that it is to run on.
#[derive(Clone, Debug)]
struct Called {
    handler: Handler,
    number: u32,
    /// A bit for each; 0 for wherever it is.
    focus: Arc<AtomicU64>,
}

/// A program's handler of a soft line.
pub(crate) type SoftHandler = extern "C-unwind" fn(i32, *mut libc::c_void, *mut libc::c_void);

const TIMER: u32 = 0;
const CLOCK: u32 = 8;
const FIRST_SOFT: u32 = 64;
const SOFT: u32 = 32;
const PRIORITY: u32 = 91;
/// The rate of line 0.
const TIMER_PERIOD: Duration = Duration::from_millis(10);
/// How often a line's thread looks whether it is to end.
const WATCH: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct Line {
    module: usize,
    called: Called,
    enabled: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    taken: BTreeMap<u32, Line>,
    files: BTreeMap<u32, File>,
    soft: BTreeMap<u32, (usize, SoftHandler)>,
    logs: BTreeMap<u32, File>,
}

static STATE: Mutex<State> = Mutex::new(State {
    taken: BTreeMap::new(),
    files: BTreeMap::new(),
    soft: BTreeMap::new(),
    logs: BTreeMap::new(),
});

static HAS_LOGS: AtomicBool = AtomicBool::new(false);
static CMOS: [AtomicU8; 128] = [const { AtomicU8::new(0) }; 128];
static CMOS_ADDRESS: AtomicU8 = AtomicU8::new(0);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has line `line` come from a descriptor.
pub(crate) fn attach(line: u32, file: File) {
    state().files.insert(line, file);
}

/// Has what is written to `port` go to a file too, with the time.
pub(crate) fn log_port(port: u32, file: File) {
    state().logs.insert(port, file);
    HAS_LOGS.store(true, Ordering::Release);
}

/// What a write to a port does besides being kept.
pub(crate) fn written(port: u32, value: u32) {
    let _call = Call::enter();
    let byte = u8::try_from(value & 0xff).unwrap_or(0);
    match port {
        0x70 => CMOS_ADDRESS.store(byte & 0x7f, Ordering::Relaxed),
        0x71 => CMOS[usize::from(CMOS_ADDRESS.load(Ordering::Relaxed) & 0x7f)].store(byte, Ordering::Relaxed),
        _ => {}
    }
    if HAS_LOGS.load(Ordering::Acquire)
        && let Some(file) = state().logs.get_mut(&port)
    {
        // A log that cannot be written loses lines; there is nobody to be told.
        let _ = writeln!(file, "{} {value:#04x}", clock::now().as_nanos());
    }
}

/// What the clock's data port holds; None for other ports.
pub(crate) fn cmos_read(port: u32) -> Option<u8> {
    let address = usize::from(CMOS_ADDRESS.load(Ordering::Relaxed) & 0x7f);
    (port == 0x71).then(|| CMOS[address].load(Ordering::Relaxed))
}

/// The period of line 8, by the rate in register A: 32768 >> (rate - 1) a second.
fn clock_period() -> Duration {
    let rate = match CMOS[10].load(Ordering::Relaxed) & 0xf {
        0 => 6,
        rate => rate.max(3),
    };
    Duration::from_nanos(1_000_000_000 / (32_768 >> (rate - 1)))
}

/// `rtl_request_irq`; the handler is called with `number`.
pub(crate) fn request(line: u32, handler: Handler, number: u32) -> Result<(), i32> {
    let _call = Call::enter();
    let mut state = state();
    if state.taken.contains_key(&line) {
        return Err(-libc::EBUSY);
    }
    let source = match line {
        TIMER => Source::Timer(|| TIMER_PERIOD),
        CLOCK => Source::Timer(clock_period),
        _ => {
            let file = state.files.get(&line).ok_or(-libc::EINVAL)?;
            Source::File(file.try_clone().map_err(|_| -libc::EINVAL)?)
        }
    };
    let module = modules::current();
    let (enabled, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (on, over) = (Arc::clone(&enabled), Arc::clone(&stop));
    let called = Called {
        handler,
        number,
        focus: Arc::default(),
    };
    let mut own = called.clone().of_thread();
    let thread = std::thread::Builder::new()
        .name(format!("line{line}"))
        .spawn(move || {
            modules::on_behalf(module, || {
                // Where Linux refuses it, the thread that is created next says so.
                let _ = sched::set_policy(ThreadId::current(), Policy::Fifo { priority: PRIORITY });
                source.serve(&over, &mut || {
                    // A line that was turned on stays so: as with an edge, nothing has to be acknowledged.
                    if on.load(Ordering::Acquire) {
                        own();
                    }
                });
            });
        })
        .map_err(|_| -libc::ENOMEM)?;
    state.taken.insert(
        line,
        Line {
            module,
            called,
            enabled,
            stop,
            thread,
        },
    );
    Ok(())
}

impl Called {
    /// Calls the handler, on the CPUs that it is to run on by then.
    fn of_thread(self) -> impl FnMut() + Send {
        let mut placed = 0;
        move || {
            let focus = self.focus.load(Ordering::Acquire);
            if focus != placed {
                placed = focus;
                let mut cpus = CpuSet::new();
                (0..64)
                    .filter(|cpu| focus >> cpu & 1 != 0)
                    .for_each(|cpu| cpus.set(cpu));
                // Where none of them is allowed it runs where it is.
                let _ = sched::set_affinity(ThreadId::current(), &cpus);
            }
            (self.handler)(self.number, std::ptr::null_mut());
        }
    }
}

/// `rtl_irq_set_affinity`: where a line's handler is to run from its next interrupt on; where it was to run.
pub(crate) fn focus(line: u32, cpus: Option<u64>) -> Result<u64, i32> {
    let _call = Call::enter();
    let state = state();
    let focus = &state.taken.get(&line).ok_or(-libc::EINVAL)?.called.focus;
    let before = match cpus {
        Some(cpus) => focus.swap(cpus, Ordering::AcqRel),
        None => focus.load(Ordering::Acquire),
    };
    Ok(if before == 0 { u64::MAX } else { before })
}

/// The handler of a line that the calling thread's module has taken.
pub(crate) fn own_handler(line: u32) -> Option<Handler> {
    let _call = Call::enter();
    let state = state();
    let taken = state.taken.get(&line)?;
    (taken.module == modules::current()).then_some(taken.called.handler)
}

#[derive(Debug)]
enum Source {
    Timer(fn() -> Duration),
    File(File),
}

impl Source {
    fn serve(self, stop: &AtomicBool, handler: &mut dyn FnMut()) {
        match self {
            Self::Timer(period) => {
                let mut next = clock::now();
                while !stop.load(Ordering::Acquire) {
                    next = next.saturating_add(period());
                    clock::sleep_until(next);
                    handler();
                }
            }
            Self::File(mut file) => {
                while !stop.load(Ordering::Acquire) {
                    let mut word = [0; 8];
                    // What is read is how often; an eventfd tells it in eight bytes, others by the byte.
                    if !readable(&file, WATCH) {
                        continue;
                    }
                    match file.read(&mut word) {
                        Ok(1..) => handler(),
                        // Nothing comes of it at present: to ask again at once would keep the CPU from all others.
                        _ => clock::sleep_until(clock::now().saturating_add(WATCH)),
                    }
                }
            }
        }
    }
}

fn readable(file: &File, most: Duration) -> bool {
    let mut poll = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let most = i32::try_from(most.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one structure, valid for the call.
    unsafe { libc::poll(&raw mut poll, 1, most) > 0 && poll.revents & libc::POLLIN != 0 }
}

/// Turns a taken line on or off.
pub(crate) fn enable(line: u32, on: bool) -> Result<(), i32> {
    let _call = Call::enter();
    let state = state();
    let taken = state.taken.get(&line).ok_or(-libc::EINVAL)?;
    taken.enabled.store(on, Ordering::Release);
    Ok(())
}

/// `rtl_free_irq`.
pub(crate) fn free(line: u32) -> Result<(), i32> {
    let _call = Call::enter();
    let taken = state().taken.remove(&line).ok_or(-libc::EINVAL)?;
    taken.stop.store(true, Ordering::Release);
    if taken.thread.thread().id() != std::thread::current().id() {
        // A handler that panics has said so.
        let _ = taken.thread.join();
    }
    Ok(())
}

/// `rtl_get_soft_irq`.
pub(crate) fn soft(handler: SoftHandler) -> Result<i32, i32> {
    let _call = Call::enter();
    let mut state = state();
    let free = (FIRST_SOFT..FIRST_SOFT + SOFT).find(|line| !state.soft.contains_key(line));
    let line = free.ok_or(-libc::EBUSY)?;
    state.soft.insert(line, (modules::current(), handler));
    Ok(line.cast_signed())
}

/// `rtl_free_soft_irq`.
pub(crate) fn free_soft(line: u32) {
    let _call = Call::enter();
    state().soft.remove(&line);
}

/// Runs a soft line's handler in a thread of the time-sharing side.
pub(crate) fn pend(line: i32) {
    let _call = Call::enter();
    static PENDING: Mutex<Option<std::sync::mpsc::Sender<i32>>> = Mutex::new(None);
    let mut sender = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    let sender = sender.get_or_insert_with(|| {
        let (sender, lines) = std::sync::mpsc::channel::<i32>();
        // Without the thread, handlers of soft lines do not run; threads cannot be made then anyway.
        let _ = std::thread::Builder::new().spawn(move || lines.iter().for_each(run_soft));
        sender
    });
    let _ = sender.send(line);
}

fn run_soft(line: i32) {
    let found = u32::try_from(line)
        .ok()
        .and_then(|number| state().soft.get(&number).copied());
    if let Some((module, handler)) = found {
        modules::on_behalf(module, || handler(line, std::ptr::null_mut(), std::ptr::null_mut()));
    }
}

/// Frees what a module has left.
pub(crate) fn free_all_of(module: usize) {
    let taken: Vec<u32> = {
        let mut state = state();
        state.soft.retain(|_, (owner, _)| *owner != module);
        let own = state.taken.iter().filter(|(_, line)| line.module == module);
        own.map(|(line, _)| *line).collect()
    };
    for line in taken {
        // It was taken a moment ago.
        let _ = free(line);
    }
}
