//! The status document in Prometheus' text format.

mod pinned_pools;

use crate::reservation::Number;
use crate::status::{ClientStatus, ReservationStatus, StatusDocument, TaskStatus, TimesStatus};
use std::fmt::Write;

/// Writes families of metrics one after the other.
#[derive(Debug, Default)]
struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(
            self.text,
            "# HELP freehold_{name} {help}\n# TYPE freehold_{name} {kind}"
        );
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.text.push_str("freehold_");
        self.text.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escape(text));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

/// A label's value as the format wants it.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Seconds for nanoseconds.
#[allow(clippy::cast_precision_loss, reason = "a time in a report")]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// All metrics.
#[must_use]
pub fn page(status: &StatusDocument) -> String {
    let mut page = Page::default();
    server(&mut page, status);
    reservations(&mut page, &status.reservations);
    pinned_pools::families(&mut page, &status.pinned_pools);
    clients(&mut page, &status.clients);
    tasks(&mut page, &status.clients);
    objects(&mut page, status);
    store(&mut page, status);
    page.text
}

fn server(page: &mut Page, status: &StatusDocument) {
    let (memory, orders) = (&status.memory, &status.orders);
    page.single(
        "uptime_seconds",
        "gauge",
        "Time since the server began.",
        seconds(status.server.uptime_ns),
    );
    for (name, help, value) in [
        ("pool_frames", "Frames of the pool.", memory.pool),
        ("pool_free_frames", "Frames held by nobody.", memory.free),
        (
            "pool_committed_frames",
            "Frames promised to reservations.",
            memory.committed,
        ),
        ("pool_outside_frames", "Frames set aside for devices.", memory.outside),
        (
            "pool_used_frames",
            "Frames in use, reservations' included.",
            memory.used,
        ),
        (
            "resident_frames",
            "Frames the kernel says are resident.",
            memory.resident_measured,
        ),
        (
            "reserve_due_frames",
            "Free and conserved frames to be backed by locked memory.",
            memory.reserve_due,
        ),
        (
            "reserve_frames",
            "Of these, resident as the kernel counts.",
            memory.reserve,
        ),
        ("clients", "Processes served.", status.clients.len() as u64),
        ("orders_outstanding", "Orders to agents under way.", orders.outstanding),
    ] {
        page.single(name, "gauge", help, value);
    }
    for (name, help, value) in [
        ("orders_total", "Orders sent to agents.", orders.sent),
        (
            "orders_busy_total",
            "Orders answered: the kernel holds the page.",
            orders.busy,
        ),
        (
            "clients_stopped_total",
            "Clients stopped because they did not answer.",
            orders.stopped,
        ),
    ] {
        page.single(name, "counter", help, value);
    }
    pagers(page, status);
}

fn pagers(page: &mut Page, status: &StatusDocument) {
    page.family("pager_messages_total", "counter", "Fault messages read.");
    for pager in &status.pagers {
        page.sample(
            "pager_messages_total",
            &[("cpu", &pager.cpu.to_string())],
            pager.messages,
        );
    }
    page.family(
        "pager_real_time",
        "gauge",
        "Whether a pager thread has its real-time priority.",
    );
    for pager in &status.pagers {
        let value = u8::from(pager.priority.is_some());
        page.sample("pager_real_time", &[("cpu", &pager.cpu.to_string())], value);
    }
    let name = "step_seconds";
    page.family(
        name,
        "gauge",
        "How long the engine's steps took, one of which at most a fault waits for.",
    );
    for (quantile, value) in quantiles(&status.steps_ns) {
        page.sample(name, &[("quantile", quantile)], seconds(value));
    }
}

