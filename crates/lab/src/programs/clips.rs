//! The clips: made once by ffmpeg from its test picture, and kept.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use freehold_linux::child::die_with_parent;
use rustix::process::Signal;

use freehold_command::exit_status::Failure;

/// A clip of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clip {
    /// H.264, 1280x720, 30 frames a second: the first movie of the paper's section VI.C.
    First,
    /// MPEG2, 1920x1080, 30 frames a second: the second.
    Second,
    /// H.264, 1280x720, 5 frames a second: the third.
    Third,
    /// A tone as MP3.
    Tone,
}

/// How a clip is made.
struct Recipe {
    file: &'static str,
    source: &'static str,
    seconds: u32,
    codec: &'static [&'static str],
}

const H264: &[&str] = &[
    "-c:v", "libx264", "-preset", "veryfast", "-g", "60", "-pix_fmt", "yuv420p",
];

impl Clip {
    /// Frames a second; 0 of sound.
    pub(crate) fn rate(self) -> u32 {
        match self {
            Self::First | Self::Second => 30,
            Self::Third => 5,
            Self::Tone => 0,
        }
    }

    fn recipe(self) -> Recipe {
        match self {
            Self::First => Recipe {
                file: "h264-720p-30.mp4",
                source: "testsrc2=size=1280x720:rate=30",
                seconds: 40,
                codec: H264,
            },
            Self::Second => Recipe {
                file: "mpeg2-1080p-30.mpg",
                source: "testsrc2=size=1920x1080:rate=30",
                seconds: 40,
                codec: &["-c:v", "mpeg2video", "-q:v", "4", "-pix_fmt", "yuv420p"],
            },
            Self::Third => Recipe {
                file: "h264-720p-5.mp4",
                source: "testsrc2=size=1280x720:rate=5",
                seconds: 40,
                codec: H264,
            },
            Self::Tone => Recipe {
                file: "tone.mp3",
                source: "sine=frequency=440:sample_rate=44100",
                seconds: 120,
                codec: &["-c:a", "libmp3lame", "-b:a", "192k"],
            },
        }
    }
}

/// Where clips are.
#[derive(Clone, Debug)]
pub(crate) struct Clips {
    folder: PathBuf,
}

impl Clips {
    /// In this folder, which is made when the first clip is.
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a clip, made now unless it is there.
    ///
    /// # Errors
    /// ffmpeg is missing or fails, or the folder cannot be written.
    pub(crate) fn path(&self, clip: Clip) -> Result<PathBuf, Failure> {
        let recipe = clip.recipe();
        let path = self.folder.join(recipe.file);
        if path.is_file() {
            return Ok(path);
        }
        let mut words = ["-f", "lavfi", "-i", recipe.source, "-t"].map(str::to_owned).to_vec();
        words.push(recipe.seconds.to_string());
        words.extend(recipe.codec.iter().map(|word| (*word).to_owned()));
        words.extend(["-flags", "+bitexact", "-fflags", "+bitexact"].map(str::to_owned));
        self.make(recipe.file, &words)
    }

    /// A clip again and again, for ten minutes.
    ///
    /// # Errors
    /// As [`Clips::path`].
    pub(crate) fn ten_minutes(&self, clip: Clip) -> Result<PathBuf, Failure> {
        let once = self.path(clip)?;
        let recipe = clip.recipe();
        let file = format!("ten-minutes-{}", recipe.file);
        let path = self.folder.join(&file);
        if path.is_file() {
            return Ok(path);
        }
        let again = (600 / recipe.seconds).saturating_sub(1).to_string();
        let mut words = ["-stream_loop", &again, "-i"].map(str::to_owned).to_vec();
        words.push(once.display().to_string());
        words.extend(["-c", "copy"].map(str::to_owned));
        self.make(&file, &words)
    }

    /// Has ffmpeg make a file, which gets its name when it is whole.
    fn make(&self, file: &str, words: &[String]) -> Result<PathBuf, Failure> {
        super::require(&["ffmpeg"], super::INSTALL)?;
        let path = self.folder.join(file);
        let refused = |what: &str, error: &dyn std::fmt::Display| {
            Failure::Run(format!("the clip {} cannot be made: {what}: {error}", path.display()))
        };
        std::fs::create_dir_all(&self.folder).map_err(|error| refused("its folder", &error))?;
        // The end of the name tells ffmpeg the format.
        let partial = self.folder.join(format!("partial-{}-{file}", std::process::id()));
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-nostdin", "-y"]).args(words);
        die_with_parent(command.arg(&partial), Signal::KILL);
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|error| refused("ffmpeg", &error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let _ = std::fs::remove_file(&partial);
            return Err(refused("ffmpeg", &said.trim()));
        }
        std::fs::rename(&partial, &path).map_err(|error| refused("its name", &error))?;
        Ok(path)
    }
}
