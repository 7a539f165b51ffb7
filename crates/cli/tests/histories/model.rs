//! Who owns what, naively: maps of what the server has said yes to, and what follows when somebody goes.

use super::player::Player;
use serde_json::Value;
use std::collections::BTreeMap;

/// Handles of one connection that a history may hold at a time, of each kind.
pub(crate) const MOST: usize = 6;

/// A reservation or a pinned page pool.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) user: u32,
    pub(crate) frames: u32,
    pub(crate) pool: bool,
    pub(crate) holders: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) name: String,
    pub(crate) user: u32,
    pub(crate) shared: bool,
    /// What each page's first word is.
    pub(crate) words: Vec<u64>,
    pub(crate) openings: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    pub(crate) task: u32,
    pub(crate) region: u32,
    pub(crate) first: u32,
    pub(crate) pages: u32,
}

/// One process and its connection.
pub(crate) struct Member {
    pub(crate) player: Player,
    pub(crate) library: bool,
    pub(crate) memberships: BTreeMap<u32, String>,
    /// Name, and what it is in.
    pub(crate) tasks: BTreeMap<u32, (String, Option<String>)>,
    pub(crate) objects: BTreeMap<u32, u32>,
    /// How often an open object was opened again and not yet closed as often.
    pub(crate) again: BTreeMap<u32, u32>,
    pub(crate) mappings: BTreeMap<u32, Mapping>,
}

/// Everything.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) quotas: BTreeMap<u32, u32>,
    pub(crate) held: BTreeMap<String, Held>,
    pub(crate) regions: BTreeMap<u32, Region>,
    pub(crate) members: Vec<Member>,
    pub(crate) last: u32,
}

impl Model {
    /// A number that was not given before.
    pub(crate) fn number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// Tasks that are in a reservation or pool.
    fn tasks_in(&self, name: &str) -> usize {
        let tasks = self.members.iter().flat_map(|member| member.tasks.values());
        tasks.filter(|(_, within)| within.as_deref() == Some(name)).count()
    }

    /// What a user has reserved: also what nobody holds any more, as long as tasks are in it.
    pub(crate) fn reserved_by(&self, user: u32) -> u32 {
        let own = self.held.values().filter(|held| held.user == user);
        own.map(|held| held.frames).sum()
    }

    pub(crate) fn rest_of(&self, user: u32) -> u32 {
        self.quotas[&user].saturating_sub(self.reserved_by(user))
    }

    /// The region that a user's name means.
    pub(crate) fn region_named(&self, user: u32, name: &str) -> Option<u32> {
        let found = self
            .regions
            .iter()
            .find(|(_, region)| region.shared && region.user == user && region.name == name);
        found.map(|(number, _)| *number)
    }

    /// What nobody has any more goes.
    pub(crate) fn forget(&mut self) {
        let used: Vec<u32> = self
            .members
            .iter()
            .flat_map(|member| member.mappings.values().map(|mapping| mapping.region))
            .collect();
        self.regions
            .retain(|number, region| region.openings > 0 || used.contains(number));
        let gone: Vec<String> = self
            .held
            .iter()
            .filter(|(name, held)| held.holders == 0 && self.tasks_in(name) == 0)
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.held.remove(&name);
        }
    }

    pub(crate) fn let_go(&mut self, name: &str) {
        self.held.get_mut(name).expect("it is held").holders -= 1;
        self.forget();
    }

    pub(crate) fn close(&mut self, region: u32) {
        self.regions.get_mut(&region).expect("it is open").openings -= 1;
        self.forget();
    }

    /// A process dies, and everything that it had returns.
    pub(crate) fn die(&mut self, at: usize) {
        let member = self.members.swap_remove(at);
        for region in member.objects.values() {
            self.regions.get_mut(region).expect("it is open").openings -= 1;
        }
        for name in member.memberships.values() {
            self.held.get_mut(name).expect("it is held").holders -= 1;
        }
        drop(member);
        self.forget();
    }

    /// What the status should say, one line for each thing.
    pub(crate) fn expected(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, held) in &self.held {
            let (kind, frames) = if held.pool {
                ("pool", 0)
            } else {
                ("reservation", held.frames)
            };
            lines.push(format!("{kind} {name} of {frames}"));
        }
        for region in self.regions.values() {
            lines.push(format!(
                "region {} of {}: {}",
                region.name,
                region.user,
                region.words.len()
            ));
        }
        for member in self.members.iter().filter(|member| member.library) {
            let pid = member.player.pid();
            lines.push(format!("client {pid} of {}", member.player.user));
            for (name, within) in member.tasks.values() {
                let within = within.as_deref().unwrap_or("nothing");
                lines.push(format!("task {name} of {pid} in {within}"));
            }
            for mapping in member.mappings.values() {
                let name = &self.regions[&mapping.region].name;
                lines.push(format!("{pid} maps {name} {}+{}", mapping.first, mapping.pages));
            }
        }
        lines.sort();
        lines
    }
}

fn rows<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value[name].as_array().expect("a list").iter()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What the status says, in the same lines.
pub(crate) fn found(status: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows(status, "reservations") {
        lines.push(format!("reservation {} of {}", text(&row["name"]), row["capacity"]));
    }
    for row in rows(status, "pinned_pools") {
        lines.push(format!("pool {} of 0", text(&row["name"])));
    }
    for row in rows(status, "objects").filter(|row| row["kind"] != "file") {
        // The asker is root, to whom a shared region of another is called with its user.
        let name = text(&row["name"]);
        let name = name.strip_prefix(&format!("{}:", row["user"])).unwrap_or(name);
        lines.push(format!("region {name} of {}: {}", row["user"], row["pages"]));
        for mapper in rows(row, "mappers") {
            let place = format!("{}+{}", mapper["first"], mapper["pages"]);
            lines.push(format!("{} maps {name} {place}", mapper["pid"]));
        }
    }
    for client in rows(status, "clients") {
        lines.push(format!("client {} of {}", client["pid"], client["user"]));
        for task in rows(client, "tasks") {
            let within = task["reservation"].as_str().or(task["pinned_pool"].as_str());
            let within = within.unwrap_or("nothing");
            lines.push(format!("task {} of {} in {within}", text(&task["name"]), client["pid"]));
        }
    }
    lines.sort();
    lines
}