fn quantiles(times: &TimesStatus) -> [(&'static str, u64); 3] {
    [("0.5", times.p50), ("0.99", times.p99), ("1", times.max)]
}

type Of<T> = (&'static str, &'static str, fn(&T) -> u64);

/// What `none` and `firm` owe, and what was, is in the documents only.
const UNMETERED: [&str; 2] = ["owed", "peak"];

fn reservations(page: &mut Page, reservations: &[ReservationStatus]) {
    for number in Number::shown().filter(|number| !UNMETERED.contains(&number.name())) {
        let name = format!("reservation_{}_{}", number.name(), number.unit().name());
        page.family(&name, "gauge", number.help());
        for (place, row) in reservations.iter().enumerate() {
            // Two may have the same name.
            let slot = place.to_string();
            let labels = [("reservation", row.name.as_str()), ("row", slot.as_str())];
            page.sample(&name, &labels, number.of(&row.counts()));
        }
    }
}

fn clients(page: &mut Page, clients: &[ClientStatus]) {
    let rows: [(Of<ClientStatus>, &str); 7] = [
        (("faults_total", "Fault messages.", |row| row.faults), "counter"),
        (
            ("strange_faults_total", "Faults that made no sense.", |row| {
                row.strange_faults
            }),
            "counter",
        ),
        (
            ("private_resident_pages", "Private pages in its page table.", |row| {
                row.private_resident
            }),
            "gauge",
        ),
        (
            ("private_slot_pages", "Private pages in the transfer memory.", |row| {
                row.private_slots
            }),
            "gauge",
        ),
        (
            ("private_stored_pages", "Private pages in the store only.", |row| {
                row.private_stored
            }),
            "gauge",
        ),
        (
            ("inherited_pages", "Pages inherited at a fork, not managed.", |row| {
                row.inherited
            }),
            "gauge",
        ),
        (("orders", "Orders not answered yet.", |row| row.orders), "gauge"),
    ];
    for ((name, help, value), kind) in rows {
        let name = format!("client_{name}");
        page.family(&name, kind, help);
        for row in clients {
            page.sample(&name, &[("pid", &row.pid.to_string()), ("name", &row.name)], value(row));
        }
    }
    let name = "client_fault_service_seconds";
    page.family(
        name,
        "gauge",
        "From a fault's message to its resolution, waits for the store included.",
    );
    for row in clients {
        let pid = row.pid.to_string();
        for (quantile, value) in quantiles(&row.service_ns) {
            page.sample(
                name,
                &[("pid", &pid), ("name", &row.name), ("quantile", quantile)],
                seconds(value),
            );
        }
    }
}

fn tasks(page: &mut Page, clients: &[ClientStatus]) {
    let rows: [Of<TaskStatus>; 10] = [
        ("soft_faults_total", "Faults on resident pages.", |row| row.soft_faults),
        ("zero_fills_total", "First touches.", |row| row.zero_fills),
        ("swap_ins_total", "Pages read back from the store.", |row| row.swap_ins),
        (
            "shared_swap_ins_total",
            "Of these, pages that another's eviction took.",
            |row| row.shared_swap_ins,
        ),
        ("file_reads_total", "Pages read from files.", |row| row.file_reads),
        ("write_faults_total", "Write-permission faults.", |row| row.write_faults),
        (
            "read_ahead_total",
            "Pages read back beside one that was faulted on.",
            |row| row.read_ahead,
        ),
        ("evictions_total", "Pages taken from its own lists.", |row| {
            row.evictions
        }),
        ("jobs_total", "Jobs ended.", |row| row.jobs),
        ("misses_total", "Jobs that missed their deadlines.", |row| row.misses),
    ];
    for (name, help, value) in rows {
        let name = format!("task_{name}");
        page.family(&name, "counter", help);
        for client in clients {
            let pid = client.pid.to_string();
            for (place, row) in client.tasks.iter().enumerate() {
                let slot = place.to_string();
                let reservation = row.reservation.as_deref().unwrap_or("");
                let labels = [
                    ("pid", pid.as_str()),
                    ("task", row.name.as_str()),
                    ("row", slot.as_str()),
                    ("reservation", reservation),
                ];
                page.sample(&name, &labels, value(row));
            }
        }
    }
}

fn objects(page: &mut Page, status: &StatusDocument) {
    page.family("object_resident_pages", "gauge", "Pages of shared objects in frames.");
    for (place, row) in status.objects.iter().enumerate() {
        let slot = place.to_string();
        page.sample(
            "object_resident_pages",
            &[("object", &row.name), ("row", &slot)],
            row.resident,
        );
    }
}

fn store(page: &mut Page, status: &StatusDocument) {
    let store = &status.store;
    for (name, help, value) in [
        ("reads_total", "Records read back.", store.reads),
        ("writes_total", "Records written.", store.writes),
        ("read_bytes_total", "Bytes read back.", store.read_bytes),
        ("written_bytes_total", "Bytes written.", store.written_bytes),
        ("failed_reads_total", "Reads that failed.", store.failed_reads),
        ("failed_writes_total", "Writes that failed.", store.failed_writes),
    ] {
        page.single(&format!("store_{name}"), "counter", help, value);
    }
    page.single("store_frames", "gauge", "Frames of the store's own.", store.frames);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::default();
        page.sample("x", &[("a", "q\"b\\c\nd"), ("b", "")], 1);
        assert_eq!(page.text, "freehold_x{a=\"q\\\"b\\\\c\\nd\",b=\"\"} 1\n");
    }
}
