//! `freehold cache replay` as its user calls it.

use std::path::PathBuf;
use std::process::{Command, Output};

fn freehold(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_freehold"))
        .args(words)
        .output()
        .expect("the command starts")
}

fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&path).expect("a folder for the test");
    path
}

const TRACE: &str = "t_us,app,kind,dev,ino,page,npages\n0,a,F,8:1,7,0,4\n10,jpeg,+,0:0,0,0,0\n20,a,R,8:1,7,0,4\n\
                     30,jpeg,-,0:0,0,0,0\n40,a,F,8:1,7,0,4\n";
const DEVICES: &str = "[[device]]\nname = \"jpeg\"\nsize = \"16KiB\"\n";

#[test]
fn a_replay_counts_what_a_device_displaces() {
    let folder = folder("cache-replay");
    let (trace, packed, devices) = (folder.join("t.csv"), folder.join("t.csv.zst"), folder.join("d.toml"));
    std::fs::write(&trace, TRACE).unwrap();
    std::fs::write(&packed, zstd::encode_all(TRACE.as_bytes(), 3).unwrap()).unwrap();
    std::fs::write(&devices, DEVICES).unwrap();
    for trace in [&trace, &packed] {
        let words = [
            "cache",
            "replay",
            trace.to_str().unwrap(),
            "--page-cache",
            "4KiB",
            "--cache",
            "16KiB",
        ];
        let words = [&words[..], &["--devices", devices.to_str().unwrap(), "--json"]].concat();
        let output = freehold(&words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        // Three of the first four pages were put and displaced; none is cached while the device is open. After that
        // the last page, which leaves the page cache first, is the only one that is found.
        assert_eq!((&document["accesses"], &document["misses"]), (&12.into(), &11.into()));
        assert_eq!(
            (&document["discarded"], &document["discarded_wanted"]),
            (&3.into(), &3.into())
        );
        assert_eq!(document["allocations"][0]["device"], "jpeg");
        let text = freehold(&words[..words.len() - 1]);
        assert!(String::from_utf8(text.stdout).unwrap().contains("misses (pages read)"));
    }
}

#[test]
fn wrong_input_is_named_with_file_and_line() {
    let folder = folder("cache-wrong");
    let (trace, devices) = (folder.join("t.csv"), folder.join("d.toml"));
    std::fs::write(&trace, TRACE).unwrap();
    std::fs::write(&devices, "[[device]]\nname = \"mfc\"\nsize = \"16KiB\"\n").unwrap();
    let (trace, devices) = (trace.to_str().unwrap(), devices.to_str().unwrap());
    let base = ["cache", "replay", trace, "--page-cache", "4KiB", "--cache", "16KiB"];
    for (more, expected) in [
        (&["--devices", devices][..], "t.csv: line 3: there is no device `jpeg`"),
        (&["--format", "libcachesim-csv"], "needs --columns"),
        (&["--format", "oracle-general"], "the last record has"),
        (&["--devices", "/does/not/exist"], "cannot be read"),
    ] {
        let output = freehold(&[&base[..], more].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    let output = freehold(&["cache", "replay", trace, "--page-cache", "4KiB", "--cache", "5B"]);
    assert_eq!(output.status.code(), Some(2));
}
