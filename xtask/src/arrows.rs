//! The dependency arrows: who may know whom. They point inward only; the core depends on nothing.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Finding;

/// Each crate and the crates of this workspace that it may depend on. A new crate needs a row.
const ALLOWED: &[(&str, &[&str])] = &[
    ("freehold-core", &[]),
    ("freehold-driver", &["freehold-core"]),
    ("freehold-shm", &[]),
    ("freehold-protocol", &["freehold-core", "freehold-shm"]),
    ("freehold-linux", &["freehold-core", "freehold-protocol"]),
    ("freehold-tmem", &["freehold-linux", "freehold-shm"]),
    (
        "freehold-component",
        &[
            "freehold-core",
            "freehold-linux",
            "freehold-report",
            "freehold-scenario",
            "freehold-tmem",
        ],
    ),
    ("freehold-report", &["freehold-core"]),
    ("freehold-scenario", &["freehold-core", "freehold-report"]),
    ("freehold-store", &["freehold-core", "freehold-linux"]),
    (
        "freehold-sim",
        &[
            "freehold-core",
            "freehold-driver",
            "freehold-report",
            "freehold-scenario",
        ],
    ),
    (
        "freehold-picture",
        &["freehold-protocol", "freehold-report", "freehold-scenario"],
    ),
    (
        "freehold-pager",
        &["freehold-core", "freehold-driver", "freehold-linux", "freehold-store"],
    ),
    (
        "freehold-server",
        &[
            "freehold-core",
            "freehold-driver",
            "freehold-ecache",
            "freehold-linux",
            "freehold-protocol",
            "freehold-report",
            "freehold-scenario",
            "freehold-store",
        ],
    ),
    (
        "freehold-rt",
        &["freehold-core", "freehold-linux", "freehold-pager", "freehold-store"],
    ),
    (
        "freehold-live",
        &[
            "freehold-client",
            "freehold-component",
            "freehold-core",
            "freehold-ecache",
            "freehold-linux",
            "freehold-pager",
            "freehold-report",
            "freehold-rt",
            "freehold-scenario",
            "freehold-server",
            "freehold-sim",
            "freehold-store",
            "freehold-tmem",
        ],
    ),
    (
        "freehold-command",
        &[
            "freehold-client",
            "freehold-core",
            "freehold-latency",
            "freehold-linux",
            "freehold-live",
            "freehold-protocol",
            "freehold-report",
            "freehold-rt",
            "freehold-scenario",
            "freehold-server",
            "freehold-sim",
        ],
    ),
    (
        "freehold-lab",
        &[
            "freehold-client",
            "freehold-command",
            "freehold-core",
            "freehold-ecache",
            "freehold-latency",
            "freehold-linux",
            "freehold-live",
            "freehold-mount",
            "freehold-pager",
            "freehold-picture",
            "freehold-report",
            "freehold-rt",
            "freehold-rtl",
            "freehold-scenario",
            "freehold-sim",
            "freehold-store",
            "freehold-tmem",
        ],
    ),
    (
        "freehold",
        &[
            "freehold-client",
            "freehold-command",
            "freehold-component",
            "freehold-core",
            "freehold-ecache",
            "freehold-lab",
            "freehold-latency",
            "freehold-linux",
            "freehold-live",
            "freehold-mount",
            "freehold-picture",
            "freehold-protocol",
            "freehold-report",
            "freehold-rt",
            "freehold-rtl",
            "freehold-scenario",
            "freehold-server",
            "freehold-sim",
            "freehold-store",
        ],
    ),
    ("freehold-mount", &["freehold-ecache", "freehold-linux"]),
    (
        "freehold-ecache",
        &[
            "freehold-core",
            "freehold-linux",
            "freehold-protocol",
            "freehold-scenario",
            "freehold-store",
        ],
    ),
    ("freehold-latency", &["freehold-linux", "freehold-rt"]),
    ("freehold-client", &["freehold-linux", "freehold-protocol"]),
    // The API of modules stands beside the memory server: it needs the kernel's mechanisms only.
    ("freehold-rtl", &["freehold-linux", "freehold-shm"]),
    ("freehold-capi", &["freehold-client", "freehold-linux", "freehold-rt"]),
    ("freehold-agent", &["freehold-protocol"]),
    ("xtask", &[]),
];

/// The crate that depends on nothing at all.
const PURE: &str = "freehold-core";

/// What `cargo metadata` says about the workspace at `root`.
pub(crate) fn metadata(root: &Path) -> Result<Value, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let output = Command::new(cargo).args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// Every arrow that is not allowed. Dev-dependencies may point anywhere: they are not part of the product.
pub(crate) fn check(metadata: &Value) -> Vec<Finding> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    if names.is_empty() {
        return vec![finding("cargo metadata", "names no package".to_owned())];
    }
    packages
        .iter()
        .flat_map(|package| check_package(package, &names))
        .collect()
}

fn check_package(package: &Value, names: &[&str]) -> Vec<Finding> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some((_, allowed)) = ALLOWED.iter().find(|(row, _)| *row == name) else {
        return vec![finding(
            name,
            "has no row in xtask/src/arrows.rs: say whom it may know".to_owned(),
        )];
    };
    let dependencies = package["dependencies"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let shipped = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
    let targets = shipped.filter_map(|dependency| dependency["name"].as_str());
    let forbidden = targets.filter(|target| {
        let inside = names.contains(target);
        (inside && !allowed.contains(target)) || (name == PURE && !inside)
    });
    forbidden
        .map(|target| finding(name, format!("must not depend on `{target}`")))
        .collect()
}

fn finding(place: &str, what: String) -> Finding {
    Finding {
        place: place.to_owned(),
        line: 0,
        what,
    }
}
