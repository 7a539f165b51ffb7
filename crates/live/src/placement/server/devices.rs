//! The clients of a run's devices: real device memory of the run's server, opened and closed as the scenario says.
//!
//! Each device has a thread of ordinary class. It opens the device at its times, or while a job of its task is under
//! way, writes to all of the memory, and looks before it closes whether its writing is still there. Memory of an
//! untrusted device must come as zeros. So law 6 is watched by those who have the memory; what the server says of its
//! own books is asked at the end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use freehold_client::device::{Device, DeviceError, DeviceRefusal};
use freehold_core::units;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_scenario::results::ResponseRecorder;
use freehold_scenario::{Scenario, ScenarioDevice};

use crate::error::LiveError;
use crate::placement::server::watched::WatchedDevice;

/// Between two looks at whether the run is over, and between two tries to open.
const LOOK: Duration = Duration::from_millis(5);
const TRY: Duration = Duration::from_millis(1);

/// What the run's own server calls a device: names of scenarios may have any characters.
#[must_use]
pub fn device_name(position: usize) -> String {
    format!("device-{position}")
}

/// Jobs of the task that opens a device: odd while one is under way.
#[derive(Debug, Default)]
pub(crate) struct JobSignal(AtomicU64);

impl JobSignal {
    /// A job of the task begins or ends.
    pub(crate) fn turn(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    fn number(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Jobs that have ended, and those that have begun.
    fn jobs(number: u64) -> (u64, u64) {
        (number / 2, number.div_ceil(2))
    }
}

/// What became of a device's openings.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    pub(crate) opens: u64,
    /// Among them those whose job was over before the client could ask.
    pub(crate) refused: u64,
    /// From the wish to the mapped memory.
    pub(crate) times: ResponseRecorder,
    /// What was wrong with the memory, or with a refusal.
    pub(crate) wrong: Vec<String>,
}

/// The devices of a run: what their tasks tell them, and who waits for time 0.
#[derive(Debug)]
pub(crate) struct DeviceThreads {
    signals: Vec<Option<Arc<JobSignal>>>,
    waiting: Mutex<Vec<Sender<MonotonicTime>>>,
}

impl DeviceThreads {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let signal = |device: &ScenarioDevice| device.task.map(|_| Arc::default());
        Self {
            signals: scenario.devices.iter().map(signal).collect(),
            waiting: Mutex::new(Vec::new()),
        }
    }

    /// Those of the devices that jobs of a task open.
    pub(crate) fn signals_of(&self, scenario: &Scenario, task: usize) -> Vec<Arc<JobSignal>> {
        let opened = |device: &ScenarioDevice| device.task.is_some_and(|(owner, _)| owner.get() == task);
        let rows = scenario.devices.iter().zip(&self.signals);
        rows.filter(|(device, _)| opened(device))
            .filter_map(|(_, signal)| signal.clone())
            .collect()
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Sender<MonotonicTime>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run has begun.
    pub(crate) fn begin(&self, origin: MonotonicTime) {
        for client in self.waiting().drain(..) {
            // One that is gone has nothing to do.
            let _ = client.send(origin);
        }
    }

    /// Runs something with a client for each device beside it; what became of their openings.
    ///
    /// # Errors
    /// Those of what is run; [`LiveError::Thread`].
    pub(crate) fn beside<T>(
        &self,
        scenario: &Scenario,
        socket: &Path,
        run: impl FnOnce() -> Result<T, LiveError>,
    ) -> Result<(T, Vec<Openings>), LiveError> {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let mut clients = Vec::new();
            for (position, signal) in self.signals.iter().enumerate() {
                let (begin, begun) = mpsc::channel();
                let client = DeviceClient::new(scenario, position, socket, signal.clone(), &over);
                let spawned = thread::Builder::new().spawn_scoped(scope, move || client.main(&begun));
                let name = scenario.devices[position].name.clone();
                match spawned {
                    Ok(thread) => clients.push(thread),
                    Err(reason) => {
                        self.waiting().clear();
                        return Err(LiveError::Thread { name, reason });
                    }
                }
                self.waiting().push(begin);
            }
            let outcome = run();
            over.store(true, Ordering::Relaxed);
            self.waiting().clear();
            let panicked = |_| LiveError::Panicked("a device's client".to_owned());
            let found: Result<Vec<Openings>, LiveError> = clients
                .into_iter()
                .map(|client| client.join().map_err(panicked))
                .collect();
            Ok((outcome?, found?))
        })
    }
}

