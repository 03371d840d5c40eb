//! Addresses of labs of root that are being made: between the choice of those that nobody has and the doors that have them.
//!
//! A claim is a file in the folder of the [`Ledger`], locked by the process that brings the lab up for as long as it lives. So
//! one that was killed claims nothing. Claims are looked at and made under the ledger's lock, and before the host's
//! addresses are read: a claim that is given up meanwhile has its addresses there.

use std::fs::File;

use ipnet::IpNet;
use rustix::fs::{FlockOperation, OFlags};

use super::ledger::{Ledger, Locked};
use crate::store::state::Folder;
use crate::store::whole_file;
use crate::{Error, Result};

/// The addresses of a lab that is being made, until this is dropped.
#[derive(Debug)]
pub struct Claim {
    ledger: Ledger,
    name: String,
    _held: File,
}

/// The claims of this moment; nobody makes another until it is dropped.
pub(crate) struct Claims {
    ledger: Ledger,
    locked: Locked,
    /// The file of the own claim.
    name: String,
    others: Vec<IpNet>,
    /// Whether another process makes the same lab.
    is_own: bool,
}

impl Claims {
    /// Those of others than the lab in `folder`.
    pub(crate) fn open(ledger: Ledger, folder: &Folder) -> Result<Claims> {
        let locked = ledger.lock()?;
        let name = ledger.claim(folder.hash());
        let mut claims = Claims { ledger, locked, name, others: vec![], is_own: false };
        for name in claims.ledger.claims(&claims.locked)? {
            // The lab itself is made a second time: that is found elsewhere.
            if name == claims.name {
                claims.is_own = true;
                continue;
            }
            let prefixes = whole_file::read_json::<Vec<IpNet>>(claims.locked.home(), &name)?;
            claims.others.extend(prefixes.unwrap_or_default());
        }
        Ok(claims)
    }

    /// Whether no other has any of these.
    pub(crate) fn leave(&self, prefixes: &[IpNet]) -> bool {
        let meets = |a: &IpNet, b: &IpNet| a.contains(b) || b.contains(a);
        // Prefixes of different lengths overlap only if one holds the other.
        !self.others.iter().any(|taken| prefixes.iter().any(|own| meets(taken, own)))
    }

    /// Claims these; none where another process makes the same lab, which will find that.
    pub(crate) fn take(self, prefixes: &[IpNet]) -> Result<Option<Claim>> {
        if self.is_own {
            return Ok(None);
        }
        let home = self.locked.home();
        whole_file::write_json(home, &self.name, &prefixes)?;
        let held = home.open_file(&self.name, OFlags::RDONLY);
        let held = held.map_err(Error::in_runtime(home.path()))?;
        rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive)
            .map_err(Error::at(home.path_of(&self.name), "lock"))?;
        Ok(Some(Claim { ledger: self.ledger.clone(), name: self.name.clone(), _held: held }))
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.ledger.leave_home();
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // One that stays claims nothing, and goes with the next look.
        if let Ok(locked) = self.ledger.lock() {
            let _ = locked.home().remove_file(&self.name);
            self.ledger.leave_home();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn claims(at: &Path, lab: &str) -> Claims {
        let ledger = Ledger::at(&at.join("host"), Path::new("/proc/sys"), 7);
        Claims::open(ledger, &Folder::new(at, lab)).unwrap()
    }

    #[test]
    fn what_is_claimed_is_taken_until_its_process_ends() {
        let machine = tempfile::tempdir().unwrap();
        let at = machine.path();
        let (net, within): (IpNet, IpNet) =
            ("10.1.0.0/16".parse().unwrap(), "10.1.2.0/24".parse().unwrap());
        let (other, large) = ("10.2.0.0/16".parse().unwrap(), "10.0.0.0/8".parse().unwrap());
        let first = claims(at, "a").take(&[net]).unwrap().expect("nobody makes it");
        let second = claims(at, "b");
        assert!(!second.leave(&[within]) && !second.leave(&[other, large]));
        assert!(second.leave(&[other]));
        drop(second);
        // Another process of the same lab has its addresses, too, and is told by the lab's own lock.
        let again = claims(at, "a");
        assert!(again.leave(&[net]));
        assert!(again.take(&[net]).unwrap().is_none());
        drop(first);
        assert!(claims(at, "b").leave(&[net]));
        assert!(!at.join("host").exists(), "nothing is left");
    }

    #[test]
    fn a_process_that_was_killed_claims_nothing() {
        let machine = tempfile::tempdir().unwrap();
        let at = machine.path();
        let net: IpNet = "10.1.0.0/16".parse().unwrap();
        let mut claim = claims(at, "a").take(&[net]).unwrap().expect("nobody makes it");
        // Its file without its lock.
        claim._held = File::open("/dev/null").unwrap();
        assert!(claims(at, "b").leave(&[net]));
        assert!(!at.join("host").exists(), "nothing is left");
    }
}
