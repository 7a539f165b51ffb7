//! Memory objects (memfds), their shared mappings, and pages lent for a transfer.

mod loan;
mod lock_all;
mod mapping;
mod memfd;
mod vault;

pub use loan::{LoanCell, PageLoan};
pub use lock_all::lock_all_current;
pub use mapping::{Access, LockError, MapError, SharedMapping};
pub use memfd::{Memfd, MemfdError, Residency, ResidencyError, ResidencySource};
pub use vault::{Vault, VaultError};
