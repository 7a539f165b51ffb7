//! Device files: which devices have memory set aside, and how much.

use crate::document::{Document, keys, schema};
use crate::error::{Error, Fault};
use freehold_core::units::{ByteLen, FrameCount};
use freehold_core::victim_cache::MOST_DEVICES;
use std::path::Path;

/// What device memory lies on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// Huge pages where they can be had.
    #[default]
    Auto,
    /// Huge pages.
    Huge,
    /// Small pages.
    Small,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// 1 to 32 of a-z, 0-9, - and _.
    pub name: String,
    /// What it opens at most.
    pub size: FrameCount,
    /// Its client may see what is cached in its memory, and keeps none of it after it closes.
    pub trusted: bool,
    /// Users who may open it, beside root.
    pub users: Vec<u32>,
}

/// A device file, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFile {
    /// What the region lies on.
    pub backing: Backing,
    /// 1 to 8 devices.
    pub devices: Vec<Device>,
}

impl DeviceFile {
    /// Reads a device file.
    ///
    /// ```
    /// use freehold_scenario::DeviceFile;
    /// let file = DeviceFile::parse("[[device]]\nname = \"mfc0\"\nsize = \"36MiB\"\n", "d.toml")?;
    /// assert_eq!(file.devices[0].size.get(), 9216);
    /// let error = DeviceFile::parse("[[device]]\nname = \"mfc0\"\nsize = \"0B\"\n", "d.toml").unwrap_err();
    /// assert_eq!(error.to_string(), "d.toml:3: device.mfc0.size: is zero: a device has at least one page");
    /// # Ok::<(), freehold_scenario::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first rule that does not hold, with file, line and key.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        Document::parse(text, file)?.devices()
    }

    /// Reads a device file from the file system.
    ///
    /// # Errors
    /// As [`DeviceFile::parse`], or the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Document::load(path)?.devices()
    }

    /// Frames of all devices together.
    #[must_use]
    pub fn frames(&self) -> FrameCount {
        let sum = self.devices.iter().map(|device| device.size.get());
        FrameCount::new(sum.fold(0, u32::saturating_add))
    }
}

/// Reads the document's tables.
pub(crate) fn read(table: &schema::Tree) -> Result<DeviceFile, Fault> {
    let root = schema::section(table, keys::DEVICE_FILE)?;
    let words = [
        ("auto", Backing::Auto),
        ("huge", Backing::Huge),
        ("small", Backing::Small),
    ];
    let backing = match root.table("region", keys::DEVICE_REGION)? {
        Some(region) => region.choice("backing", &words)?.unwrap_or_default(),
        None => Backing::default(),
    };
    let mut devices: Vec<Device> = Vec::new();
    let sections = root.tables("device", keys::DEVICE)?;
    for section in &sections {
        let name = section.required("name", section.text("name")?)?;
        let size = section.required("size", section.size("size")?)?;
        if devices.iter().any(|device| device.name == name) {
            return Err(section.fault("name", format!("`{name}` stands twice: names tell devices apart")));
        }
        devices.push(Device {
            name: checked_name(&name).map_err(|message| section.fault("name", message))?,
            size: frames(size).map_err(|message| section.fault("size", message))?,
            trusted: section.flag("trusted")?.unwrap_or(false),
            users: section.integers("users")?.unwrap_or_default(),
        });
    }
    if devices.is_empty() || devices.len() > MOST_DEVICES {
        let message = format!("there are {}: write 1 to {MOST_DEVICES} [[device]]", devices.len());
        return Err(Fault::new("device", message));
    }
    Ok(DeviceFile { backing, devices })
}

fn checked_name(name: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    if (1..=32).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(name.to_owned());
    }
    Err(format!(
        "`{}` is no name: 1 to 32 of a-z, 0-9, - and _",
        name.escape_debug()
    ))
}

fn frames(size: ByteLen) -> Result<FrameCount, String> {
    let pages = size.to_pages().map(|pages| pages.to_frames());
    match pages {
        Some(frames) if frames.is_zero() => Err("is zero: a device has at least one page".to_owned()),
        Some(frames) if frames.get() <= 1 << 24 => Ok(frames),
        _ => Err("is too large: at most 64GiB".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        DeviceFile::parse(text, "d.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_whole_file() {
        let text = "[region]\nbacking = \"small\"\n[[device]]\nname = \"mfc0\"\nsize = \"36MiB\"\ntrusted = true\n\
                    [[device]]\nname = \"jpeg\"\nsize = \"8MiB\"\nusers = [1000, 1001]\n";
        let file = DeviceFile::parse(text, "d.toml").unwrap();
        assert_eq!(file.backing, Backing::Small);
        assert_eq!(file.frames().get(), 44 * 256);
        assert!(file.devices[0].trusted && file.devices[1].users == [1000, 1001]);
    }

    #[test]
    fn every_fault_names_line_and_key() {
        let one = "[[device]]\nname = \"a\"\nsize = \"1MiB\"\n";
        assert!(error("").starts_with("d.toml:1: device: there are 0"));
        assert!(error(&one.repeat(2)).starts_with("d.toml:5: device.a.name: `a` stands twice"));
        assert!(
            error("[[device]]\nname = \"A b\"\nsize = \"1MiB\"\n")
                .starts_with("d.toml:2: device.A b.name: `A b` is no name")
        );
        assert!(
            error("[[device]]\nname = \"a\"\nsize = \"65GiB\"\n").starts_with("d.toml:3: device.a.size: is too large")
        );
        assert!(error(&format!("{one}speed = 3\n")).starts_with("d.toml:4: device.a.speed: unknown key"));
        assert!(error("[region]\nbacking = \"big\"\n").starts_with("d.toml:2: region.backing: `big` is unknown"));
    }
}
