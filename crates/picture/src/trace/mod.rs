//! Traces for Perfetto: `ui.perfetto.dev` draws them, `trace_processor` answers SQL about them.
//!
//! One process for each run. Beneath it: for each task a track with its jobs, the faults of a job nested in it, with an
//! instant where a deadline was missed, and a track with what the task did (running, ready, waiting for the store); the
//! store's transfers, on as many lanes as overlap; holds of the core's lock; evictions, by reservation; and counters of
//! every reservation's lists, of the pool and of the regions. Times are those of the run, from 0.

mod counters;
mod encoding;
mod packet;
mod slices;

use freehold_scenario::recording::{JobSpan, TaskRecording, TaskState, Transfer, TransferKind};

use crate::Run;
use packet::{Note, Packets, Track};
use slices::{Slice, lanes, write_nested};

/// Writes a trace of these runs. Cost: some 60 bytes for each event recorded.
#[must_use]
pub fn trace(runs: &[Run<'_>]) -> Vec<u8> {
    let mut packets = Packets::default();
    for (position, run) in runs.iter().enumerate() {
        write_run(
            &mut packets,
            position as u64 + 1,
            run,
            &crate::label::of(runs, position),
        );
    }
    packets.finish()
}

fn write_run(packets: &mut Packets, number: u64, run: &Run<'_>, label: &str) {
    let process = packets.process(number, &format!("{label}: {}", run.engine_name()));
    let notes = [
        Note::Number("seed", run.result.head.seed),
        Note::Number("duration_ns", run.result.head.duration_ns),
        Note::Number("events_lost", run.recording.lost),
    ];
    packets.instant(0, process, "run", &notes);
    for (task, result) in run.recording.tasks.iter().zip(&run.result.tasks) {
        let name = &result.name;
        let track = packets.track(process, name);
        write_jobs(packets, track, run, task);
        let track = packets.track(process, &format!("{name}: state"));
        write_states(packets, track, task);
    }
    write_transfers(packets, process, run);
    write_lock(packets, process, run);
    write_evictions(packets, process, run);
    counters::write(packets, process, run);
}

fn write_jobs(packets: &mut Packets, track: Track, run: &Run<'_>, task: &TaskRecording) {
    let faults = task.faults.iter().map(|fault| Slice {
        from: fault.from_ns,
        to: fault.to_ns,
        name: fault.kind.name().to_owned(),
        notes: vec![
            Note::Text("region", run.region_name(fault.region.into())),
            Note::Number("page", fault.page.into()),
        ],
    });
    // Of a job and a fault that are equally long the job is the outer one, so jobs come first.
    write_nested(packets, track, task.jobs.iter().map(job).chain(faults).collect());
    for job in task.jobs.iter().filter(|job| job.missed) {
        let notes = [
            Note::Number("job", job.number),
            Note::Number("tardiness_ns", job.tardiness_ns()),
        ];
        packets.instant(job.deadline_ns.unwrap_or(job.end_ns), track, "deadline missed", &notes);
    }
}

fn job<'a>(job: &JobSpan) -> Slice<'a> {
    let delays = &job.delays;
    let mut notes = vec![
        Note::Number("job", job.number),
        Note::Number("release_ns", job.release_ns),
        Note::Number("response_ns", job.response_ns()),
        Note::Number("cpu_wait_ns", delays.cpu_wait_ns),
        Note::Number("store_wait_ns", delays.store_wait_ns),
        Note::Number("fault_service_ns", delays.fault_service_ns),
        Note::Number("lock_wait_ns", delays.lock_wait_ns),
        Note::Truth("missed", job.missed),
        Note::Truth("finished", job.finished),
    ];
    notes.extend(job.deadline_ns.map(|deadline| Note::Number("deadline_ns", deadline)));
    Slice {
        from: job.begin_ns,
        to: job.end_ns,
        name: format!("job {}", job.number),
        notes,
    }
}

fn write_states(packets: &mut Packets, track: Track, task: &TaskRecording) {
    let name = |state| match state {
        TaskState::Running => "running",
        TaskState::Ready => "ready",
        TaskState::StoreSpin => "store wait, spinning",
        TaskState::StoreWait => "store wait",
    };
    let slices = task.spans.iter().map(|span| Slice {
        from: span.from_ns,
        to: span.to_ns,
        name: name(span.state).to_owned(),
        notes: Vec::new(),
    });
    write_nested(packets, track, slices.collect());
}

fn write_transfers(packets: &mut Packets, process: Track, run: &Run<'_>) {
    if run.recording.transfers.is_empty() {
        return;
    }
    let store = packets.track(process, "store");
    for (kind, name) in [(TransferKind::Read, "read"), (TransferKind::Write, "write")] {
        let transfers = run.recording.transfers.iter();
        let transfers: Vec<&Transfer> = transfers.filter(|transfer| transfer.kind == kind).collect();
        let lanes = lanes(transfers.iter().map(|transfer| (transfer.from_ns, transfer.to_ns)));
        let mut slices = vec![Vec::new(); lanes.iter().max().map_or(0, |last| last + 1)];
        for (transfer, lane) in transfers.into_iter().zip(lanes) {
            slices[lane].push(transfer_slice(run, transfer, name));
        }
        for (lane, slices) in slices.into_iter().enumerate() {
            let track = packets.track(store, &format!("{name}s {}", lane + 1));
            write_nested(packets, track, slices);
        }
    }
}

fn transfer_slice<'a>(run: &Run<'a>, transfer: &Transfer, name: &str) -> Slice<'a> {
    let mut notes = vec![
        Note::Text("region", run.region_name(transfer.region.into())),
        Note::Number("page", transfer.page.into()),
    ];
    if transfer.failed {
        notes.push(Note::Truth("failed", true));
    }
    notes.extend(transfer.task.map(|task| Note::Text("task", run.task_name(task.into()))));
    Slice {
        from: transfer.from_ns,
        to: transfer.to_ns,
        name: name.to_owned(),
        notes,
    }
}