/// The client of one device.
#[derive(Debug)]
pub(crate) struct DeviceClient<'a> {
    device: &'a ScenarioDevice,
    name: String,
    socket: PathBuf,
    jobs: Option<Arc<JobSignal>>,
    /// How long the run lasts.
    length: Duration,
    over: &'a AtomicBool,
    found: Openings,
}

impl<'a> DeviceClient<'a> {
    pub(crate) fn new(
        scenario: &'a Scenario,
        position: usize,
        socket: &Path,
        jobs: Option<Arc<JobSignal>>,
        over: &'a AtomicBool,
    ) -> Self {
        Self {
            device: &scenario.devices[position],
            name: device_name(position),
            socket: socket.to_owned(),
            jobs,
            length: Duration::from_nanos(scenario.duration.get()),
            over,
            found: Openings::default(),
        }
    }

    /// From time 0, which is told, to the end of the run.
    pub(crate) fn main(mut self, begun: &Receiver<MonotonicTime>) -> Openings {
        let Ok(origin) = begun.recv() else { return self.found };
        let end = origin.saturating_add(self.length);
        match self.jobs.take() {
            Some(jobs) => self.follow(&jobs, end),
            None => self.keep_times(origin, end),
        }
        self.found
    }

    fn keep_times(&mut self, origin: MonotonicTime, end: MonotonicTime) {
        let at = |instant: units::Instant| origin.saturating_add(Duration::from_nanos(instant.get()));
        for open in &self.device.opens {
            self.rest(at(open.at).min(end), || false);
            if self.is_over() || at(open.at) >= end {
                return;
            }
            let until = at(open.until).min(end);
            self.use_while(open.used.get(), || clock::now() < until);
        }
    }

    fn follow(&mut self, jobs: &JobSignal, end: MonotonicTime) {
        let Some((_, used)) = self.device.task else { return };
        let mut answered = 0;
        while !self.is_over() && clock::now() < end {
            let number = jobs.number();
            let (ended, begun) = JobSignal::jobs(number);
            self.found.refused += ended - answered;
            if ended == begun {
                self.rest(end, || jobs.number() != number);
            } else {
                self.use_while(used.get(), || jobs.number() == number && clock::now() < end);
            }
            answered = begun;
        }
        // Where the machine stood still, jobs released before the end begin after it.
        while !self.is_over() {
            thread::sleep(LOOK);
        }
        let (_, begun) = JobSignal::jobs(jobs.number());
        self.found.refused += begun - answered;
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Sleeps until then, or until the run is over or something has happened.
    fn rest(&self, until: MonotonicTime, happened: impl Fn() -> bool) {
        while !self.is_over() && !happened() && clock::now() < until {
            let pause = if self.device.task.is_some() { TRY } else { LOOK };
            clock::sleep_until(until.min(clock::now().saturating_add(pause)));
        }
    }

    /// Has the device open for as long as it is wanted.
    fn use_while(&mut self, used: u32, wanted: impl Fn() -> bool) {
        let Some(device) = self.open(used, &wanted) else {
            // Until this wish has passed.
            self.rest(clock::now().saturating_add(Duration::from_secs(3600)), || !wanted());
            return;
        };
        let device = WatchedDevice::new(device, self.device, self.found.opens, &mut self.found.wrong);
        while !self.is_over() && wanted() {
            thread::sleep(TRY);
        }
        device.close(&mut self.found.wrong);
    }

    /// Waits for the device's own frames, where they are still on their way back.
    fn open(&mut self, used: u32, wanted: &impl Fn() -> bool) -> Option<Device> {
        let since = clock::now();
        loop {
            match Device::open(&self.socket, &self.name, used) {
                Ok(device) => {
                    self.found.opens += 1;
                    let took = clock::now().as_nanos().saturating_sub(since.as_nanos());
                    self.found.times.record(units::Duration::new(took));
                    return Some(device);
                }
                Err(DeviceError::Refused {
                    reason: DeviceRefusal::Held | DeviceRefusal::InUse,
                    ..
                }) if !self.is_over() && wanted() => thread::sleep(TRY),
                Err(DeviceError::Refused {
                    reason: DeviceRefusal::Held | DeviceRefusal::InUse,
                    ..
                }) => {
                    self.found.refused += 1;
                    return None;
                }
                Err(error) => {
                    self.found.refused += 1;
                    let what = format!("{}, which is closed, is refused: {error}", self.device.name);
                    self.found.wrong.push(what);
                    return None;
                }
            }
        }
    }
}
