//! Locks that no panic can poison.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the lock. A panic of another thread ends the run by itself, and what lies behind the lock
/// is then only taken apart.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
