//! Any text as a device file: its devices have names and sizes, or it is refused with a reason.
#![no_main]

use freehold_scenario::DeviceFile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match DeviceFile::parse(text, "fuzz.toml") {
        Ok(file) => {
            assert!((1..=8).contains(&file.devices.len()));
            for (place, device) in file.devices.iter().enumerate() {
                assert!((1..=32).contains(&device.name.len()) && !device.size.is_zero());
                assert!(file.devices[..place].iter().all(|other| other.name != device.name));
            }
            let frames: u64 = file.devices.iter().map(|device| u64::from(device.size.get())).sum();
            assert_eq!(u64::from(file.frames().get()), frames);
        }
        Err(error) => assert!(error.to_string().contains("fuzz.toml"), "{error}"),
    }
});
