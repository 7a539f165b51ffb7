//! The scenario files of the experiments, part of the command so that it works anywhere.

use super::EXPERIMENTS;

/// A file below `experiments/` of the repository: its name there, and its text.
pub(super) type File = (&'static str, &'static str);

/// The [`File`] of this name.
macro_rules! file {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/", $name)),
        )
    };
}
pub(super) use file;

/// The traces that the models of `app/` name.
pub(super) const TRACES: &[(&str, &str)] = &[
    (
        "mplayer-core.txt",
        include_str!("../../../../experiments/app/mplayer-core.txt"),
    ),
    (
        "opencv-core.txt",
        include_str!("../../../../experiments/app/opencv-core.txt"),
    ),
    (
        "ranger-core.txt",
        include_str!("../../../../experiments/app/ranger-core.txt"),
    ),
];

/// The text of a file.
pub(super) fn text(name: &str) -> Option<&'static str> {
    all().find(|(file, _)| *file == name).map(|(_, text)| text)
}

/// All names, each once.
pub(super) fn names() -> Vec<&'static str> {
    let mut names = Vec::new();
    for (name, _) in all() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The names of an experiment's files.
pub(super) fn names_of(files: &[File]) -> Vec<&'static str> {
    files.iter().map(|(name, _)| *name).collect()
}

fn all() -> impl Iterator<Item = File> {
    EXPERIMENTS.iter().flat_map(|experiment| experiment.files).copied()
}
