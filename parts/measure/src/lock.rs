//! Locks, whoever held them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whoever panicked meanwhile: what is behind our locks is whole between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