fn write_lock(packets: &mut Packets, process: Track, run: &Run<'_>) {
    let holds = &run.recording.lock_holds;
    if holds.is_empty() {
        return;
    }
    let slices = holds.iter().map(|hold| {
        let holder = hold.task.map_or("another thread", |task| run.task_name(task.into()));
        Slice {
            from: hold.from_ns,
            to: hold.to_ns,
            name: format!("held by {holder}"),
            notes: vec![Note::Number("waited_ns", hold.waited_ns)],
        }
    });
    let all = run.result.lock.map_or(0, |lock| lock.holds);
    let name = match u64::try_from(holds.len()) {
        // The engine leaves short ones out, for which nobody waited.
        Ok(recorded) if recorded < all => format!("core lock ({recorded} of {all} holds)"),
        _ => "core lock".to_owned(),
    };
    let track = packets.track(process, &name);
    write_nested(packets, track, slices.collect());
}

fn write_evictions(packets: &mut Packets, process: Track, run: &Run<'_>) {
    let reservations = run.result.reservations.iter();
    let holders: Vec<(Option<usize>, &str)> = std::iter::once((None, "the pool"))
        .chain(
            reservations
                .enumerate()
                .map(|(at, found)| (Some(at), found.name.as_str())),
        )
        .collect();
    for (holder, name) in holders {
        let evictions = run.recording.evictions.iter();
        let mine = evictions.filter(|eviction| eviction.reservation.map(usize::from) == holder);
        let evictions: Vec<_> = mine.collect();
        if evictions.is_empty() {
            continue;
        }
        let track = packets.track(process, &format!("evictions of {name}"));
        for eviction in evictions {
            let notes = [
                Note::Text("region", run.region_name(eviction.region.into())),
                Note::Number("page", eviction.page.into()),
                Note::Truth("write_back", eviction.write_back),
            ];
            packets.instant(eviction.at_ns, track, eviction.reason.name(), &notes);
        }
    }
}
