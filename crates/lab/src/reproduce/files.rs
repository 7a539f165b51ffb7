//! The scenario files of the experiments, part of the command so that it works anywhere.

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        const FILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../experiments/", $name)))),*];
    };
}

files![
    "spc-fig3-alone.toml",
    "spc-fig3.toml",
    "spc-fig8-tau1.toml",
    "spc-fig8-tau2.toml",
    "spc-fig9.toml",
    "spc-table3-11.toml",
    "spc-table3-12.toml",
    "spc-table3-22.toml",
    "app/mplayer.toml",
    "app/opencv.toml",
    "app/ranger.toml",
    "app/shift.toml",
    "app/stationary.toml",
    "app/three.toml",
];

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
    FILES.iter().find(|(file, _)| *file == name).map(|(_, text)| *text)
}

/// All names.
pub(super) fn names() -> Vec<&'static str> {
    FILES.iter().map(|(name, _)| *name).collect()
}
