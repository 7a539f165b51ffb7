//! How pages are shared, in the words of scenario files and documents.

use freehold_core::limits::Regime;
use serde::{Deserialize, Serialize};

/// How a region's pages are shared between reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// The paper's No-SP-Mgmt.
    None,
    /// Shared-page conservation.
    Spc,
    /// Shared-page eviction lock.
    Spel,
    /// Whichever of `Spc` and `Spel` takes fewer frames: decided once, from a profile, before a run. Only as a region's
    /// setting.
    Auto,
}

impl Sharing {
    /// The word of the scenario file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Spc => "spc",
            Self::Spel => "spel",
            Self::Auto => "auto",
        }
    }
}

impl From<Regime> for Sharing {
    fn from(regime: Regime) -> Self {
        match regime {
            Regime::Conserve => Self::Spc,
            Regime::Unmanaged => Self::None,
        }
    }
}
