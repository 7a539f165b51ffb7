//! Sizes of a CPU's caches, as the kernel tells them.

use std::path::Path;

/// What is taken where the kernel does not say: what today's CPUs have at most.
const UNKNOWN: CacheSizes = CacheSizes {
    instructions: 64 << 10,
    second_level: 2 << 20,
};

/// In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSizes {
    instructions: usize,
    second_level: usize,
}

impl CacheSizes {
    /// Those of a CPU.
    #[must_use]
    pub fn of(cpu: usize) -> Self {
        Self::below(
            Path::new("/sys/devices/system/cpu")
                .join(format!("cpu{cpu}/cache"))
                .as_path(),
        )
    }

    /// The first-level cache that holds instructions.
    #[must_use]
    pub fn instructions(self) -> usize {
        self.instructions
    }

    /// The second-level cache that holds data.
    #[must_use]
    pub fn second_level(self) -> usize {
        self.second_level
    }

    fn below(folder: &Path) -> Self {
        let find = |level: &str, kinds: [&str; 2]| {
            let entries = std::fs::read_dir(folder).ok()?;
            entries.flatten().find_map(|entry| {
                let read = |name: &str| std::fs::read_to_string(entry.path().join(name)).ok();
                let is_it = read("level")?.trim() == level && kinds.contains(&read("type")?.trim());
                is_it.then(|| bytes(read("size")?.trim())).flatten()
            })
        };
        Self {
            instructions: find("1", ["Instruction", "Unified"]).unwrap_or(UNKNOWN.instructions),
            second_level: find("2", ["Unified", "Data"]).unwrap_or(UNKNOWN.second_level),
        }
    }
}

/// A size such as `48K` or `2M`; `None` for nothing and for what no cache has.
fn bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(['K', 'M']);
    let unit = match text.strip_prefix(digits)? {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    let size = digits.parse::<usize>().ok()?.checked_mul(unit)?;
    (1..=1 << 30).contains(&size).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::{CacheSizes, UNKNOWN, bytes};
    use crate::folder::{PrivateFolder, runtime_directory};

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        assert_eq!(bytes("48K"), Some(48 << 10));
        assert_eq!(bytes("2M"), Some(2 << 20));
        assert_eq!(bytes("512"), Some(512));
        for wrong in ["", "K", "12G", "-1K", "0K", "99999999M", "KK", "1KM"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn each_cache_is_found_by_its_level_and_kind_and_a_machine_that_does_not_say_gets_large_ones() {
        let folder = PrivateFolder::new(&runtime_directory(), "caches").unwrap();
        assert_eq!(CacheSizes::below(folder.path()), UNKNOWN);
        let caches = [
            ("1", "Data", "48K"),
            ("1", "Instruction", "32K"),
            ("2", "Unified", "1280K"),
        ];
        for (index, (level, kind, size)) in caches.into_iter().enumerate() {
            let cache = folder.path().join(format!("index{index}"));
            std::fs::create_dir(&cache).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                std::fs::write(cache.join(name), format!("{text}\n")).unwrap();
            }
        }
        let found = CacheSizes::below(folder.path());
        assert_eq!((found.instructions(), found.second_level()), (32 << 10, 1280 << 10));
    }
}
