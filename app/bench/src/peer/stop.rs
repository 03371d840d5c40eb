//! Stop condition of a server program: its standard input ends, or its time is over.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Tells when to end.
pub(super) struct Stop {
    told: Arc<AtomicBool>,
    until: Instant,
}

impl Stop {
    /// Watches standard input from now on, for at most `most`.
    pub(super) fn new(most: Duration) -> Stop {
        let told = Arc::new(AtomicBool::new(false));
        let watcher = told.clone();
        // The thread ends with the process: nothing else reads standard input.
        std::thread::spawn(move || {
            let mut byte = [0];
            while matches!(std::io::stdin().read(&mut byte), Ok(1)) {}
            watcher.store(true, Ordering::Relaxed);
        });
        Stop { told, until: Instant::now() + most }
    }

    /// Whether standard input has ended. Cheap enough for each turn of a loop.
    pub(super) fn told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Whether standard input has ended or time is up.
    pub(super) fn over(&self) -> bool {
        self.told() || Instant::now() >= self.until
    }
}
