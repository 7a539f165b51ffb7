//! Memory objects (memfds), their shared mappings, and pages lent for a transfer.

mod loan;
mod mapping;
mod memfd;
mod vault;

pub use loan::{LoanCell, PageLoan};
pub use mapping::{Access, LockError, MapError, SharedMapping};
pub use memfd::{Memfd, MemfdError, Residency, ResidencyError, ResidencySource};
pub use vault::{Vault, VaultError};
