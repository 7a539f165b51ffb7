//! The status document in Prometheus' text format: a table of metrics for each kind of row.

mod page;
mod pinned_pools;

use self::page::{Kind, Label, Metric, Page, Row, counter, gauge};
use crate::reservation::Number;
use crate::status::{
    ClientStatus, ObjectStatus, PagerStatus, ReservationStatus, StatusDocument, TaskStatus, TimesStatus,
};

/// What `none` and `firm` owe, and what was, is in the documents only.
const UNMETERED: [&str; 2] = ["owed", "peak"];

const SERVER: &[Metric<StatusDocument>] = &[
    gauge("pool_frames", "Frames of the pool.", |status| status.memory.pool),
    gauge("pool_free_frames", "Frames held by nobody.", |status| {
        status.memory.free
    }),
    gauge("pool_committed_frames", "Frames promised to reservations.", |status| {
        status.memory.committed
    }),
    gauge("pool_outside_frames", "Frames set aside for devices.", |status| {
        status.memory.outside
    }),
    gauge("pool_used_frames", "Frames in use, reservations' included.", |status| {
        status.memory.used
    }),
    gauge("resident_frames", "Frames the kernel says are resident.", |status| {
        status.memory.resident_measured
    }),
    gauge(
        "reserve_due_frames",
        "Free and conserved frames to be backed by locked memory.",
        |status| status.memory.reserve_due,
    ),
    gauge("reserve_frames", "Of these, resident as the kernel counts.", |status| {
        status.memory.reserve
    }),
    gauge("clients", "Processes served.", |status| status.clients.len() as u64),
    gauge("orders_outstanding", "Orders to agents under way.", |status| {
        status.orders.outstanding
    }),
    counter("orders_total", "Orders sent to agents.", |status| status.orders.sent),
    counter(
        "orders_busy_total",
        "Orders answered: the kernel holds the page.",
        |status| status.orders.busy,
    ),
    counter(
        "clients_stopped_total",
        "Clients stopped because they did not answer.",
        |status| status.orders.stopped,
    ),
];

const PAGERS: &[Metric<PagerStatus>] = &[
    counter("messages_total", "Fault messages read.", |row| row.messages),
    gauge(
        "real_time",
        "Whether a pager thread has its real-time priority.",
        |row| u64::from(row.priority.is_some()),
    ),
];

const CLIENTS: &[Metric<ClientStatus>] = &[
    counter("faults_total", "Fault messages.", |row| row.faults),
    counter("strange_faults_total", "Faults that made no sense.", |row| {
        row.strange_faults
    }),
    gauge("private_resident_pages", "Private pages in its page table.", |row| {
        row.private.resident
    }),
    gauge("private_slot_pages", "Private pages in the transfer memory.", |row| {
        row.private.slots
    }),
    gauge("private_stored_pages", "Private pages in the store only.", |row| {
        row.private.stored
    }),
    gauge("lent_pages", "Private pages beyond its reservation.", |row| {
        row.private.lent
    }),
    gauge("inherited_pages", "Pages inherited at a fork, not managed.", |row| {
        row.private.inherited
    }),
    gauge("orders", "Orders not answered yet.", |row| row.orders),
];

const TASKS: &[Metric<TaskStatus>] = &[
    counter("soft_faults_total", "Faults on resident pages.", |row| row.soft_faults),
    counter("zero_fills_total", "First touches.", |row| row.zero_fills),
    counter("swap_ins_total", "Pages read back from the store.", |row| row.swap_ins),
    counter(
        "shared_swap_ins_total",
        "Of these, pages that another's eviction took.",
        |row| row.shared_swap_ins,
    ),
    counter("file_reads_total", "Pages read from files.", |row| row.file_reads),
    counter("write_faults_total", "Write-permission faults.", |row| row.write_faults),
    counter(
        "read_ahead_total",
        "Pages read back beside one that was faulted on.",
        |row| row.read_ahead,
    ),
    counter("evictions_total", "Pages taken from its own lists.", |row| {
        row.evictions
    }),
    counter("jobs_total", "Jobs ended.", |row| row.jobs),
    counter("misses_total", "Jobs that missed their deadlines.", |row| row.misses),
];

const OBJECTS: &[Metric<ObjectStatus>] = &[gauge("resident_pages", "Pages of shared objects in frames.", |row| {
    row.resident
})];

const STORE: &[Metric<StatusDocument>] = &[
    counter("reads_total", "Records read back.", |status| status.store.reads),
    counter("writes_total", "Records written.", |status| status.store.writes),
    counter("read_bytes_total", "Bytes read back.", |status| status.store.read_bytes),
    counter("written_bytes_total", "Bytes written.", |status| {
        status.store.written_bytes
    }),
    counter("failed_reads_total", "Reads that failed.", |status| {
        status.store.failed_reads
    }),
    counter("failed_writes_total", "Writes that failed.", |status| {
        status.store.failed_writes
    }),
    gauge(
        "pages",
        "Pages that had a frame before, in the store or their file only.",
        |status| status.store.pages,
    ),
    gauge("frames", "Frames of the store's own.", |status| status.store.frames),
];

/// All metrics.
#[must_use]
pub fn page(status: &StatusDocument) -> String {
    let mut page = Page::default();
    let whole = [Row::new(status)];
    page.family(
        "uptime_seconds",
        Kind::Gauge,
        "Time since the server began.",
        &whole,
        |status| seconds(status.server.uptime_ns),
    );
    page.table("", SERVER, &whole);
    let pagers: Vec<_> = status
        .pagers
        .iter()
        .map(|row| Row::new(row).with("cpu", row.cpu))
        .collect();
    page.table("pager_", PAGERS, &pagers);
    let steps = "How long the engine's steps took, one of which at most a fault waits for.";
    page.parts(("step_seconds", Kind::Gauge, steps), &whole, |status| {
        quantiles(&status.steps_ns)
    });
    reservations(&mut page, &status.reservations);
    pinned_pools::families(&mut page, &status.pinned_pools);
    clients(&mut page, &status.clients);
    page.table("task_", TASKS, &tasks(&status.clients));
    page.table(
        "object_",
        OBJECTS,
        &Row::numbered(&status.objects, "object", |row| &row.name),
    );
    page.table("store_", STORE, &whole);
    page.into_text()
}

fn reservations(page: &mut Page, reservations: &[ReservationStatus]) {
    let rows = Row::numbered(reservations, "reservation", |row| &row.name);
    for number in Number::shown().filter(|number| !UNMETERED.contains(&number.name())) {
        let name = format!("reservation_{}_{}", number.name(), number.unit().name());
        page.family(&name, Kind::Gauge, number.help(), &rows, |row| number.of(&row.counts()));
    }
}

fn clients(page: &mut Page, clients: &[ClientStatus]) {
    let named = clients
        .iter()
        .map(|row| Row::new(row).with("pid", row.pid).with("name", &row.name));
    let rows: Vec<_> = named.collect();
    page.table("client_", CLIENTS, &rows);
    let service = "From a fault's message to its resolution, waits for the store included.";
    page.parts(("client_fault_service_seconds", Kind::Gauge, service), &rows, |row| {
        quantiles(&row.service_ns)
    });
}

fn tasks(clients: &[ClientStatus]) -> Vec<Row<'_, TaskStatus>> {
    let of = |client: &ClientStatus| {
        let pid = client.pid;
        move |(place, row): (usize, _)| {
            let row: &TaskStatus = row;
            let reservation = row.reservation.as_deref().unwrap_or("");
            let named = Row::new(row).with("pid", pid).with("task", &row.name);
            named.with("row", place).with("reservation", reservation)
        }
    };
    clients
        .iter()
        .flat_map(|client| client.tasks.iter().enumerate().map(of(client)))
        .collect()
}

/// Seconds for nanoseconds.
#[allow(clippy::cast_precision_loss, reason = "a time in a report")]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn quantiles(times: &TimesStatus) -> [([Label; 1], f64); 3] {
    [("0.5", times.p50), ("0.99", times.p99), ("1", times.max)]
        .map(|(quantile, time)| ([("quantile", quantile)], seconds(time)))
}
